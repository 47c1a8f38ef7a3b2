"""Diagnosis: a story with one problem gives that finding with its numbers; the same story without it gives none."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.driver_trace import DriverTrace
from accel_magic.analysis.findings import diagnose
from accel_magic.findings import SEVERITIES
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.npu.buffers import buffers
from accel_magic.subsystems.npu.checks.jobs import longest_gap
from accel_magic.subsystems.npu.jobs import jobs
from accel_magic.subsystems.npu.messages import messages
from accel_magic.subsystems.npu.polls import polls
from accel_magic.subsystems.npu.rules import RULES
from tests.every_step import lines_run

pytestmark = pytest.mark.component

A = 0xFFFF_8881_0000_1000
US, MS, S = 1000, 1_000_000, 1_000_000_000
TIMED_OUT = -110
EVERYTHING = {name for rule in RULES for name in getattr(rule.needs, "functions", ())} | {
    "dma_fence_signaled", "ivpu_ipc_receive", "ivpu_job_done_callback", "ivpu_gem_bo_free", "drm_gem_close_ioctl",
    "ivpu_open", "ivpu_postclose", "ivpu_bo_bind", "ivpu_gem_create_object", "ivpu_cmdq_submit_ioctl",
}  # fmt: skip


class Npu:
    """The tables of a trace, as read by the rules."""

    def __init__(self, trace, *, limit_reached=False, machine=None):
        self.trace = trace
        self.recording = SimpleNamespace(limit_reached=limit_reached, machine=machine or {})
        self.jobs, self.buffers = jobs(trace), buffers(trace)
        self.polls, self.messages = polls(trace), messages(trace)


def diagnosed(story, *, limit_reached=False, machine=None, everything=True, **options):
    if everything:
        story.traced |= EVERYTHING
    return diagnose(RULES, Npu(story.trace(**options), limit_reached=limit_reached, machine=machine))


def found(findings):
    return {finding.id: dict(finding.evidence) for finding in findings}


def run(story, count, *, took=MS, every=10 * MS, begin=0, tid=11, number=100, after=US):
    """Jobs of one thread, each on the NPU for `took`; the driver's thread runs 2 us after the message."""
    for place in range(count):
        at, lasts = begin + place * every, took[place] if isinstance(took, list) else took
        story.submit(at, number + place, tid=tid, job_id=number + place, ctx_id=3)
        ended = at + 70 + lasts
        story.hit("ivpu_hw_ip_ipc_rx_addr_get", ended, tid=0, comm="swapper/0")
        story.done(ended + 2 * US, number + place, job_id=number + place, ctx_id=3)
        story.wait(at + after, ended + 10 * US, context=number + place, tid=tid)


def test_rules_explain_each_other_and_have_every_severity():
    assert {reason for rule in RULES for reason in rule.explained_by} <= {rule.id for rule in RULES}
    assert {rule.severity for rule in RULES} == set(SEVERITIES)


@pytest.fixture
def recorded_run():
    """The recorded run as a trace: names, and runs of [cycle of names, repeats]."""
    facts = json.loads(Path(__file__).with_name("recorded_run.json").read_text())
    codes = np.array([code for cycle, repeats in facts["runs"] for code in cycle * repeats])
    events = pd.DataFrame({"function": pd.Categorical.from_codes(codes, facts["names"])})
    for name in ("time_ns", "pid", "tid", "cpu"):
        events[name] = 0
    events["comm"], events["probe"] = pd.Categorical([""] * len(codes)), pd.Categorical(["npu"] * len(codes))
    counts = events["function"].astype("str").value_counts().rename_axis("function")
    return DriverTrace(events, counts, 0, timed=False)


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_jobs_without_problems_have_no_finding(story, kernel):
    s = story(kernel)
    for place in range(30):
        s.buffer(place * 10 * MS - 200, A, tid=11, handle=7)
        s.submit(place * 10 * MS, place + 1, tid=11, buffers=[A], job_id=place + 1, ctx_id=3)
        s.hit("ivpu_hw_ip_ipc_rx_addr_get", place * 10 * MS + MS, tid=0)
        s.done(place * 10 * MS + MS + US, place + 1, job_id=place + 1, ctx_id=3)
        s.wait(place * 10 * MS + US, place * 10 * MS + MS + 2 * US, context=place + 1, tid=11)
        s.close(place * 10 * MS + 2 * MS, 7, A, tid=11)

    findings = diagnosed(s)

    assert found(findings) == {}
    assert set(findings.checked) == {rule.id for rule in RULES}
    assert not findings


def test_a_trace_without_a_call_of_the_driver_is_reported(story):
    s = story()
    s.hit("sys_enter_read", 10)

    assert found(diagnosed(s)) == {
        "nothing-traced": {"functions": len([n for n in EVERYTHING if n[:5] == "ivpu_"]), "hits": 1}
    }


def test_rules_that_need_untraced_functions_are_listed_with_what_is_missing(story):
    s = story()
    s.hit("ivpu_open", 10)

    findings = diagnosed(s, everything=False)

    assert findings.checked == ("nothing-traced", "events-lost", "event-limit", "hits-missed")
    assert findings.unchecked["boot-slow"] == "ivpu_wait_for_ready"
    assert set(findings.checked) | set(findings.unchecked) == {rule.id for rule in RULES}


def test_a_list_of_calls_without_times_is_checked_as_far_as_order_allows(story):
    s = story()
    s.hit("ivpu_boot", 10)
    s.submit(100, 1)

    findings = diagnosed(s, timed=False)

    assert found(findings) == {"boot-in-region": {"jobs": 1, "boots": 1, "calls_before": 0}}
    assert findings.unchecked["job-hung"] == "times"


# The recording


def test_lost_events_are_reported_with_their_share(story):
    s = story()
    run(s, 3)
    trace_hits = len(s.events)

    assert found(diagnosed(s, lost=2)) == {"events-lost": {"lost": 2, "hits": trace_hits, "lost_share": 2 / trace_hits}}


def test_a_reached_event_limit_is_reported(story):
    s = story()
    run(s, 3)

    assert list(found(diagnosed(s, limit_reached=True))) == ["event-limit"]


@pytest.mark.parametrize(("missed", "reported"), [(4, False), (5, True)])
def test_missed_hits_are_reported_from_one_in_twenty_on(story, missed, reported):
    s = story()
    for at in range(95):
        s.hit("ivpu_rpm_get", at)

    assert ("hits-missed" in found(diagnosed(s, missed=missed))) is reported


# The firmware


def test_firmware_that_does_not_boot_is_found_with_the_time_waited(story):
    s = story()
    s.hit("ivpu_wait_for_ready", 100, lasts=S, retval=TIMED_OUT)
    s.hit("ivpu_wait_for_ready", 2 * S, lasts=5 * MS, retval=0)

    assert found(diagnosed(s)) == {"boot-failed": {"failed": 1, "boots": 2, "waited_ns": S}}


def test_the_boots_own_result_is_used_if_the_wait_for_it_was_not_traced(story):
    s = story()
    s.hit("ivpu_boot", 100, lasts=S, retval=-5 & 0xFFFFFFFF)

    assert found(diagnosed(s)) == {"boot-failed": {"failed": 1, "boots": 1, "waited_ns": S}}


@pytest.mark.parametrize(("lasts", "reported"), [(199 * MS, False), (200 * MS, True)])
def test_a_boot_is_slow_from_a_fifth_of_the_drivers_timeout_on(story, lasts, reported):
    s = story()
    s.hit("ivpu_wait_for_ready", 100, lasts=3 * MS, retval=0)
    s.hit("ivpu_wait_for_ready", S, lasts=lasts, retval=0)

    findings = diagnosed(s)

    values = {"slow": 1, "boots": 2, "longest_ns": 200 * MS, "timeout_share": 0.2}
    assert found(findings) == ({"boot-slow": values} if reported else {})
    if reported:
        assert [(place.start_ns, place.end_ns) for place in findings[0].where] == [(S, S + 200 * MS)]


def test_a_job_that_waited_for_the_npu_to_wake_is_noted(story):
    s = story()
    s.hit("ivpu_submit_ioctl", 1000, tid=11, lasts=30 * MS, retval=0)
    s.hit("ivpu_pm_runtime_resume_cb", 2000, tid=11, lasts=20 * MS, retval=0)
    run(s, 20, begin=S)

    assert found(diagnosed(s)) == {
        "boot-in-region": {"jobs": 1, "boots": 1, "boot_ns": 20 * MS, "submission_ns": 30 * MS}
    }


def test_waking_before_the_first_job_is_not_noted(story):
    s = story()
    s.hit("ivpu_get_param_ioctl", 1000, tid=11, lasts=30 * MS, retval=0)
    s.hit("ivpu_pm_runtime_resume_cb", 2000, tid=11, lasts=20 * MS, retval=0)
    run(s, 5, begin=S)

    assert found(diagnosed(s)) == {}


@pytest.mark.parametrize(("sleepy", "rule"), [(3, "wake-per-job"), (2, "boot-in-region")])
def test_jobs_that_wake_the_npu_repeatedly_are_distinguished_from_a_first_one(story, sleepy, rule):
    s = story()
    for place in range(10):
        at = place * 100 * MS
        s.submit(at, place + 1, tid=11)
        if place < sleepy:
            s.hit("ivpu_pm_runtime_resume_cb", at + 12, tid=11, lasts=40, retval=0)
        s.done(at + MS, place + 1)

    findings = found(diagnosed(s))

    assert list(findings) == [rule]
    if rule == "wake-per-job":
        assert findings[rule] == {
            "woken": 3,
            "jobs": 10,
            "woken_share": 0.3,
            "wakes": 3,
            "waking_ns": 40,
            "latency_ns": MS,
        }


def test_jobs_that_failed_are_not_part_of_the_latency_of_those_that_wake_the_npu(story):
    s = story()
    for place in range(5):
        at, failed = place * 10 * S, place > 1
        s.submit(at, place + 1, tid=11, job_id=place + 1)
        s.hit("ivpu_pm_runtime_resume_cb", at + 12, tid=11, lasts=40, retval=0)
        s.done(at + (2 * S if failed else MS), place + 1, job_id=place + 1, status=256 if failed else 0)

    evidence = found(diagnosed(s))["wake-per-job"]

    assert (evidence["woken"], evidence["latency_ns"]) == (5, MS)


def test_jobs_that_wait_for_the_same_wakeup_are_reported_once(story):
    s = story()
    for tid in (11, 21, 31, 41):
        s.submit(1000, tid, tid=tid)
        s.done(MS, tid)
    s.hit("ivpu_pm_runtime_resume_cb", 1012, tid=11, lasts=40, retval=0)

    assert found(diagnosed(s)) == {"boot-in-region": {"jobs": 4, "boots": 1, "boot_ns": 40, "submission_ns": 100}}


def test_a_request_without_a_reply_is_found(story):
    s = story()
    s.hit("ivpu_ipc_send_receive_internal", 100, lasts=500 * MS, retval=TIMED_OUT & 0xFFFFFFFF)
    s.hit("ivpu_ipc_send_receive_internal", S, lasts=MS, retval=0)

    assert found(diagnosed(s)) == {"request-unanswered": {"unanswered": 1, "requests": 2, "waited_ns": 500 * MS}}


def replies(s, copies):
    for place in range(5):
        at = place * MS
        s.hit("ivpu_ipc_send_receive_internal", at, tid=11, lasts=500 * US, retval=0)
        s.hit("ivpu_ipc_receive", at + 10, tid=11, lasts=400 * US, retval=0)
        for copy in range(copies):
            s.hit("ivpu_hw_ip_ipc_rx_addr_get", at + 200 * US + copy, tid=0)


def test_duplicated_replies_are_found(story):
    s = story()
    replies(s, copies=2)

    assert found(diagnosed(s)) == {"reply-duplicated": {"unclaimed": 5, "messages": 10, "requests": 5}}


def test_single_replies_polls_and_late_replies_are_not_duplicates(story):
    s = story()
    replies(s, copies=1)
    s.hit("ivpu_ipc_receive", S, tid=11, lasts=10, retval=TIMED_OUT)  # a poll in which nothing came
    s.hit("ivpu_ipc_send_receive_internal", 2 * S, tid=11, lasts=500 * MS, retval=TIMED_OUT)
    s.hit("ivpu_hw_ip_ipc_rx_addr_get", 3 * S, tid=0)

    assert list(found(diagnosed(s))) == ["request-unanswered"]


def test_a_message_being_received_at_the_end_is_not_a_duplicate(story):
    s = story()
    replies(s, copies=1)
    s.hit("ivpu_hw_ip_ipc_rx_addr_get", S, tid=0)
    s.traced |= EVERYTHING
    trace = s.trace()
    trace.counts["ivpu_ipc_receive"] += 1  # entered, not returned: a hit without an event

    assert found(diagnose(RULES, Npu(trace))) == {}


def test_polling_that_outnumbers_the_messages_is_noted(story):
    s = story()
    s.hit("ivpu_wait_for_ready", 0, tid=11, lasts=100 * MS, retval=0)
    for place in range(200):
        for step, name in enumerate(("ivpu_ipc_irq_handler", "ivpu_hw_ip_ipc_rx_count_get", "ivpu_ipc_receive")):
            s.hit(name, 1000 + place * 100 * US + step, tid=11, lasts=1, retval=TIMED_OUT)

    findings = found(diagnosed(s))

    assert list(findings) == ["ipc-polling"]
    assert findings["ipc-polling"]["loops"] == 1
    assert findings["ipc-polling"]["calls"] == pytest.approx(600, abs=6)


@pytest.mark.parametrize(("requests", "reported"), [(100, False), (101, True)])
def test_unexplained_requests_are_a_storm(story, requests, reported):
    s = story()
    for place in range(30):
        s.submit(place * MS, place + 1, tid=11)
        s.done(place * MS + 300 * US, place + 1)
    for place in range(requests):
        s.hit("ivpu_ipc_send", place * 100, tid=21, lasts=10, retval=0)

    # 3 for each of 30 jobs, and 10 for the process that existed before the trace
    expected = {"requests": 101, "jobs": 30, "expected": 100, "per_job_ratio": 101 / 30}
    assert found(diagnosed(s)) == ({"ipc-storm": expected} if reported else {})


# Jobs that do not complete in time


def stuck_job(s, *, begin=S):
    """A job in flight for 2 s when the driver's timeout expires; the one behind it waits."""
    run(s, 6)
    s.submit(begin, 1, tid=21, job_id=1, ctx_id=4)
    s.submit(begin + MS, 2, tid=31, job_id=2, ctx_id=5)
    s.hit("ivpu_job_timeout_work", begin + 2 * S, tid=900)
    return begin + 2 * S


def recovered(s, at):
    s.hit("ivpu_pm_trigger_recovery", at, tid=900, reason="TDR")
    s.hit("ivpu_pm_recovery_work", at + MS, tid=900, lasts=100 * MS, retval=0)
    s.hit("ivpu_hw_reset", at + 50 * MS, tid=900)
    for job in (1, 2):
        s.done(at + (60 + job) * MS, job, job_id=job, status=256, tid=900)


@pytest.mark.parametrize(
    ("idle", "reported"),
    [(0xED000, ("job-hung", "hung")), (0xED001, ("completion-lost", "lost")), (None, ("job-timeout", "stuck"))],
)
def test_the_npus_state_at_the_reset_distinguishes_a_hung_job_from_a_lost_completion(story, idle, reported):
    s = story("6.12")
    at = stuck_job(s)
    recovered(s, at)
    if idle is not None:  # a bool in the lowest byte; the rest of the register is arbitrary
        s.hit("ivpu_hw_btrs_is_idle", at + 40 * MS, tid=900, lasts=10, retval=idle)

    findings = found(diagnosed(s))

    rule, name = reported
    assert list(findings) == [rule, "npu-reset"]
    assert findings[rule] == {name: 1, "jobs": 8, "out_ns": pytest.approx(2.06 * S, rel=1e-3)}
    assert findings["npu-reset"] == {"resets": 1, "aborted": 2, "refused": 0, "reset_ns": 100 * MS}


@pytest.mark.parametrize(
    ("machine", "shown"),
    [
        ({}, "2 s by default"),
        ({"npu_timeout_ms": "500"}, "0.5 s on this machine"),
        ({"npu_timeout_ms": "of another kind"}, "2 s by default"),
    ],
)
def test_the_limit_is_the_timeout_of_the_machine_that_was_traced(story, machine, shown):
    s = story("6.12")
    recovered(s, stuck_job(s))

    finding = next(iter(diagnosed(s, machine=machine)))

    assert finding.source == f"the driver's own timeout (`tdr_timeout_ms`, {shown}), or the program's"
    assert f"({shown})" in finding.advice


def test_on_newer_kernels_a_stopped_heartbeat_means_a_hung_job(story):
    s = story("7.2")
    at = stuck_job(s)
    s.hit("ivpu_jsm_get_heartbeat", at + 10, tid=900, lasts=MS, retval=0)
    s.hit("ivpu_jsm_reset_engine", at + 2 * MS, tid=900, lasts=MS, retval=0)
    s.fence("dma_fence_signaled", at + 9 * MS, 1, tid=900)
    s.hit("ivpu_context_abort_work_fn", at + MS, tid=900)
    s.done(at + 20 * MS, 2, job_id=2, ctx_id=5)

    findings = found(diagnosed(s))

    assert list(findings) == ["job-hung", "npu-reset"]
    assert findings["job-hung"]["hung"] == 1


def test_a_job_in_flight_while_the_npu_completes_others_lost_its_completion(story):
    s = story("7.2")
    at = stuck_job(s)
    s.hit("ivpu_jsm_get_heartbeat", at + 10, tid=900, lasts=MS, retval=0)
    s.done(at + 20 * MS, 2, job_id=2, ctx_id=5)

    assert found(diagnosed(s, duration_ns=4 * S)) == {"completion-lost": {"lost": 1, "jobs": 8, "out_ns": 3 * S - 70}}


def test_a_long_job_that_ends_after_all_is_not_stuck(story):
    s = story("7.2")
    at = stuck_job(s)
    s.hit("ivpu_jsm_get_heartbeat", at + 10, tid=900, lasts=MS, retval=0)
    for job in (1, 2):
        s.done(at + 100 * MS + job * US, job, job_id=job, ctx_id=3 + job)

    findings = found(diagnosed(s))

    assert list(findings) == ["jobs-slow"]
    assert findings["jobs-slow"]["slow"] == 1
    assert findings["jobs-slow"]["longest_ns"] == pytest.approx(2.1 * S, rel=1e-4)


def test_a_program_that_gave_up_waiting_before_the_driver_is_reported(story):
    s = story("7.2")
    run(s, 6)
    s.submit(S, 1, tid=21, job_id=1, ctx_id=4)
    s.wait(S + MS, S + 300 * MS, context=1, tid=21, retval=TIMED_OUT)

    assert found(diagnosed(s, duration_ns=2 * S)) == {"job-timeout": {"stuck": 1, "jobs": 7, "out_ns": S - 70}}


def test_a_recovery_still_running_at_the_end_counts(story):
    s = story("6.12")
    at = stuck_job(s)
    s.hit("ivpu_pm_trigger_recovery", at, tid=900, reason="TDR")

    assert found(diagnosed(s))["npu-reset"]["resets"] == 1


# Jobs that ended


def test_jobs_with_an_error_and_rejected_submissions_are_failures(story):
    s = story("7.2")
    run(s, 4)
    s.submit(S, 1, tid=21, job_id=1, ctx_id=4)
    s.done(S + MS, 1, job_id=1, ctx_id=4, status=5)
    s.submit(2 * S, 2, tid=21, retval=-16)

    assert found(diagnosed(s)) == {"jobs-failed": {"failed": 2, "error": 1, "refused": 1, "jobs": 6, "EBUSY": 1}}


def test_failed_calls_name_their_errors_and_functions(story):
    s = story("7.2")
    run(s, 4)
    s.hit("ivpu_bo_create_ioctl", S, tid=21, lasts=50, retval=-22)
    s.hit("ivpu_cmdq_create_ioctl", S + MS, tid=21, lasts=50, retval=-12)
    s.hit("ivpu_cmdq_create_ioctl", S + 2 * MS, tid=21, lasts=50, retval=0)
    for place in range(25):
        s.submit(2 * S + place * MS, 200 + place, tid=21, retval=-2)

    assert found(diagnosed(s)) == {
        "jobs-failed": {"failed": 25, "error": 0, "refused": 25, "jobs": 29, "ENOENT": 25},
        "calls-failed": {
            "failed": 2,
            "calls": 3,
            "EINVAL": 1,
            "ENOMEM": 1,
            "ivpu_bo_create_ioctl": 1,
            "ivpu_cmdq_create_ioctl": 1,
        },
    }


@pytest.mark.parametrize(
    ("function", "retval"),
    [
        ("ivpu_get_param_ioctl", -22),  # asks what this kernel has
        ("ivpu_ms_start_ioctl", -95),
        ("ivpu_bo_wait_ioctl", -110),  # a program may wait for short times
        ("ivpu_bo_create_ioctl", -512),  # interrupted by a signal
    ],
)
def test_calls_that_create_nothing_or_are_repeated_are_not_failures(story, function, retval):
    s = story("7.2")
    run(s, 4)
    s.hit(function, S, tid=21, lasts=50, retval=retval)

    assert "calls-failed" not in found(diagnosed(s))


def test_submissions_rejected_because_of_a_reset_are_not_reported_again(story):
    s = story("7.2")
    at = stuck_job(s)
    s.hit("ivpu_hw_btrs_is_idle", at + 1, tid=900, lasts=10, retval=0)
    s.hit("ivpu_jsm_reset_engine", at + 2 * MS, tid=900, lasts=MS, retval=0)
    for job in (1, 2):
        s.done(at + 20 * MS + job, job, job_id=job, ctx_id=3 + job, status=256)
    s.submit(at + S, 3, tid=21, retval=-77)

    findings = found(diagnosed(s))
    assert list(findings) == ["job-hung", "npu-reset"]
    assert findings["npu-reset"]["refused"] == findings["npu-reset"]["EBADFD"] == 1


def test_a_completion_reported_twice_is_found(story):
    s = story("7.2")
    run(s, 6)
    s.answer(3 * MS, 100)

    assert found(diagnosed(s)) == {"completion-duplicated": {"duplicated": 1, "jobs": 6}}


def test_a_completion_reported_twice_is_found_without_captured_numbers(story):
    s = story("7.2")
    run(s, 6)
    s.answer(3 * MS, 100)
    for row in s.events:
        row.pop("job_id", None)

    assert found(diagnosed(s)) == {"completion-duplicated": {"duplicated": 1, "jobs": 6}}


def test_jobs_that_take_far_longer_than_the_others_are_found_with_their_places(story):
    s = story()
    run(s, 20, took=[200 * MS if place in (4, 9) else 2 * MS for place in range(20)], every=300 * MS)

    findings = diagnosed(s)

    evidence = found(findings)["jobs-slow"]
    assert (evidence["slow"], evidence["jobs"]) == (2, 20)
    assert evidence["longest_ns"] == 200 * MS
    assert evidence["typical_ns"] == 2 * MS
    assert evidence["longest_ratio"] == 100
    assert [place.start_ns // (300 * MS) for place in findings[0].where] == [4, 9]


def test_a_slow_job_needs_twenty_times_the_others(story):
    s = story()
    run(s, 20, took=[39 * MS if place == 4 else 2 * MS for place in range(20)], every=300 * MS)

    assert found(diagnosed(s)) == {}


def test_delays_of_any_call_on_a_busy_machine_do_not_make_a_job_slow(story):
    s = story()
    run(s, 20, took=[200 * MS if place == 4 else 2 * MS for place in range(20)], every=300 * MS)
    s.hit("ivpu_bo_info_ioctl", 30 * MS, tid=31, lasts=101 * MS, retval=0)

    assert found(diagnosed(s)) == {}


@pytest.mark.parametrize(("lasts", "reported"), [(119 * MS, False), (120 * MS, True)])
def test_an_emulated_npu_may_itself_be_delayed(story, lasts, reported):
    s = story()
    run(s, 20, took=[lasts if place == 4 else 2 * MS for place in range(20)], every=300 * MS)

    assert ("jobs-slow" in found(diagnosed(s, machine={"emulated": "Intel NPU, emulated"}))) is reported
    assert "jobs-slow" in found(diagnosed(s))


def test_a_completion_reported_late_by_the_drivers_thread_does_not_make_a_job_slow(story):
    s = story()
    run(s, 20, every=300 * MS)
    s.submit(10 * S, 1, tid=11, job_id=1, ctx_id=3)
    for place in range(100):  # messages keep arriving
        s.hit("ivpu_hw_ip_ipc_rx_addr_get", 10 * S + place * 2 * MS, tid=0)
        s.hit("ivpu_ipc_receive", 10 * S + place * 2 * MS, tid=41, lasts=10, retval=0)
    s.done(10 * S + 200 * MS, 1, job_id=1, ctx_id=3)

    assert found(diagnosed(s)) == {}


def test_jobs_behind_a_slow_one_are_not_slow(story):
    s = story()
    run(s, 20, every=300 * MS)
    for number in range(1, 5):
        s.submit(10 * S + number * 200, number, tid=10 * number + 1, job_id=number, ctx_id=3)
    for number in range(1, 5):
        s.hit("ivpu_hw_ip_ipc_rx_addr_get", 10 * S + 200 * MS + number * MS - US, tid=0)
        s.done(10 * S + 200 * MS + number * MS, number, job_id=number, ctx_id=3)

    assert found(diagnosed(s))["jobs-slow"]["slow"] == 1


def test_the_longest_gap_of_each_interval_matches_a_plain_search():
    random = np.random.default_rng(5)
    for _ in range(50):
        borders = np.sort(random.choice(1000, 20, replace=False)).astype(float)
        start, end = borders[::2], borders[1::2]
        moments = np.sort(random.integers(0, 1000, random.integers(0, 40))).astype(float)
        plain = [
            np.diff(sorted([a, b, *(moment for moment in moments if a <= moment < b)])).max()
            for a, b in zip(start, end, strict=True)
        ]
        assert longest_gap(start, end, moments).tolist() == plain


def test_submitting_right_after_each_wait_is_noted_if_the_npu_idles(story):
    s = story()
    run(s, 30, took=MS, every=1_500 * US)

    findings = found(diagnosed(s))

    assert list(findings) == ["jobs-serialised"]
    evidence = findings["jobs-serialised"]
    assert (evidence["pairs"], evidence["jobs"]) == (29, 30)
    assert evidence["idle_share"] == pytest.approx(1 / 3, abs=0.02)


def test_a_program_that_does_other_work_between_its_jobs_is_not_serialized(story):
    s = story()
    run(s, 30, took=MS, every=4 * MS)

    assert found(diagnosed(s)) == {}


@pytest.mark.parametrize("took", [2 * MS, 500 * US])
def test_jobs_that_overlap_are_not_serialized(story, took):
    """Two in flight: the next is submitted when the second to last has ended, although all may have by then."""
    s = story()
    for place in range(30):
        at = place * MS
        s.submit(at + 20 * US, place + 1, tid=11)
        s.done(at + took, place + 1)
        if place:
            s.wait(at + 990 * US, at + MS + 15 * US, context=place, tid=11)

    assert found(diagnosed(s)) == {}


def test_threads_that_together_keep_the_npu_busy_are_not_serialized(story):
    s = story()
    for thread in range(4):
        begin, number = thread * 300 * US, 1000 * (thread + 1)
        run(s, 30, took=MS, every=1_500 * US, begin=begin, tid=11 + 10 * thread, number=number)

    assert found(diagnosed(s)) == {}


def test_a_thread_that_prepares_each_job_is_not_serialized(story):
    s = story()
    run(s, 30, took=MS, every=1_500 * US)
    for place in range(30):
        s.hit("ivpu_bo_info_ioctl", place * 1_500 * US + 1_400 * US, tid=11, lasts=10, retval=0)

    assert found(diagnosed(s)) == {}


# Buffers


def test_a_buffer_that_is_mapped_again_is_found_with_its_pages(story):
    s = story()
    s.buffer(0, A, tid=11, size=8192)
    s.bind(1000, A, tid=11, pages=2)
    assert found(diagnosed(s)) == {}
    s.bind(3000, A, tid=11, pages=2)

    evidence = found(diagnosed(s))["pages-remapped"]

    assert (evidence["buffers"], evidence["pages"], evidence["mapped"], evidence["mapped_ratio"]) == (1, 2, 4, 2.0)


def churning(s, *, cost, count=25):
    for place in range(count):
        at = place * 10 * MS
        s.hit("ivpu_bo_create_ioctl", at, tid=11, lasts=cost, retval=0, size=8192, flags=2, handle=7)
        s.object(at + 5, A, tid=11)
        s.submit(at + 5 * MS, place + 1, tid=11, buffers=[A])
        s.done(at + 6 * MS, place + 1)
        s.close(at + 8 * MS, 7, A, tid=11)


@pytest.mark.parametrize(("cost", "reported"), [(MS + US, True), (MS - US, False)])
def test_buffers_for_a_single_job_are_noted_if_they_cost_more_than_the_job(story, cost, reported):
    s = story()
    churning(s, cost=cost)

    findings = found(diagnosed(s))

    assert list(findings) == (["buffers-churned"] if reported else [])
    if reported:
        evidence = findings["buffers-churned"]
        assert (evidence["single_use"], evidence["jobs"], evidence["processes"]) == (25, 25, 1)
        assert evidence["cost_ns"] == pytest.approx(cost + 20)  # 10 ns each for the bind and the freeing
        assert evidence["job_ns"] == MS - 70  # from the doorbell on


def test_buffers_are_compared_with_jobs_that_did_not_fail(story):
    s = story()
    for place in range(25):
        at, failed = place * 10 * S, place % 3 != 1
        s.hit("ivpu_bo_create_ioctl", at, tid=11, lasts=2 * MS, retval=0, size=8192, flags=2, handle=7)
        s.object(at + 5, A, tid=11)
        s.submit(at + 5 * MS, place + 1, tid=11, buffers=[A], job_id=place + 1)
        ends = at + (2 * S if failed else 6 * MS)
        s.done(ends, place + 1, job_id=place + 1, status=256 if failed else 0)
        s.close(ends + 8 * MS, 7, A, tid=11)

    assert found(diagnosed(s))["buffers-churned"]["job_ns"] == MS - 70


def test_a_few_jobs_with_their_own_buffers_are_not_churn(story):
    s = story()
    churning(s, cost=4 * MS, count=19)

    assert found(diagnosed(s)) == {}


def leaking(s, count):
    for place in range(count):
        at = place * 10 * MS
        s.buffer(at, A + place * 0x1000, tid=11, handle=place + 1)
        s.submit(at + 5 * MS, place + 1, tid=11, buffers=[A + place * 0x1000])
        s.done(at + 6 * MS, place + 1)


def test_one_more_buffer_per_job_is_a_leak(story):
    s = story()
    leaking(s, 20)

    evidence = found(diagnosed(s))["buffers-leaked"]

    # The last job's buffer may still be in use.
    assert evidence == {"leaked": 19, "created": 20, "leaked_bytes": 19 * 8192, "processes": 1}


def test_keeping_a_few_buffers_is_not_a_leak(story):
    s = story()
    leaking(s, 10)

    assert found(diagnosed(s)) == {}


def outliving(s):
    s.hit("ivpu_open", 0, tid=11, lasts=10, retval=0)
    s.buffer(1000, A, tid=11)
    s.hit("ivpu_postclose", 9000, tid=11, lasts=10)


def test_a_buffer_that_outlives_the_closing_of_the_device_is_a_leak(story):
    s = story()
    outliving(s)

    expected = {"leaked": 1, "created": 1, "leaked_bytes": 8192, "processes": 1}
    assert found(diagnosed(s)) == {"buffers-leaked": expected}


def test_a_possibly_missed_free_is_not_a_leak(story):
    s = story()
    outliving(s)

    assert "buffers-leaked" not in found(diagnosed(s, missed=1))


@pytest.mark.parametrize(("slow", "stall", "reported"), [(3, 0, True), (0, 0, False), (3, 600 * US, False)])
def test_slow_allocations_are_found_unless_the_machine_delayed_everything(story, slow, stall, reported):
    s = story()
    for place in range(100):
        s.hit(
            "ivpu_bo_create_ioctl", place * 10 * MS, tid=11, lasts=MS if place < slow else 20 * US, retval=0, size=4096
        )
    if stall:
        s.hit("ivpu_ipc_send", 0, tid=21, lasts=stall, retval=0)

    findings = found(diagnosed(s))

    assert list(findings) == (["allocation-tail"] if reported else [])
    if reported:
        assert findings["allocation-tail"]["p99_ratio"] == pytest.approx(50, rel=0.03)


# Together


def test_findings_start_with_problems_and_titles_contain_numbers(story):
    s = story()
    run(s, 1500, took=[200 * MS if place == 4 else 2 * MS for place in range(1500)], every=300 * MS, number=10_000)
    s.hit("ivpu_ipc_send_receive_internal", 100, lasts=500 * MS, retval=TIMED_OUT)

    findings = diagnosed(s)

    assert findings.ids[:2] == ("request-unanswered", "jobs-slow")
    assert findings[1].title == "1 of 1,500 jobs took far longer on the NPU than the others"
    table = findings.table
    assert table.loc["jobs-slow", "severity"] == "warning"
    assert table.loc["jobs-slow", "start_ns"] == 4 * 300 * MS + 70
    assert table["severity"].is_monotonic_increasing


def test_a_consequence_is_not_reported_with_its_cause(story):
    s = story()
    s.submit(1000, 1, tid=11)
    s.hit("ivpu_pm_runtime_resume_cb", 1010, tid=11, lasts=40, retval=0)
    s.hit("ivpu_wait_for_ready", 1020, tid=11, lasts=300 * MS, retval=0)

    assert list(found(diagnosed(s))) == ["boot-slow"]


def test_a_result_can_be_diagnosed(make_recording):
    result = TraceResult(make_recording(["kprobe:intel_vpu:ivpu_open"], [(10, 0)], lost=[1]))

    findings = result.diagnose()

    assert findings.ids == ("events-lost",)
    assert findings.recording is result.recording


def test_a_hundred_thousand_events_are_diagnosed_without_python_code_per_event():
    jobs_count = 10_000
    at = np.arange(jobs_count, dtype=np.int64) * MS
    steps = [  # (function, after ns, lasts, tid)
        ("ivpu_cmdq_submit_ioctl", 0, 100, 11), ("dma_fence_init", 10, np.nan, 11), ("ivpu_bo_bind", 20, 10, 11),
        ("ivpu_mmu_context_map_page", 21, np.nan, 11), ("ivpu_hw_ip_db_set", 70, np.nan, 11),
        ("ivpu_hw_ip_ipc_rx_addr_get", 500_000, np.nan, 0), ("ivpu_job_done_callback", 500_100, np.nan, 90),
        ("dma_fence_signaled", 500_200, np.nan, 90), ("ivpu_bo_wait_ioctl", 600_000, 100, 11),
        ("ivpu_bo_info_ioctl", 700_000, 100, 11),
    ]  # fmt: skip
    frame = pd.concat(
        [
            pd.DataFrame({"time_ns": at + after, "function": name, "duration_ns": float(lasts), "tid": tid,
                          "context": np.arange(jobs_count) if "fence" in name else -1})
            for name, after, lasts, tid in steps
        ]
    ).sort_values("time_ns", ignore_index=True)  # fmt: skip
    frame["pid"], frame["cpu"], frame["seqno"] = 10, 0, pd.array(np.where(frame["context"] >= 0, 1, 0), "UInt32")
    frame["comm"], frame["driver"] = "load", pd.Categorical(np.where(frame["context"] >= 0, "intel_vpu", None))
    frame["context"] = frame["context"].where(frame["context"] >= 0).astype("UInt32")
    frame["retval"] = pd.array(np.where(frame["duration_ns"].notna(), 0, None), "Int64")
    frame = frame.astype({"function": "category", "comm": "category", "tid": "int32", "pid": "int32"})
    counts = frame["function"].astype("str").value_counts().astype("int64").rename_axis("function")
    counts = pd.concat([counts, pd.Series(0, index=sorted(EVERYTHING - set(counts.index)), dtype="int64")])
    npu = Npu(DriverTrace(frame, counts, jobs_count * MS))

    findings = []
    lines = lines_run(lambda: findings.append(diagnose(RULES, npu)))

    assert lines < len(frame) / 5
    assert len(npu.jobs) == jobs_count
    assert found(findings[0]) == {}


def test_the_recorded_run_has_notes_about_its_boot_and_its_poll(recorded_run):
    """8,198 calls of a real NPU in order, without times: 941 rounds of one poll, three requests, five answers."""
    findings = diagnose(RULES, Npu(recorded_run))

    assert findings.ids == ("boot-in-region", "ipc-polling")
    boot, polling = findings
    assert boot.evidence == {"jobs": 1, "boots": 1, "calls_before": 48}
    assert polling.evidence == {"loops": 1, "calls": 3 * 941, "messages": 8, "calls_share": 2823 / 8198}
    assert [(place.first_row, place.last_row) for place in polling.where] == [(56, 55 + 2823)]


def test_traces_of_any_kind_can_be_diagnosed(make_recording):
    """Only counts, no events, entries without durations or captured values, another driver's functions."""
    every = [f"kprobe:intel_vpu:{name}" for name in sorted(EVERYTHING) if name.startswith("ivpu")]
    hit = [(number * 1000, number) for number in range(len(every))]
    counted = make_recording(every, hits=[5] * len(every), event_count=0, plan={"mode": "count"})

    # One hit each: a submission, the driver's timeout, a reset.
    assert TraceResult(make_recording(every, hit)).diagnose().ids == ("job-timeout", "npu-reset")
    findings = TraceResult(counted).diagnose()
    assert findings.ids == ()
    assert findings.checked == ("nothing-traced", "events-lost", "event-limit", "hits-missed", "ipc-storm")
    assert findings.unchecked["boot-slow"] == "events"
    assert TraceResult(make_recording(every)).diagnose().ids == ("nothing-traced",)

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.analysis.driver_trace import DriverTrace
from accel_magic.analysis.thread_events import answers, latest
from accel_magic.errors import ProbeError
from accel_magic.subsystems.npu.buffers import buffers
from accel_magic.subsystems.npu.jobs import jobs, recoveries
from accel_magic.subsystems.npu.throughput import concurrency, in_flight, throughput
from tests.every_step import lines_run
from tests.support.errors import raises

pytestmark = pytest.mark.component

A, B, FILE = 0xFFFF_8881_0000_1000, 0xFFFF_8881_0000_2000, 0xFFFF_8881_0000_F000
FENCES = ("dma_fence_init", "dma_fence_signaled", "dma_fence_wait_start", "dma_fence_wait_end", "dma_fence_destroy")
ANSWERS = ("ivpu_job_done_callback", "ivpu_job_signal_and_destroy")
SUBMITS = ("ivpu_submit_ioctl", "ivpu_cmdq_submit_ioctl")
KERNELS = pytest.mark.parametrize("kernel", ["6.12", "7.2"])


def row(frame, number=0):
    return {name: None if pd.isna(value) else value for name, value in frame.iloc[number].items()}


def values_of(frame, *names):
    """Columns as plain lists of rows, None for NA."""
    chosen = frame[list(names)].astype(object)
    return chosen.where(chosen.notna(), None).to_numpy().tolist()


@KERNELS
def test_a_job_is_described_from_submission_to_end(story, kernel):
    s = story(kernel)
    s.buffer(1000, A, tid=11, handle=7, file=FILE)
    s.buffer(1100, B, tid=11, handle=8)
    if kernel == "7.2":
        s.hit("ivpu_cmdq_create_ioctl", 1200, tid=11, lasts=10, retval=0, cmdq_id=3, priority=4, file=FILE)
    s.submit(2000, 77, tid=11, buffers=[A, B], job_id=513, ctx_id=3, priority=4, file=FILE)
    s.wait(2200, 3100, handle=7, context=77, tid=11, file=FILE)
    s.done(3000, 77, job_id=513, ctx_id=3)

    new = kernel == "7.2"
    assert row(jobs(s.trace())) == {
        "context": 77, "seqno": 1, "job_id": 513, "ctx_id": 3 if new else None, "pid": 10, "tid": 11, "comm": "load",
        "file": FILE,
        "status": "ok", "code": 0, "submitted_ns": 2000, "submit_ns": 100, "queued_ns": 2010, "doorbell_ns": 2070,
        "done_ns": 3000, "latency_ns": 1000, "wait_start_ns": 2200, "wait_ns": 900, "engine": 0,
        "cmdq_id": 3 if new else None, "priority": 4, "bo": A, "buffer_count": 2, "completions": 1,
        "wait_timeouts": 0, "begun_before": False, "graph": None,
    }  # fmt: skip


@st.composite
def histories(draw):
    """Simultaneous jobs of several processes and threads; each thread submits sequentially."""
    history, time_of = [], dict.fromkeys((11, 12, 21, 31), 1000)
    for number in range(draw(st.integers(1, 25))):
        tid = draw(st.sampled_from(sorted(time_of)))
        at = time_of[tid] = time_of[tid] + draw(st.integers(110, 2000)) * 8 + tid % 8
        history.append(
            {
                "tid": tid,
                "at": at,
                "context": draw(st.integers(0, 1)) * 1_000_000 + number,
                # The driver has a block of 256 numbers for each open device, and reuses them.
                "job_id": tid // 10 * 256 + number % 256,
                "ctx_id": tid // 10 + 1,
                "done": at + 200 + 16 * draw(st.integers(0, 4000)),
                "status": draw(st.sampled_from([0, 0, 0, 0x100, 0x202])),
                "handle": number + 1,
            }
        )
    # The signaling thread works sequentially.
    last = 0
    for job in sorted(history, key=lambda job: job["done"]):
        last = job["done"] = max(job["done"], last + 16)
    return history


def written_down(story_type, kernel, history):
    s = story_type(kernel)
    for job in history:
        bo = A + 0x1000 * job["handle"]
        s.buffer(10 + 60 * job["handle"] // 64, bo, tid=job["tid"] + 2, handle=job["handle"])
        names = {name: job[name] for name in ("job_id", "ctx_id")}
        s.submit(job["at"], job["context"], tid=job["tid"], buffers=[bo], **names)
        s.done(job["done"], job["context"], status=job["status"], **names)
    return s


@KERNELS
@given(history=histories())
@settings(max_examples=settings.default.max_examples // 3)
def test_every_job_of_any_history_gets_its_own_end(story_type, kernel, history):
    frame = jobs(written_down(story_type, kernel, history).trace())

    words = {0: "ok", 0x100: "aborted", 0x202: "error"}
    assert values_of(frame, "submitted_ns", "tid", "context", "job_id", "done_ns", "code", "status", "bo") == [
        [
            job["at"], job["tid"], job["context"], job["job_id"], job["done"], job["status"], words[job["status"]],
            A + 0x1000 * job["handle"],
        ]
        for job in sorted(history, key=lambda job: job["at"])
    ]  # fmt: skip


@given(history=histories())
@settings(max_examples=settings.default.max_examples // 3)
def test_fences_tracepoints_and_the_firmwares_replies_agree(story_type, history):
    s = written_down(story_type, "7.2", history)
    all_of_it = jobs(s.trace())

    for without, later in [(FENCES, 2), (("job",), 0), (ANSWERS, 0), ((*FENCES, *ANSWERS), 2)]:
        frame = jobs(s.trace(without=without))
        assert values_of(frame, "submitted_ns", "tid") == values_of(all_of_it, "submitted_ns", "tid"), without
        assert frame["done_ns"].tolist() == (all_of_it["done_ns"] + later).tolist(), without
        assert frame["job_id"].tolist() == all_of_it["job_id"].tolist(), without
        if without in {FENCES, ("job",)}:
            assert frame["status"].tolist() == all_of_it["status"].tolist(), without
        else:
            assert set(frame["status"]) == {"done"}, without


@KERNELS
def test_jobs_are_found_from_fences_without_the_ioctls(story, kernel):
    s = story(kernel)
    s.submit(1000, 5, tid=11, job_id=256, ctx_id=2)
    s.done(2000, 5, job_id=256, ctx_id=2)

    (job,) = values_of(
        jobs(s.trace(without=SUBMITS)), "submitted_ns", "queued_ns", "doorbell_ns", "done_ns", "tid", "status"
    )
    assert job == [None, 1010, 1070, 2000, 11, "ok"]


def test_jobs_are_found_from_the_drivers_tracepoint_alone(story):
    s = story()
    s.done(500, 4, job_id=255, ctx_id=1)
    s.submit(1000, 5, tid=11, job_id=256, ctx_id=2)
    s.submit(1500, 6, tid=12, job_id=257, ctx_id=2)
    s.done(2000, 6, job_id=257, ctx_id=2)

    frame = jobs(s.trace(without=(*FENCES, *ANSWERS, *SUBMITS)))
    assert values_of(frame, "job_id", "ctx_id", "done_ns", "status", "begun_before") == [
        [255, 1, 502, "done", True],
        [256, 2, None, "unfinished", False],
        [257, 2, 2002, "done", False],
    ]


def test_other_drivers_fences_are_not_jobs(story):
    s = story()
    s.submit(1000, 5)
    for function in ("dma_fence_init", "dma_fence_signaled"):
        s.fence(function, 1050, 6, driver="i915")
        s.fence(function, 1500, 5 + 100, tid=12, driver="drm_sched")

    assert jobs(s.trace())["context"].tolist() == [5]


@KERNELS
def test_a_job_started_before_the_trace_is_found_by_its_end(story, kernel):
    s = story(kernel)
    s.done(1000, 5, job_id=256, ctx_id=2)

    frame = jobs(s.trace())
    assert values_of(
        frame, "context", "job_id", "done_ns", "status", "begun_before", "pid", "submitted_ns", "latency_ns"
    ) == [[5, 256, 1000, "ok", True, None, None, None]]


@KERNELS
def test_jobs_without_an_end_are_unfinished_or_timed_out(story, kernel):
    s = story(kernel)
    s.traced |= {"dma_fence_signaled"}
    s.submit(1000, 5, tid=11, job_id=256, ctx_id=2)
    s.submit(1000, 6, tid=12, job_id=257, ctx_id=2)
    for at in (2000, 4000):
        s.wait(at, at + 1000, context=6, tid=12, retval=-110 & 0xFFFF_FFFF)  # an int's bits of the register

    frame = jobs(s.trace())
    assert values_of(frame, "status", "wait_timeouts", "wait_start_ns", "wait_ns", "done_ns", "code") == [
        ["unfinished", 0, None, None, None, None],
        ["timed out", 2, 4000, 1000, None, None],
    ]


def test_a_job_that_ends_after_a_wait_timed_out_is_described_by_the_wait_that_returned_it(story):
    s = story()
    s.submit(1000, 5)
    s.wait(2000, 2900, context=5, retval=-4)
    s.wait(3000, 3900, context=5, retval=-110)
    s.wait(4000, 4900, context=5, status=0)
    s.wait(5000, 5900, context=5, status=0)
    s.done(4800, 5, job_id=256)

    assert values_of(jobs(s.trace()), "status", "wait_timeouts", "wait_start_ns") == [["ok", 1, 4000]]


@KERNELS
def test_rejected_submissions_have_no_end(story, kernel):
    s = story(kernel)
    s.submit(1000, 5, retval=-77)
    s.submit(2000, 6, retval=-16)  # its fence is signaled and discarded
    s.fence("dma_fence_signaled", 2090, 6)

    assert values_of(jobs(s.trace()), "status", "code", "done_ns", "queued_ns") == [
        ["refused", -77, None, None],
        ["refused", -16, None, 2010],
    ]


@KERNELS
def test_the_status_reported_to_the_program_overrides_the_firmwares(story, kernel):
    s = story(kernel)
    s.submit(1000, 5, job_id=256)  # in a context with an MMU fault, the driver turns success into aborted
    s.wait(1200, 2100, context=5, status=0x100)
    s.done(2000, 5, job_id=256, status=0)

    assert values_of(jobs(s.trace()), "status", "code") == [["aborted", 256]]


def test_jobs_ended_by_recovery_are_aborted_even_without_a_wait(story):
    s = story("6.12")
    for context, tid in ((5, 11), (6, 21)):
        s.submit(1000 + tid, context, tid=tid)
    s.done(2000, 5, job_id=256, tid=905)
    s.hit("ivpu_pm_trigger_recovery", 3000, tid=905, reason="TDR")
    s.hit("ivpu_jobs_abort_all", 3010, tid=905)
    s.fence("dma_fence_signaled", 3020, 6, tid=905)

    assert values_of(jobs(s.trace()), "status", "code", "done_ns") == [["ok", 0, 2000], ["aborted", None, 3020]]


@pytest.mark.parametrize("signal_tells", [True, False])
def test_a_job_that_a_process_abandons_with_its_queue_timed_out(story, signal_tells):
    s = story()
    for context, tid in ((5, 11), (6, 21)):
        s.submit(1000 + tid, context, tid=tid, job_id=context, ctx_id=2)
    s.wait(2000, 3000, context=5, tid=11, retval=-110)
    for context, tid in ((5, 11), (6, 21)):
        s.hit("ivpu_cmdq_abort_all_jobs", 4000 + tid, tid=tid)
        if signal_tells:
            s.hit("ivpu_job_signal", 4003 + tid, tid=tid, job_id=context, job_status=0x100)
        s.fence("dma_fence_signaled", 4005 + tid, context, tid=tid)

    assert values_of(jobs(s.trace()), "status", "wait_timeouts") == [["timed out", 1], ["aborted", 0]]


@KERNELS
def test_duplicated_and_missing_replies_are_counted_per_job(story, kernel):
    s = story(kernel)
    s.traced |= {"dma_fence_signaled"}
    for number in range(3):
        s.submit(1000 + 500 * number, number + 1, job_id=256 + number, ctx_id=2)
    s.done(1400, 1, job_id=256, ctx_id=2)
    s.answer(1450, 256)  # again; no other job has its number
    s.done(1900, 2, job_id=257, ctx_id=2)
    s.submit(5000, 4, job_id=256, ctx_id=2)
    s.done(5400, 4, job_id=256, ctx_id=2)

    expected = [2, 1, 0 if kernel == "7.2" else None, 1]
    assert [*values_of(jobs(s.trace()), "completions")] == [[count] for count in expected]


def test_the_first_of_several_ends_is_the_end(story):
    s = story()
    s.submit(1000, 5, job_id=256, ctx_id=2)
    s.done(2000, 5, job_id=256, ctx_id=2)
    s.done(2500, 5, job_id=256, ctx_id=2)

    assert values_of(jobs(s.trace()), "done_ns", "completions") == [[2000, 2]]
    assert values_of(jobs(s.trace(without=FENCES)), "done_ns", "completions") == [[2002, 2]]


def test_a_reply_completes_only_one_job(story):
    s = story()
    for context, tid in ((5, 11), (6, 21)):
        s.submit(1000 + tid, context, tid=tid)
    s.done(2000, 5, job_id=256, status=0x202)
    s.fence("dma_fence_signaled", 2100, 6, tid=900)  # its own reply was missed

    assert values_of(jobs(s.trace(missed=1)), "job_id", "code", "status") == [
        [256, 0x202, "error"],
        [None, None, "done"],
    ]


def test_a_job_aborted_by_the_driver_after_a_wait_timed_out_is_aborted(story):
    s = story()
    s.submit(1000, 5, tid=11)
    s.wait(2000, 2500, context=5, tid=11, retval=-110)
    s.hit("ivpu_context_abort_work_fn", 3000, tid=905)
    s.fence("dma_fence_signaled", 3100, 5, tid=905)

    assert values_of(jobs(s.trace()), "status", "wait_timeouts", "done_ns") == [["aborted", 1, 3100]]


def test_the_newest_call_before_a_moment_is_of_the_same_thread(story):
    s = story()
    for number, tid in enumerate((11, 12, 11, 21, 12)):
        s.hit("ivpu_open", 100 * number, tid=tid)
    for number, tid in enumerate((11, 12, 21, 22)):
        s.hit("ivpu_rpm_get", 1000 + number, tid=tid)
    s.hit("ivpu_rpm_get", 1100, tid=11, pid=77)  # another process that reuses the number
    trace = s.trace()

    assert latest(trace, trace.rows("ivpu_open"), trace.rows("ivpu_rpm_get")).tolist() == [2, 4, 3, -1, -1]
    assert latest(trace, trace.rows("ivpu_open"), trace.rows("ivpu_open")).tolist() == [-1, -1, 0, -1, 1]
    assert latest(trace, trace.rows("none"), trace.rows("ivpu_open")).tolist() == [-1] * 5


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=12, unique_by=lambda pair: pair[1])


@given(asked=pairs, given_=pairs)
def test_pairs_of_requests_and_replies_match_a_plain_search(asked, given_):
    ids, at, answer_ids, answered_at = (
        np.array([pair[place] for pair in pairs_], np.int64) for pairs_ in (asked, given_) for place in (0, 1)
    )

    to_answer, to_request = answers(ids, at, answer_ids, answered_at)

    def request_of(answer):
        before = [place for place, (id_, when) in enumerate(asked) if id_ == answer[0] and when <= answer[1]]
        return max(before, key=lambda place: asked[place][1], default=-1)

    expected = [request_of(answer) for answer in given_]
    assert to_request.tolist() == expected
    firsts = {}
    for place in sorted(range(len(given_)), key=lambda place: given_[place][1]):
        firsts.setdefault(expected[place], place)
    assert to_answer.tolist() == [firsts.get(place, -1) for place in range(len(asked))]


def test_a_wait_for_a_completed_job_is_found_by_its_buffer(story):
    s = story()
    s.buffer(100, A, tid=11, handle=1)
    s.buffer(200, B, tid=11, handle=2)
    s.submit(1000, 5, tid=11, buffers=[A, B])
    s.done(1500, 5, job_id=256)
    s.submit(2000, 6, tid=11, buffers=[A])
    s.done(2500, 6, job_id=257)
    s.wait(3000, 3010, handle=1, tid=12)
    s.wait(3100, 3110, handle=2, tid=12)  # no job's command buffer
    s.wait(3200, 3210, handle=1, tid=21)  # another process's

    assert values_of(jobs(s.trace()), "wait_start_ns", "status") == [[None, "ok"], [3000, "ok"]]


def test_a_handle_shared_by_two_open_devices_of_a_process_is_ambiguous(story):
    s = story()
    s.buffer(100, A, tid=11, handle=1)
    s.buffer(200, B, tid=11, handle=1)
    s.submit(1000, 5, tid=11, buffers=[A])
    s.done(1500, 5, job_id=256)
    s.submit(2000, 6, tid=11, buffers=[B])
    s.done(2500, 6, job_id=257)
    s.wait(3000, 3010, handle=1, tid=11)

    assert jobs(s.trace())["wait_start_ns"].isna().all()


def test_a_wait_shows_how_a_job_ended_whose_end_was_not_traced(story):
    s = story()
    s.buffer(100, A, handle=1)
    s.submit(1000, 5, buffers=[A])
    s.wait(1200, 1900, handle=1, status=0)

    (job,) = values_of(jobs(s.trace(without=(*FENCES, *ANSWERS, "job"))), "status", "done_ns", "wait_ns")
    assert job == ["ok", None, 700]


def test_a_fence_whose_submission_is_missing_is_not_assigned_to_an_older_one(story):
    s = story()
    s.submit(1000, 5, tid=11)
    s.submit(2000, 6, tid=11)
    s.done(3000, 6, job_id=256)
    s.events = [
        event for event in s.events if (event["function"], event["time_ns"]) != ("ivpu_cmdq_submit_ioctl", 2000)
    ]

    assert values_of(jobs(s.trace(lost=1)), "context", "submitted_ns", "queued_ns", "status") == [
        [5, 1000, 1010, "unfinished"],
        [6, None, 2010, "ok"],
    ]


def test_the_priority_of_an_ambiguous_queue_number_is_missing(story):
    s = story()
    for tid, priority in ((11, 1), (12, 4), (21, 3), (31, 2)):
        s.hit("ivpu_cmdq_create_ioctl", 100 + tid, tid=tid, lasts=5, retval=0, cmdq_id=3, priority=priority)
        s.submit(1000 + tid, tid, tid=tid)
    s.hit("ivpu_cmdq_create_ioctl", 300, tid=31, lasts=5, retval=-12, cmdq_id=3, priority=9)

    assert values_of(jobs(s.trace()), "priority") == [[None], [None], [3], [2]]


def test_the_drivers_functions_alone_show_submissions_but_no_ends(story):
    s = story("6.12")
    s.submit(1000, 5, tid=11)
    s.submit(1001, 6, tid=12)
    s.done(2000, 6, job_id=256)

    frame = jobs(s.trace(columns=False, without=FENCES))
    assert values_of(frame, "submitted_ns", "doorbell_ns", "tid", "status") == [
        [1000, 1070, 11, "not known"],
        [1001, 1071, 12, "not known"],
    ]
    unknown = ["context", "job_id", "done_ns", "latency_ns", "code", "completions", "submit_ns", "queued_ns", "bo"]
    assert frame[unknown].isna().all(axis=None)


def test_a_list_of_calls_without_times_shows_the_number_of_submissions(story):
    s = story("6.12")
    s.submit(1000, 5)
    s.done(2000, 5)

    trace = s.trace(columns=False, without=FENCES, timed=False)
    frame = jobs(trace)
    assert frame["status"].tolist() == ["not known"]
    assert frame.drop(columns=["status", "begun_before"]).isna().all(axis=None)
    assert len(throughput(trace)) == len(concurrency(trace)) == 0


def test_an_empty_trace_has_no_jobs(story):
    trace = story().trace()

    assert len(jobs(trace)) == len(recoveries(trace)) == 0
    assert list(jobs(trace).columns) == list(jobs(written_down(story, "7.2", []).trace()).columns)
    assert throughput(trace, "1us")["in_flight_max"].tolist() == [0]


def test_recoveries_have_a_reason_and_the_jobs_lost(story):
    s = story("6.12")
    for number, tid in enumerate((11, 21, 22, 31)):
        s.submit(1000 + tid, number + 1, tid=tid)
    s.done(1500, 4, job_id=256)
    s.hit("ivpu_job_timeout_work", 2000, tid=905)
    s.hit("ivpu_job_timeout_work", 3000, tid=905)
    s.hit("ivpu_pm_trigger_recovery", 3010, tid=905, reason="TDR")
    s.hit("ivpu_pm_recovery_work", 3020, tid=906)
    s.hit("ivpu_jobs_abort_all", 3030, tid=906)
    for context, at in ((1, 3040), (2, 3041), (3, 3042)):
        s.fence("dma_fence_signaled", at, context, tid=906)
    s.submit(4000, 9, tid=21, retval=-77)
    s.hit("ivpu_pm_trigger_recovery", 5000, tid=905, reason="MMU event")

    assert values_of(recoveries(s.trace()), "time_ns", "kind", "reason", "jobs_lost", "pids", "refused", "lost_ns") == [
        [2000, "timeout", None, None, (), None, None],
        [3000, "timeout", None, None, (), None, None],
        [3010, "device reset", "TDR", 3, (10, 20), 1, 3042 - 1011],
        [5000, "device reset", "MMU event", 0, (), 0, None],
    ]


def test_an_engine_reset_loses_the_jobs_of_the_contexts_it_aborts(story):
    s = story()
    for number, tid in enumerate((11, 21)):
        s.submit(1000 + tid, number + 1, tid=tid, job_id=256 * (number + 1), ctx_id=number + 2)
    s.hit("ivpu_context_abort_work_fn", 3000, tid=905)
    s.hit("ivpu_jsm_reset_engine", 3001, tid=905)
    s.fence("dma_fence_signaled", 3100, 1, tid=905)
    s.done(3500, 2, job_id=512, ctx_id=3)

    assert values_of(recoveries(s.trace()), "time_ns", "kind", "jobs_lost", "pids") == [
        [3000, "engine reset", 1, (10,)]
    ]


def spans_of(story, spans, duration):
    """A trace of jobs that are in flight in these intervals; None: started before, or no end."""
    s = story()
    s.traced |= {"dma_fence_signaled"}
    for number, (start, end) in enumerate(spans):
        if start is not None:
            s.submit(start, number + 1, tid=10 + number)
        if end is not None:
            s.done(end, number + 1)
    return s.trace(duration_ns=duration)


def test_jobs_are_counted_over_time(story):
    spans = [(0, 2500), (500, 1500), (None, 1000), (3000, None), (3200, 3600)]
    trace = spans_of(story, spans, 4500)

    table = throughput(trace, "1us")
    assert table.index.tolist() == [0, 1000, 2000, 3000, 4000]
    assert table["submitted"].tolist() == [2, 0, 0, 2, 0]
    assert table["done"].tolist() == [0, 2, 1, 1, 0]
    assert table["submitted_per_s"].tolist() == [2e6, 0, 0, 2e6, 0]
    assert table["done_per_s"].tolist() == [0, 2e6, 1e6, 1e6, 0]
    assert table["in_flight"].tolist() == [2, 2, 1, 1, 1]
    assert table["in_flight_mean"].tolist() == [2.5, 1.5, 0.5, 1.4, 1.0]
    assert table["in_flight_max"].tolist() == [3, 2, 1, 2, 1]
    assert concurrency(trace)["time_ns"].tolist() == [500, 2100, 1400, 500]


moments = st.integers(0, 4999)


@given(spans=st.lists(st.tuples(st.none() | moments, st.none() | moments), max_size=10), step=st.integers(90, 3000))
def test_counts_over_time_match_a_plain_search(story_type, spans, step):
    spans = [(start, end) for start, end in spans if start is not None or end is not None]
    spans = [(min(pair), max(pair) + 120) if None not in pair else pair for pair in spans]
    trace = spans_of(story_type, spans, 6000)
    depth = np.zeros(6000, int)
    for start, end in spans:
        depth[slice(start or 0, end)] += 1

    table = throughput(trace, f"{step}ns")
    starts = range(0, 6000, step)
    assert table["in_flight"].tolist() == [depth[at] for at in starts]
    assert table["in_flight_max"].tolist() == [depth[at : at + step].max() for at in starts]
    assert np.allclose(table["in_flight_mean"], [depth[at : at + step].mean() for at in starts])
    assert table["submitted"].sum() == sum(start is not None for start, _ in spans)
    assert table["done"].sum() == sum(end is not None for _, end in spans)
    assert concurrency(trace)["time_ns"].tolist() == np.bincount(depth).tolist()
    at, steps = in_flight(trace, jobs(trace))
    assert (np.repeat(steps, np.diff(np.append(at, 6000))) == depth).all()


def test_jobs_whose_end_the_trace_cannot_show_are_never_in_flight(story):
    s = story("6.12")
    s.submit(1000, 5)

    trace = s.trace(columns=False, without=FENCES)
    assert throughput(trace, "100ns")["in_flight_max"].max() == 0
    assert throughput(trace, "100ns")["submitted"].sum() == 1


@pytest.mark.parametrize("freq", ["soon", "-1s", "0s", "", "5", "1ME"])
def test_an_invalid_interval_is_an_error_with_a_fix(story, freq):
    with raises("rates.bad-step", ProbeError) as caught:
        throughput(story().trace(), freq)

    assert "100ms" in caught.value.fix


def test_too_many_intervals_are_an_error(story):
    with raises("rates.too-many-steps", ProbeError, match="intervals"):
        throughput(story().trace(duration_ns=3_600 * 10**9), "1ns")


def test_a_hundred_thousand_events_are_joined_without_python_code_per_event(story):
    s = story()
    for number in range(100):
        at, tid, bo = 1000 * (number + 1), 11 + number % 7, A + 0x1000 * number
        s.buffer(at, bo, tid=tid, handle=number + 1)
        s.submit(at + 100, number + 1, tid=tid, buffers=[bo], job_id=256 + number, ctx_id=2)
        s.wait(at + 250, at + 600, handle=number + 1, context=number + 1, tid=tid)
        s.done(at + 500, number + 1, job_id=256 + number, ctx_id=2)
        s.close(at + 700, number + 1, bo, tid=tid)
    once = s.trace()
    times = -(-100_000 // len(once.events))
    events = pd.concat([once.events] * times, ignore_index=True)
    lap = np.repeat(np.arange(times), len(once.events))
    events["time_ns"] += lap * once.duration_ns
    events["context"] += (lap * 100).astype(np.uint32)
    trace = DriverTrace(events, once.counts * times, once.duration_ns * times)

    lines = lines_run(lambda: throughput(trace, "1ms", jobs(trace))) + lines_run(lambda: buffers(trace))
    frame, objects = jobs(trace), buffers(trace)

    assert len(frame) == len(objects) == 100 * times
    assert (frame["status"] == "ok").all()
    assert (frame["latency_ns"] == 400).all()
    assert (objects["lifetime_ns"] == 705).all()
    assert lines < len(events) / 10

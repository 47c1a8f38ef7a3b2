"""Counts and latencies on Debian's kernels, compared with the counts of the workload and of the kernel."""

from __future__ import annotations

import shlex
from collections import Counter

import pytest

from accel_magic.lab.npu import Load
from tests.support.thorough import THOROUGH

JOBS, PROCESSES = 300 if THOROUGH else 60, 8
SLOW_US = 200_000


def submits(kernel):
    """The ioctls for submitting jobs that this kernel's driver has."""
    return ("submit",) if kernel == "6.12" else ("submit", "cmdq")


def ioctls(outcome):
    """Calls of the driver's ioctl functions, as counted by the workload."""
    return {name: calls for name, calls in outcome.functions.to_dict().items() if name.startswith("ivpu_")}


def test_ioctls_of_many_jobs_from_8_processes_are_counted_exactly_by_either_submit(guest, load, hits_of):
    loads = [load(jobs=JOBS, processes=PROCESSES, submit=submit) for submit in submits(guest.kernel)]

    result = guest.trace(
        "intel_vpu:ivpu_*_ioctl", command=["sh", "-c", " && ".join(map(shlex.join, loads))], mode="count"
    )

    made = Counter()
    for submit, text in zip(submits(guest.kernel), result.value.stdout.splitlines(), strict=True):
        outcome = Load.from_json(text)
        assert outcome.ok == JOBS
        function = {"submit": "ivpu_submit_ioctl", "cmdq": "ivpu_cmdq_submit_ioctl"}[submit]
        assert ioctls(outcome)[function] == JOBS
        made.update(ioctls(outcome))
    assert {name: hits for name, hits in hits_of(result).items() if hits} == made


@pytest.mark.parametrize("mode", ["count", pytest.param("events", marks=pytest.mark.thorough)])
def test_counts_of_every_function_match_the_kernels_function_tracer(guest, load, counted, hits_of, mode):
    command = counted("count_calls", ["ivpu_*"], load(jobs=JOBS, processes=PROCESSES))

    result = guest.trace("intel_vpu:ivpu_*", command=command, mode=mode)

    outcome = result.value.json
    assert Load.from_json(outcome["stdout"]).ok == JOBS
    ours = {name: hits for name, hits in hits_of(result).items() if hits}
    kernels = {name: sum(calls) for name, calls in outcome["calls"].items()}
    assert len(kernels) > 90
    assert set(ours) == set(kernels)
    # The kernel does not run our program for a hit that interrupts it on the same CPU; it counts these as missed.
    process_only = {name for name, (_, interrupts) in outcome["calls"].items() if not interrupts}
    assert {name: ours[name] for name in process_only} == {name: kernels[name] for name in process_only}
    for name in set(kernels) - process_only:
        assert kernels[name] - outcome["calls"][name][1] <= ours[name] <= kernels[name], name
    assert sum(kernels.values()) - sum(ours.values()) == result.recording.missed
    if mode == "events":
        assert len(result.events) + result.lost == sum(ours.values())
        assert result.lost == 0


def test_hits_in_interrupts_of_an_idle_cpu_count(guest, load, hits_of):
    result = guest.trace("intel_vpu:ivpu_hw_irq_handler", "kprobe:handle_edge_irq", command=load(jobs=100, rate=200))

    idle = result.events.query("pid == 0")
    assert set(idle["function"]) == {"ivpu_hw_irq_handler", "handle_edge_irq"}
    # One call of handle_edge_irq serves what arrives meanwhile too, so the driver's handler may run more often.
    assert hits_of(result)["ivpu_hw_irq_handler"] >= 90


@pytest.mark.thorough  # a second count by the kernel, after that by the function tracer
def test_the_kernels_own_kprobes_count_the_same(guest, load, counted, hits_of):
    functions = ["ivpu_bo_create_ioctl", "ivpu_job_destroy", "ivpu_bo_wait_ioctl"]
    command = counted("profile_calls", functions, load(jobs=60, processes=4))

    result = guest.trace(*(f"intel_vpu:{name}" for name in functions), command=command)

    assert hits_of(result) == result.value.json["calls"]
    assert hits_of(result)["ivpu_bo_create_ioctl"] == 60


@pytest.mark.thorough  # the next test attaches to entries and returns one by one
def test_probes_attached_one_by_one_count_the_same_as_all_at_once(guest, load, hits_of):
    command = load(jobs=40, processes=4)

    result = guest.trace("intel_vpu:ivpu_bo_*_ioctl", command=command, one_by_one=True)
    together = guest.trace("intel_vpu:ivpu_bo_*_ioctl", command=command)

    outcome = Load.from_json(result.value.stdout)
    expected = {name: calls for name, calls in ioctls(outcome).items() if name.startswith("ivpu_bo_")}
    assert {name: hits for name, hits in hits_of(result).items() if hits} == expected
    assert hits_of(together) == hits_of(result)
    assert result.plan.skipped == ()
    assert len(result.events) == sum(expected.values())


def test_latencies_with_probes_attached_one_by_one_pair_every_call(guest, load):
    result = guest.trace("latency:intel_vpu:ivpu_bo_*_ioctl", command=load(jobs=40, processes=4), one_by_one=True)

    outcome = Load.from_json(result.value.stdout)
    assert (
        result.latency["count"].groupby("function").sum()["ivpu_bo_create_ioctl"]
        == ioctls(outcome)["ivpu_bo_create_ioctl"]
    )
    paired, hits = (frame.groupby("function").sum() for frame in (result.latency["count"], result.counts["hits"]))
    assert paired.to_dict() == hits.to_dict()


def test_every_call_of_8_concurrent_processes_is_paired_with_its_return(guest, load, hits_of):
    result = guest.trace("latency:intel_vpu:ivpu_*_ioctl", command=load(jobs=JOBS, processes=PROCESSES))

    outcome = Load.from_json(result.value.stdout)
    assert {name: hits for name, hits in hits_of(result).items() if hits} == ioctls(outcome)
    paired = result.latency["count"].groupby("function").sum().to_dict()
    assert {name: calls for name, calls in paired.items() if calls} == ioctls(outcome)
    assert result.recording.unpaired.sum() == 0
    # The workload's measurements enclose its calls.
    waits = result.events[result.events["function"] == "ivpu_bo_wait_ioctl"]["duration_ns"]
    assert len(waits) == JOBS
    assert waits.max() <= outcome.latency_ns.max
    assert waits.sum() <= outcome.latency_ns.mean * JOBS + JOBS


@pytest.mark.thorough  # test_level_zero.py finds each ioctl inside the call that made it
def test_a_nested_call_takes_no_longer_than_the_outer_one(guest, load):
    inner, outer = "ivpu_bo_bind", "ivpu_submit_ioctl" if guest.kernel == "6.12" else "ivpu_cmdq_submit_ioctl"

    # Linux 6.12 tracks at most 8 concurrent calls of these two functions on two CPUs.
    result = guest.trace(f"latency:intel_vpu:{inner}", f"latency:intel_vpu:{outer}", command=load(jobs=50, processes=4))

    events = result.events
    calls = events[events["function"] == outer]
    assert len(calls) == 50
    nested = 0
    for call in events[events["function"] == inner].itertuples():
        around = calls[
            (calls["tid"] == call.tid)
            & (calls["time_ns"] <= call.time_ns)
            & (calls["time_ns"] + calls["duration_ns"] >= call.time_ns)
        ]
        if len(around):
            nested += 1
            (outside,) = around.itertuples()
            assert outside.time_ns + outside.duration_ns >= call.time_ns + call.duration_ns
    assert nested >= 50


@pytest.mark.thorough  # test_npu_analysis.py traces slow jobs
def test_waiting_for_a_slow_job_takes_as_long_as_the_job(guest, load):
    result = guest.trace("latency:intel_vpu:ivpu_bo_wait_ioctl", command=load(jobs=5, fault=f"slow={SLOW_US}", at=3))

    outcome = Load.from_json(result.value.stdout)
    assert (outcome.ok, outcome.faulty) == (5, 1)
    waits = result.events["duration_ns"].tolist()
    assert len(waits) == 5
    slow = [wait for wait in waits if wait >= SLOW_US * 1000 * 0.95]  # the job starts a little earlier
    assert slow == [waits[2]]
    assert waits[2] <= outcome.latency_ns.max


def test_system_calls_of_two_threads_are_counted_or_reported_as_missed(guest, calls_program, hits_of):
    result = guest.trace("t:syscalls:sys_enter_getppid", command=[calls_program, 2, 50_000], mode="count")

    # Since Linux 7.0 a task can be preempted in the middle of a program, which then misses other tasks' calls.
    hits = hits_of(result)["sys_enter_getppid"]
    assert 100_000 - result.recording.missed <= hits <= 100_000
    if guest.kernel == "6.12":
        assert hits == 100_000


@pytest.mark.thorough  # the same tests run on this machine's kernel
def test_every_kind_of_probe_runs_on_this_kernel(guest, live_tests):
    done = guest.lab.run(live_tests, timeout=1000)

    assert done.status == 0, done.text[-5000:]
    assert " passed" in done.text
    assert "failed" not in done.text

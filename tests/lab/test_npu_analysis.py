"""Jobs and buffers analyzed from traces of the preset, compared with the workload's own record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel_magic.lab.npu import Load
from accel_magic.subsystems.npu.buffers import buffers, churn, leaks
from accel_magic.subsystems.npu.jobs import jobs, recoveries
from accel_magic.subsystems.npu.throughput import concurrency, throughput

PAGE = 4096
SLOW_US = 200_000
HEARTBEAT_S = 2.0  # the driver checks the engine's heartbeat after a job has run this long
AROUND_NS = 5_000_000  # half of the jobs' completions are processed within this time after the interrupt

FENCES = ("dma_fence_init", "dma_fence_signaled", "dma_fence_wait_start", "dma_fence_wait_end", "dma_fence_destroy")


PARTS = ("npu:files", "npu:memory", "npu:jobs")  # enough for jobs and buffers; fewer hits, fewer missed


def analysed(guest, command, tries=4):
    """Trace until no hit was missed, so that the counts are exact."""
    for _ in range(tries):
        result = guest.trace(*PARTS, command=command)
        if not result.recording.missed and not result.lost:
            break
    outcome = Load.from_json(result.value.stdout)
    trace = result.npu.trace
    return outcome, trace, jobs(trace)


def statuses(frame):
    return {name: count for name, count in frame["status"].value_counts().items() if count}


def first_binds(trace, frame):
    """When each job's submission bound its first buffer, the command buffer."""
    binds = trace.events[trace.mask("ivpu_bo_bind", "ivpu_bo_pin")]
    return [
        binds["time_ns"][(binds["tid"] == job.tid) & (binds["time_ns"] > job.submitted_ns)].iloc[0]
        for job in frame.itertuples()
    ]


def without(trace, *functions):
    events = trace.events[~trace.mask(*functions)].reset_index(drop=True)
    return replace(trace, events=events, counts=trace.counts.drop(list(functions), errors="ignore"))


@pytest.fixture(scope="module")
def busy(_holder, load):
    """A load with several processes, threads and buffers, traced once per kernel."""
    guest = _holder.get()
    return guest, *analysed(guest, load(jobs=24, processes=3, threads=2, buffers=3, size=40_000, rate=60))


def test_jobs_match_those_of_the_workload(busy):
    guest, outcome, trace, frame = busy

    assert outcome.ok == outcome.jobs == 24
    assert statuses(frame) == {"ok": 24}
    assert frame["pid"].nunique() == 3
    assert frame["tid"].nunique() == 6
    assert frame["file"].nunique() == 3
    assert (frame["buffer_count"] == 3).all()
    assert (frame["completions"] == 1).all()
    assert (frame["code"] == 0).all()
    assert frame["cmdq_id"].isna().all() == (guest.kernel == "6.12")
    times = frame[["submitted_ns", "queued_ns", "doorbell_ns", "done_ns"]]
    assert (times.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
    assert len(recoveries(trace, frame)) == 0


def test_latencies_are_within_those_measured_by_the_workload(busy):
    _, outcome, _, frame = busy

    seen = frame["wait_start_ns"] + frame["wait_ns"] - frame["submitted_ns"]
    assert (seen >= frame["latency_ns"]).all()
    assert seen.max() <= outcome.latency_ns.max
    # The workload's latencies also have the entry and exit of two system calls with the probes' programs, and any other
    # work of the two CPUs in between.
    measured = outcome.latency_ns.mean * outcome.jobs
    assert 0 < seen.sum() <= measured + outcome.jobs  # the mean is rounded down
    assert seen.sort_values().iloc[(outcome.jobs - 1) // 2] <= outcome.latency_ns.p50


def test_buffers_and_bytes_match_those_of_the_workload(busy):
    _, outcome, trace, frame = busy

    table = buffers(trace)
    users = table[table["owner"] == "user"]
    pages = -(-outcome.size // PAGE)
    assert len(users) == outcome.jobs * 3
    assert users["size_bytes"].sum() == outcome.jobs * 3 * pages * PAGE
    assert (users["pages"] == pages).all()
    assert (users["jobs"] == 1).all()
    assert (users["state"] == "freed").all()
    is_command = users["handle"].notna() & users["bound_ns"].isin(first_binds(trace, frame))
    assert users["kind"].tolist() == [
        "mappable, cached" if command else "high memory, mappable, cached" for command in is_command
    ]
    assert is_command.sum() == outcome.jobs
    assert set(users["bo"]) >= set(frame["bo"])
    assert users[["handle", "vpu_addr", "create_ns", "bind_ns", "closed_ns", "lifetime_ns"]].notna().all(axis=None)
    order = users[["created_ns", "bound_ns", "freed_ns"]]
    assert (order.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
    assert (table["owner"] == "driver").sum() >= 3  # each process's job queues
    assert len(leaks(trace, table)) == 0
    assert churn(trace, table)["created_per_job"].tolist() == [3.0] * 3


def test_throughput_adds_up_to_the_jobs(busy):
    _, outcome, trace, frame = busy

    table = throughput(trace, "20ms", frame)
    assert table["submitted"].sum() == table["done"].sum() == outcome.jobs
    shares = concurrency(trace, frame)
    under_way = (shares.index * shares["time_ns"]).sum()
    assert under_way == frame["latency_ns"].sum()
    assert table["in_flight_max"].max() == shares.index.max()


def test_fences_tracepoint_and_messages_give_the_same_completions(busy):
    guest, _, trace, frame = busy

    by_answer = jobs(without(trace, "job"))
    assert by_answer["done_ns"].tolist() == frame["done_ns"].tolist()
    assert by_answer["job_id"].tolist() == frame["job_id"].tolist()
    assert by_answer["status"].tolist() == frame["status"].tolist()
    by_point = jobs(without(trace, *FENCES))
    assert by_point["status"].tolist() == frame["status"].tolist()  # on 6.12 it comes from waits
    assert by_point["wait_start_ns"].tolist() == frame["wait_start_ns"].tolist()
    if guest.kernel != "6.12":
        assert by_point["job_id"].tolist() == frame["job_id"].tolist()
        later = by_point["done_ns"] - frame["done_ns"]  # the driver reaches it right after; its thread may be preempted
        assert later.min() >= 0
        assert later.median() <= AROUND_NS


def test_a_hung_job_is_aborted_and_the_recovery_lists_the_lost_jobs(guest, load):
    outcome, trace, frame = analysed(guest, load(jobs=3, fault="hang", at=2, timeout=30), tries=1)

    refused = outcome.failed - outcome.statuses[256]
    assert statuses(frame) == {"ok": outcome.ok, "aborted": 1} | ({"refused": refused} if refused else {})
    assert frame["completions"].iloc[1] == 0
    (reset,) = recoveries(trace, frame).query("kind != 'timeout'").itertuples()
    assert reset.kind == ("engine reset" if guest.kernel == "7.2" else "device reset")
    assert reset.jobs_lost == 1
    assert reset.pids == tuple(frame["pid"].unique())
    assert reset.refused == refused
    assert reset.lost_ns >= HEARTBEAT_S * 0.95e9
    assert trace.events["time_ns"].iloc[0] <= reset.time_ns <= frame["done_ns"].iloc[1]
    if guest.kernel == "6.12":
        assert reset.reason == "TDR"


def test_a_lost_completion_is_distinguished_from_a_hang(guest, load):
    outcome, trace, frame = analysed(guest, load(jobs=3, fault="lose", at=2, timeout=10), tries=1)

    assert outcome.ok == 2
    assert statuses(frame) == {"ok": 2} | ({"aborted": 1} if outcome.failed else {"timed out": 1})
    assert frame["completions"].tolist() == [1, 0, 1]
    assert frame["wait_timeouts"].tolist() == [0, outcome.timed_out, 0]
    kinds = recoveries(trace, frame)["kind"].tolist()
    assert kinds[0] == "timeout"
    assert ("device reset" in kinds) == bool(outcome.failed)  # on 7.2 the heartbeat continues: the driver keeps waiting


def test_duplicated_completions_are_counted_with_their_job(guest, load):
    outcome, _, frame = analysed(guest, load(jobs=10, fault="duplicate", every=5))

    assert outcome.ok == 10
    assert statuses(frame) == {"ok": 10}
    assert frame["completions"].tolist() == [1, 1, 1, 1, 2] * 2


def test_slow_jobs_have_the_longest_time_on_the_device(guest, load):
    outcome, trace, frame = analysed(guest, load(jobs=10, fault=f"slow={SLOW_US}", every=5))

    assert outcome.ok == 10
    on_device = frame["done_ns"] - frame["doorbell_ns"]  # the first submission also boots the NPU
    slow = on_device >= SLOW_US * 950
    assert slow.tolist() == [False, False, False, False, True] * 2
    assert on_device[~slow].max() <= on_device[slow].min() / 2
    assert frame["latency_ns"].max() <= outcome.latency_ns.max
    assert concurrency(trace, frame)["time_ns"][1] >= 2 * SLOW_US * 950

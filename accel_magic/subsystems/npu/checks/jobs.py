"""Evidence about jobs: failed, reported twice, slow, one at a time, hung, lost."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.thread_events import signed32
from accel_magic.findings import Evidence
from accel_magic.subsystems.npu.checks.common import hits, numbers, places, returned, spans, stall_ns, times
from accel_magic.subsystems.npu.objects import SUBMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.findings import Rule
    from accel_magic.subsystems.npu.checks.common import NpuData, Rows


MESSAGE, CALLBACK, WAIT = "ivpu_hw_ip_ipc_rx_addr_get", "ivpu_job_done_callback", "ivpu_bo_wait_ioctl"
_CREATING = ("ivpu_bo_create_ioctl", "ivpu_bo_create_from_userptr_ioctl", "ivpu_cmdq_create_ioctl")
_INTERRUPTED = (-4, -512)  # EINTR, ERESTARTSYS: a signal; the program calls again
_BANNED = -77  # EBADFD: the process's earlier job made the driver reset an engine


def jobs_failed(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """Jobs whose own status is an error, and submissions that the driver rejected.

    Jobs lost in a reset count as evidence of the reset.
    """
    status = npu.jobs["status"]
    trace = npu.trace
    calls, codes = returned(trace, trace.rows(*SUBMITS))
    after_reset = (codes == _BANNED) & (hits(trace, *RECOVERIES) > 0)
    refused = int(((codes < 0) & ~after_reset).sum())
    ended = int((status == "error").sum())
    if not refused + ended:
        return
    when = numbers(npu.jobs["done_ns"])[(status == "error").to_numpy()]
    known = np.sort(np.concatenate([when[~np.isnan(when)], times(trace, calls[(codes < 0) & ~after_reset])]))
    where = spans(known.astype(np.int64), known.astype(np.int64))
    counts: dict[str, float] = {"failed": refused + ended, "error": ended, "refused": refused, "jobs": len(status)}
    yield Evidence(counts | _by_errno(codes[(codes < 0) & ~after_reset]), where)


def calls_failed(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """Creations of buffers and queues that the driver rejected."""
    trace = npu.trace
    calls, codes = returned(trace, trace.rows(*_CREATING))
    failed = (codes < 0) & ~np.isin(codes, _INTERRUPTED)
    if not failed.any():
        return
    functions = trace.events["function"].astype("str").iloc[calls[failed]].value_counts().sort_index()
    by_function: dict[str, float] = {str(name): int(count) for name, count in functions.items()}
    values = {"failed": int(failed.sum()), "calls": len(calls)} | _by_errno(codes[failed]) | by_function
    yield Evidence(values, places(trace, calls[failed]))


def _by_errno(codes: NDArray[np.int64]) -> dict[str, float]:
    """Count errors of the driver by name, `ENOENT`."""
    found, counts = np.unique(-codes, return_counts=True)
    names = (errno.errorcode.get(int(code), f"errno {code}") for code in found)
    return dict(zip(names, map(int, counts), strict=True))


def completion_duplicated(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """More than one message about a job's completion."""
    trace, jobs = npu.trace, npu.jobs
    completions = numbers(jobs["completions"])
    if np.isfinite(completions).any():
        duplicated = int((completions > 1).sum())
        if duplicated:
            yield Evidence({"duplicated": duplicated, "jobs": len(jobs)})
        return
    answers, ended = len(trace.rows(CALLBACK)), int(jobs["status"].isin(["ok", "done", "error"]).sum())
    if not trace.saw("dma_fence_signaled") or answers - ended <= trace.missed:
        return
    yield Evidence({"duplicated": answers - ended, "jobs": len(jobs)})


def jobs_slow(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Jobs during which the NPU was silent for far longer than during the others.

    A job's time on the NPU is at most the time from its doorbell, or from the end of the previous job, to its own end.
    Under load the driver's thread may report completions long after the messages arrived; the longest time without a
    message in between is a better bound.
    """
    took, start, end = _on_device(npu)
    if len(took) < rule.limits["jobs"]:
        return
    typical = max(float(np.median(took)), float(took[took <= np.quantile(took, 0.75)].mean()))
    stall = stall_ns(npu.trace)
    if "emulated" in npu.recording.machine:
        stall = max(stall, rule.limits["emulation_ns"])
    slow = (took >= rule.threshold * typical) & (took >= rule.limits["stalls"] * stall)
    if not slow.any():
        return
    longest = float(took.max())
    values = {
        "slow": int(slow.sum()),
        "jobs": len(took),
        "longest_ns": longest,
        "typical_ns": typical,
        "longest_ratio": longest / typical,
        "slow_ns": float(took[slow].sum()),
        "stall_ns": stall,
    }
    yield Evidence(values, spans(start[slow].astype(np.int64), end[slow].astype(np.int64)))


def _on_device(npu: NpuData) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each job that ended: the NPU's longest silence while it had the job, and when it got and ended the job."""
    trace, out = npu.trace, out_of(npu)
    named = npu.jobs["graph"].notna().to_numpy()
    # In the lab, jobs without a graph beside those with one load models, which takes as long as compiling.
    compared = named if named.any() else np.ones(len(named), np.bool_)
    good = np.flatnonzero(out.well & np.isfinite(out.begin) & np.isfinite(out.end) & compared)
    good = good[np.argsort(out.end[good], kind="stable")]
    end = out.end[good]
    start = np.maximum(out.begin[good], np.append(-np.inf, end[:-1])[: len(end)])
    if (~out.well & np.isfinite(out.begin)).any():  # others may have waited for a job that never ended
        timeouts = times(trace, trace.rows(TIMEOUT))
        late = np.searchsorted(timeouts, end) > np.searchsorted(timeouts, start)
        start, end = start[~late], end[~late]
    return longest_gap(start, end, times(trace, trace.rows(MESSAGE)).astype(np.float64)), start, end


def longest_gap(
    start: NDArray[np.float64], end: NDArray[np.float64], moments: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Longest time without a moment in each interval; its borders count as moments.

    Args:
        start: (intervals,) ns, ascending; intervals do not overlap.
        end: (intervals,) ns.
        moments: (moments,) ns, ascending.

    """
    if not len(start):
        return np.zeros(0)
    place = np.searchsorted(start, moments, side="right") - 1
    inside = (place >= 0) & (moments < end[place])
    number = np.arange(len(start))
    stretch = np.concatenate([number, number, place[inside]])
    at = np.concatenate([start, end, moments[inside]])
    order = np.lexsort((at, stretch))
    step, same = np.diff(at[order]), np.diff(stretch[order]) == 0
    longest = np.zeros(len(start))
    np.maximum.at(longest, stretch[order][1:][same], step[same])
    return longest


def jobs_serialised(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Threads that submit right after waiting for their previous job, while the NPU has nothing to do."""
    trace = npu.trace
    pairs = _ready_after_wait(npu)
    submissions = len(trace.rows(*SUBMITS))
    if len(pairs) < rule.limits["pairs"] or len(pairs) < rule.limits["pairs_share"] * submissions:
        return
    out = out_of(npu)
    job = _job_of(npu, pairs)
    begin = out.begin[job[job >= 0]]
    ended = np.sort(out.end[np.isfinite(out.end)])
    before = np.searchsorted(ended, begin) - 1
    gap_start, gap_end = ended[before[before >= 0]], begin[before >= 0]
    if not len(gap_start):
        return
    idle = (gap_end - gap_start) - (_busy(npu, gap_end) - _busy(npu, gap_start))
    span = float(gap_end.max() - gap_start.min())
    total = min(float(idle.sum()), span)
    if span <= 0 or total < rule.threshold * span:
        return
    values = {"pairs": len(pairs), "jobs": submissions, "idle_ns": total, "span_ns": span, "idle_share": total / span}
    yield Evidence(values, spans(gap_start.astype(np.int64), gap_end.astype(np.int64)))


def _ready_after_wait(npu: NpuData) -> Rows:
    """Rows of submissions that were ready while their thread waited, successfully, for the previous job.

    The thread made no other ioctl since that wait, the wait was for its newest job, and the thread submitted again
    sooner than that job had taken.
    """
    trace = npu.trace
    ioctls = trace.rows(*trace.names[trace.names.str.endswith("_ioctl")])
    ordered = ioctls[np.argsort(trace.events["tid"].to_numpy()[ioctls], kind="stable")]
    if len(ordered) < 2:
        return ordered[:0]
    tid, start = trace.events["tid"].to_numpy()[ordered], times(trace, ordered)
    end = start + np.nan_to_num(trace.column("duration_ns", ordered))
    submits = trace.mask(*SUBMITS)[ordered]
    newest = np.maximum.accumulate(np.where(submits, np.arange(len(ordered)), 0))[:-1]  # before each but the first
    turn = end[:-1] - start[newest]
    after = submits[1:] & _good_waits(trace, ordered)[:-1] & (tid[1:] == tid[:-1])
    after &= submits[newest] & (tid[newest] == tid[1:]) & (start[1:] - end[:-1] < turn)
    # A thread with several jobs in flight waits for an older one.
    before = _job_of(npu, ordered[newest])
    waited = np.append(numbers(npu.jobs["wait_start_ns"]), np.nan)[before]
    after &= (waited == start[:-1]) | (np.isnan(waited) & (np.append(out_of(npu).end, np.inf)[before] <= start[1:]))
    return np.sort(ordered[1:][after])


def _good_waits(trace: DriverTrace, rows: Rows) -> NDArray[np.bool_]:
    """(rows,) bool: waits that returned because the job completed."""
    if "retval" not in trace.events:
        return np.zeros(len(rows), np.bool_)
    known = trace.events["retval"].notna().to_numpy()[rows]
    good: NDArray[np.bool_] = trace.mask(WAIT)[rows] & known & (signed32(trace.column("retval", rows, np.int64)) == 0)
    return good


def _job_of(npu: NpuData, submits: Rows) -> Rows:
    """(submits,) place in `NpuTables.jobs` of the job with this submission, -1 if none."""
    entered = numbers(npu.jobs["submitted_ns"])
    tids = numbers(npu.jobs["tid"])
    order = np.lexsort((tids, entered))
    at, tid = times(npu.trace, submits), npu.trace.events["tid"].to_numpy()[submits]
    place = np.minimum(np.searchsorted(entered[order], at), max(len(order) - 1, 0))
    found = order[place] if len(order) else np.zeros(len(submits), np.intp)
    same = (entered[found] == at) & (tids[found] == tid) if len(order) else np.zeros(len(submits), np.bool_)
    return np.where(same, found, -1)


def _busy(npu: NpuData, moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """(moments,) ns during which at least one job had been in flight up to each moment."""
    out = out_of(npu)
    known = np.isfinite(out.begin)
    start, end = out.begin[known], np.minimum(out.end[known], npu.trace.duration_ns)
    order = np.argsort(start)
    start, end = start[order], np.maximum.accumulate(end[order])
    fresh = np.maximum(start, np.append(-np.inf, end[:-1])[: len(end)])  # the part not covered by earlier jobs
    length = np.maximum(end - fresh, 0)
    total = np.append(0.0, np.cumsum(length))
    place = np.searchsorted(fresh, moments, side="right")
    last = np.maximum(place - 1, 0)
    within = np.clip(moments - fresh[last], 0, length[last])
    result: NDArray[np.float64] = np.where(place > 0, total[last] + within, 0.0)
    return result


TIMEOUT, HEARTBEAT, IDLE = "ivpu_job_timeout_work", "ivpu_jsm_get_heartbeat", "ivpu_hw_btrs_is_idle"
RESETS = ("ivpu_hw_reset", "ivpu_jsm_reset_engine")
ENGINE_RESET = "ivpu_jsm_reset_engine"
# A recovery of the whole NPU calls each once; the trace may end before the first, recorded on return, appears.
RECOVERY = ("ivpu_pm_recovery_work", "ivpu_pm_reset_complete", "ivpu_pm_trigger_recovery")
RECOVERIES = (*RECOVERY, ENGINE_RESET)
ENDED_WELL = ("ok", "done", "error")
_BOOL = 0xFF

HUNG, LOST, UNKNOWN = "hung", "lost", "unknown"


@dataclass(frozen=True)
class _Out:
    """When jobs were in flight.

    Attributes:
        begin: (jobs,) float64 ns: the doorbell if known, else the queueing or the submission.
        end: (jobs,) float64 ns; infinite if no end was recorded.
        well: (jobs,) bool: the job completed by itself, with or without an error.

    """

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    well: NDArray[np.bool_]


def job_hung(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """The NPU was busy with the job, or its heartbeat did not advance, until the driver reset it."""
    return _verdict(npu, HUNG, "hung")


def completion_lost(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """The NPU was idle, or completed other jobs, while the job was in flight."""
    return _verdict(npu, LOST, "lost")


def job_timeout(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """Nothing in the trace shows what the job was doing."""
    return _verdict(npu, UNKNOWN, "stuck")


def npu_reset(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """The driver's recovery of an engine or of the whole NPU."""
    trace = npu.trace
    whole = next((rows for name in RECOVERY if len(rows := trace.rows(name))), trace.rows(ENGINE_RESET)[:0])
    rows = np.sort(np.concatenate([whole, trace.rows(ENGINE_RESET)]))
    if not len(rows):
        return
    refused = (npu.jobs["status"] == "refused") & (npu.jobs["code"] == _BANNED).fillna(value=False)
    values = {
        "resets": len(rows),
        "aborted": int((npu.jobs["status"] == "aborted").sum()),
        "refused": int(refused.sum()),
        "reset_ns": float(np.nansum(trace.column("duration_ns", rows))),
    }
    yield Evidence(
        values | _by_errno(numbers(npu.jobs["code"])[refused.to_numpy()].astype(np.int64)), places(trace, rows)
    )


def _verdict(npu: NpuData, requested: str, name: str) -> Iterator[Evidence]:
    out = out_of(npu)
    suspects = _suspects(npu, out)
    which = np.array([job for job, since in suspects.items() if _cause(npu, out, job, since) == requested], np.intp)
    if not len(which):
        return
    end = np.minimum(out.end[which], npu.trace.duration_ns)
    longest = float((end - out.begin[which]).max())
    where = spans(out.begin[which].astype(np.int64), end.astype(np.int64))
    timeout = _timeout(npu.recording.machine.get("npu_timeout_ms", ""))
    yield Evidence({name: len(which), "jobs": len(npu.jobs), "out_ns": longest, "timeout": timeout}, where)


def _timeout(set_ms: str) -> str:
    """The driver's job timeout: the traced machine's, or the driver's default."""
    return f"{int(set_ms) / 1000:g} s on this machine" if set_ms.isdecimal() and int(set_ms) else "2 s by default"


def out_of(npu: NpuData) -> _Out:
    """When each job was in flight, from `NpuTables.jobs`; jobs that the driver rejected never were."""
    jobs = npu.jobs
    begin = numbers(jobs["doorbell_ns"])
    for other in ("queued_ns", "submitted_ns"):
        begin = np.where(np.isnan(begin), numbers(jobs[other]), begin)
    begin = np.where((jobs["status"] == "refused").to_numpy(), np.nan, begin)
    done = numbers(jobs["done_ns"])
    return _Out(begin, np.where(np.isnan(done), np.inf, done), jobs["status"].isin(ENDED_WELL).to_numpy())


def _suspects(npu: NpuData, out: _Out) -> dict[int, float]:
    """Jobs that did not complete by themselves before a timeout expired -> when it expired, ns."""
    found: dict[int, float] = {}
    for moment in times(npu.trace, npu.trace.rows(TIMEOUT)):
        here = np.flatnonzero((out.begin < moment) & (out.end > moment))
        if len(here):
            oldest = int(here[np.argmin(out.begin[here])])
            found.setdefault(oldest, float(moment))
    given_up = np.flatnonzero(numbers(npu.jobs["wait_timeouts"]) > 0)
    waited = numbers(npu.jobs["wait_start_ns"]) + numbers(npu.jobs["wait_ns"])
    for job in given_up:
        if not np.isnan(waited[job]):
            found.setdefault(int(job), float(waited[job]))
    return {job: since for job, since in found.items() if not out.well[job]}


def _cause(npu: NpuData, out: _Out, job: int, since: float) -> str:
    """What happened to the job, judged from `since` until the driver's reset or the job's end."""
    trace = npu.trace
    resets = times(trace, trace.rows(*RESETS))
    reset = resets[(resets >= since) & (resets <= out.end[job])][:1]
    until = float(reset[0]) if len(reset) else float(out.end[job])
    answers = trace.rows(IDLE)
    answers = answers[(times(trace, answers) >= since) & (times(trace, answers) <= until)]
    idle = _idle(npu, answers)
    others = out.well & (out.end > since) & (out.end < until)
    if idle.any() or others.any():
        return LOST
    if len(reset) and (len(idle) or _heartbeat_asked(npu, since, until)):
        return HUNG
    return UNKNOWN


def _idle(npu: NpuData, rows: Rows) -> NDArray[np.bool_]:
    """Whether the NPU reported idle; the function returns a C bool, so only the lowest byte is valid."""
    if "retval" not in npu.trace.events:
        return np.zeros(0, np.bool_)
    known = rows[npu.trace.events["retval"].notna().to_numpy()[rows]]
    idle: NDArray[np.bool_] = (npu.trace.column("retval", known, np.int64) & _BOOL) != 0
    return idle


def _heartbeat_asked(npu: NpuData, since: float, until: float) -> bool:
    """Whether the driver's timeout handler queried the heartbeat: it then resets only if that did not advance."""
    trace = npu.trace
    requested, timeouts = trace.rows(HEARTBEAT), trace.rows(TIMEOUT)
    tid = trace.events["tid"].to_numpy()
    inside = (times(trace, requested) >= since) & (times(trace, requested) <= until)
    return bool(np.isin(tid[requested[inside]], tid[timeouts]).any())

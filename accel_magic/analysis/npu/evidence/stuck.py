"""Evidence about jobs that were not done in time: which they were, and what became of them.

When the driver's time-out for jobs passes, the oldest job that is out is the one it is about: those behind it wait. At
that moment the NPU itself tells what is wrong: it says that it is idle, or it goes on with other jobs, and then only
the word of the job's end was lost; or it is busy with it and newer drivers see its heartbeat stand, and then it hangs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.npu.evidence.common import Evidence, numbers, places, spans, times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.npu.evidence.common import Analysed, Rows
    from accel_magic.analysis.npu.rules import Rule

TIMEOUT, HEARTBEAT, IDLE = "ivpu_job_timeout_work", "ivpu_jsm_get_heartbeat", "ivpu_hw_btrs_is_idle"
RESETS = ("ivpu_hw_reset", "ivpu_jsm_reset_engine")
ENGINE_RESET = "ivpu_jsm_reset_engine"
# One of each for a recovery of the whole NPU; a trace's end may cut off the first, which is only seen when it returns.
RECOVERY = ("ivpu_pm_recovery_work", "ivpu_pm_reset_complete", "ivpu_pm_trigger_recovery")
RECOVERIES = (*RECOVERY, ENGINE_RESET)
ENDED_WELL = ("ok", "done", "error")
_BOOL = 0xFF

HUNG, LOST, UNKNOWN = "hung", "lost", "unknown"


@dataclass(frozen=True)
class _Out:
    """When jobs were out.

    Attributes:
        begin: (jobs,) float64 ns: the NPU was told of it; else the submission.
        end: (jobs,) float64 ns; infinite where no end was seen.
        well: (jobs,) bool: it came to its own end.

    """

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    well: NDArray[np.bool_]


def job_hung(npu: Analysed, _: Rule) -> Evidence | None:
    """The NPU was at work on the job, and its heartbeat stood, until the driver reset it."""
    return _verdict(npu, HUNG, "hung")


def completion_lost(npu: Analysed, _: Rule) -> Evidence | None:
    """The NPU was idle, or went on with other jobs, while the job was out."""
    return _verdict(npu, LOST, "lost")


def job_timeout(npu: Analysed, _: Rule) -> Evidence | None:
    """Nothing tells what the job was doing."""
    return _verdict(npu, UNKNOWN, "stuck")


def npu_reset(npu: Analysed, _: Rule) -> Evidence | None:
    """The driver's recovery, of an engine or of all of the NPU."""
    trace = npu.trace
    whole = next((rows for name in RECOVERY if len(rows := trace.rows(name))), trace.rows(ENGINE_RESET)[:0])
    rows = np.sort(np.concatenate([whole, trace.rows(ENGINE_RESET)]))
    if not len(rows):
        return None
    values = {
        "resets": len(rows),
        "aborted": int((npu.jobs["status"] == "aborted").sum()),
        "reset_ns": float(np.nansum(trace.column("duration_ns", rows))),
    }
    return Evidence(values, places(trace, rows))


def _verdict(npu: Analysed, wanted: str, name: str) -> Evidence | None:
    out = out_of(npu)
    suspects = _suspects(npu, out)
    which = np.array([job for job, since in suspects.items() if _told(npu, out, job, since) == wanted], np.intp)
    if not len(which):
        return None
    end = np.minimum(out.end[which], npu.trace.duration_ns)
    longest = float((end - out.begin[which]).max())
    where = spans(out.begin[which].astype(np.int64), end.astype(np.int64))
    return Evidence({name: len(which), "jobs": len(npu.jobs), "out_ns": longest}, where)


def out_of(npu: Analysed) -> _Out:
    """When each job was out, from `Npu.jobs`; those that the driver did not take were never."""
    jobs = npu.jobs
    begin = numbers(jobs["doorbell_ns"])
    for other in ("queued_ns", "submitted_ns"):
        begin = np.where(np.isnan(begin), numbers(jobs[other]), begin)
    begin = np.where((jobs["status"] == "refused").to_numpy(), np.nan, begin)
    done = numbers(jobs["done_ns"])
    return _Out(begin, np.where(np.isnan(done), np.inf, done), jobs["status"].isin(ENDED_WELL).to_numpy())


def _suspects(npu: Analysed, out: _Out) -> dict[int, float]:
    """Jobs that did not come to their own end though somebody's time for them had passed -> when it had, ns."""
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


def _told(npu: Analysed, out: _Out, job: int, since: float) -> str:
    """What the time from `since` until the driver's reset or the job's end tells about the job."""
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


def _idle(npu: Analysed, rows: Rows) -> NDArray[np.bool_]:
    """What the NPU answered; the function returns a C bool, so the lowest byte alone is its."""
    if "retval" not in npu.trace.events:
        return np.zeros(0, np.bool_)
    known = rows[npu.trace.events["retval"].notna().to_numpy()[rows]]
    idle: NDArray[np.bool_] = (npu.trace.column("retval", known, np.int64) & _BOOL) != 0
    return idle


def _heartbeat_asked(npu: Analysed, since: float, until: float) -> bool:
    """Whether the driver's time-out asked for the heartbeat: it resets only where that stood."""
    trace = npu.trace
    asked, timeouts = trace.rows(HEARTBEAT), trace.rows(TIMEOUT)
    tid = trace.events["tid"].to_numpy()
    inside = (times(trace, asked) >= since) & (times(trace, asked) <= until)
    return bool(np.isin(tid[asked[inside]], tid[timeouts]).any())

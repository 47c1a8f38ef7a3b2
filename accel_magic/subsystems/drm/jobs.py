"""Jobs of the DRM scheduler, each from its submission to its end, and what they depended on.

Linux 6.17 and newer identify a job by its fence's context and number, older kernels by the fence's address, which is
reused after the job. There, the context and number are taken from the fence's own event, which follows the job's end
on the same processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import NONE, captured, nullable, pick
from accel_magic.subsystems.drm.presets import drm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.subsystems.drm.calls import DriverCallNames

    Rows = NDArray[np.intp]

DONE, TIMED_OUT, UNFINISHED = "done", "timed out", "unfinished"
STATUSES: Final = (DONE, TIMED_OUT, UNFINISHED)
SIGNALED: Final = "dma_fence_signaled"
FENCE_BITS: Final = 0xFFFFFFFF
"""The fences' own events have the lower half of a context and number."""

COLUMNS: Final = (
    *("device", "ring", "client", "context", "seqno", "pid", "tid", "comm", "call", "ioctl", "status"),
    *("queued_ns", "started_ns", "done_ns", "queue_ns", "run_ns", "latency_ns"),
    *("depth", "ring_depth", "dependencies", "blocked", "timeouts"),
)


def jobs(trace: DriverTrace, calls: DriverCallNames) -> pd.DataFrame:
    """Describe every job in the trace, in order of first appearance.

    Args:
        trace: The trace.
        calls: Its API calls and ioctls.

    Returns:
        One row per job of which any step was recorded. What the trace does not contain is NA.

        - Who: `device` category (from Linux 6.17 on), `ring` category, the scheduler's name; `client` UInt64, the
          number of the open device, before Linux 6.17 the address of the queue; `context`, `seqno` UInt64 of its fence;
          `pid`, `tid` Int64, `comm` category of the thread that submitted it; `call` category, the traced library
          function in which it did, `ioctl` category likewise.
        - When, Int64 ns: `queued_ns`, `started_ns` handed to the device, `done_ns` fence signaled; `queue_ns` from
          queued to started, `run_ns` from started to done, including the time behind other jobs on the device,
          `latency_ns` from queued to done.
        - `depth` Int64 jobs already in its queue when it was queued, `ring_depth` Int64 credits that jobs on the ring
          had taken; `dependencies` int64 fences it had to wait for (from Linux 6.17 on), `blocked` int64 times that it
          was its turn and such a fence was not signaled; `timeouts` int64 times that it ran for too long.
        - `status` category: `done`; `timed out`, the driver gave up on it; `unfinished`: no end was recorded.

    """
    steps = _steps(trace)
    queued, started, done = steps
    named = np.where(queued >= 0, queued, started)
    frame = pd.DataFrame(index=pd.RangeIndex(len(queued)))
    for column, source in (("device", "dev"), ("ring", "name")):
        frame[column] = category(trace, source, named)
    frame["client"] = captured(trace, "client_id" if _is_new(trace) else "entity", named, "UInt64")
    frame["context"], frame["seqno"] = _fences(trace, frame["ring"], steps)
    for column in ("pid", "tid"):
        frame[column] = captured(trace, column, queued)
    frame["comm"] = category(trace, "comm", queued)
    frame["call"], frame["ioctl"] = calls.around(trace, queued)
    frame["status"] = pd.Categorical(np.where(done >= 0, DONE, UNFINISHED), STATUSES)
    time = trace.events["time_ns"].to_numpy()
    for column, rows in zip(("queued_ns", "started_ns", "done_ns"), steps, strict=True):
        known = (rows >= 0) & trace.timed
        frame[column] = nullable(np.append(time, 0)[rows], known)
    frame["queue_ns"] = frame["started_ns"] - frame["queued_ns"]
    frame["run_ns"] = frame["done_ns"] - frame["started_ns"]
    frame["latency_ns"] = frame["done_ns"] - frame["queued_ns"]
    frame["depth"] = captured(trace, "job_count", queued)
    frame["ring_depth"] = captured(trace, "hw_job_count", queued)
    held = dependencies(trace, frame)
    for column, kind in (("dependencies", ~held["blocked"]), ("blocked", held["blocked"])):
        of = held.loc[kind & held["job"].notna(), "job"].to_numpy(np.int64)
        frame[column] = np.bincount(of, minlength=len(frame))
    of = timeouts(trace, frame)["job"].dropna().to_numpy(np.int64)
    frame["timeouts"] = np.bincount(of, minlength=len(frame))
    frame.loc[frame["timeouts"] > 0, "status"] = TIMED_OUT
    return frame[list(COLUMNS)]


def dependencies(trace: DriverTrace, frame: pd.DataFrame) -> pd.DataFrame:
    """Find what jobs depended on.

    Args:
        trace: The trace.
        frame: Its jobs, with `ring`, `context` and `seqno`.

    Returns:
        One row per event, in order of time: `time_ns` Int64; `job` Int64, row of the job in `frame`; `blocked` bool:
        whether it was the job's turn (before Linux 6.17 always true: dependencies of other jobs are not reported);
        `context`, `seqno` UInt64 of the fence; `on` Int64, row of the job with that fence. NA if not in the trace.

    """
    rows = trace.rows(*drm.DEPENDS, *drm.BLOCKED)
    context, seqno = (frame[name].to_numpy(np.uint64, na_value=0) for name in ("context", "seqno"))
    fences = pd.MultiIndex.from_arrays([context, _low(seqno)])
    fence = (trace.column("ctx", rows, np.uint64), _low(trace.column("seqno", rows, np.uint64)))
    if _is_new(trace):
        own = (trace.column("fence_context", rows, np.uint64), _low(trace.column("fence_seqno", rows, np.uint64)))
        job = _find(fences, *own)
    else:
        job = _by_number(trace, rows)
    on = _find(fences, *fence)
    return pd.DataFrame(
        {
            "time_ns": nullable(trace.events["time_ns"].to_numpy()[rows], trace.timed),
            "job": nullable(job, job >= 0),
            "blocked": trace.mask(*drm.BLOCKED)[rows],
            "context": captured(trace, "ctx", rows, "UInt64"),
            "seqno": captured(trace, "seqno", rows, "UInt64"),
            "on": nullable(on, on >= 0),
        }
    )


def timeouts(trace: DriverTrace, frame: pd.DataFrame) -> pd.DataFrame:
    """Find when the scheduler gave up on a job.

    The scheduler does not name the job: it is the one that had been running longest.

    Returns:
        One row per call of the scheduler's time-out function, in order of time: `time_ns` Int64; `duration_ns`
        float64, how long the driver took to recover; `job` Int64, row in `frame`, NA if none was running.

    """
    rows = trace.rows(drm.TIMEOUT)
    time = trace.events["time_ns"].to_numpy()[rows]
    latest = np.iinfo(np.int64).max
    started = frame["started_ns"].to_numpy(np.int64, na_value=latest)
    done = frame["done_ns"].to_numpy(np.int64, na_value=latest)
    job = np.full(len(rows), NONE, np.intp)
    for at, moment in enumerate(time if trace.timed else ()):
        running = np.flatnonzero((started <= moment) & (done > moment))
        if len(running):
            job[at] = running[np.argmin(started[running])]
    return pd.DataFrame(
        {
            "time_ns": nullable(time, trace.timed),
            "duration_ns": trace.column("duration_ns", rows),
            "job": nullable(job, job >= 0),
        }
    )


def _is_new(trace: DriverTrace) -> bool:
    """Whether the kernel has the tracepoints of Linux 6.17 and newer."""
    return trace.saw(drm.QUEUED[0], drm.STARTED[0], drm.DONE[0])


def _steps(trace: DriverTrace) -> tuple[Rows, Rows, Rows]:
    """(jobs,) rows where each job was queued, started and done; -1 if not recorded.

    A step that is not after the previous one of the same fence begins another job: the fence's address was reused.
    """
    kinds = (drm.QUEUED, drm.STARTED, drm.DONE)
    rows = trace.rows(*(name for names in kinds for name in names))
    step = sum(trace.mask(*names)[rows] * at for at, names in enumerate(kinds)) + np.zeros(len(rows), np.intp)
    names = ("fence_context", "fence_seqno") if _is_new(trace) else ("fence",)
    key = pd.DataFrame({name: trace.column(name, rows, np.uint64) for name in names})
    fence = key.groupby(list(names), sort=False).ngroup()
    of = (
        pd.DataFrame({"fence": fence, "by": _submitters(trace, rows, fence)})
        .groupby(["fence", "by"])
        .ngroup()
        .to_numpy()
    )
    order = np.argsort(of, kind="stable")
    of, step = of[order], step[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (of[1:] != of[:-1]) | (step[1:] <= step[:-1])
    appears = np.argsort(order[begins], kind="stable")  # jobs by their first row
    number = np.empty(len(appears), np.intp)
    number[appears] = np.arange(len(appears))
    job = number[np.cumsum(begins) - 1] if len(order) else order
    found = np.full((len(kinds), len(appears)), NONE, np.intp)
    found[step, job] = rows[order]
    return found[0], found[1], found[2]


def _submitters(trace: DriverTrace, rows: Rows, fence: pd.Series[int]) -> pd.Series[int]:
    """(rows,) number of the device and ring of each step: numbers and addresses of fences may recur on another.

    The end of a job names neither; it belongs to the fence's previous step, or to the next one if there is none.
    """
    codes = [
        trace.events[name].cat.codes.to_numpy()[rows] if name in trace.events else np.full(len(rows), NONE)
        for name in ("dev", "name")
    ]
    by = pd.Series((codes[0].astype(np.int64) << 32) + codes[1], dtype="Int64")
    by[trace.mask(*drm.DONE)[rows] | (codes[1] < 0)] = pd.NA
    groups = by.groupby(fence.to_numpy())
    return groups.ffill().fillna(groups.bfill()).fillna(NONE).astype("int64")


def _fences(
    trace: DriverTrace, ring: pd.Series[str], steps: tuple[Rows, Rows, Rows]
) -> tuple[pd.arrays.IntegerArray, pd.arrays.IntegerArray]:
    """Context and number of each job's fence; NA if unknown."""
    queued, started, done = steps
    if _is_new(trace):
        any_ = np.where(queued >= 0, queued, np.where(started >= 0, started, done))
        return captured(trace, "fence_context", any_, "UInt64"), captured(trace, "fence_seqno", any_, "UInt64")
    signaled = _signaled(trace, done)
    timeline = category(trace, "timeline", signaled).astype("str")
    own = np.where(timeline.to_numpy() == ring.astype("str").to_numpy(), signaled, NONE)
    return captured(trace, "context", own, "UInt64"), captured(trace, "seqno", own, "UInt64")


def _signaled(trace: DriverTrace, done: Rows) -> Rows:
    """(jobs,) row of the fence event that directly follows each end on the same processor; -1 if there is none."""
    rows = np.union1d(done[done >= 0], trace.rows(SIGNALED))
    cpu = trace.events["cpu"].to_numpy()[rows]
    order = np.argsort(cpu, kind="stable")
    rows, cpu = rows[order], cpu[order]
    follows = np.full(len(rows), NONE, np.intp)
    if len(rows):
        same = (cpu[1:] == cpu[:-1]) & trace.mask(SIGNALED)[rows[1:]]
        follows[:-1] = np.where(same, rows[1:], NONE)
    place = pd.Index(rows).get_indexer(pd.Index(done))
    return pick(follows, place)


def _by_number(trace: DriverTrace, rows: Rows) -> Rows:
    """(rows,) the job with the ring and number of each event, before Linux 6.17; -1 if there is none."""
    queued, started, _ = _steps(trace)
    named = np.where(queued >= 0, queued, started)
    jobs_ = _ring_and_number(trace, named)
    return _find(pd.MultiIndex.from_arrays(jobs_), *_ring_and_number(trace, rows))


def _ring_and_number(trace: DriverTrace, rows: Rows) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Code of the ring's name and number of the job; -1 and 0 where the row is -1."""
    code = trace.events["name"].cat.codes.to_numpy() if "name" in trace.events else np.zeros(len(trace.events))
    number = captured(trace, "id", rows, "UInt64").to_numpy(np.uint64, na_value=0)
    return np.where(rows >= 0, np.append(code, NONE)[rows], NONE).astype(np.intp), number


def _find(known: pd.MultiIndex, context: NDArray[np.integer], seqno: NDArray[np.integer]) -> Rows:
    """(asked,) place of the last of `known` with both values; -1 if there is none."""
    last = pd.Series(np.arange(len(known)), index=known).groupby(level=[0, 1]).last()
    requested = pd.MultiIndex.from_arrays([context, seqno])
    place = last.index.get_indexer(requested)
    return pick(last.to_numpy(np.intp), place)


def _low(values: NDArray[Any]) -> NDArray[np.uint64]:
    return np.bitwise_and(values.astype(np.uint64), np.uint64(FENCE_BITS))


def category(trace: DriverTrace, name: str, rows: Rows) -> pd.Series[str]:
    """(rows,) values of a text column; NA where the row is -1."""
    if name not in trace.events:
        return pd.Series(pd.Categorical([None] * len(rows)))
    column = trace.events[name].cat
    codes = np.where(rows >= 0, np.append(column.codes.to_numpy(), NONE)[rows], NONE)
    return pd.Series(pd.Categorical.from_codes(codes, categories=column.categories))

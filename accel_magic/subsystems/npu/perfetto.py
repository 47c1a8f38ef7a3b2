"""Export the layers of an NPU trace as tracks of trace-event JSON, with flows along its jobs.

Each layer is a process and each of its threads a track; the jobs on the NPU are a separate process. A flow leads from a
job's submission through the NPU to its completion handler and to the wait that it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.nesting import lanes
from accel_magic.formats.trace_event_writer import (
    Flow,
    TraceEvents,
    composed,
    process_name,
    process_sort_index,
    thread_name,
)
from accel_magic.recording.recording import EventColumn
from accel_magic.subsystems.npu.families import FENCE, INTERRUPT, LAYERS
from accel_magic.subsystems.npu.layers import CALLBACK, ENDS_WAIT
from accel_magic.subsystems.npu.objects import SUBMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

FIRST_PID: Final = (1 << 22) + 1  # above Linux's largest process id and that of the counters
JOBS_PID: Final = FIRST_PID + len(LAYERS)
_NONE: Final = -1


def layers(steps: pd.DataFrame, jobs: pd.DataFrame) -> Iterator[bytes]:
    """Yield the text of the layers' entries, in pieces.

    Args:
        steps: Result of `subsystems.npu.layers.layers`.
        jobs: Result of `subsystems.npu.jobs.jobs` for the same trace.

    """
    if not len(steps):
        return
    yield from _slices(steps)
    on_device = _on_device(jobs)
    yield from _job_slices(jobs, on_device)
    yield from _flows(steps, on_device)
    yield from _names(steps, on_device)


def _slices(steps: pd.DataFrame) -> Iterator[bytes]:
    layer = steps["layer"].cat.codes.to_numpy(np.int64)
    return TraceEvents(
        name=steps["name"],
        category=EventColumn(layer, None, tuple(f"npu {name}" for name in LAYERS)),
        time_ns=steps["start_ns"].to_numpy(np.int64),
        pid=layer + FIRST_PID,
        tid=_track(steps),
        args={name: steps[name] for name in ("id", "parent", "root", "job", "calls")},
    ).complete(steps["duration_ns"])


def _track(steps: pd.DataFrame) -> Numbers:
    """(steps,) thread id of each step's track; 0 for steps in interrupts and for all fences."""
    tid = np.maximum(steps["tid"].to_numpy(np.int64), 0)
    return np.where(steps["layer"].to_numpy() == "fence", 0, tid)


def _times(jobs: pd.DataFrame, name: str) -> NDArray[np.float64]:
    return jobs[name].to_numpy(np.float64, na_value=np.nan)


def _on_device(jobs: pd.DataFrame) -> dict[str, Numbers]:
    """Jobs seen on the NPU from begin to end: `job`, `begin`, `end` in ns, `track` (concurrent jobs get several)."""
    begin = _times(jobs, "doorbell_ns")
    for earlier in ("queued_ns", "submitted_ns"):
        begin = np.where(np.isnan(begin), _times(jobs, earlier), begin)
    end = _times(jobs, "done_ns")
    job = np.flatnonzero(~np.isnan(begin) & ~np.isnan(end) & (end >= begin))
    job = job[np.argsort(begin[job], kind="stable")]
    begins, ends = begin[job].astype(np.int64), end[job].astype(np.int64)
    return {"job": job, "begin": begins, "end": ends, "track": lanes(begins, ends)}


def _job_slices(jobs: pd.DataFrame, on_device: dict[str, Numbers]) -> Iterator[bytes]:
    rows = on_device["job"]
    return TraceEvents(
        name=composed("job ", rows),
        category="npu jobs",
        time_ns=on_device["begin"],
        pid=JOBS_PID,
        tid=on_device["track"],
        args={"job": rows, "status": jobs["status"].iloc[rows].astype("str")},
    ).complete(on_device["end"] - on_device["begin"])


def _flows(steps: pd.DataFrame, on_device: dict[str, Numbers]) -> Iterator[bytes]:
    """One flow for each job whose submission was seen: submission, NPU, completion handler, end of the wait.

    Each point lies in the slice that it binds to. If no wait is known, the flow ends on the NPU.
    """
    job = on_device["job"]
    submitted, called, woken = (_first_of_job(steps, names, job) for names in (SUBMITS, (CALLBACK,), (ENDS_WAIT,)))
    start, layer = steps["start_ns"].to_numpy(np.int64), np.asarray(steps["layer"].cat.codes, np.int64)
    waits = np.where(woken >= 0, steps["inside"].to_numpy(np.int64)[woken], _NONE)
    began, waited = submitted >= 0, (submitted >= 0) & (waits >= 0)
    handled = waited & (called >= 0) & steps["duration_ns"].notna().to_numpy()[called]
    track = _track(steps)
    for phase, slices, times, known in (
        (Flow.START, submitted, start[submitted], began),
        (Flow.STEP, called, start[called], handled),
        (Flow.END, waits, start[woken], waited),
    ):
        of = slices[known]
        yield from _points(phase, job[known], layer[of] + FIRST_PID, track[of], times[known])
    for phase, known in ((Flow.STEP, waited), (Flow.END, began & ~waited)):
        yield from _points(phase, job[known], JOBS_PID, on_device["track"][known], on_device["begin"][known])


def _points(phase: Flow, job: Numbers, pid: Numbers | int, tid: Numbers, time_ns: Numbers) -> Iterator[bytes]:
    return TraceEvents(name="job", category="npu job", time_ns=time_ns, pid=pid, tid=tid).flows(phase, job)


def _names(steps: pd.DataFrame, on_device: dict[str, Numbers]) -> Iterator[bytes]:
    """Name the layers, in order, and their threads."""
    layer, track = steps["layer"].cat.codes.to_numpy(np.int64), _track(steps)
    _, first = np.unique(layer << 32 | track, return_index=True)
    for row in first.tolist():
        comm = "interrupt" if layer[row] == INTERRUPT and not track[row] else str(steps["comm"].iloc[row])
        text = "fences" if layer[row] == FENCE else comm
        yield thread_name(FIRST_PID + int(layer[row]), int(track[row]), text)
    for number in np.unique(layer).tolist():
        yield process_name(FIRST_PID + number, f"NPU: {LAYERS[number]}", 0)
        yield process_sort_index(FIRST_PID + number, number - 10, 0)
    if len(on_device["job"]):
        yield process_name(JOBS_PID, "NPU: jobs", 0)
        yield process_sort_index(JOBS_PID, len(LAYERS) - 10, 0)
        for number in np.unique(on_device["track"]).tolist():
            yield thread_name(JOBS_PID, number, f"job {number + 1} at a time")


def _first_of_job(steps: pd.DataFrame, names: tuple[str, ...], requested: Numbers) -> Numbers:
    """(requested,) first step of each job with one of these names; -1 if there is none."""
    job = steps["job"].to_numpy(np.int64)
    chosen = steps["name"].cat.categories.isin(names)[steps["name"].cat.codes.to_numpy()]
    rows = np.flatnonzero(chosen & (job >= 0))
    jobs, first = np.unique(job[rows], return_index=True)
    place = np.searchsorted(jobs, requested)
    known = np.append(jobs, _NONE)[place] == requested
    return np.where(known, np.append(rows[first], _NONE)[place], _NONE)

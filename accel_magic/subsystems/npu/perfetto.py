"""Export the layers of an NPU trace as tracks of trace-event JSON, with flows along its jobs.

Each layer is a process and each of its threads a track; the jobs on the NPU are a separate process. A flow leads from a
job's submission through the NPU to its completion handler and to the wait that it ends.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.analysis.nesting import lanes
from accel_magic.formats.trace_event import joined, microseconds, plain, texts, to_bytes
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
_PIECE: Final = 1 << 16
_NONE: Final = -1


def layers(steps: pd.DataFrame, jobs: pd.DataFrame) -> Iterator[bytes]:
    """Yield the text of the layers' entries in pieces; every entry starts with a comma and a newline.

    Args:
        steps: Result of `subsystems.npu.layers.layers`.
        jobs: Result of `subsystems.npu.jobs.jobs` for the same trace.

    """
    if not len(steps):
        return
    for start in range(0, len(steps), _PIECE):
        yield _slices(steps.iloc[start : start + _PIECE])
    on_device = _on_device(jobs)
    if len(on_device["job"]):
        yield _job_slices(jobs, on_device)
        yield _flows(steps, on_device)
    yield "".join(f",\n{json.dumps(entry, separators=(',', ':'))}" for entry in _names(steps, on_device)).encode(
        "ascii"
    )


def _slices(steps: pd.DataFrame) -> bytes:
    duration = steps["duration_ns"].to_numpy(np.float64)
    measured = ~np.isnan(duration)
    kind = pc.if_else(
        pa.array(measured),
        joined('"X","dur":', microseconds(np.where(measured, duration, 0.0))),
        pa.scalar('"i","s":"t"'),
    )
    names = texts([json.dumps(name) for name in steps["name"].cat.categories])
    layer = steps["layer"].cat.codes.to_numpy(np.int64)
    categories = texts([json.dumps(f"npu {name}") for name in LAYERS])
    numbers = [
        joined(f'"{name}":', plain(steps[name].to_numpy(np.int64))) for name in ("id", "parent", "root", "job", "calls")
    ]
    return to_bytes(
        joined(
            *(',\n{"name":', names.take(pa.array(steps["name"].cat.codes.to_numpy(np.int64)))),
            *(',"cat":', categories.take(pa.array(layer)), ',"ph":', kind),
            *(',"ts":', microseconds(steps["start_ns"].to_numpy())),
            *(',"pid":', plain(layer + FIRST_PID), ',"tid":', plain(_track(steps))),
            *(',"args":{', pc.binary_join_element_wise(*numbers, ","), "}}"),
        )
    )


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


def _job_slices(jobs: pd.DataFrame, on_device: dict[str, Numbers]) -> bytes:
    rows = on_device["job"]
    status = jobs["status"].iloc[rows].astype("str").tolist()
    ends = joined(',"args":{"job":', plain(rows), ',"status":', texts([json.dumps(text) for text in status]), "}}")
    return to_bytes(
        joined(
            *(',\n{"name":"job ', plain(rows), '","cat":"npu jobs","ph":"X","dur":'),
            *(microseconds(on_device["end"] - on_device["begin"]), ',"ts":', microseconds(on_device["begin"])),
            *(f',"pid":{JOBS_PID},"tid":', plain(on_device["track"]), ends),
        )
    )


def _flows(steps: pd.DataFrame, on_device: dict[str, Numbers]) -> bytes:
    """One flow for each job whose submission was seen: submission, NPU, completion handler, end of the wait.

    Each point lies in the slice that it binds to. If no wait is known, the flow ends on the NPU.
    """
    job = on_device["job"]
    submitted, called, woken = (_first_of_job(steps, names, job) for names in (SUBMITS, (CALLBACK,), (ENDS_WAIT,)))
    start, layer = steps["start_ns"].to_numpy(np.int64), np.asarray(steps["layer"].cat.codes, np.int64)
    waits = np.where(woken >= 0, steps["inside"].to_numpy(np.int64)[woken], _NONE)
    began, waited = submitted >= 0, (submitted >= 0) & (waits >= 0)
    handled = waited & (called >= 0) & steps["duration_ns"].notna().to_numpy()[called]
    track, points = _track(steps), []
    for phase, slices, times, known in (
        ("s", submitted, start[submitted], began),
        ("t", called, start[called], handled),
        ("f", waits, start[woken], waited),
    ):
        of = slices[known]
        points.append(_points(phase, job[known], layer[of] + FIRST_PID, track[of], times[known]))
    for phase, known in (("t", waited), ("f", began & ~waited)):
        pid = np.full(int(known.sum()), JOBS_PID)
        points.append(_points(phase, job[known], pid, on_device["track"][known], on_device["begin"][known]))
    return b"".join(points)


def _points(phase: str, job: Numbers, pid: Numbers, tid: Numbers, time_ns: Numbers) -> bytes:
    if not len(job):
        return b""
    head = f',\n{{"name":"job","cat":"npu job","ph":"{phase}","bp":"e","id":'
    return to_bytes(
        joined(head, plain(job), ',"pid":', plain(pid), ',"tid":', plain(tid), ',"ts":', microseconds(time_ns), "}")
    )


def _names(steps: pd.DataFrame, on_device: dict[str, Numbers]) -> Iterator[dict[str, Any]]:
    """Name the layers, in order, and their threads."""
    layer, track = steps["layer"].cat.codes.to_numpy(np.int64), _track(steps)
    _, first = np.unique(layer << 32 | track, return_index=True)
    for row in first.tolist():
        comm = "interrupt" if layer[row] == INTERRUPT and not track[row] else str(steps["comm"].iloc[row])
        text = "fences" if layer[row] == FENCE else comm
        yield _named("thread_name", FIRST_PID + int(layer[row]), int(track[row]), name=text)
    for number in np.unique(layer).tolist():
        yield _named("process_name", FIRST_PID + number, name=f"NPU: {LAYERS[number]}")
        yield _named("process_sort_index", FIRST_PID + number, sort_index=number - 10)
    if len(on_device["job"]):
        yield _named("process_name", JOBS_PID, name="NPU: jobs")
        yield _named("process_sort_index", JOBS_PID, sort_index=len(LAYERS) - 10)
        for number in np.unique(on_device["track"]).tolist():
            yield _named("thread_name", JOBS_PID, number, name=f"job {number + 1} at a time")


def _named(what: str, pid: int, tid: int = 0, /, **args: object) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _first_of_job(steps: pd.DataFrame, names: tuple[str, ...], requested: Numbers) -> Numbers:
    """(wanted,) first step of each job with one of these names; -1 if there is none."""
    job = steps["job"].to_numpy(np.int64)
    chosen = steps["name"].cat.categories.isin(names)[steps["name"].cat.codes.to_numpy()]
    rows = np.flatnonzero(chosen & (job >= 0))
    jobs, first = np.unique(job[rows], return_index=True)
    place = np.searchsorted(jobs, requested)
    known = np.append(jobs, _NONE)[place] == requested
    return np.where(known, np.append(rows[first], _NONE)[place], _NONE)

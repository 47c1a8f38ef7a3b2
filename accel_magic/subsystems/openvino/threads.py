"""Which threads worked, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.task_frames import INFERENCE

if TYPE_CHECKING:
    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

_WAIT: Final = "wait"
"""The function of `offcpu`."""


def threads(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return one row per thread that ran tasks, the busiest first; index `tid`.

    Columns: `pid`, `comm`, `inferences` (that it ran), `tasks`, `working_ns` (in any task, each moment once,
    without inferences that wait for a stream),
    `working_share` (of the time between the first and the last task of the trace), `sleeping_ns` (waits recorded by
    `offcpu`, else completed calls of `futex`; NaN if neither was traced), `yields` (calls of `sched_yield`, in which
    TBB's workers spin before they sleep), `faults` (page faults); both Int64, NA if they were not traced or if too many
    threads had any to count this one's, and exact unless they have events of which some were lost.
    """
    tasks = trace.working
    span = int(tasks["end_ns"].max() - tasks["start_ns"].min()) if len(tasks) else 0
    events = trace.events
    names = dict(zip(events["tid"], events["comm"].astype(str), strict=True))
    rows = [
        {
            "tid": tid,
            "pid": own["pid"].iloc[0],
            "comm": names.get(tid, ""),
            "inferences": int((own["kind"] == INFERENCE).sum()),
            "tasks": len(own),
            "working_ns": _covered(own["start_ns"].to_numpy(), own["end_ns"].to_numpy()),
        }
        for tid, own in tasks.groupby("tid", sort=False)
    ]
    columns = ["tid", "pid", "comm", "inferences", "tasks", "working_ns"]
    table = pd.DataFrame(rows, columns=columns).set_index("tid")
    table["working_share"] = table["working_ns"] / (span or np.nan)
    waits = _of_threads(trace, table.index, _WAIT, "total_ns")
    slept = _of_threads(trace, table.index, preset.SLEEP, "total_ns") if waits is None else waits
    table["sleeping_ns"] = np.nan if slept is None else slept.astype("Float64").to_numpy(np.float64, na_value=np.nan)
    for column, function in (("yields", preset.YIELD), ("faults", preset.FAULT)):
        hits = _of_threads(trace, table.index, function, "hits")
        table[column] = pd.Series(pd.NA if hits is None else hits, table.index, dtype="Int64")
    return table.sort_values("working_ns", ascending=False)


def _of_threads(
    trace: OpenVinoTrace, threads: pd.Index, function: str, column: Literal["hits", "total_ns"]
) -> pd.Series[int] | None:
    """Hits of a function, or the time in it, by thread; None if it was not traced."""
    point = next((point for point in trace.points if point.function == function), None)
    if point is None:
        return None
    if point.counted:
        counts = trace.recording.by_thread
        own = counts.point == point.id
        values = pd.Series(getattr(counts, column)[own], counts.tid[own])
        if point.id in trace.recording.hits_without_thread:  # others' are not known
            return values.groupby(level=0).sum().astype("Int64").reindex(threads)
    else:
        events = trace.events[trace.events["function"] == function]
        values = pd.Series(1 if column == "hits" else events["duration_ns"].array, events["tid"].array)
    return values.groupby(level=0).sum().reindex(threads, fill_value=0).astype("int64")


def _covered(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of intervals that are in order of their starts."""
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[start[0]], reached[:-1]])
    return int(np.maximum(reached - np.maximum(start, before), 0).sum())

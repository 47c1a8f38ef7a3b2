"""Which threads worked, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.task_frames import INFERENCE

if TYPE_CHECKING:
    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace


def threads(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return one row per thread that ran tasks, the busiest first; index `tid`.

    Columns: `pid`, `comm`, `inferences` (that it ran), `tasks`, `working_ns` (in any task, each moment once,
    without inferences that wait for a stream),
    `working_share` (of the time between the first and the last task of the trace), `sleeping_ns` (waits recorded by
    `offcpu`, else completed calls of `futex`; NaN if neither was traced), `yields` (calls of `sched_yield`, in which
    TBB's workers spin before they sleep; Int64, NA if they were not traced).
    """
    tasks = trace.working
    span = int(tasks["end_ns"].max() - tasks["start_ns"].min()) if len(tasks) else 0
    events = trace.events
    names = dict(zip(events["tid"], events["comm"].astype(str), strict=True))
    function = events["function"].astype(str)
    traced = {point.function for point in trace.points}
    sleep = next((name for name in ("wait", preset.SLEEP) if name in traced), None)
    rows = []
    for tid, own in tasks.groupby("tid", sort=False):
        of_thread = events["tid"] == tid
        slept = np.nan if sleep is None else events.loc[of_thread & (function == sleep), "duration_ns"].sum()
        spins = int((of_thread & (function == preset.YIELD)).sum()) if preset.YIELD in traced else pd.NA
        rows.append(
            {
                "tid": tid,
                "pid": own["pid"].iloc[0],
                "comm": names.get(tid, ""),
                "inferences": int((own["kind"] == INFERENCE).sum()),
                "tasks": len(own),
                "working_ns": _covered(own["start_ns"].to_numpy(), own["end_ns"].to_numpy()),
                "sleeping_ns": slept,
                "yields": spins,
            }
        )
    columns = ["tid", "pid", "comm", "inferences", "tasks", "working_ns", "sleeping_ns", "yields"]
    table = pd.DataFrame(rows, columns=columns).set_index("tid")
    table.insert(5, "working_share", table["working_ns"] / (span or np.nan))
    return table.astype({"yields": "Int64"}).sort_values("working_ns", ascending=False)


def _covered(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of intervals that are in order of their starts."""
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[start[0]], reached[:-1]])
    return int(np.maximum(reached - np.maximum(start, before), 0).sum())

"""Launches and the events of simultaneous traces on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.errors import ResultError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.gpu.frames import GpuFrames
    from accel_magic.recording.recording import Recording

TIMELINE: Final = {
    "time_ns": "int64",
    "duration_ns": "Int64",
    "pid": "int32",
    "tid": "Int32",
    "trace": "category",
    "name": "category",
    "launch": "Int64",
    "row": "int64",
}
"""Columns of `timeline`."""


@dataclass(frozen=True)
class Beside:
    """A simultaneous trace: its recording, and its events as a DataFrame."""

    recording: Recording
    events: pd.DataFrame


def timeline(gpu: GpuFrames, *others: Beside) -> pd.DataFrame:
    """Launches and the events of other traces, in order of time; columns as in `GpuResult.timeline`.

    Raises:
        ResultError: Another trace did not run at the same time.

    """
    parts = [_launches(gpu), *(_events(gpu, other) for other in others)]
    whole = pd.concat([part.astype({"trace": "object", "name": "object"}) for part in parts])
    whole = whole.sort_values("time_ns", kind="stable", ignore_index=True)
    return whole[list(TIMELINE)].astype(TIMELINE)


def _launches(gpu: GpuFrames) -> pd.DataFrame:
    launches = gpu.launches
    return pd.DataFrame(
        {
            "time_ns": launches["time_ns"],
            "duration_ns": launches["host_ns"].astype("Int64"),
            "pid": launches["pid"],
            "tid": launches["tid"],
            "trace": "gputrace",
            "name": launches["name"],
            "launch": launches.index.astype("Int64"),
            "row": launches.index,
        }
    )


def _events(gpu: GpuFrames, other: Beside) -> pd.DataFrame:
    recording = other.recording
    before_ns = recording.start_ns - gpu.recording.start_ns
    if not recording.timed or not -recording.duration_ns < before_ns < gpu.recording.duration_ns:
        raise ResultError(
            "these traces did not run at the same time",
            why="the two recordings do not overlap in time",
            fix="put both lines on one cell: %%gputrace, and %%ktrace or %%flame below it",
            code="result.not-together",
        )
    events = other.events
    time_ns = events["time_ns"].to_numpy(np.int64) + before_ns
    took = events["duration_ns"] if "duration_ns" in events else pd.Series(np.nan, events.index)
    tid = events["tid"].to_numpy(np.int64)
    launch = launch_calls(gpu.launches, tid, time_ns)
    return pd.DataFrame(
        {
            "time_ns": time_ns,
            "duration_ns": took.round().astype("Int64").to_numpy(),
            "pid": events["pid"].to_numpy(),
            "tid": pd.array(tid, "Int32"),
            "trace": "ktrace" if recording.flame is None else "flame",
            "name": events["function"].to_numpy(),
            "launch": pd.arrays.IntegerArray(launch, launch < 0),
            "row": events.index.to_numpy(),
        }
    )


def launch_calls(launches: pd.DataFrame, tid: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the launch call during which each event of the same thread occurred.

    Args:
        launches: Columns as in `recording.LAUNCHES`.
        tid: (events,) thread of each.
        time_ns: (events,) time of each, on the same base as the launches.

    Returns:
        (events,) row of `launches`, -1 if none.

    """
    found = np.full(len(tid), -1, np.int64)
    known = launches[launches["tid"].notna()]
    for thread, own in known.groupby(known["tid"].astype("int64")):
        own = own.sort_values("time_ns", kind="stable")  # noqa: PLW2901 - the same rows
        start = own["time_ns"].to_numpy(np.int64)
        end = start + own["host_ns"].to_numpy(np.int64)
        rows = np.flatnonzero(tid == thread)
        latest = np.searchsorted(start, time_ns[rows], side="right") - 1
        inside = (latest >= 0) & (time_ns[rows] < end[latest])
        found[rows[inside]] = own.index.to_numpy()[latest[inside]]
    return found

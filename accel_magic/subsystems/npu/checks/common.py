"""What several checks need from a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from accel_magic.analysis.thread_events import signed32
from accel_magic.findings import Stretch

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.recording.recording import Recording

    Rows = NDArray[np.intp]

ETIMEDOUT = -110
MOST_PLACES = 100
"""Most places listed in a finding; the evidence has the full count."""

# Calls of the driver that wait neither for the NPU nor for a lock that is held for long.
_QUICK = ("ivpu_bo_info_ioctl", "ivpu_gem_create_object", "ivpu_mmu_context_map_sgt", "ivpu_ipc_send")


class NpuData(Protocol):
    """What the rules read; `accel_magic.subsystems.npu.tables.NpuTables` implements it."""

    @property
    def trace(self) -> DriverTrace:
        """Events and counts."""

    @property
    def recording(self) -> Recording:
        """The whole recording."""

    @property
    def jobs(self) -> pd.DataFrame:
        """Describe every job in the trace, in order of first appearance."""

    @property
    def buffers(self) -> pd.DataFrame:
        """Describe every buffer object in the trace, in order of creation."""

    @property
    def polls(self) -> pd.DataFrame:
        """Find the polling loops, in order of time."""

    @property
    def messages(self) -> pd.DataFrame:
        """List the messages to and from the firmware, in order of time."""


def hits(trace: DriverTrace, *functions: str) -> int:
    """Exact total hits of these functions."""
    return int(trace.counts.reindex(list(functions), fill_value=0).sum())


def times(trace: DriverTrace, rows: Rows) -> NDArray[np.int64]:
    """(rows,) int64 ns: start times of these events."""
    moments: NDArray[np.int64] = trace.events["time_ns"].to_numpy(np.int64)[rows]
    return moments


def durations(trace: DriverTrace, *functions: str) -> NDArray[np.float64]:
    """(calls,) float64 ns: how long the measured calls of these functions took."""
    values: NDArray[np.float64] = trace.column("duration_ns", trace.rows(*functions))
    return values[~np.isnan(values)]


def returned(trace: DriverTrace, rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """Calls (of functions returning `int`) whose return was recorded, and their return values."""
    if "retval" not in trace.events:
        return rows[:0], np.zeros(0, np.int64)
    known = rows[trace.events["retval"].notna().to_numpy()[rows]]
    return known, signed32(trace.column("retval", known, np.int64))


def places(trace: DriverTrace, rows: Rows) -> tuple[Stretch, ...]:
    """Places of these calls, from entry to return if the return was recorded."""
    chosen = rows[:MOST_PLACES]
    start = times(trace, chosen)
    length = np.nan_to_num(trace.column("duration_ns", chosen)).astype(np.int64)
    ends = start + length
    return tuple(
        Stretch(int(begin), int(end), int(row), int(row)) for begin, end, row in zip(start, ends, chosen, strict=True)
    )


def spans(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[Stretch, ...]:
    """Places with these starts and ends, (n,) ns each."""
    return tuple(Stretch(int(a), int(b)) for a, b in zip(start[:MOST_PLACES], end[:MOST_PLACES], strict=True))


def stall_ns(trace: DriverTrace) -> float:
    """Longest call that has nothing to wait for: how long this machine delays any call; 0 if there are none."""
    return float(durations(trace, *_QUICK).max(initial=0.0))


def numbers(column: pd.Series[int]) -> NDArray[np.float64]:
    """(rows,) float64, NaN where missing."""
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan), np.float64)

"""What all evidence is made of, and what several rules ask of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from accel_magic.analysis.npu.threads import signed32
from accel_magic.findings import Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.analysis.npu.trace import NpuTrace
    from accel_magic.recording.recording import Recording

    Rows = NDArray[np.intp]

ETIMEDOUT = -110
MOST_PLACES = 100
"""Stretches that a finding names; the evidence has the count of all."""

# Calls of the driver that neither wait for the NPU nor for a lock that is held for long.
_QUICK = ("ivpu_bo_info_ioctl", "ivpu_gem_create_object", "ivpu_mmu_context_map_sgt", "ivpu_ipc_send")


class Analysed(Protocol):
    """What the rules look at: `accel_magic.analysis.npu.NpuTables` has it."""

    @property
    def trace(self) -> NpuTrace:
        """Events and counts."""

    @property
    def recording(self) -> Recording:
        """The whole recording."""

    @property
    def jobs(self) -> pd.DataFrame:
        """See `accel_magic.analysis.npu.jobs.jobs`."""

    @property
    def buffers(self) -> pd.DataFrame:
        """See `accel_magic.analysis.npu.buffers.buffers`."""

    @property
    def polls(self) -> pd.DataFrame:
        """See `accel_magic.analysis.npu.polls.polls`."""

    @property
    def messages(self) -> pd.DataFrame:
        """See `accel_magic.analysis.npu.messages.messages`."""


@dataclass(frozen=True)
class Evidence:
    """That a rule applies: `values` by name as in `Finding.evidence`, and where."""

    values: Mapping[str, float]
    where: tuple[Stretch, ...] = ()


def hits(trace: NpuTrace, *functions: str) -> int:
    """Exact hits of these functions together."""
    return int(trace.counts.reindex(list(functions), fill_value=0).sum())


def times(trace: NpuTrace, rows: Rows) -> NDArray[np.int64]:
    """(rows,) int64 ns: when these events began."""
    moments: NDArray[np.int64] = trace.events["time_ns"].to_numpy(np.int64)[rows]
    return moments


def durations(trace: NpuTrace, *functions: str) -> NDArray[np.float64]:
    """(calls,) float64 ns: how long the measured calls of these functions took."""
    values: NDArray[np.float64] = trace.column("duration_ns", trace.rows(*functions))
    return values[~np.isnan(values)]


def returned(trace: NpuTrace, rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """Those of the calls of functions returning `int` whose return was seen, and what they returned."""
    if "retval" not in trace.events:
        return rows[:0], np.zeros(0, np.int64)
    known = rows[trace.events["retval"].notna().to_numpy()[rows]]
    return known, signed32(trace.column("retval", known, np.int64))


def places(trace: NpuTrace, rows: Rows) -> tuple[Stretch, ...]:
    """Where these calls are, from entry to return where that was seen."""
    chosen = rows[:MOST_PLACES]
    start = times(trace, chosen)
    length = np.nan_to_num(trace.column("duration_ns", chosen)).astype(np.int64)
    ends = start + length
    return tuple(
        Stretch(int(begin), int(end), int(row), int(row)) for begin, end, row in zip(start, ends, chosen, strict=True)
    )


def spans(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[Stretch, ...]:
    """Stretches from their borders, (n,) ns each."""
    return tuple(Stretch(int(a), int(b)) for a, b in zip(start[:MOST_PLACES], end[:MOST_PLACES], strict=True))


def stall_ns(trace: NpuTrace) -> float:
    """Longest time of a call that has nothing to wait for: what this machine does to any call; 0 without any."""
    return float(durations(trace, *_QUICK).max(initial=0.0))


def numbers(column: pd.Series[int]) -> NDArray[np.float64]:
    """(rows,) float64, NaN where missing."""
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan), np.float64)

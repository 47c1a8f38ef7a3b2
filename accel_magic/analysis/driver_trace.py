"""A trace of drivers as the input of analyses: its events and counts, with plain names of functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from accel_magic.demangle import plain_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.recording.recording import Recording


def _plain(name: str, tasks: frozenset[str]) -> str:
    return name if name in tasks else plain_name(name)


@dataclass(frozen=True)
class DriverTrace:
    """A trace as the input of the analyses.

    Attributes:
        events: `TraceResult.events`: one row per recorded hit, in order of time, index 0..n-1.
        counts: Exact hits by plain function name (int64), including functions without hits.
        duration_ns: Duration of the trace; 0 if it has no times.
        timed: Whether events have times. Imported lists of calls have an order only.
        lost: Hits whose event could not be stored.
        missed: Hits for which the kernel could not run the probe.
        kernel: Release of the traced kernel, '' if unknown.
        pages: Bytes of a page of the device's tables.
        tasks: Names of the ITT tasks among the functions.
        naming: Of these, those that say what the task within them is, and are recorded around the first one only.

    """

    events: pd.DataFrame
    counts: pd.Series[int]
    duration_ns: int
    timed: bool = True
    lost: int = 0
    missed: int = 0
    kernel: str = ""
    pages: int = 4096
    tasks: frozenset[str] = frozenset()
    naming: frozenset[str] = frozenset()

    @classmethod
    def of(cls, recording: Recording, events: pd.DataFrame) -> DriverTrace:
        """Create it from a recording and the DataFrame of its events (`TraceResult.events`)."""
        tasks = frozenset(point.function for point in recording.plan.points if point.kind == "itt")
        names = [_plain(point.function, tasks) for point in recording.plan.points]
        return cls(
            events=events,
            counts=pd.Series(recording.hits.astype(np.int64), dtype="int64")
            .groupby(names)
            .sum()
            .rename_axis("function"),
            duration_ns=recording.duration_ns,
            timed=recording.timed,
            lost=recording.events_lost,
            missed=recording.missed,
            kernel=recording.machine.get("kernel", ""),
            tasks=tasks,
            naming=frozenset(point.function for point in recording.plan.points if point.nesting == "naming"),
        )

    @cached_property
    def names(self) -> pd.Index[str]:
        """Plain names of the functions in the events, in the order of `codes`."""
        names = [_plain(str(name), self.tasks) for name in self.events["function"].cat.categories]
        return pd.Index(dict.fromkeys(names), dtype="str")

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """(events,) int32: index of each event's function in `names`."""
        categories = [_plain(str(name), self.tasks) for name in self.events["function"].cat.categories]
        table = self.names.get_indexer(pd.Index(categories, dtype="str")).astype(np.int32)
        codes = np.asarray(self.events["function"].cat.codes)
        return table[codes] if len(table) else np.zeros(0, np.int32)

    def mask(self, *functions: str) -> NDArray[np.bool_]:
        """(events,) bool: events of any of these functions (plain names)."""
        chosen = self.names.isin(functions)
        return chosen[self.codes] if len(chosen) else np.zeros(len(self.events), np.bool_)

    def rows(self, *functions: str) -> NDArray[np.intp]:
        """Row numbers of the events of these functions, in order."""
        return np.flatnonzero(self.mask(*functions))

    def column(self, name: str, rows: NDArray[np.intp], dtype: Any = np.float64) -> NDArray[Any]:
        """Values of a column at these rows; if missing, NaN for floats, -1 for signed, 0 for unsigned integers.

        A column that this trace does not have is missing everywhere.
        """
        missing = {"f": np.nan, "i": -1}.get(np.dtype(dtype).kind, 0)
        if name not in self.events.columns:
            return np.full(len(rows), missing, dtype)
        return self.events[name].iloc[rows].to_numpy(dtype=dtype, na_value=missing)

    def saw(self, *functions: str) -> bool:
        """Whether any of these functions was traced at all, hit or not."""
        return bool(self.counts.index.isin(functions).any())


class OfDriver(Protocol):
    """Tables made from the trace of a driver."""

    @property
    def trace(self) -> DriverTrace:
        """The events and counts."""


@dataclass(frozen=True)
class DriverNeeds:
    """What a rule needs from the trace of a driver.

    Attributes:
        functions: Functions and tracepoints, at least one of which must have been traced; empty: no requirement.
        times: Whether it needs times.
        events: Whether it needs events; without, counts are enough.

    """

    functions: tuple[str, ...] = ()
    times: bool = False
    events: bool = False

    def __call__(self, tables: OfDriver) -> str:
        """Return what the trace lacks; `` if nothing."""
        trace = tables.trace
        if self.times and not trace.timed:
            return "times"
        if self.events and not len(trace.events) and trace.counts.any():
            return "events"
        return " or ".join(self.functions) if self.functions and not trace.saw(*self.functions) else ""

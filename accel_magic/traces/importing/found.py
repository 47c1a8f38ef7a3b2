"""What a parser finds in another tool's output, before it becomes a recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel_magic.traces.recording import Column

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.traces.importing.names import Name

UNKNOWN = -1
"""Stands in `tid`, `pid` and `cpu` for what the output does not tell, in `duration_ns` for no duration."""


@dataclass(frozen=True)
class Hits:
    """Events in the order of the output. All arrays have the shape (events,).

    Attributes:
        names: What the codes in `name` mean.
        name: int32 codes into `names`.
        time_ns: int64 ns, on whatever clock; None where the output has no times.
        pid: int32, as `tid`.
        tid: int32.
        cpu: int16.
        comm: Codes, -1 where not known.
        duration_ns: int64; None where the output measures nothing.
        columns: Further columns.

    """

    names: tuple[Name, ...]
    name: NDArray[np.int32]
    time_ns: NDArray[np.int64] | None
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int16]
    comm: Column
    duration_ns: NDArray[np.int64] | None = None
    columns: dict[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count them."""
        return len(self.name)

    def rows(self, chosen: NDArray[Any]) -> Hits:
        """Those rows, given by number or as booleans."""

        def some(column: Column) -> Column:
            valid = None if column.valid is None else column.valid[chosen]
            return Column(column.values[chosen], valid, column.categories)

        return Hits(
            names=self.names,
            name=self.name[chosen],
            time_ns=None if self.time_ns is None else self.time_ns[chosen],
            pid=self.pid[chosen],
            tid=self.tid[chosen],
            cpu=self.cpu[chosen],
            comm=some(self.comm),
            duration_ns=None if self.duration_ns is None else self.duration_ns[chosen],
            columns={name: some(column) for name, column in self.columns.items()},
        )


@dataclass(frozen=True)
class Bars:
    """A histogram of durations as printed: `bars` are (low, high or None, calls), from low to below high, in ns."""

    name: Name
    bars: tuple[tuple[int, int | None, int], ...]


@dataclass(frozen=True)
class Rates:
    """Hits by step as printed: `counts` (steps, names) uint64, a step being `step_ns` long."""

    names: tuple[Name, ...]
    step_ns: int
    counts: NDArray[np.uint64]


@dataclass(frozen=True)
class Found:
    """All that one file says.

    Attributes:
        format: The tool and its output, in words.
        hits: The events, None where there are only counts.
        counts: Exact counts that the tool made itself, by name; where a name has events too, this is its hits.
        histograms: Of durations.
        rates: Hits over time that the tool printed instead of events; None if it did not.
        lost: Events that the tool says it lost.
        malformed: Lines that are not understood.
        notes: What the reader of the result has to know.
        machine: What the output says about where it was recorded (`kernel`, `cpu`, `host`).

    """

    format: str
    hits: Hits | None = None
    counts: dict[Name, int] = field(default_factory=dict)
    histograms: tuple[Bars, ...] = ()
    rates: Rates | None = None
    lost: int = 0
    malformed: int = 0
    notes: tuple[str, ...] = ()
    machine: dict[str, str] = field(default_factory=dict)

"""A profile's samples on a time grid of columns and rows, for a subsecond-offset heatmap.

The classic grid has a column for each second and 50 rows of 20 ms. Cells are numbered in order of time, column by
column and from bottom to top, so that a time range is a range of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.recording.profile import NO_TIME, Profile, ThreadState

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS: Final = 50
_SECOND: Final = 1_000_000_000
FEWEST_COLUMNS, MOST_COLUMNS = 20, 300
"""A profile shorter than 20 s gets shorter columns, one longer than 300 s longer columns."""
STEPS: Final = (
    *(factor * 10**power for power in range(9) for factor in (1, 2, 5)),
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)),
)
"""Lengths of a column, ns, ascending."""
FINER_ROWS: Final = (50, 25, 20, 10, 5, 4, 2, 1)
SPACING: Final = 1.5
"""Shortest row, as a multiple of the median sample interval: shorter rows would only show the sampling rhythm."""


@dataclass(frozen=True)
class Grid:
    """A grid of cells of time, from 0 on.

    Attributes:
        column_ns: Length of a column.
        rows: Rows per column; row 0 is the beginning of the column.
        columns: Number of columns.

    """

    column_ns: int
    rows: int
    columns: int

    @property
    def cell_ns(self) -> float:
        """Length of a cell."""
        return self.column_ns / self.rows

    def cells(self, time_ns: NDArray[np.int64]) -> NDArray[np.int32]:
        """Cell of each time, (N,) int32: column x rows + row; -1 for `NO_TIME`."""
        columns, offsets = np.divmod(time_ns, self.column_ns)
        cells = columns * self.rows + offsets * self.rows // self.column_ns
        return np.where(time_ns == NO_TIME, -1, cells).astype(np.int32)

    def starts(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """First ns of each cell, (N,) int64."""
        columns, rows = np.divmod(cells.astype(np.int64), self.rows)
        starts: NDArray[np.int64] = columns * self.column_ns - (-rows * self.column_ns // self.rows)
        return starts


@dataclass(frozen=True)
class Stretches:
    """Samples that extend beyond the cell in which they begin: waits, and accelerator time in ns.

    Attributes:
        sample: (S,) int64, rows of the profile's samples.
        first: (S,) int32, the cell in which they begin; `last`: the later cell in which they end.
        head: (S,) int64, weight in the first cell; `tail`: in the last. The cells between are filled.

    """

    sample: NDArray[np.int64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    head: NDArray[np.int64]
    tail: NDArray[np.int64]


@dataclass(frozen=True)
class Sums:
    """The sums of each cell of a grid.

    Attributes:
        grid: The cells.
        states: The states of samples with a time, ascending.
        weight: (states, cells) int64, in the profile's unit; for waits and accelerator time the part in the cell.
        samples: (states, cells) int64; each sample counts in the cell where it begins.

    """

    grid: Grid
    states: tuple[ThreadState, ...]
    weight: NDArray[np.int64]
    samples: NDArray[np.int64]


def grid_of(profile: Profile, rows: int = ROWS) -> Grid:
    """Choose the grid of a profile: columns of one second with `rows` rows, or shorter or longer columns.

    Below 20 s it takes the longest column of 1, 2, 5, 10 ... ns that gives at least 20 columns; above 300 s the
    shortest that gives at most 300. It takes fewer rows if a row would be shorter than one and a half times the
    median sample interval, which is measured on CPU samples, which are periodic, if there are enough of them.

    Args:
        profile: The samples; those without a time have no cell.
        rows: The maximum number of rows.

    """
    samples = profile.samples.take(profile.samples.time_ns != NO_TIME)
    times = samples.time_ns
    end = max(int(times.max(initial=0)) + 1, profile.duration_ns)
    longest = next((step for step in STEPS if step * MOST_COLUMNS >= end), -(-end // MOST_COLUMNS))
    requested = max((step for step in STEPS if step * (FEWEST_COLUMNS - 1) < end and step <= _SECOND), default=1)
    column_ns = max(longest, requested)
    columns = -(-end // column_ns)
    on_cpu = times[samples.state == ThreadState.CPU]
    return Grid(column_ns, _rows(on_cpu if len(on_cpu) >= columns else times, column_ns, rows), columns)


def cells_of(profile: Profile, rows: int = ROWS) -> NDArray[np.int32]:
    """Cell of each sample in `grid_of(profile, rows)`, (N,) int32: column x rows + row; -1 for those without a time."""
    return grid_of(profile, rows).cells(profile.samples.time_ns)


def stretches_of(profile: Profile, grid: Grid) -> Stretches:
    """Find the samples that extend beyond their first cell; none if the profile's unit is not ns."""
    samples = profile.samples
    lasting = (samples.state != ThreadState.CPU) & (samples.time_ns != NO_TIME) & (samples.weight > 0)
    rows = np.flatnonzero(lasting if profile.unit == "ns" else np.zeros(len(samples), np.bool_))
    start, end = samples.time_ns[rows], samples.time_ns[rows] + samples.weight[rows]
    first = grid.cells(start)
    last = np.minimum(grid.cells(end - 1), grid.columns * grid.rows - 1).astype(np.int32)
    beyond = last > first
    return Stretches(
        sample=rows[beyond],
        first=first[beyond],
        last=last[beyond],
        head=(grid.starts(first + 1) - start)[beyond],
        tail=(end - grid.starts(last))[beyond],
    )


def sums(profile: Profile, grid: Grid) -> Sums:
    """Add up weights and samples by cell and state."""
    samples = profile.samples
    cells = grid.cells(samples.time_ns)
    stretches = stretches_of(profile, grid)
    in_first = samples.weight.copy()
    in_first[stretches.sample] = stretches.head
    timed = cells >= 0
    states = tuple(ThreadState(code) for code in np.unique(samples.state[timed]).tolist())
    shape = (len(states), grid.columns * grid.rows)
    weight, count = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    place = np.searchsorted(np.array(states, np.uint8), samples.state[timed]), cells[timed]
    np.add.at(weight, place, in_first[timed])
    np.add.at(count, place, 1)
    row = np.searchsorted(np.array(states, np.uint8), samples.state[stretches.sample])
    np.add.at(weight, (row, stretches.last), stretches.tail)
    ongoing = np.zeros((shape[0], shape[1] + 1), np.int64)
    np.add.at(ongoing, (row, stretches.first + 1), 1)
    np.add.at(ongoing, (row, stretches.last), -1)
    weight += np.cumsum(ongoing, axis=1)[:, :-1] * np.diff(grid.starts(np.arange(shape[1] + 1)))
    return Sums(grid, states, weight, count)


def _rows(times: NDArray[np.int64], column_ns: int, most: int) -> int:
    """Rows of a column: `most`, or the largest smaller number in `FINER_ROWS` that suits the sample interval."""
    gaps = np.diff(np.sort(times))
    gaps = gaps[gaps > 0]
    shortest = max(SPACING * float(np.median(gaps)), 1.0) if len(gaps) else 1.0
    choices = (most, *(rows for rows in FINER_ROWS if rows < most))
    return next((rows for rows in choices if column_ns / rows >= shortest), 1)

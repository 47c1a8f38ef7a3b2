"""Loops in a sequence of calls: runs that repeat one short cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST = 8
LEAST = 3
_NONE = -1


@dataclass(frozen=True)
class Cycles:
    """Runs in a sequence that repeat a cycle, in order; they do not overlap.

    Attributes:
        first: (runs,) intp: index of the run's first call.
        period: (runs,) intp: calls in the cycle.
        repeats: (runs,) intp: number of complete cycles in the run.

    """

    first: NDArray[np.intp]
    period: NDArray[np.intp]
    repeats: NDArray[np.intp]

    @property
    def calls(self) -> NDArray[np.intp]:
        """(runs,) intp: calls in each run."""
        return self.period * self.repeats

    def __len__(self) -> int:
        return len(self.first)


def find(
    codes: NDArray[np.integer],
    groups: NDArray[np.integer] | None = None,
    *,
    longest: int = LONGEST,
    least: int = LEAST,
) -> Cycles:
    """Find where a sequence repeats one cycle of calls.

    A run lasts as long as its cycle continues, cut to complete cycles at its end, and its cycle is the shortest
    possible. If two runs overlap, each call belongs to the longer one; if they are equally long, to the one with the
    shorter cycle, then to the earlier one. The rest of the other counts if it still repeats often enough.

    Args:
        codes: (n,) what was called.
        groups: (n,) a run lies within consecutive equal values; None for a single group.
        longest: Most calls in a cycle.
        least: Fewest repeats of a run, 2 or more.

    """
    codes = np.asarray(codes)
    same_group = np.zeros(len(codes), np.int8) if groups is None else np.asarray(groups)
    runs = np.cumsum(_begins(same_group), dtype=np.int64)
    longest_at = np.zeros(len(codes), np.intp)
    owner = np.full(len(codes), _NONE, np.intp)
    periods: list[NDArray[np.intp]] = []
    for period in range(1, min(longest, len(codes) // least) + 1):
        first, length = _repeating(codes, runs, period, (least - 1) * period)
        number = sum(map(len, periods)) + np.arange(len(first))
        periods.append(np.full(len(first), period))
        places, sizes = _cut(first, length)
        at = np.repeat(places - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        longer = np.repeat(length, sizes) > longest_at[at]
        longest_at[at[longer]] = np.repeat(length, sizes)[longer]
        owner[at[longer]] = np.repeat(number, sizes)[longer]
    return _intervals(owner, np.concatenate([*periods, np.zeros(0, np.intp)]), least)


def _repeating(
    codes: NDArray[np.integer], runs: NDArray[np.integer], period: int, at_least: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Start and length of each maximal run in which every call equals the one `period` before it."""
    same = (codes[period:] == codes[:-period]) & (runs[period:] == runs[:-period])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.view(np.int8), [0]])))
    start, equal = edges[::2], edges[1::2] - edges[::2]
    enough = equal >= at_least
    return start[enough], equal[enough] + period


def _cut(first: NDArray[np.intp], length: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Give the overlap of two neighbors with one period to the longer one, else to the earlier."""
    begin, end = first.copy(), first + length
    shared = np.maximum(end[:-1] - first[1:], 0)
    earlier = length[:-1] >= length[1:]
    begin[1:] += np.where(earlier, shared, 0)
    end[:-1] -= np.where(earlier, 0, shared)
    return begin, end - begin


def _intervals(owner: NDArray[np.intp], periods: NDArray[np.intp], least: int) -> Cycles:
    """Cut the runs of equal owners to complete cycles, and drop those with too few."""
    begins = np.flatnonzero(_begins(owner))
    sizes = np.diff(np.append(begins, len(owner)))
    owned = owner[begins] >= 0
    begins, sizes = begins[owned], sizes[owned]
    period = periods[owner[begins]]
    repeats = sizes // period
    kept = repeats >= least
    return Cycles(begins[kept], period[kept], repeats[kept])


def _begins(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """(n,) bool: is the first, or differs from the previous one."""
    begins = np.ones(len(values), np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return begins

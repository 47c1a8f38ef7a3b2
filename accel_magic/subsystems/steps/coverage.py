"""Lengths of unions of intervals, exact and for many groups at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Coverage:
    """Unions of intervals, one per group.

    Args:
        group: (N,) group of each interval, not negative.
        start: (N,) its start in ns.
        end: (N,) its end in ns; intervals that end before they start are left out.

    """

    def __init__(self, group: Ints, start: Ints, end: Ints) -> None:
        filled = end > start
        group, start, end = group[filled], start[filled], end[filled]
        self._first = int(start.min()) if len(start) else 0
        self._span = int(end.max()) - self._first + 1 if len(end) else 1
        from_, to = self._place(group, start), self._place(group, end)
        order = np.argsort(from_, kind="stable")
        from_, to = from_[order], np.maximum.accumulate(to[order])
        begins = np.ones(len(from_), np.bool_)
        begins[1:] = from_[1:] > to[:-1]
        last = np.append(begins[1:], True)[: len(from_)]
        self._starts, self._lengths = from_[begins], to[last] - from_[begins]
        self._before = np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64)

    def within(self, group: Ints, start: Ints, end: Ints) -> Ints:
        """Length in ns of a group's union within each of (M,) intervals."""
        return self._up_to(group, end) - self._up_to(group, start)

    def _place(self, group: Ints, time: Ints) -> Ints:
        """Places of all groups on one line, one group after the other."""
        return group * self._span + np.clip(time - self._first, 0, self._span - 1)

    def _up_to(self, group: Ints, time: Ints) -> Ints:
        if not len(self._starts):
            return np.zeros(len(time), np.int64)
        place = self._place(group, time)
        at = np.searchsorted(self._starts, place, side="right") - 1
        reached = np.clip(place - self._starts[at], 0, self._lengths[at])
        return np.where(at < 0, 0, self._before[at] + reached)

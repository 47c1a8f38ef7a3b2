"""Lanes for intervals that overlap in time, so that they can be drawn below each other; and enclosing calls."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray


def lanes(begin: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """Assign each interval the first lane that is free when it begins.

    Args:
        begin: (intervals,) start times, ascending.
        end: (intervals,) end times; an interval that begins at that time may reuse the lane.

    Returns:
        (intervals,) int64 lane, from 0. There are as many lanes as intervals overlap at most. This is a Python loop
        over the intervals: fit for jobs, not for events.

    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    given, used = np.empty(len(begin), np.int64), 0
    for number, (begins, ends) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begins:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, used)
            used += 1
        given[number] = heapq.heappop(free)
        heapq.heappush(busy, (ends, int(given[number])))
    return given


_NONE = -1


def enclosing(
    tid: NDArray[np.integer],
    start: NDArray[np.integer],
    end: NDArray[np.integer],
    at_tid: NDArray[np.integer],
    at: NDArray[np.integer],
) -> NDArray[np.intp]:
    """Find the innermost call that contains each moment, on that moment's thread.

    Args:
        tid: (calls,) thread of each call. Calls of one thread must nest.
        start: (calls,) when it was entered, ns.
        end: (calls,) when it returned, ns.
        at_tid: (moments,) thread of each moment.
        at: (moments,) the moment, ns. A call's own entry lies outside that call, so passing entries returns the
            callers.

    Returns:
        (moments,) index of the call, -1 if there is none.

    """
    calls, moments = len(start), len(at)
    if not calls or not moments:
        return np.full(moments, _NONE, np.intp)
    thread, threads = pd.factorize(np.asarray(tid))
    asked_thread = pd.Index(threads).get_indexer(pd.Index(np.asarray(at_tid)))
    # Combine thread and time into one number, so that one search finds both.
    first = min(int(start.min()), int(at.min()))
    span = max(int(start.max()), int(at.max())) - first + 2
    entered = thread * span + (start - first)
    order = np.lexsort((-end, entered))  # of two calls entered at one time, the longer is the outer
    thread, entered, left = thread[order], entered[order], np.asarray(end)[order]
    caller = _settled(_before(np.arange(calls), thread), left, left, None)
    last = np.searchsorted(entered, asked_thread * span + (at - first), side="left") - 1
    last[(last >= 0) & (thread[last] != asked_thread)] = _NONE
    found = _settled(last, left, at, caller)
    return np.where(found >= 0, order[found], _NONE)


def _before(places: NDArray[np.intp], thread: NDArray[np.intp]) -> NDArray[np.intp]:
    """Index of the previous call on the same thread, -1 for a thread's first."""
    before = places - 1
    before[1:][thread[1:] != thread[:-1]] = _NONE
    return before


def _settled(
    found: NDArray[np.intp],
    left: NDArray[np.integer],
    until: NDArray[np.integer],
    caller: NDArray[np.intp] | None,
) -> NDArray[np.intp]:
    """Go outward from a call that was entered earlier to the first that had not returned at `until`.

    If `caller` is None, this computes the callers themselves, from those found so far.
    """
    open_ = np.flatnonzero(found >= 0)
    while len(open_):
        open_ = open_[left[found[open_]] < until[open_]]
        found[open_] = (found if caller is None else caller)[found[open_]]
        open_ = open_[found[open_] >= 0]
    return found

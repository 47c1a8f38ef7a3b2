"""Lanes for what overlaps in time, so that each can be drawn below the others."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray


def lanes(begin: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """Give each stretch the first lane that is free when it begins.

    Args:
        begin: (stretches,) when each begins, ascending.
        end: (stretches,) when each ends; one that begins then may have its lane.

    Returns:
        (stretches,) int64 lane, from 0. As many as there are stretches under way at once. One step of a loop for each:
        for jobs, not for events.

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
    """Find the innermost call that is under way at each moment, on that moment's thread.

    Args:
        tid: (calls,) thread of each call. Calls of one thread must nest.
        start: (calls,) when it was entered, ns.
        end: (calls,) when it returned, ns.
        at_tid: (moments,) thread that is asked for.
        at: (moments,) the moment, ns. One that is a call's own entry lies outside that call, so calls can be asked for
            their callers.

    Returns:
        (moments,) index of the call, -1 where there is none.

    """
    calls, moments = len(start), len(at)
    if not calls or not moments:
        return np.full(moments, _NONE, np.intp)
    thread, threads = pd.factorize(np.asarray(tid))
    asked_thread = pd.Index(threads).get_indexer(pd.Index(np.asarray(at_tid)))
    # One number for thread and time, so that one search finds both.
    first = min(int(start.min()), int(at.min()))
    span = max(int(start.max()), int(at.max())) - first + 2
    entered = thread * span + (start - first)
    order = np.lexsort((-end, entered))  # of two entered at one time the longer is the outer
    thread, entered, left = thread[order], entered[order], np.asarray(end)[order]
    caller = _settled(_before(np.arange(calls), thread), left, left, None)
    last = np.searchsorted(entered, asked_thread * span + (at - first), side="left") - 1
    last[(last >= 0) & (thread[last] != asked_thread)] = _NONE
    found = _settled(last, left, at, caller)
    return np.where(found >= 0, order[found], _NONE)


def _before(places: NDArray[np.intp], thread: NDArray[np.intp]) -> NDArray[np.intp]:
    """Place of the call before on the same thread, -1 for a thread's first."""
    before = places - 1
    before[1:][thread[1:] != thread[:-1]] = _NONE
    return before


def _settled(
    found: NDArray[np.intp],
    left: NDArray[np.integer],
    until: NDArray[np.integer],
    caller: NDArray[np.intp] | None,
) -> NDArray[np.intp]:
    """Go outwards from a call that was entered before to the first that had not returned `until` then.

    Without the callers of all calls it finds them: what is known of a call's caller so far leads to the caller's own.
    """
    open_ = np.flatnonzero(found >= 0)
    while len(open_):
        open_ = open_[left[found[open_]] < until[open_]]
        found[open_] = (found if caller is None else caller)[found[open_]]
        open_ = open_[found[open_] >= 0]
    return found

"""Which call of the same thread encloses a moment: calls of one thread lie inside each other or side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

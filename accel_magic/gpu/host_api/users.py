"""Which calls are the program's own: not those that the driver, or this tool on its behalf, makes on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]
    Names = NDArray[np.object_]


def outermost(tid: Times, start: Times, duration: Times) -> NDArray[np.bool_]:
    """(calls,) whether a call was made by no other call: one entry of the driver may go through another."""
    end = start + duration
    order = np.lexsort((-end, start, tid))
    first = np.diff(tid[order], prepend=-1) != 0
    # The ends of a thread's earlier calls; a thread's own times are made larger than those of the thread before it.
    groups = np.cumsum(first)
    base = int(start.min()) if len(start) else 0
    span = int(end.max()) - base + 1 if len(end) else 1
    latest = np.maximum.accumulate(groups * span + end[order] - base)
    before = np.append(-1, latest[:-1])
    found = np.empty(len(tid), np.bool_)
    found[order] = first | (groups * span + start[order] - base >= before)
    return found


def asked_for(
    tid: Times, start: Times, duration: Times, *, names: Names, kinds: Names, wrappers: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(calls,) whether the program asked for a call.

    Args:
        tid: The calls' threads.
        start: When they began, ns.
        duration: How long they took, ns.
        names: What they are called.
        kinds: What they are about.
        wrappers: Whether it is a function that stands before the driver's in a traced process. Of what the driver is
            asked in there only the call that was wrapped is the program's; where there is none, the wrapper stands for
            it.

    """
    kept = np.zeros(len(tid), np.bool_)
    for rows in (np.flatnonzero(~wrappers), np.flatnonzero(wrappers)):
        kept[rows] = outermost(tid[rows], start[rows], duration[rows])
    around = np.flatnonzero(wrappers & kept)
    for thread in np.unique(tid[around]):
        inside = np.flatnonzero((tid == thread) & ~wrappers & kept)
        inside = inside[np.argsort(start[inside], kind="stable")]
        for row in around[tid[around] == thread]:
            bounds = np.searchsorted(start[inside], (start[row], start[row] + duration[row]))
            made = inside[slice(*bounds)]
            same = made[names[made] == names[row]]
            wrapped = same if len(same) else made[kinds[made] == kinds[row]]
            kept[row] = not len(wrapped)
            kept[made] = False
            kept[wrapped[:1]] = True
    return kept

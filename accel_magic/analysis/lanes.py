"""Lanes for what overlaps in time, so that each can be drawn below the others."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

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

"""Timers, for the ends of jobs and delayed boots."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A guest may request any duration; an hour is practically forever, and keeps the numbers small.
LONGEST_US = 3_600_000_000


class Timer:
    """A pending action. `action` is None once it has run or was canceled."""

    __slots__ = ("action", "due_us", "order")

    def __init__(self, due_us: int, order: int, action: Callable[[], None]) -> None:
        self.due_us = due_us
        self.order = order
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.due_us, self.order) < (other.due_us, other.order)


class Timers:
    """A heap of timers on one clock.

    Args:
        clock: Returns the time in microseconds; monotonic.

    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self._heap: list[Timer] = []
        self._order = 0

    def after(self, delay_us: int, action: Callable[[], None]) -> Timer:
        """Call `action` in `delay_us` microseconds (at most an hour); returns the timer, for `cancel`."""
        self._order += 1
        timer = Timer(self.clock() + min(delay_us, LONGEST_US), self._order, action)
        heapq.heappush(self._heap, timer)
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer; has no effect if it has already run."""
        timer.action = None
        # A guest that keeps starting and canceling timers must not make the heap grow: canceled timers are removed
        # when they reach the top, and all at once when the heap is large.
        if len(self._heap) > 64:
            self._heap = [each for each in self._heap if each.action is not None]
            heapq.heapify(self._heap)

    def next_due_us(self) -> int | None:
        """Time at which the next timer is due, in microseconds on the clock; None if there is none."""
        while self._heap and self._heap[0].action is None:
            heapq.heappop(self._heap)
        return self._heap[0].due_us if self._heap else None

    def run_due(self) -> None:
        """Run the timers that are due. Timers added by their actions wait for the next call, so that each call ends."""
        now, due = self.clock(), []
        while self._heap and self._heap[0].due_us <= now:
            due.append(heapq.heappop(self._heap))
        for timer in due:
            action, timer.action = timer.action, None
            if action is not None:
                action()

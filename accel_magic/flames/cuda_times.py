"""How long kernels took on a GPU: two of the driver's events around each launch, read when both have passed."""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from accel_magic.gpu.cuda.driver import Driver

MOST_UNDER_WAY: Final = 4096
"""Pairs of events that wait to be read; past it the oldest are read whenever one is added."""
NOTE: Final = (
    "GPU times are between two events around each launch: kernels on an idle stream come out some microseconds long"
)
_DEFAULT_EVENT = 0


class _Pair(NamedTuple):
    """Events before and after a launch."""

    launch: int
    context: int
    before: int
    after: int


class EventTimes:
    """Durations of launches, by numbers that the caller gives them. Methods may be called from any thread.

    Nothing here raises: a launch whose events fail, or that is captured into a graph, has no duration.

    Args:
        driver: The driver.

    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._free: defaultdict[int, list[int]] = defaultdict(list)  # by context
        self._under_way: deque[_Pair] = deque()
        self._durations: dict[int, int] = {}
        self._own = threading.local()

    def before(self, stream: int) -> None:
        """Put an event into the stream; right before a launch, in its thread."""
        self._own.begun = self._recorded(stream)

    def after(self, stream: int, launch: int) -> None:
        """Put another one behind the launch, which has this number from now on."""
        begun, self._own.begun = getattr(self._own, "begun", None), None
        ended = self._recorded(stream) if begun is not None else None
        if begun is None or ended is None:
            return
        with self._lock:
            self._under_way.append(_Pair(launch, begun[0], begun[1], ended[1]))
            while len(self._under_way) > MOST_UNDER_WAY and self._read(self._under_way[0]):
                self._under_way.popleft()

    def durations(self) -> dict[int, int]:
        """Nanoseconds by number of the launch, of all that have ended."""
        with self._lock:
            self._under_way = deque(pair for pair in self._under_way if not self._read(pair))
            return dict(self._durations)

    def close(self) -> None:
        """Give the events back; those of launches that still run are the driver's to keep until it ends."""
        with self._lock:
            for events in self._free.values():
                for event in events:
                    self._driver.attempt("cuEventDestroy_v2", event)
            self._free.clear()
            self._under_way.clear()

    def _recorded(self, stream: int) -> tuple[int, int] | None:
        """An event in the stream, and its context; None where it cannot be recorded."""
        driver, capturing, context = self._driver, ctypes.c_int(), ctypes.c_void_p()
        if driver.attempt("cuStreamIsCapturing", stream, ctypes.byref(capturing)) or capturing.value:
            return None
        if driver.attempt("cuCtxGetCurrent", ctypes.byref(context)) or not context.value:
            return None
        event = self._event(context.value)
        if event is None or driver.attempt("cuEventRecord", event, stream):
            return None
        return context.value, event

    def _event(self, context: int) -> int | None:
        with self._lock:
            if self._free[context]:
                return self._free[context].pop()
        made = ctypes.c_void_p()
        failed = self._driver.attempt("cuEventCreate", ctypes.byref(made), _DEFAULT_EVENT)
        return None if failed else made.value

    def _read(self, pair: _Pair) -> bool:
        """Read a pair; False where it has not passed yet."""
        milliseconds = ctypes.c_float()
        if self._driver.attempt("cuEventElapsedTime", ctypes.byref(milliseconds), pair.before, pair.after):
            return False
        self._durations[pair.launch] = round(milliseconds.value * 1e6)
        self._free[pair.context] += [pair.before, pair.after]
        return True

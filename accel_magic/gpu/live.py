"""What a running GPU trace reports of itself: samples, and the thread that takes them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S: Final = 0.2


@dataclass(frozen=True)
class GpuSample:
    """The counters of a running GPU trace at one moment.

    Attributes:
        time_ns: Since the start of the trace.
        launches: So far.
        kernels: Seen so far.
        instrumented: Of these.
        lost: Records and entries that maps had no room for.

    """

    time_ns: int
    launches: int
    kernels: int
    instrumented: int
    lost: int


class Feed:
    """Calls `show` with a sample five times a second, from a thread of its own, until `stop`."""

    def __init__(self, sample: Callable[[], GpuSample], show: Callable[[list[GpuSample]], None]) -> None:
        self._sample, self._show = sample, show
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="accel_magic gpu live row", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; nothing is shown from then on."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._show([self._sample()])

"""A queue of device work, done in order in a separate thread, asynchronously to the host as on a GPU."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable

_AGAIN_S: Final = 0.02


@dataclass
class DeviceQueue:
    """A thread that does the given work in order; tickets number the work from 1."""

    _left: deque[tuple[object, Callable[[], None]]] = field(default_factory=deque)
    _given: int = 0
    _done: int = 0
    _running: object = None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = own_threads.Thread(target=self._run, name="accel_magic mock device")
        self._thread.start()

    def close(self, stop: Callable[[int], None]) -> None:
        """Discard the remaining work and stop the current work.

        Args:
            stop: Stops the work of the thread with this ident.

        """
        with self._changed:
            self._closed = True
            self._left.clear()
            self._changed.notify_all()
        thread = self._thread
        while thread is not None and thread.is_alive():
            stop(thread.ident or 0)
            thread.join(_AGAIN_S)

    def give(self, owner: object, work: Callable[[], None]) -> int:
        """Add work, which must not raise, and return its ticket."""
        with self._changed:
            self._left.append((owner, work))
            self._given += 1
            self._changed.notify_all()
            return self._given

    def done(self, ticket: int) -> bool:
        """Whether the work with this ticket is done."""
        return self._done >= ticket

    def wait(self, ticket: int) -> None:
        """Wait until the work with this ticket is done, or the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._done >= ticket or self._closed)

    def end(self, owner: object, stop: Callable[[int], None]) -> None:
        """Stop the current work if it is this owner's, and wait for its end."""
        with self._changed:
            while self._running is owner and self._thread is not None:
                stop(self._thread.ident or 0)
                self._changed.wait(_AGAIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._left or self._closed)
                if self._closed:
                    return
                self._running, work = self._left.popleft()
            work()
            with self._changed:
                self._running = None
                self._done += 1
                self._changed.notify_all()

"""Calls functions in the guests of labs, through one process in each."""

from __future__ import annotations

import pickle
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from accel_magic import own_python
from accel_magic.cluster.guest_server import SIZE
from accel_magic.errors import MachineError
from accel_magic.lab.vm.connection import GuestGoneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.vm.connection import GuestProcess
    from accel_magic.lab.vm.lab import Lab

LARGEST: Final = 64 << 20
"""Maximum bytes of an answer."""


class Answer:
    """The answer to one call.

    Args:
        ended: Whether nothing is answered any more.

    """

    def __init__(self, ended: Callable[[], bool]) -> None:
        self._come = threading.Event()
        self._data = b""
        self._ended = ended

    def give(self, data: bytes) -> None:
        """Set it."""
        self._data = data
        self._come.set()

    def wait(self, timeout: float) -> bool:
        """Whether it has come, or never will."""
        return self._come.wait(timeout) or self._ended()

    def get(self) -> bytes:
        """Return it as the guest sent it. Raises ConnectionError: there will be none."""
        if not self._come.is_set():
            raise ConnectionError("the process in the guest that serves calls has ended")
        return self._data


class GuestCalls:
    """Makes calls in one lab's guest; without answers if the guest has ended.

    Args:
        lab: The lab.

    """

    def __init__(self, lab: Lab) -> None:
        self._data = bytearray()
        self._waiting: deque[Answer] = deque()
        self._sending = threading.Lock()
        self._broken = False
        self._process: GuestProcess | None = None
        try:
            self._process = lab.popen(own_python.command("accel_magic.cluster.guest_server"), on_output=self._take)
        except MachineError:
            self._broken = True

    @property
    def ended(self) -> bool:
        """Whether nothing is answered any more."""
        return self._broken or self._process is None or self._process.ended

    def submit(self, function: Callable[[], object]) -> Answer:
        """Start a call of a function that is pickled by reference. It begins when the earlier ones have ended."""
        data = pickle.dumps(function)
        answer = Answer(lambda: self.ended)
        with self._sending:
            self._waiting.append(answer)
            try:
                if self._process is not None:
                    self._process.write(SIZE.pack(len(data)) + data)
            except GuestGoneError:
                self._broken = True
        return answer

    def _take(self, stream: int, data: bytes) -> None:
        """Take the process's output, in the connection's thread."""
        if stream != 1 or self._broken:
            return
        self._data += data
        while len(self._data) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._data)
            if size > LARGEST or not self._waiting:
                self._broken = True
                return
            if len(self._data) < SIZE.size + size:
                return
            self._waiting.popleft().give(bytes(self._data[SIZE.size : SIZE.size + size]))
            del self._data[: SIZE.size + size]


_calls: Final[weakref.WeakKeyDictionary[Lab, GuestCalls]] = weakref.WeakKeyDictionary()
_choosing: Final = threading.Lock()


def calls_in(lab: Lab) -> GuestCalls:
    """Return what makes calls in a lab: one process for all traces, because starting it takes seconds."""
    with _choosing:
        for other in [one for one in _calls if not one.running]:
            del _calls[other]
        found = _calls.get(lab)
        if found is None or found.ended:
            found = _calls[lab] = GuestCalls(lab)
        return found

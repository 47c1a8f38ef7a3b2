"""What one process has on the device."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accel_magic.errors import ProbeError
from accel_magic.gpu.standin.protocol import EVERYTHING, Result

if TYPE_CHECKING:
    from accel_magic.gpu.simt import Module

_NON_BLOCKING: Final = 1
"""CU_STREAM_NON_BLOCKING."""


_Thing = TypeVar("_Thing")


class UnknownHandleError(ProbeError):
    """A number that names nothing which the process has."""


class Handles(dict[int, _Thing]):
    """Things by the numbers that a process knows them by; all look-ups raise UnknownHandleError."""

    def __missing__(self, number: int) -> _Thing:
        raise UnknownHandleError(f"{number:#x} is nothing that this process has", code="standin.unknown-handle")

    def take(self, number: int) -> _Thing:
        """Take one out."""
        thing = self[number]
        del self[number]
        return thing


@dataclass(frozen=True)
class Function:
    """A kernel that a process has asked for."""

    module: int
    name: str


@dataclass
class Event:
    """An event that was recorded: the ticket of the moment, and the device's clock then, ns."""

    ticket: int
    time_ns: int = 0


@dataclass
class Stream:
    """A stream: the ticket of what was last put into it."""

    blocking: bool = True
    last: int = 0


@dataclass
class Client:
    """One process.

    Attributes:
        number: The server's own.
        pid: Of the process; 0 for this one.
        modules: By number.
        functions: By number.
        allocations: Addresses with their bytes.
        streams: By number; 0 is the default stream.
        events: By the number that the process gave them.
        fault: Of a kernel of this process: from then on every call gives it, as CUDA does; None while all is well.
        printed: What kernels wrote, and the process has not got yet.
        said: What went wrong, likewise.
        gone: The process has ended.

    """

    number: int
    pid: int
    modules: Handles[Module] = field(default_factory=Handles)
    functions: Handles[Function] = field(default_factory=Handles)
    allocations: Handles[int] = field(default_factory=Handles)
    streams: Handles[Stream] = field(default_factory=lambda: Handles({0: Stream()}))
    events: Handles[Event] = field(default_factory=Handles)
    fault: Result | None = None
    printed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gone: bool = False
    lock: Any = field(default_factory=threading.RLock)

    def require_alive(self) -> None:
        """Give nothing more to a process that has ended. Raises UnknownHandleError."""
        if self.gone:
            raise UnknownHandleError("the process has ended", code="standin.process-ended")

    @property
    def allocated(self) -> int:
        """All that it has allocated."""
        return sum(self.allocations.values())

    def open_stream(self, number: int, flags: int) -> None:
        """Make a stream; one that blocks waits for the default stream, and the default stream for it."""
        self.streams[number] = Stream(blocking=not flags & _NON_BLOCKING)

    def ticket(self, number: int) -> int:
        """What to wait for, for all that is in a stream to be done; `EVERYTHING` is all streams."""
        if number == EVERYTHING:
            awaited = list(self.streams.values())
        elif number == 0:
            awaited = [one for one in self.streams.values() if one.blocking]
        else:
            awaited = [self.streams[number]]
            if awaited[0].blocking:
                awaited.append(self.streams[0])
        return max((one.last for one in awaited), default=0)

    def take_printed(self) -> tuple[bytes, bytes]:
        """Give what the process shall write to stdout and stderr, once."""
        with self.lock:
            printed, said = "".join(self.printed), "".join(self.said)
            self.printed.clear()
            self.said.clear()
        return printed.encode(), said.encode()

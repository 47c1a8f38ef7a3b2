"""What one process has on the device."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from accel_magic.gpu.standin.protocol import EVERYTHING, Result

if TYPE_CHECKING:
    from accel_magic.gpu.simt import Module

_NON_BLOCKING: Final = 1
"""CU_STREAM_NON_BLOCKING."""


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
    modules: dict[int, Module] = field(default_factory=dict)
    functions: dict[int, Function] = field(default_factory=dict)
    allocations: dict[int, int] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=lambda: {0: Stream()})
    events: dict[int, Event] = field(default_factory=dict)
    fault: Result | None = None
    printed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gone: bool = False
    lock: Any = field(default_factory=threading.RLock)

    @property
    def allocated(self) -> int:
        """All that it has allocated."""
        return sum(self.allocations.values())

    def open_stream(self, number: int, flags: int) -> None:
        """Make a stream; one that blocks waits for the default stream, and the default stream for it."""
        self.streams[number] = Stream(blocking=not flags & _NON_BLOCKING)

    def ticket(self, number: int) -> int:
        """What to wait for, for all that is in a stream to be done: `EVERYTHING` is all streams. Raises KeyError."""
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

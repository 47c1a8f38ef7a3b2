"""The state of one client process: its objects on the device."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accel_magic.devices.mock_cuda.driver_protocol import EVERYTHING, CudaResult
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from accel_magic.devices.sim import LoadedModule

_NON_BLOCKING: Final = 1
"""CU_STREAM_NON_BLOCKING."""


_Thing = TypeVar("_Thing")


class UnknownHandleError(ProbeError):
    """A handle that the process does not have."""


class Handles(dict[int, _Thing]):
    """A process's objects by their handles; unknown handles raise UnknownHandleError."""

    def __missing__(self, number: int) -> _Thing:
        raise UnknownHandleError(f"this process has no handle {number:#x}", code="mock.unknown-handle")

    def take(self, number: int) -> _Thing:
        """Remove and return an object."""
        thing = self[number]
        del self[number]
        return thing


@dataclass(frozen=True)
class DriverFunction:
    """A kernel that a process has looked up."""

    module: int
    name: str


@dataclass
class Event:
    """A recorded event: its ticket in the queue, and the device's clock when it was reached, ns."""

    ticket: int
    time_ns: int = 0


@dataclass
class DriverStream:
    """A stream, with the ticket of the last work queued in it."""

    blocking: bool = True
    last: int = 0


@dataclass
class DriverClient:
    """One process.

    Attributes:
        number: The server's number for it.
        pid: Its process id; 0 for this process.
        modules: By number.
        functions: By number.
        allocations: Address to bytes.
        images: Handles of its textures and surfaces.
        streams: By number; 0 is the default stream.
        events: By the number that the process assigned.
        fault: A kernel's fault, which every later call returns, as in CUDA; None if there is none.
        printed: Kernels' output that the process has not received yet.
        said: Error messages that the process has not received yet.
        gone: Whether the process has ended.

    """

    number: int
    pid: int
    modules: Handles[LoadedModule] = field(default_factory=Handles)
    functions: Handles[DriverFunction] = field(default_factory=Handles)
    allocations: Handles[int] = field(default_factory=Handles)
    images: Handles[None] = field(default_factory=Handles)
    streams: Handles[DriverStream] = field(default_factory=lambda: Handles({0: DriverStream()}))
    events: Handles[Event] = field(default_factory=Handles)
    fault: CudaResult | None = None
    printed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gone: bool = False
    lock: Any = field(default_factory=threading.RLock)

    def require_alive(self) -> None:
        """Raise UnknownHandleError if the process has ended."""
        if self.gone:
            raise UnknownHandleError("the process has ended", code="mock.process-ended")

    @property
    def allocated(self) -> int:
        """Total bytes that it has allocated."""
        return sum(self.allocations.values())

    def open_stream(self, number: int, flags: int) -> None:
        """Create a stream; a blocking stream and the default stream wait for each other."""
        self.streams[number] = DriverStream(blocking=not flags & _NON_BLOCKING)

    def ticket(self, number: int) -> int:
        """Return the ticket to wait for until a stream's work is done; `EVERYTHING` is all streams."""
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
        """Remove and return the pending output for the process's stdout and stderr."""
        with self.lock:
            printed, said = "".join(self.printed), "".join(self.said)
            self.printed.clear()
            self.said.clear()
        return printed.encode(), said.encode()

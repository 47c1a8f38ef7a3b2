"""Memory that kernels of an OpenCL device share with the host: see `accel_magic.devices.device.DeviceMemory`."""

from __future__ import annotations

import ctypes
import math
import mmap
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.device import DeviceClock
from accel_magic.devices.opencl import opencl_library
from accel_magic.devices.opencl.opencl_library import COMPLETE, MARKER_STATUS
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.devices.device import MemoryKind
    from accel_magic.devices.launches import LaunchRequest
    from accel_magic.devices.opencl.opencl_library import OpenClDevice

_PAUSE_S: Final = 0.0002
_PATIENCE_S: Final = 10.0
"""A launch may wait for what the notebook does after the next one."""


@dataclass
class _Block:
    """Mapped memory: its file is closed when nothing refers to it any more."""

    mapped: mmap.mmap
    content: NDArray[np.uint8]


@dataclass
class OpenClMemory:
    """The host's own memory, which the device's kernels access at the same addresses. Methods are thread-safe.

    Attributes:
        device: The device, with fine-grained system shared virtual memory.
        numbered: Addresses of 8 bytes where programs read the launch's number. If there are any, only one launch can
            run at a time, so the next one waits for it.
        overlapping: Whether a launch did not wait any longer: records of the one before may have its number.

    """

    device: OpenClDevice
    numbered: list[int] = field(default_factory=list)
    overlapping: bool = False
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _queues: set[int] = field(default_factory=set)
    _running: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """The device's name in output."""
        return self.device.label

    @property
    def simulated(self) -> bool:
        """Always false: kernels run, if not on a GPU."""
        return False

    @property
    def multiprocessors(self) -> int:
        """Number of compute units."""
        return self.device.units

    def allocate(self, content: NDArray[np.uint8], kind: MemoryKind = "device") -> int:  # noqa: ARG002 - all memory is the host's
        """Allocate memory with this content and return its address, a multiple of a page."""
        address = self._map(-1, max(len(content), 1))
        self._blocks[address].content[: len(content)] = content
        return address

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file, live for kernels and `view`."""
        return self._map(descriptor, size)

    def _map(self, descriptor: int, size: int) -> int:
        try:
            mapped = mmap.mmap(descriptor, size)
        except (OSError, ValueError) as error:
            raise MachineError(
                f"{size:,} bytes of memory cannot be mapped",
                why=str(error),
                fix="use smaller maps",
                code="opencl.no-memory",
            ) from None
        content = np.frombuffer(mapped, np.uint8)
        address = int(content.ctypes.data)
        self._blocks[address] = _Block(mapped, content)
        return address

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes, without waiting for kernels."""
        return self.view(address, size).copy()

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a live view of (size,) bytes."""
        for start, block in tuple(self._blocks.items()):
            if start <= address and address + size <= start + len(block.content):
                return block.content[address - start : address - start + size]
        raise MachineError(
            "memory of the device is gone", why="the trace has ended", fix="trace again", code="opencl.no-memory"
        )

    def free(self, address: int) -> None:
        """Free memory; it stays mapped if kernels may still write to it."""
        block = self._blocks.pop(address)
        if self._running:
            _GIVEN_UP.append(block)

    def launching(self, launch: LaunchRequest) -> None:
        """Remember the queue, to wait for it, and write the launch's number once those before have ended."""
        with self._lock:
            if self.numbered:
                waited = [self._wait_for(queue, _PATIENCE_S) for queue in sorted(self._queues)]
                self.overlapping |= not all(waited)
                for address in self.numbered:
                    self.view(address, 8).view(np.uint64)[0] = launch.number or 0
            if launch.stream and launch.stream not in self._queues:
                opencl_library.library().clRetainCommandQueue(ctypes.c_void_p(launch.stream))
                self._queues.add(launch.stream)

    def finish(self, stream: int) -> None:
        """Wait for the work queued in a queue."""
        self._wait_for(stream)

    def wait(self) -> bool:
        """Wait for all queues; False if an interrupt came first."""
        try:
            for queue in sorted(self._queues):
                self._wait_for(queue)
        except KeyboardInterrupt:
            self._running = True
        return not self._running

    def close(self) -> None:
        """Release the queues."""
        with self._lock:
            while self._queues:
                opencl_library.library().clReleaseCommandQueue(ctypes.c_void_p(self._queues.pop()))

    def clock(self) -> DeviceClock:
        """Return the identity: kernels on a processor read the host's clock."""
        return DeviceClock()

    def elsewhere(self) -> str:
        """Return '': the adapter knows which device a kernel is for."""
        return ""

    def _wait_for(self, queue: int, patience_s: float = math.inf) -> bool:
        """Poll, because a call that waits could not be interrupted. Returns whether all ended in time."""
        end = time.monotonic() + patience_s
        api, event = opencl_library.library(), ctypes.c_void_p()
        if api.clEnqueueMarkerWithWaitList(ctypes.c_void_p(queue), 0, None, ctypes.byref(event)):
            return True  # the queue is gone, and its kernels with it
        api.clFlush(ctypes.c_void_p(queue))
        try:
            while _status(api, event) > COMPLETE:
                if time.monotonic() > end:
                    return False
                time.sleep(_PAUSE_S)
            return True
        finally:
            api.clReleaseEvent(event)


_GIVEN_UP: Final[list[_Block]] = []
"""Memory that must stay mapped because kernels may still write to it."""


def _status(api: Any, event: ctypes.c_void_p) -> int:
    status = ctypes.c_int()
    if api.clGetEventInfo(event, MARKER_STATUS, ctypes.c_size_t(4), ctypes.byref(status), None):
        return COMPLETE
    return status.value

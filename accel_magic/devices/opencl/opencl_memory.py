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
from accel_magic.devices.opencl.opencl_context import OpenClContext
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
    """Mapped memory: its file is closed when nothing refers to it any more.

    Attributes:
        content: The memory; after `bind` to a context, memory of that context, if the host can access it.
        kind: What it was allocated for.
        placed: Its address in the context; 0 if it has none.
        in_host: Whether `content` is what kernels access.

    """

    mapped: mmap.mmap
    content: NDArray[np.uint8]
    kind: MemoryKind = "host"
    placed: int = 0
    in_host: bool = True


@dataclass
class OpenClMemory:
    """Memory that the device's kernels and the host access. Methods are thread-safe.

    If kernels can access all memory of the host, this is that memory. Otherwise it is memory of the context of the
    first traced kernel: `bind` moves it there. Addresses stay those of the host's memory, and `placed` says where
    kernels find it.

    Attributes:
        device: The device.
        numbered: Addresses of 8 bytes where programs read the launch's number. If there are any, only one launch can
            run at a time, so the next one waits for it.
        overlapping: Whether a launch did not wait any longer: records of the one before may have its number.

    """

    device: OpenClDevice
    numbered: list[int] = field(default_factory=list)
    overlapping: bool = False
    _context: OpenClContext | None = None
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

    def allocate(self, content: NDArray[np.uint8], kind: MemoryKind = "device") -> int:
        """Allocate memory with this content and return its address, a multiple of a page."""
        address = self._map(-1, max(len(content), 1), kind)
        self._blocks[address].content[: len(content)] = content
        return address

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file, live for kernels and `view`. Raises MachineError if kernels cannot access it."""
        if self.device.sharing != "system":
            raise MachineError(
                "programs of the kernel and of this device cannot share maps",
                why="its kernels cannot access all memory of the host",
                fix="give the programs maps of their own",
                code="opencl.no-memory",
            )
        return self._map(descriptor, size, "host")

    def bind(self, context: int) -> bool:
        """Move the memory to a context if that is needed. False if it is in another one. Raises MachineError."""
        if self.device.sharing == "system":
            return True
        with self._lock:
            if self._context is None:
                found = OpenClContext(self.device, context)
                for block in self._blocks.values():
                    _move(block, found)
                self._context = found
            return self._context.handle == context

    def placed(self, address: int) -> int:
        """Where kernels find what is at an address."""
        for start, block in tuple(self._blocks.items()):
            if start <= address < start + len(block.content):
                return address - start + block.placed if block.placed else address
        return address

    def attach(self, kernel: int) -> None:
        """Tell a kernel with programs in it which memory it accesses."""
        if self._context is not None:
            self._context.attach(kernel)

    def _map(self, descriptor: int, size: int, kind: MemoryKind) -> int:
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
        self._blocks[address] = _Block(mapped, content, kind)
        return address

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes, without waiting for kernels."""
        return self.view(address, size).copy()

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a view of (size,) bytes, live unless they are in the device's own memory."""
        for start, block in tuple(self._blocks.items()):
            if start <= address and address + size <= start + len(block.content):
                at = address - start
                if self._context is not None and not block.in_host:
                    self._context.copy(int(block.content.ctypes.data) + at, block.placed + at, size)
                return block.content[at : at + size]
        raise MachineError(
            "memory of the device is gone", why="the trace has ended", fix="trace again", code="opencl.no-memory"
        )

    def free(self, address: int) -> None:
        """Free memory; it stays mapped if kernels may still write to it."""
        block = self._blocks.pop(address)
        if self._running:
            _GIVEN_UP.append((block, self._context))
        elif self._context is not None and block.placed:
            self._context.free(block.placed)

    def launching(self, launch: LaunchRequest) -> None:
        """Remember the queue, to wait for it, and write the launch's number once those before have ended."""
        with self._lock:
            if self.numbered:
                waited = [self._wait_for(queue, _PATIENCE_S) for queue in sorted(self._queues)]
                self.overlapping |= not all(waited)
                for address in self.numbered:
                    ctypes.c_uint64.from_address(address).value = launch.number or 0
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
        """Release the queues and the context."""
        with self._lock:
            while self._queues:
                opencl_library.library().clReleaseCommandQueue(ctypes.c_void_p(self._queues.pop()))
            if self._context is not None and not self._running:
                self._context.close()

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


def _move(block: _Block, context: OpenClContext) -> None:
    """Place a block in a context, with its content."""
    size = len(block.content)
    block.placed, block.in_host = context.allocate(size, block.kind)
    if block.in_host:
        moved = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(block.placed))
        moved[:] = block.content
        block.content = moved
    else:
        context.copy(block.placed, int(block.content.ctypes.data), size)


_GIVEN_UP: Final[list[tuple[_Block, OpenClContext | None]]] = []
"""Memory that must stay mapped because kernels may still write to it."""


def _status(api: Any, event: ctypes.c_void_p) -> int:
    status = ctypes.c_int()
    if api.clGetEventInfo(event, MARKER_STATUS, ctypes.c_size_t(4), ctypes.byref(status), None):
        return COMPLETE
    return status.value

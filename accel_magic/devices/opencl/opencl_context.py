"""Memory of an OpenCL context, for devices whose kernels cannot access all memory of the host."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from accel_magic.devices.opencl import opencl_library
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.devices.device import MemoryKind
    from accel_magic.devices.opencl.opencl_library import OpenClDevice

# Constants of the OpenCL specification and of cl_intel_unified_shared_memory.
_READ_WRITE, _FINE_GRAINED, _ATOMICS = 1, 1 << 10, 1 << 11
_POINTERS: Final = 0x11B6
_ANY_HOST_MEMORY, _ANY_DEVICE_MEMORY = 0x4200, 0x4201
_LARGEST_ALIGNMENT: Final = 128
"""Drivers take no larger one."""
_LINE: Final = 256
"""Alignment of maps: a cache line of any device."""


@dataclass
class OpenClContext:
    """Allocates memory that kernels of one device access, in one context, which lives until `close`.

    Attributes:
        device: The device; its `sharing` is `unified` or `buffers`.
        handle: The `cl_context`.

    """

    device: OpenClDevice
    handle: int
    _starts: dict[int, int] = field(default_factory=dict)
    _queue: int = 0

    def __post_init__(self) -> None:
        opencl_library.library().clRetainContext(ctypes.c_void_p(self.handle))

    def allocate(self, size: int, kind: MemoryKind) -> tuple[int, bool]:
        """Allocate memory; returns its address, and whether the host can access it there. Raises MachineError."""
        api, error = opencl_library.library(), ctypes.c_int()
        context, room = ctypes.c_void_p(self.handle), ctypes.c_size_t(size + _LINE)
        in_host = self.device.sharing == "buffers" or kind == "host"
        if self.device.sharing == "buffers":
            api.clSVMAlloc.restype = ctypes.c_void_p
            flags = ctypes.c_uint64(_READ_WRITE | _FINE_GRAINED | _ATOMICS)
            start = api.clSVMAlloc(context, flags, room, _LARGEST_ALIGNMENT)
        elif in_host:
            start = self._call("clHostMemAllocINTEL", ctypes.c_void_p)(context, None, room, 0, ctypes.byref(error))
        else:
            device = ctypes.c_void_p(self.device.handle)
            allocate = self._call("clDeviceMemAllocINTEL", ctypes.c_void_p)
            start = allocate(context, device, None, room, 0, ctypes.byref(error))
        if not start or error.value:
            raise MachineError(
                f"{size:,} bytes for maps cannot be allocated on the device",
                why=f"the driver returned error {error.value}" if error.value else "the driver refuses",
                fix="use smaller maps, or trace fewer threads: --threads N",
                code="opencl.no-memory",
            )
        address = -(-start // _LINE) * _LINE
        self._starts[address] = start
        return address, in_host

    def free(self, address: int) -> None:
        """Free memory; the driver waits for kernels that use it."""
        start, context = ctypes.c_void_p(self._starts.pop(address)), ctypes.c_void_p(self.handle)
        if self.device.sharing == "buffers":
            opencl_library.library().clSVMFree(context, start)
        else:
            self._call("clMemBlockingFreeINTEL", ctypes.c_int)(context, start)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy between memory of the device and of the host. Raises MachineError."""
        api, error = opencl_library.library(), ctypes.c_int()
        if not self._queue:
            api.clCreateCommandQueue.restype = ctypes.c_void_p
            device = ctypes.c_void_p(self.device.handle)
            self._queue = api.clCreateCommandQueue(
                ctypes.c_void_p(self.handle), device, ctypes.c_uint64(0), ctypes.byref(error)
            )
        copy = self._call("clEnqueueMemcpyINTEL", ctypes.c_int)
        places = ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size)
        failed = error.value or copy(ctypes.c_void_p(self._queue), 1, *places, 0, None, None)
        if failed:
            raise MachineError(
                "the device's memory cannot be copied",
                why=f"the driver returned error {failed}",
                fix="run the kernel without tracing",
                code="opencl.failed",
            )

    def attach(self, kernel: int) -> None:
        """Tell a kernel with programs in it which memory it accesses."""
        api, handle = opencl_library.library(), ctypes.c_void_p(kernel)
        if self.device.sharing == "buffers":
            all_starts = (ctypes.c_void_p * len(self._starts))(*self._starts.values())
            api.clSetKernelExecInfo(handle, _POINTERS, ctypes.c_size_t(ctypes.sizeof(all_starts)), all_starts)
            return
        yes = ctypes.c_uint(1)
        for what in (_ANY_HOST_MEMORY, _ANY_DEVICE_MEMORY):
            api.clSetKernelExecInfo(handle, what, ctypes.c_size_t(4), ctypes.byref(yes))

    def close(self) -> None:
        """Release the context and the queue of copies."""
        api = opencl_library.library()
        if self._queue:
            api.clReleaseCommandQueue(ctypes.c_void_p(self._queue))
        api.clReleaseContext(ctypes.c_void_p(self.handle))

    def _call(self, name: str, result: Any) -> Any:
        function = opencl_library.extension(self.device, name, result)
        if function is None:
            raise MachineError(
                f"the driver has no {name}",
                why="it says that it has cl_intel_unified_shared_memory",
                fix="update the driver",
                code="opencl.failed",
            )
        return function

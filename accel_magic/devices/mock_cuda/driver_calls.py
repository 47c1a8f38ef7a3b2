"""The mock CUDA driver's calls that its library forwards to the server."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from accel_magic.devices.launches import SIMULATED_DEVICE, KernelSource, LaunchRequest
from accel_magic.devices.mock_cuda import textures
from accel_magic.devices.mock_cuda.client_process import DriverFunction, Event, UnknownHandleError
from accel_magic.devices.mock_cuda.driver_protocol import (
    ATTRIBUTE,
    EVERYTHING,
    GREETING,
    PARAMETER,
    CudaResult,
    DriverOperation,
    DriverRequest,
    Reply,
)
from accel_magic.devices.mock_cuda.ptx_images import CAPABILITY, NoPtxError
from accel_magic.devices.sim import DeviceFault
from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.ptx.entries import architecture, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.devices.mock_cuda.client_process import DriverClient
    from accel_magic.devices.mock_cuda.device_queue import DeviceQueue
    from accel_magic.devices.mock_cuda.ptx_images import ImageReader
    from accel_magic.devices.sim import LoadedModule, SimulatedDevice
    from accel_magic.devices.sim.executable import ExecutableFunction


_FAULTS = (
    ("out of bounds", CudaResult.ILLEGAL_ADDRESS),
    ("misaligned", CudaResult.MISALIGNED_ADDRESS),
    ("assertion failed", CudaResult.ASSERT),
    ("endless loop", CudaResult.LAUNCH_TIMEOUT),
)
"""Results of kernels' faults, by words of the device's message; LAUNCH_FAILED for others."""
_REFUSED = (
    (UnknownHandleError, CudaResult.INVALID_HANDLE),
    (NoPtxError, CudaResult.NO_BINARY_FOR_GPU),
    (MachineError, CudaResult.OUT_OF_MEMORY),
    (ProbeError, CudaResult.INVALID_VALUE),
    (AccelMagicError, CudaResult.INVALID_PTX),
)
"""Results of calls that fail on the device, by the error's class: the first match."""
_EVEN_AFTER_FAULTS = frozenset(
    {
        DriverOperation.FREE,
        DriverOperation.UNLOAD,
        DriverOperation.CLOSE,
        DriverOperation.FORGET,
        DriverOperation.RESET,
        DriverOperation.DESTROY,
    }
)


@dataclass(frozen=True)
class DriverClock:
    """The device's clock: `offset_ns` ahead of CLOCK_MONOTONIC at `start_ns`, and gaining `drift` ns in each ns."""

    offset_ns: int = 0
    drift: float = 0.0
    start_ns: int = field(default_factory=time.monotonic_ns)

    def now(self) -> int:
        """Return the device's time, ns."""
        host = time.monotonic_ns()
        return host + self.offset_ns + round((host - self.start_ns) * self.drift)


@dataclass
class DriverCalls:
    """All calls, for all processes.

    Attributes:
        device: Runs the kernels.
        observer: Sees modules and launches; None if there is none.
        framework: The name that the observer gets for the programs.
        clock: The device's clock.
        most_bytes: Most bytes that a process may allocate.
        images: Finds PTX.
        queue: The device's work.

    """

    device: SimulatedDevice
    observer: Observer | None
    framework: str
    clock: DriverClock
    most_bytes: int
    images: ImageReader
    queue: DeviceQueue
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def answer(self, client: DriverClient, request: DriverRequest, tid: int = 0) -> Reply:
        """Serve a request of one thread of a process; waits block."""
        reply = self._reply(client, request, tid)
        fault = client.fault
        if fault is not None:
            reply = Reply(fault)
        printed, said = client.take_printed()
        return replace(reply, printed=printed, said=reply.said + said)

    def _reply(self, client: DriverClient, request: DriverRequest, tid: int) -> Reply:
        if client.fault is not None and request.operation not in _EVEN_AFTER_FAULTS:
            return Reply()
        try:
            if request.operation is DriverOperation.LAUNCH:
                return self.launch(client, request, tid)
            return _CALLS[request.operation](self, client, request)
        except AccelMagicError as error:
            said = _said(error)
            # Programs that load a module may request the error log.
            data = said if request.operation is DriverOperation.LOAD else b""
            return Reply(next(result for kind, result in _REFUSED if isinstance(error, kind)), data=data, said=said)
        except Exception as error:  # noqa: BLE001 - a program must not hang because of our bugs: it gets an error
            return Reply(CudaResult.UNKNOWN, said=_said(error))

    def release(self, client: DriverClient) -> None:
        """Free everything of a process, when it resets the device or has ended."""
        with client.lock:
            for module in client.modules.values():
                self.device.unload(module)
            for address in client.allocations:
                self.device.free(address)
            for handle in client.images:
                self.device.images.remove(handle)
            client.images.clear()
            client.modules.clear()
            client.functions.clear()
            client.allocations.clear()
            client.events.clear()

    def allocate(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Allocate memory; for 0 bytes, return the free and the total bytes."""
        size = request.numbers[0]
        room = min(self.most_bytes, self.device.memory.size)
        with client.lock:
            if not size:
                return Reply(numbers=(max(room - self.device.memory.allocated, 0), room))
            client.require_alive()
            if client.allocated + size > self.most_bytes:
                return Reply(CudaResult.OUT_OF_MEMORY)
            address = self.device.allocate(size)
            client.allocations[address] = size
        return Reply(numbers=(address,))

    def share(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Map a file into the device's memory."""
        with client.lock:
            client.require_alive()
            address = self.device.share(request.descriptor, request.numbers[0])
            client.allocations[address] = request.numbers[0]
        return Reply(numbers=(address,))

    def free(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Free memory after the work queued before; when freed in a stream, do not wait for that here."""
        address, stream = request.numbers[:2]
        _ = client.allocations[address]

        def free() -> None:
            with client.lock:
                client.allocations.take(address)
                self.device.free(address)

        if stream == EVERYTHING:
            self.queue.wait(client.ticket(EVERYTHING))
            free()
        else:
            self._give(client, stream, free, always=True)
        return Reply()

    def image(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Create a texture or surface."""
        made = textures.view(request.data)
        with client.lock:
            client.require_alive()
            handle = self.device.images.add(made)
            client.images[handle] = None
        return Reply(numbers=(handle,))

    def destroy(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Destroy a texture or surface after the work that was queued before."""
        handle = request.numbers[0]
        _ = client.images[handle]
        self.queue.wait(client.ticket(EVERYTHING))
        with client.lock:
            client.images.take(handle)
            self.device.images.remove(handle)
        return Reply()

    def load(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Load a module, after the observer has rewritten it."""
        ptx = self.images.ptx(request.data)
        if self.observer is not None:
            names, arch = tuple(entries(ptx)), architecture(ptx)
            ptx = self.observer.rewrite(KernelSource(self.framework, names, ptx, arch, pid=client.pid))
        number = next(self._numbers)
        with client.lock:
            client.require_alive()
            client.modules[number] = self.device.load(ptx)
        return Reply(numbers=(number,))

    def unload(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Unload a module after its kernels."""
        with client.lock:
            module = client.modules.take(request.numbers[0])
        self.queue.wait(client.ticket(EVERYTHING))
        self.device.unload(module)
        return Reply()

    def function(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Find a kernel and the layout of its parameters."""
        number, name = request.numbers[0], request.data.decode(errors="replace")
        module = client.modules[number]
        compiled = _compiled(module, name)
        if compiled is None:
            return Reply(CudaResult.NOT_FOUND)
        own = next(self._numbers)
        client.functions[own] = DriverFunction(number, name)
        slots = b"".join(PARAMETER.pack(slot.offset, slot.size) for slot in compiled.parameters)
        return Reply(numbers=(own, module.program.shared, compiled.frame, compiled.threads or 1024), data=slots)

    def names(self, client: DriverClient, request: DriverRequest) -> Reply:
        """List the names of a module's kernels."""
        module = client.modules[request.numbers[0]]
        return Reply(data=b"".join(name.encode() + b"\0" for name in module.kernels))

    def variable(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Find a module's variable."""
        module = client.modules[request.numbers[0]]
        found = module.globals.get(request.data.decode(errors="replace"))
        return Reply(CudaResult.NOT_FOUND) if found is None else Reply(numbers=found)

    def launch(self, client: DriverClient, request: DriverRequest, tid: int) -> Reply:
        """Queue a kernel."""
        number, stream, xy, zx, yz, rest = request.numbers
        shared, cooperative = rest & 0xFFFFFFFF, bool(rest >> 32)
        function = client.functions[number]
        module = client.modules[function.module]
        grid, block = (*_halves(xy), _halves(zx)[0]), (_halves(zx)[1], *_halves(yz))
        try:
            self.device.check(module, function.name, grid, block, shared, cooperative=cooperative)
        except ProbeError:
            if not cooperative:
                raise
            self.device.check(module, function.name, grid, block, shared)
            return Reply(CudaResult.COOPERATIVE_LAUNCH_TOO_LARGE)
        compiled = _compiled(module, function.name)
        slots = compiled.parameters if compiled is not None else ()
        given = [request.data[slot.offset : slot.offset + slot.size] for slot in slots]
        now = time.monotonic_ns()
        launch = LaunchRequest(self.framework, function.name, grid, block, shared, stream, now, pid=client.pid, tid=tid)
        if self.observer is not None:
            self.observer.launching(launch)
        launch = replace(launch, returned_ns=time.monotonic_ns())

        def run() -> None:
            self.device.time_ns = max(self.device.time_ns, self.clock.now())
            ran = self.device.launch(module, function.name, grid, block, given, shared, cooperative=cooperative)
            with client.lock:
                client.printed += ran.printed
            if self.observer is not None:
                self.observer.launched(replace(launch, device_ns=ran.duration_ns, number=ran.number))

        self._give(client, stream, run)
        return Reply()

    def wait(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Wait for a stream, or report whether it is done."""
        stream, wait = request.numbers[:2]
        return self._until(client.ticket(stream), wait=bool(wait))

    def open_stream(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Create a stream."""
        number = next(self._numbers)
        client.open_stream(number, request.numbers[0])
        return Reply(numbers=(number,))

    def close_stream(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Close a stream; its queued work still runs."""
        with client.lock:
            gone = client.streams.take(request.numbers[0])
            client.streams[0].last = max(client.streams[0].last, gone.last)
        return Reply()

    def record(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Record an event: the device's time when it reaches this point."""
        number, stream = request.numbers[:2]
        event = client.events[number] = Event(0)

        def note() -> None:
            event.time_ns = self.device.time_ns = max(self.device.time_ns, self.clock.now())

        event.ticket = self._give(client, stream, note)
        return Reply()

    def event(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Wait for an event, or report whether it was reached; also return its time."""
        event = client.events[request.numbers[0]]
        return replace(self._until(event.ticket, wait=bool(request.numbers[1])), numbers=(event.time_ns,))

    def forget(self, client: DriverClient, request: DriverRequest) -> Reply:
        """Forget an event."""
        client.events.pop(request.numbers[0], None)
        return Reply()

    def reset(self, client: DriverClient, _request: DriverRequest) -> Reply:
        """Free everything and clear a fault."""
        self.queue.wait(client.ticket(EVERYTHING))
        self.release(client)
        client.fault = None
        return Reply()

    def _until(self, ticket: int, *, wait: bool) -> Reply:
        if wait:
            self.queue.wait(ticket)
        return Reply() if self.queue.done(ticket) else Reply(CudaResult.NOT_READY)

    def _give(self, client: DriverClient, stream: int, work: Callable[[], None], *, always: bool = False) -> int:
        """Queue work in a stream; after the process's fault, only `always` work is done, after its end none."""

        def guarded() -> None:
            if not client.gone and (always or client.fault is None):
                self._attempt(client, work)

        with client.lock:
            into = client.streams[stream]
            into.last = ticket = self.queue.give(client, guarded)
        return ticket

    def _attempt(self, client: DriverClient, work: Callable[[], None]) -> None:
        try:
            work()
        except DeviceFault as fault:
            self._failed(client, _result(fault), fault)
        except AccelMagicError as error:
            self._failed(client, CudaResult.LAUNCH_FAILED, error)
        except Exception as error:  # noqa: BLE001 - the device's thread must survive: the process gets an error
            self._failed(client, CudaResult.LAUNCH_FAILED, error)

    def _failed(self, client: DriverClient, result: CudaResult, error: Exception) -> None:
        with client.lock:
            client.fault = result
            client.said.append(_said(error).decode())


_CALLS: dict[DriverOperation, Callable[[DriverCalls, DriverClient, DriverRequest], Reply]] = {
    DriverOperation.ALLOCATE: DriverCalls.allocate,
    DriverOperation.SHARE: DriverCalls.share,
    DriverOperation.FREE: DriverCalls.free,
    DriverOperation.LOAD: DriverCalls.load,
    DriverOperation.UNLOAD: DriverCalls.unload,
    DriverOperation.FUNCTION: DriverCalls.function,
    DriverOperation.NAMES: DriverCalls.names,
    DriverOperation.VARIABLE: DriverCalls.variable,
    DriverOperation.WAIT: DriverCalls.wait,
    DriverOperation.STREAM: DriverCalls.open_stream,
    DriverOperation.CLOSE: DriverCalls.close_stream,
    DriverOperation.RECORD: DriverCalls.record,
    DriverOperation.EVENT: DriverCalls.event,
    DriverOperation.FORGET: DriverCalls.forget,
    DriverOperation.RESET: DriverCalls.reset,
    DriverOperation.IMAGE: DriverCalls.image,
    DriverOperation.DESTROY: DriverCalls.destroy,
}


def _compiled(module: LoadedModule, name: str) -> ExecutableFunction | None:
    return next((one for one in module.program.functions if one.kernel and one.name == name), None)


def _halves(packed: int) -> tuple[int, int]:
    return packed & 0xFFFFFFFF, packed >> 32


def _result(fault: DeviceFault) -> CudaResult:
    return next((result for words, result in _FAULTS if words in fault.what), CudaResult.LAUNCH_FAILED)


def _said(error: Exception) -> bytes:
    text = str(error) if isinstance(error, AccelMagicError) else f"{type(error).__name__}: {error}"
    begin = "" if text.startswith(SIMULATED_DEVICE) else f"{SIMULATED_DEVICE}: "
    return f"{begin}{text}\n".encode()


UUID: Final = b"accel_magic CPU\0"
_COORDINATES = {2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535}
"""Most threads per block and most blocks per grid in x, y, z."""
_ATTRIBUTES: Final = {
    1: 1024,  # threads per block
    **_COORDINATES,
    8: 48 << 10,  # shared memory per block, unless a kernel opts in to more
    9: 64 << 10,  # constant memory
    10: 32,  # threads per warp
    11: 2**31 - 1,  # largest pitch of copies
    12: 1 << 16,  # registers per block
    13: 1_000_000,  # clock, kHz: a cycle is a nanosecond
    14: 512,  # alignment of textures
    15: 1,  # copies overlap kernels
    19: 1,  # maps host memory
    21: 1 << 17,  # width of one-dimensional textures
    22: 1 << 17,  # width of two-dimensional textures
    23: 1 << 16,  # their height
    **dict.fromkeys((24, 25, 26), 1 << 14),  # sizes of three-dimensional textures
    **dict.fromkeys((27, 28, 42, 45, 46, 52, 53, 73, 74, 77), 1 << 15),  # of layered, gathered, mipmapped, cube maps
    **dict.fromkeys((29, 43, 62, 65), 1 << 11),  # layers
    **dict.fromkeys((54, 68), 2046),  # faces of layered cube maps
    31: 1,  # concurrent kernels
    36: 1_000_000,  # memory clock, kHz
    37: 256,  # bits of the memory bus
    38: 4 << 20,  # L2 cache, bytes
    39: 2048,  # threads per multiprocessor
    40: 1,  # copy engines
    41: 1,  # unified address space with the host
    51: 32,  # alignment of the pitch of textures
    **dict.fromkeys((55, 61, 63, 64, 66, 67), 1 << 15),  # width of one-dimensional, layered and cube map surfaces
    56: 1 << 17,  # width of two-dimensional surfaces
    57: 1 << 16,  # their height
    **dict.fromkeys((58, 59, 60), 1 << 14),  # sizes of three-dimensional surfaces
    69: 1 << 28,  # width of textures over linear memory
    70: 131072,  # width of textures over pitched memory
    71: 65000,  # their height
    72: 2097120,  # their pitch, bytes
    75: CAPABILITY[0],
    76: CAPABILITY[1],
    78: 1,  # streams have priorities
    79: 1,  # global memory in the L1 cache
    80: 1,  # local memory in the L1 cache
    81: 164 << 10,  # shared memory per multiprocessor
    82: 1 << 16,  # registers per multiprocessor
    83: 1,  # managed memory
    87: 2,  # ratio of single to double precision performance
    90: 1,  # compute preemption
    95: 1,  # cooperative launches
    97: 163 << 10,  # shared memory per block with opt-in
    99: 1,  # host memory can be registered
    106: 32,  # blocks per multiprocessor
    111: 1 << 10,  # shared memory per block reserved by the driver
    115: 1,  # memory pools
}
"""CUdevice_attribute to its value: limits of compute capability 8.0 (CUDA C++ Programming Guide), invented rates."""
_MULTIPROCESSORS = 16


def greeting(multiprocessors: int) -> bytes:
    """Return what the library receives when it connects: `struct greeting` of mock_cuda.h."""
    pairs = {**_ATTRIBUTES, _MULTIPROCESSORS: multiprocessors}
    return GREETING.pack(SIMULATED_DEVICE.encode(), UUID) + b"".join(ATTRIBUTE.pack(*pair) for pair in pairs.items())

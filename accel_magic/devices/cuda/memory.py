"""Memory on an NVIDIA GPU for the maps of a trace: see `accel_magic.devices.device.DeviceMemory`."""

from __future__ import annotations

import ctypes
import mmap
import signal
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, Self

import numpy as np

from accel_magic.devices.cuda import driver as cuda
from accel_magic.devices.cuda import gpus
from accel_magic.devices.cuda.clock import BYTES, ROUNDS, ClockKernel
from accel_magic.devices.cuda.driver import DriverError
from accel_magic.errors import MachineError
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from accel_magic.devices.cuda.driver import CudaDriver
    from accel_magic.devices.cuda.gpus import Gpu
    from accel_magic.devices.device import DeviceClock
    from accel_magic.devices.device import MemoryKind as Kind
    from accel_magic.devices.launches import LaunchRequest

_STAGING: Final = 4 << 20
_WAIT_S: Final = 0.1
_GIVEN_UP: Final[list[CudaMemory]] = []
"""Instances whose memory must stay mapped because kernels may still write to it."""


@dataclass(frozen=True)
class _Block:
    """Memory at a device address.

    Attributes:
        size: Bytes.
        host: The same bytes on the host, (size,) uint8; None if the host cannot access them.
        free: The driver function that frees or unregisters it.
        handle: The argument of that function.

    """

    size: int
    host: NDArray[np.uint8] | None
    free: str
    handle: int


class CudaMemory:
    """Memory of one GPU, and its clock. Methods may be called from any thread; none changes its current context.

    Args:
        driver: The driver.
        gpu: The GPU.
        context: The context that owns the memory; kernels of other contexts cannot access it.
        retained: Whether `context` is the GPU's primary context, which is kept alive until `close`.

    Attributes:
        given_up: Waiting was abandoned while kernels were still running; their memory stays allocated.

    """

    def __init__(self, driver: CudaDriver, gpu: Gpu, context: int, *, retained: bool) -> None:
        self.gpu = gpu
        self.given_up = False
        self._driver, self._context, self._retained = driver, context, retained
        self._lock = threading.Lock()
        self._blocks: dict[int, _Block] = {}
        self._stream = 0
        self._clocks = ExitStack()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, number: int | None = None, driver: CudaDriver | None = None) -> Self:
        """Open a GPU in the thread's current context, or in the GPU's primary context.

        Args:
            number: The driver's number for the GPU; None for that of the current context, else the first.
            driver: The driver; None for the machine's.

        Raises:
            MachineError: There is no driver, no such GPU, or the GPU cannot be used.

        """
        driver = driver or cuda.load()
        gpu = gpus.chosen(number, driver)
        context, retained = gpus.context_of(driver, gpu)
        return cls(driver, gpu, context, retained=retained)

    def _prepare(self) -> None:
        with self._current():
            self._stream = self._driver.handle("cuStreamCreate", cuda.STREAM_NON_BLOCKING)
        self._staging = self.view(self.allocate(np.zeros(_STAGING, np.uint8), "host"), _STAGING)
        mailbox = self.allocate(np.zeros(BYTES, np.uint8), "host")
        words = self.view(mailbox, BYTES).data.cast("Q")
        # The simulated device's clock does not advance while a kernel waits for the host.
        rounds = 1 if self.simulated else ROUNDS
        with self._current():
            self._clock = ClockKernel(self._driver, self._stream, mailbox, words, rounds=rounds)
        self._clocks.callback(self._clock.unload)

    @property
    def name(self) -> str:
        """The GPU's model, with the driver's version."""
        return self.gpu.name

    @property
    def simulated(self) -> bool:
        """Whether it is the simulated device behind the mock CUDA driver."""
        return self.gpu.simulated

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors."""
        return self.gpu.multiprocessors

    def allocate(self, content: NDArray[np.uint8], kind: Kind = "device") -> int:
        """Allocate memory with this content and return its device address. Raises MachineError if memory runs out."""
        with self._current():
            return self._allocate_device(content) if kind == "device" else self._allocate_host(content)

    def _allocate_device(self, content: NDArray[np.uint8]) -> int:
        size = max(len(content), 1)
        try:
            address = self._driver.handle("cuMemAlloc_v2", size)
        except DriverError as error:
            raise self._no_room(error, size) from None
        self._blocks[address] = _Block(size, None, "cuMemFree_v2", address)
        try:
            self._fill(address, content, size)
        except BaseException:
            with _unless_gone():
                self._give_back(address)
            raise
        return address

    def _fill(self, address: int, content: NDArray[np.uint8], size: int) -> None:
        """Write the content. Most of it is zero: only pieces with nonzero bytes are copied."""
        self._driver.call("cuMemsetD8Async", address, 0, size, self._stream)
        for at in range(0, len(content), _STAGING):
            piece = np.ascontiguousarray(content[at : at + _STAGING])
            if piece.any():
                self._driver.call("cuMemcpyHtoDAsync_v2", address + at, piece.ctypes.data, len(piece), self._stream)
                self._driver.call("cuStreamSynchronize", self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)

    def _allocate_host(self, content: NDArray[np.uint8]) -> int:
        size = max(len(content), 1)
        whole = _own_memory(size)
        whole[: len(content)] = content
        try:
            self._driver.call("cuMemHostRegister_v2", whole.ctypes.data, len(whole), cuda.HOST_PORTABLE_AND_MAPPED)
        except DriverError as error:
            if error.result != cuda.OUT_OF_MEMORY:
                raise
            raise MachineError(
                f"the host has no free memory for {size:,} bytes of maps that the GPU can access",
                why=error.why,
                fix="free memory, lower the ring buffers' max_entries, or trace fewer threads: --threads N",
                code="cuda.out-of-host-memory",
            ) from None
        return self._mapped(whole, size)

    def _mapped(self, whole: NDArray[np.uint8], size: int) -> int:
        """Record registered memory under its device address."""
        place = int(whole.ctypes.data)
        try:
            address = self._driver.handle("cuMemHostGetDevicePointer_v2", place, 0)
        except BaseException:
            self._driver.attempt("cuMemHostUnregister", place)
            raise
        self._blocks[address] = _Block(size, whole[:size], "cuMemHostUnregister", place)
        return address

    def _no_room(self, error: DriverError, size: int) -> MachineError:
        if error.result != cuda.OUT_OF_MEMORY:
            return error
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if self._driver.attempt("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total)):
            return error
        return MachineError(
            f"{self.gpu.model} has no free memory for {size:,} bytes of maps",
            why=f"{free.value:,} of its {total.value:,} bytes are free",
            fix="free unused memory (for example torch.cuda.empty_cache()), or trace fewer threads: --threads N",
            code="cuda.out-of-memory",
        )

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file for kernels and `view`; see `Memory.share`.

        Raises:
            MachineError: The file cannot be mapped, or the driver rejects its memory.

        """
        try:
            mapping = mmap.mmap(descriptor, _pages(size))
        except (OSError, ValueError) as error:
            raise MachineError(
                "an eBPF map in the Linux kernel cannot be shared with the GPU",
                why=f"mmap: {error}",
                fix="declare it with __uint(map_flags, BPF_F_MMAPABLE)",
                code="gpu.map.not-shareable",
            ) from None
        whole = np.frombuffer(mapping, np.uint8)  # keeps the mapping
        with self._current():
            try:
                self._driver.call("cuMemHostRegister_v2", whole.ctypes.data, len(whole), cuda.HOST_PORTABLE_AND_MAPPED)
            except DriverError as error:
                raise MachineError(
                    "the NVIDIA driver rejects the memory of an eBPF map in the Linux kernel",
                    why=error.why,
                    fix="use separate maps for the GPU's programs and the CPU's",
                    code="gpu.map.not-shareable",
                ) from None
            return self._mapped(whole, size)

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy (size,) bytes. Host memory can be read even after the GPU has failed.

        Raises:
            MachineError: GPU memory is no longer accessible: a kernel has failed, or the context was destroyed.

        """
        seen = self._seen(address, size)
        if seen is not None:
            return seen.copy()
        out = np.empty(size, np.uint8)
        staging = self._staging.ctypes.data
        with self._lock, self._current():
            for at in range(0, size, _STAGING):
                piece = out[at : at + _STAGING]
                self._driver.call("cuMemcpyDtoHAsync_v2", staging, address + at, len(piece), self._stream)
                self._driver.call("cuStreamSynchronize", self._stream)
                piece[:] = self._staging[: len(piece)]
        return out

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a live view of (size,) bytes of kind `host`. Raises MachineError: they are not of this kind."""
        seen = self._seen(address, size)
        return self._foreign(address, size) if seen is None else seen

    def _seen(self, address: int, size: int) -> NDArray[np.uint8] | None:
        for base, block in tuple(self._blocks.items()):
            if base <= address and address + size <= base + block.size:
                return None if block.host is None else block.host[address - base : address - base + size]
        return self._foreign(address, size)

    @staticmethod
    def _foreign(address: int, size: int) -> NoReturn:
        raise MachineError(
            f"{size} bytes at {address:#x} are not in this trace's memory",
            fix="please report this",
            code="cuda.foreign-address",
        )

    def free(self, address: int) -> None:
        """Free memory, or stop sharing it. Memory that kernels may still use after `given_up` is kept."""
        if self.given_up:
            return
        with self._lock, _unless_gone(), self._current():
            self._give_back(address)

    def _give_back(self, address: int) -> None:
        block = self._blocks.pop(address)
        self._driver.call(block.free, block.handle)

    def launching(self, launch: LaunchRequest) -> None:
        """Do nothing: a GPU needs no preparation."""

    def clock(self) -> DeviceClock:
        """Compare the clocks now. Raises MachineError if the GPU does not answer."""
        with self._lock, self._current():
            try:
                return self._clock.measure()
            except DriverError:
                raise
            except BaseException:
                self.given_up = True  # the kernel may still start, and would write to the mailbox
                raise

    def elsewhere(self) -> str:
        """Explain why kernels of the thread's current context cannot access this memory; '' if they can."""
        current = ctypes.c_void_p()
        if self._driver.attempt("cuCtxGetCurrent", ctypes.byref(current)) or not current.value:
            return ""
        if current.value == self._context:
            return ""
        number = self._driver.number("cuCtxGetDevice")
        where = f"GPU {number}" if number != self.gpu.number else f"another context of GPU {number}"
        return f"it is for {where}, but this trace's maps are on GPU {self.gpu.number}; see --gpu"

    def finish(self, stream: int) -> None:
        """Wait for the work queued in a stream; a stream that is being captured into a graph is left alone.

        Raises:
            MachineError: A kernel has failed.

        """
        capturing = ctypes.c_int()
        with self._current():
            handle = ctypes.c_void_p(stream)
            self._driver.call("cuStreamIsCapturing", handle, ctypes.byref(capturing))
            if not capturing.value:
                self._driver.call("cuStreamSynchronize", handle)

    def wait(self) -> bool:
        """Wait for all kernels of the context; False if an interrupt came first and they may still run.

        The interrupt is raised afterwards: on return, or when an enclosing `uninterrupted` block ends.
        """
        ended = threading.Event()  # interrupting Thread.join would make a running thread look dead
        waiting = own_threads.Thread(target=self._synchronize, args=(ended,), name="accel_magic gpu end")
        with uninterrupted() as exception:
            waiting.start()
            while not ended.wait(_WAIT_S) and signal.SIGINT not in exception:
                pass
            self.given_up = not ended.is_set()
        return not self.given_up

    def _synchronize(self, ended: threading.Event) -> None:
        try:
            with _unless_gone(), self._current():
                self._driver.attempt("cuCtxSynchronize")
        finally:
            ended.set()

    def close(self) -> None:
        """Free everything; safe to repeat. On a failed GPU the remaining memory was freed with its context."""
        if self.given_up:
            _GIVEN_UP.append(self)
        if self.given_up or not self._context:
            return
        context, self._context = self._context, 0
        with self._lock, _unless_gone(), self._entered(context):
            self._clocks.close()
            for address in tuple(self._blocks):
                self._give_back(address)
            if self._stream:
                self._driver.call("cuStreamDestroy_v2", self._stream)
        if self._retained:
            with _unless_gone():
                self._driver.call("cuDevicePrimaryCtxRelease_v2", self._driver.number("cuDeviceGet", self.gpu.number))

    def _current(self) -> AbstractContextManager[None]:
        return self._entered(self._context)

    @contextmanager
    def _entered(self, context: int) -> Iterator[None]:
        """Make our context current in this thread for a few calls.

        Stream capture in another of the user's threads must not make these calls fail, and they must not invalidate it.
        """
        driver, mode = self._driver, ctypes.c_int(cuda.CAPTURE_RELAXED)
        driver.call("cuCtxPushCurrent_v2", context)
        try:
            exchanged = not driver.attempt("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            try:
                yield
            finally:
                if exchanged:
                    driver.attempt("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        finally:
            driver.attempt("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _own_memory(size: int) -> NDArray[np.uint8]:
    """Map whole pages of zeros for the driver to register.

    The process owns them: pages allocated by the driver would be unmapped with its context, and an access would then
    crash the process. A forked child does not inherit them: on a page shared by two processes, a write by one (copy on
    write) would move the page away from the GPU.
    """
    mapping = mmap.mmap(-1, _pages(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(mmap.MADV_DONTFORK)
    return np.frombuffer(mapping, np.uint8)


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Free things; ignore the errors of a context that is gone or was reset, where nothing is left to free."""
    try:
        yield
    except DriverError as error:
        if not error.dead and error.result not in cuda.UNKNOWN:
            raise

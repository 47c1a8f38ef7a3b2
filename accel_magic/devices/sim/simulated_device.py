"""The simulated device: memory, modules and launches, like a GPU driver's."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim.binding import bind, parameters, reachable
from accel_magic.devices.sim.block_programs import STEAL, BlockPrograms
from accel_magic.devices.sim.blocks import Blocks, Workers, slots
from accel_magic.devices.sim.device_memory import Heap, MemoryRegion
from accel_magic.devices.sim.faults import DeviceFault, Violation
from accel_magic.devices.sim.images import ImageTable
from accel_magic.devices.sim.lane_state import BatchShape, ExecutionState
from accel_magic.devices.sim.module import LoadedModule, load
from accel_magic.devices.sim.warps import EndlessLimits, Runner
from accel_magic.errors import ProbeError, ProgramError
from accel_magic.machine import KERNEL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accel_magic.devices.sim.executable import Executable, ExecutableFunction
    from accel_magic.devices.sim.types import Array


MOST_THREADS = 1024
MOST_SHARED = 227 << 10
LAUNCH_NS = 2_000
"""Virtual time from a launch to its first instruction."""
FIRST_TIME_NS = 1_000_000_000
"""The device's clock at the start."""


@dataclass(frozen=True)
class LaunchStatistics:
    """What a launch did. Times are virtual: see `specials` and `operations.COSTS`.

    Attributes:
        kernel: Its name.
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        instructions: Instructions executed, summed over threads.
        warp_instructions: Instructions executed, summed over warps.
        barriers: Barriers completed, summed over blocks.
        duration_ns: From the start of the first block to the end of the last.
        number: The launch's number on this device, from 1: %gridid.
        start_ns: Start on the device's clock, which %globaltimer reads.
        printed: Output of the device's printf.

    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    instructions: int
    warp_instructions: int
    barriers: int
    duration_ns: int
    number: int
    start_ns: int = 0
    printed: tuple[str, ...] = ()


class SimulatedDevice:
    """A simulated GPU of compute capability 8.0 on this machine's processor; threads may use it at the same time.

    Args:
        memory_bytes: Size of global memory; host memory is used only for pages that are accessed.
        multiprocessors: Number of multiprocessors that blocks are distributed over.
        instruction_limit: A launch that executes more instructions is stopped as endless. An instruction counts once
            for all lanes that execute it together.
        kernel_seconds: A launch is stopped as endless after this much CPU time in which no thread ends; None: as the
            environment variable `KERNEL_SECONDS` says, else 20.
        stack_bytes: Local memory per thread of kernels that recurse or call through pointers; other kernels get what
            they need.

    Attributes:
        images: Its textures and surfaces.
        time_ns: The device's clock: when the next launch begins, not counting `LAUNCH_NS`. It may be set forward.

    """

    def __init__(
        self,
        memory_bytes: int = 1 << 30,
        multiprocessors: int = 4,
        *,
        instruction_limit: int = 50_000_000,
        kernel_seconds: float | None = None,
        stack_bytes: int = 32 << 10,
    ) -> None:
        self.multiprocessors = multiprocessors
        self.time_ns = FIRST_TIME_NS
        self._heap = Heap(memory_bytes)
        self.images = ImageTable(self._heap)
        self._limit = instruction_limit
        self._seconds = kernel_seconds
        self._stack = stack_bytes
        self._launches = 0
        self._one = threading.Lock()
        self._running: tuple[int, Runner | None] = (0, None)

    @property
    def memory(self) -> Heap:
        """The device's global memory."""
        return self._heap

    def allocate(self, size: int, align: int = 256) -> int:
        """Allocate zeroed global memory and return its device address.

        Raises:
            MachineError: Memory is exhausted.
            ProgramError: The size or alignment is invalid.

        """
        return self._heap.allocate(size, align)

    def share(self, descriptor: int, size: int) -> int:
        """Map a file into the device's memory, live for kernels and `view`: see `Heap.share`.

        Raises:
            ProgramError: The size is not positive.
            MachineError: Memory is exhausted, or the file cannot be mapped.

        """
        return self._heap.share(descriptor, size)

    def free(self, address: int) -> None:
        """Free memory.

        Raises:
            ProgramError: The address is not that of an allocation.

        """
        self._heap.free(address)

    def view(self, address: int, size: int) -> Array:
        """Return a live view of device memory, uint8.

        Raises:
            ProgramError: The bytes are not all within one allocation.

        """
        return self._heap.view(address, size)

    def copy_in(self, address: int, array: Array) -> None:
        """Copy an array's bytes to the device."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.view(address, len(data))[:] = data

    def copy_out(self, address: int, nbytes: int) -> Array:
        """Copy bytes from the device; uint8."""
        return self.view(address, nbytes).copy()

    def load(self, ptx: str) -> LoadedModule:
        """Compile a module and allocate its variables.

        Raises:
            ProgramError: It is not PTX, or it contains something that the device does not support, which is named.

        """
        return load(ptx, self._heap)

    def unload(self, module: LoadedModule) -> None:
        """Free the memory of a module's variables."""
        for address, _ in module.globals.values():
            self._heap.free(address)

    def stop(self, thread: int) -> None:
        """Stop the kernel that this host thread is running, if any: its launch raises DeviceFault."""
        launcher, runner = self._running
        if runner is not None and launcher == thread:
            runner.stop()

    def check(
        self,
        module: LoadedModule,
        kernel: str,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        shared_bytes: int = 0,
        *,
        cooperative: bool = False,
    ) -> None:
        """Check a launch without running it. Raises what `launch` raises for its kernel, grid, block or memory."""
        function = _kernel(module, kernel)
        shape = self._shape(module.program, function, grid=_three(grid), block=_three(block), dynamic=shared_bytes)
        _require_resident(shape, cooperative=cooperative)

    def launch(  # noqa: PLR0917 - a launch's arguments, in CUDA's order
        self,
        module: LoadedModule,
        kernel: str,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        arguments: Sequence[int | float | np.generic | bytes],
        shared_bytes: int = 0,
        *,
        cooperative: bool = False,
    ) -> LaunchStatistics:
        """Run a kernel to its end, after the kernels that other threads have already launched.

        Args:
            module: The module that contains it.
            kernel: Its name.
            grid: Blocks, up to three dimensions.
            block: Threads of a block, up to three dimensions.
            arguments: One for each parameter: a number, or the parameter's bytes.
            shared_bytes: Dynamic shared memory of a block.
            cooperative: Whether the blocks may wait for each other (`grid.sync()`): all run at the same time.

        Raises:
            ProgramError: There is no such kernel, or the arguments do not fit its parameters.
            ProbeError: The grid, block or shared memory size is invalid, or KERNEL_SECONDS.
            DeviceFault: The kernel faulted.

        """
        program, function = module.program, _kernel(module, kernel)
        shape = self._shape(program, function, grid=_three(grid), block=_three(block), dynamic=shared_bytes)
        _require_resident(shape, cooperative=cooperative)
        data = parameters(function, arguments)
        limits = EndlessLimits(self._limit, _kernel_seconds() if self._seconds is None else self._seconds)
        with self._one, self._workspace(cooperative=cooperative) as workspace:
            self._launches += 1
            start = self.time_ns + LAUNCH_NS
            state = ExecutionState(
                shape, self._heap, MemoryRegion(data), function.parameter_bytes, self._launches, workspace
            )
            state.images = self.images
            bind(program, function, state, self.multiprocessors)
            programs = BlockPrograms(program, function, state, self.multiprocessors, limits)
            kind = Workers if STEAL in programs.places else Blocks
            blocks = kind(program, function, state, self.multiprocessors, start, programs)
            runner = Runner(program, state, blocks, limits)
            self._running = threading.get_ident(), runner
            try:
                with np.errstate(all="ignore"):
                    runner.run()
            except Violation as violation:
                raise _fault(kernel, state, violation) from None
            finally:
                self._running = (0, None)
                programs.close()
            self.time_ns = blocks.end
            number = self._launches
        return LaunchStatistics(
            kernel,
            shape.grid,
            shape.block,
            runner.instructions,
            runner.warp_instructions,
            state.barriers,
            blocks.end - start,
            number,
            start,
            tuple(state.printed),
        )

    @contextlib.contextmanager
    def _workspace(self, *, cooperative: bool) -> Iterator[int]:
        """Allocate zeroed memory in which the blocks of a cooperative launch count each other; 0 for other launches."""
        address = self._heap.allocate(WORKSPACE_BYTES) if cooperative else 0
        try:
            yield address
        finally:
            if address:
                self._heap.free(address)

    def _shape(
        self,
        program: Executable,
        function: ExecutableFunction,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic: int,
    ) -> BatchShape:
        threads, shared = block[0] * block[1] * block[2], program.shared + dynamic
        most = min(function.threads or MOST_THREADS, MOST_THREADS)
        _possible(
            min(grid) > 0 and min(block) > 0,
            f"a grid of {grid} and a block of {block}",
            "Every dimension must be at least 1",
        )
        _possible(threads <= most, f"a block of {threads} threads", f"{function.name} allows at most {most}")
        _possible(
            dynamic >= 0 and shared <= MOST_SHARED,
            f"a block with {shared} bytes of shared memory",
            f"A block has at most {MOST_SHARED}",
        )
        count = grid[0] * grid[1] * grid[2]
        reached = reachable(program, function)
        local = sum(one.frame for one in reached)
        if any(one.recursive for one in reached):
            local = max(self._stack, local)
        return BatchShape(grid, block, slots(count, threads, shared, self.multiprocessors), shared, local, dynamic)


def _kernel_seconds() -> float:
    """Read the environment variable KERNEL_SECONDS. Raises ProbeError if it is not a positive number."""
    text = os.environ.get(KERNEL_SECONDS, "") or "20"
    with contextlib.suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    raise ProbeError(
        f"{KERNEL_SECONDS}={text!r:.40} is not a time",
        why="it must be a positive number of seconds",
        fix=f"unset it, or set e.g. {KERNEL_SECONDS}=600",
        code="option.unknown-value",
    )


def _kernel(module: LoadedModule, name: str) -> ExecutableFunction:
    found = next((one for one in module.program.functions if one.kernel and one.name == name), None)
    if found is None:
        raise ProgramError(
            f"The module has no kernel {name!r}.",
            why=f"Its kernels: {', '.join(sorted(module.kernels)) or 'none'}.",
            fix="Use one of these names.",
            code="gpu.no-kernel",
        )
    return found


def _require_resident(shape: BatchShape, *, cooperative: bool) -> None:
    """Check that all blocks of a cooperative launch run at the same time. Raises ProbeError."""
    blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
    _possible(
        not cooperative or blocks <= shape.slots,
        f"{blocks} blocks together",
        f"At most {shape.slots} blocks of this size run at the same time",
    )


def _possible(condition: bool, what: str, why: str) -> None:
    if not condition:
        raise ProbeError(
            f"simulated device: cannot launch {what}.",
            why=f"{why}.",
            fix="Change the launch to fit this limit.",
            code="gpu.bad-launch-shape",
        )


def _three(sizes: Sequence[int] | int) -> tuple[int, int, int]:
    """Extend sizes to three dimensions; missing ones are 1."""
    given = (sizes,) if isinstance(sizes, int | np.integer) else tuple(sizes)
    x, y, z = (*(int(size) for size in given), 1, 1, 1)[:3] if given else (1, 1, 1)
    return x, y, z


def _fault(kernel: str, state: ExecutionState, violation: Violation) -> DeviceFault:
    """Turn a violation into a fault, with the block and thread."""
    block, thread = (None, None) if violation.lane is None else state.position(violation.lane)
    return DeviceFault(
        violation.what,
        kernel=kernel,
        site=violation.site,
        why=violation.why,
        fix=violation.fix,
        address=violation.address,
        block=block,
        thread=thread,
        code=violation.code,
    )


WORKSPACE_BYTES: Final = 16
"""Bytes that a grid's barrier needs."""
ARCH: Final = "sm_80"
"""What kernels are compiled for: the newest architecture without warp-group matrix instructions."""

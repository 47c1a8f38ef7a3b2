"""The running threads: their registers, positions in the program, and memory.

A batch has a number of slots, each of which holds one block at a time. A slot's threads are padded to whole warps of
32; lane number = slot * lanes per slot + thread number. Registers are arrays over the lanes of all slots.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.sim.device_memory import MemoryRegion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.devices.sim.device_memory import Heap
    from accel_magic.devices.sim.images import ImageTable
    from accel_magic.devices.sim.types import Array, Lanes


WARP: Final = 32
NOWHERE: Final = np.int64(2**62)
"""Key of a lane that cannot run: ended, absent, or waiting."""
DEPTH_SHIFT: Final = 32
DEEPEST: Final = 1 << 16
"""Most nested calls. A lane's key is (DEEPEST - depth) << DEPTH_SHIFT | pc, so that the deepest call runs first."""
PC_MASK: Final = (1 << DEPTH_SHIFT) - 1
FIRST_KEY: Final = DEEPEST << DEPTH_SHIFT


@dataclass(frozen=True)
class BatchShape:
    """Sizes of a batch.

    Attributes:
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        slots: Blocks that run at the same time.
        shared: Bytes of shared memory of a block.
        local: Bytes of local memory of a thread.
        dynamic: Bytes of `shared` that the launch requests in addition to what the kernel declares.

    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    slots: int
    shared: int
    local: int
    dynamic: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)

    @property
    def lanes(self) -> int:
        """Lanes of the batch, including absent lanes of partial warps."""
        return self.slots * self.warps * WARP


@dataclass
class ExecutionState:
    """Everything that instructions read and change.

    Attributes:
        arrays: Typed views of the registers, numbered by the compiler; shape (lanes,) each.
        registers: The registers themselves, by number.
        heap: Global memory.
        parameters: The kernel's parameters.
        launch: Number of the launch.
        images: The device's textures and surfaces; None for code that cannot use them.
        workspace: Address of the memory in which blocks of a cooperative launch count each other; 0 for other launches.
        selection: The lanes that execute now.
        key: Each lane's position; int64, shape (lanes,). The lowest runs next.
        parked: Key at which a lane waits for other lanes of its warp, or -1.
        barrier: Barrier that a lane waits at, or -1. Its key to continue with is in `resume`.
        clock: Virtual time of each warp in cycles; int64, shape (warps,).
        frame: Start of the local memory of each lane's running function; int64.
        returns: Return key for each call depth; grown as needed.
        saved: Registers saved by recursive calls: arrays by (call depth, register number).
        printed: Output of kernels, in order.
        barriers: Barriers completed so far, summed over blocks.
        barrier_records: The state of each barrier in all blocks, by its number.
        finishers: Functions that store a barrier's result, by the number of the segment after it.
        departed: Whether threads have ended since the scheduler last looked.

    """

    shape: BatchShape
    heap: Heap
    parameters: MemoryRegion
    parameter_bytes: int
    launch: int
    workspace: int = 0
    arrays: list[Array] = field(default_factory=list)
    registers: dict[int, Array] = field(default_factory=dict)
    returns: list[Array] = field(default_factory=list)
    saved: dict[tuple[int, int], list[Array]] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    barriers: int = 0
    images: ImageTable | None = None
    selection: Lanes = field(default_factory=lambda: slice(None))

    def __post_init__(self) -> None:
        lanes, shape = self.shape.lanes, self.shape
        self.numbers = np.arange(lanes, dtype=np.int64)
        self.lane = (self.numbers % WARP).astype(np.uint32)
        self.slot = self.numbers // (shape.warps * WARP)
        self.thread = self.numbers % (shape.warps * WARP)
        self.exists = self.thread < shape.threads
        self.key = np.full(lanes, NOWHERE)
        self.parked = np.full(lanes, -1, np.int64)
        self.parked_count = 0
        self.barrier = np.full(lanes, -1, np.int64)
        self.resume = np.zeros(lanes, np.int64)
        self.arrivals = np.zeros(lanes, np.int64)
        self.vote = np.zeros(lanes, np.bool_)
        self.barrier_records: dict[int, Any] = {}
        self.finishers: dict[int, Callable[[ExecutionState, Array, Array], None]] = {}
        self.frame = np.zeros(lanes, np.int64)
        self.clock = np.zeros(lanes // WARP, np.int64)
        self.ended = np.zeros(lanes, np.bool_)
        self.live = np.zeros(shape.slots, np.int64)
        self.block_number = np.full(shape.slots, -1, np.int64)
        self.shared_stride = -(-shape.shared // 16) * 16
        self.shared = MemoryRegion(np.zeros(max(shape.slots * self.shared_stride, 16), np.uint8))
        self.local_stride = -(-shape.local // 16) * 16
        self.local = MemoryRegion(np.zeros(max(lanes * self.local_stride, 16), np.uint8))
        self.carry = np.zeros(lanes, np.bool_)
        self.departed = False

    def lanes(self) -> Array:
        """Numbers of the lanes that execute now; int64, ascending."""
        return self.numbers[self.selection]

    @contextmanager
    def selecting(self, lanes: Array) -> Iterator[None]:
        """Let only these lanes execute until the context ends."""
        before, self.selection = self.selection, lanes
        try:
            yield
        finally:
            self.selection = before

    def count(self) -> int:
        """Number of lanes that execute now."""
        return len(self.numbers[self.selection])

    def active(self) -> Array:
        """Which lanes execute now; bool, shape (lanes,)."""
        mask = np.zeros(self.shape.lanes, np.bool_)
        mask[self.selection] = True
        return mask

    def ballot(self, truth: Array) -> Array:
        """Pack one bit per lane into a mask per warp; `truth` is (lanes,), the result uint32 (warps,)."""
        packed: Array = np.packbits(truth.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32)[:, 0]
        return packed

    def warps(self) -> Array:
        """Numbers of the warps that have lanes executing now."""
        return distinct_sorted(self.lanes() // WARP)

    def position(self, lane: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Block and thread of a lane, as (x, y, z)."""
        block = int(self.block_number[self.slot[lane]])
        return unravel(block, self.shape.grid), unravel(int(self.thread[lane]), self.shape.block)

    def spread(self, values: Any) -> Array:
        """Expand one value to one per executing lane; an array is returned unchanged."""
        values = np.asarray(values)
        return values if values.ndim else np.full(self.count(), values)


def distinct_sorted(values: Array) -> Array:
    """Return the distinct values of an ascending array."""
    keep = np.ones(len(values), np.bool_)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]


def unravel(number: int, sizes: Sequence[int]) -> tuple[int, int, int]:
    """Convert a number to (x, y, z), with x varying fastest."""
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


def compact(lanes: Array) -> Lanes:
    """Convert ascending lane numbers to a slice if they are contiguous: slices need no copies."""
    if len(lanes) and lanes[-1] - lanes[0] + 1 == len(lanes):
        return slice(int(lanes[0]), int(lanes[-1]) + 1)
    return lanes

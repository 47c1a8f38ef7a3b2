"""Assignment of a grid's blocks to slots, each of which is a part of a multiprocessor that runs one block at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from accel_magic.devices.sim import specials
from accel_magic.devices.sim.block_programs import ENTER, EXIT, STEAL, Moment
from accel_magic.devices.sim.lane_state import FIRST_KEY, NOWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.devices.sim.block_programs import BlockPrograms
    from accel_magic.devices.sim.executable import Executable, ExecutableFunction
    from accel_magic.devices.sim.lane_state import ExecutionState

    Numbers: TypeAlias = NDArray[np.int64]

SHARED_OF_MULTIPROCESSOR = 228 << 10
"""Bytes of shared memory that the resident blocks of a multiprocessor share."""


def slots(blocks: int, threads: int, shared: int, multiprocessors: int) -> int:
    """Return how many blocks run at the same time."""
    of_one = min(
        specials.RESIDENT_BLOCKS,
        max(specials.RESIDENT_THREADS // max(threads, 1), 1),
        max(SHARED_OF_MULTIPROCESSOR // shared, 1) if shared else specials.RESIDENT_BLOCKS,
    )
    return min(blocks, of_one * multiprocessors)


class Blocks:
    """Assigns a grid's blocks to slots: the next one goes to the slot that is free first.

    Args:
        program: The program, for the special registers it reads.
        kernel: What the blocks run.
        state: The lanes; its clocks begin at `start`.
        multiprocessors: Slot s is on multiprocessor s % multiprocessors.
        start: Time when the launch begins, in cycles.
        programs: Programs for whole blocks.

    Attributes:
        end: Time of the latest end of a block, in cycles.
        held: Whether a slot waits until other slots' blocks have run for longer.

    """

    def __init__(  # noqa: PLR0917 - what a launch has made
        self,
        program: Executable,
        kernel: ExecutableFunction,
        state: ExecutionState,
        multiprocessors: int,
        start: int,
        programs: BlockPrograms,
    ) -> None:
        count = state.shape.slots
        self.end = start
        self.held = False
        self._kernel = kernel
        self._multiprocessors = multiprocessors
        self._programs = programs
        self._total = state.shape.grid[0] * state.shape.grid[1] * state.shape.grid[2]
        self._left = self._total
        self._free_at = np.full(count, start, np.int64)
        self._begun_at = self._free_at.copy()
        self._typical = 0
        self._busy = np.zeros(count, np.bool_)
        self._executed = np.zeros(count, np.int64)
        self._stolen = np.zeros(count, np.int64)
        self._changing = [
            (name, state.registers[number])
            for name, number in program.arrays.specials.items()
            if specials.changes(name)
        ]

    def refill(self, state: ExecutionState) -> None:
        """Record which blocks have ended, and start others.

        Raises:
            Violation: A program for whole blocks faulted.

        """
        ended = np.flatnonzero(self._busy & (state.live == 0))
        if len(ended):
            clocks = self._clocks(state)[ended]
            self._typical = int(np.median(clocks - self._begun_at[ended]))
            self._free_at[ended] = clocks
            self.end = max(self.end, int(clocks.max()))
            self._busy[ended] = False
            self._finish(state, ended[np.argsort(clocks, kind="stable")])
        self._start(state)

    def _clocks(self, state: ExecutionState) -> Numbers:
        """Time of each slot's latest warp."""
        clocks: Numbers = state.clock.reshape(state.shape.slots, -1).max(1)
        return clocks

    def _finish(self, state: ExecutionState, ended: Numbers) -> None:
        """Handle the ends of slots' blocks, in the order of time."""
        for slot in ended:
            self._end_block(state, int(slot))

    def _end_block(self, state: ExecutionState, slot: int) -> None:
        self._executed[slot] += 1
        if EXIT in self._programs.places:
            self._programs.run(EXIT, self._moment(state, slot))

    def _moment(self, state: ExecutionState, slot: int, victim: int = 0, victim_left: int = 0) -> Moment:
        return Moment(
            block=int(state.block_number[slot]),
            time=int(self._free_at[slot]),
            worker=slot,
            executed=int(self._executed[slot]),
            stolen=int(self._stolen[slot]),
            left=self._left,
            victim=victim,
            victim_left=victim_left,
        )

    def _start(self, state: ExecutionState) -> None:
        """Start blocks once at least half of the slots are free."""
        free = np.flatnonzero(~self._busy)
        if not self._left or 2 * len(free) < len(self._busy):
            return
        # A slot that becomes free much later than others waits: until then those have time for another block.
        free = free[self._free_at[free] <= self._free_at[free].min() + self._typical]
        order = free[np.argsort(self._free_at[free], kind="stable")][: self._left]
        first = self._total - self._left
        self._begin(state, order, np.arange(first, first + len(order)))

    def _begin(self, state: ExecutionState, chosen: Numbers, numbers: Numbers) -> None:
        """Put blocks on slots."""
        state.block_number[chosen] = numbers
        self._left -= len(chosen)
        self._busy[chosen] = True
        self._begun_at[chosen] = self._free_at[chosen]
        state.live[chosen] = state.shape.threads
        mine = np.zeros(state.shape.slots, np.bool_)
        mine[chosen] = True
        lanes = mine[state.slot]
        state.key[lanes] = np.where(state.exists[lanes], FIRST_KEY | self._kernel.entry, NOWHERE)
        state.ended[lanes] = False
        state.frame[lanes] = 0
        state.arrivals[lanes] = 0
        state.clock.reshape(state.shape.slots, -1)[chosen] = self._free_at[chosen, None]
        if state.shared_stride:
            state.shared.data[: state.shape.slots * state.shared_stride].reshape(state.shape.slots, -1)[chosen] = 0
        for record in state.barrier_records.values():
            record.expected[chosen] = 0
            record.announced[chosen] = 0
        for name, register in self._changing:
            specials.fill(name, register, state, self._multiprocessors)
        if ENTER in self._programs.places:
            for slot in chosen:
                self._programs.run(ENTER, self._moment(state, int(slot)))


class Workers(Blocks):
    """Assigns blocks in fixed shares: slot s runs the s-th part of the grid, in order, and may steal when it is done.

    A worker without blocks of its own asks the launch's program whether to take the last block of the worker that has
    most blocks left; it stops when the answer is 0, or when no block is left. Slots take their turns in the order of
    virtual time: a turn is held until no block that runs can end before it.
    """

    def __init__(  # noqa: PLR0917 - as the base class
        self,
        program: Executable,
        kernel: ExecutableFunction,
        state: ExecutionState,
        multiprocessors: int,
        start: int,
        programs: BlockPrograms,
    ) -> None:
        super().__init__(program, kernel, state, multiprocessors, start, programs)
        count = state.shape.slots
        bounds = np.arange(count + 1) * self._total // count
        self._next, self._last = bounds[:-1].copy(), bounds[1:].copy()
        self._stopped = np.zeros(count, np.bool_)
        self._ran = np.zeros(count, np.bool_)

    def _finish(self, state: ExecutionState, ended: Numbers) -> None:
        """Leave the ends of blocks to their slots' turns."""

    def _start(self, state: ExecutionState) -> None:
        while (slot := self._first(state)) >= 0:
            self._turn(state, slot)

    def _first(self, state: ExecutionState) -> int:
        """Return the free slot whose turn is next; -1 if there is none yet."""
        waiting = np.flatnonzero(~self._busy & ~self._stopped)
        self.held = False
        if not len(waiting):
            return -1
        slot = int(waiting[np.argmin(self._free_at[waiting])])
        time = self._free_at[slot]
        running = np.flatnonzero(self._busy)
        clocks = self._clocks(state)[running]
        self.held = bool(((clocks < time) | ((clocks == time) & (running < slot))).any())
        return -1 if self.held else slot

    def _turn(self, state: ExecutionState, slot: int) -> None:
        if self._ran[slot]:
            self._end_block(state, slot)
        self._ran[slot] = True
        block = self._own(slot)
        if block < 0:
            block = self._taken(state, slot)
        if block < 0:
            self._stopped[slot] = True
        else:
            self._begin(state, np.array([slot]), np.array([block]))

    def _own(self, slot: int) -> int:
        """Take the next block of a slot's share; -1 if there is none."""
        if self._next[slot] == self._last[slot]:
            return -1
        self._next[slot] += 1
        return int(self._next[slot]) - 1

    def _taken(self, state: ExecutionState, slot: int) -> int:
        """Take a block from another share if the program wants it; -1 if not."""
        shares = self._last - self._next
        victim = int(shares.argmax())
        if not shares[victim] or not self._programs.run(STEAL, self._moment(state, slot, victim, int(shares[victim]))):
            return -1
        self._last[victim] -= 1
        self._stolen[slot] += 1
        return int(self._last[victim])

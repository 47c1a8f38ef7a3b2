"""Blocks on multiprocessors: which run at the same time, and when each begins and ends.

A model that keeps a GPU's order of things: each multiprocessor holds a limited number of blocks; when one ends the
next block of the grid takes its place, at the time at which it ended. Slots are refilled when at least half of them are
free, so that many lanes go through the same code together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.gpu.simt import specials
from accel_magic.gpu.simt.state import FIRST_KEY, NOWHERE

if TYPE_CHECKING:
    from accel_magic.gpu.simt.program import Function, Program
    from accel_magic.gpu.simt.state import State

SHARED_OF_MULTIPROCESSOR = 228 << 10
"""Bytes of shared memory that the resident blocks of a multiprocessor share."""


def slots(blocks: int, threads: int, shared: int, multiprocessors: int) -> int:
    """How many blocks run at the same time."""
    of_one = min(
        specials.RESIDENT_BLOCKS,
        max(specials.RESIDENT_THREADS // max(threads, 1), 1),
        max(SHARED_OF_MULTIPROCESSOR // shared, 1) if shared else specials.RESIDENT_BLOCKS,
    )
    return min(blocks, of_one * multiprocessors)


class Blocks:
    """Gives a grid's blocks to slots.

    Args:
        program: For the special registers it reads.
        kernel: What the blocks run.
        state: The lanes; its clocks begin at `start`.
        multiprocessors: Slot s is on multiprocessor s % multiprocessors.
        start: Cycles at which the launch begins.

    Attributes:
        end: Cycles at which the last block that has ended did.

    """

    def __init__(self, program: Program, kernel: Function, state: State, multiprocessors: int, start: int) -> None:
        self.end = start
        self._kernel = kernel
        self._multiprocessors = multiprocessors
        self._next = 0
        self._total = state.shape.grid[0] * state.shape.grid[1] * state.shape.grid[2]
        self._free_at = np.full(state.shape.slots, start, np.int64)
        self._begun_at = self._free_at.copy()
        self._typical = 0
        self._busy = np.zeros(state.shape.slots, np.bool_)
        self._changing = [
            (name, state.registers[number])
            for name, number in program.arrays.specials.items()
            if specials.changes(name)
        ]

    def refill(self, state: State) -> None:
        """Note which blocks have ended, and begin others in their slots when it is worth it."""
        ended = self._busy & (state.live == 0)
        if ended.any():
            clocks = state.clock.reshape(state.shape.slots, -1).max(1)
            self._typical = int(np.median(clocks[ended] - self._begun_at[ended]))
            self._free_at[ended] = clocks[ended]
            self.end = max(self.end, int(clocks[ended].max()))
            self._busy[ended] = False
        free = np.flatnonzero(~self._busy)
        if self._next == self._total or 2 * len(free) < len(self._busy):
            return
        # A place that is free much later than others is left to itself: they have time for another block until then.
        free = free[self._free_at[free] <= self._free_at[free].min() + self._typical]
        order = free[np.argsort(self._free_at[free], kind="stable")][: self._total - self._next]
        self._begin(state, order)

    def _begin(self, state: State, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        state.block_number[chosen] = np.arange(self._next, self._next + len(chosen))
        self._next += len(chosen)
        self._busy[chosen] = True
        self._begun_at[chosen] = self._free_at[chosen]
        state.live[chosen] = state.shape.threads
        mine = np.zeros(state.shape.slots, np.bool_)
        mine[chosen] = True
        lanes = mine[state.slot]
        state.key[lanes] = np.where(state.exists[lanes], FIRST_KEY | self._kernel.entry, NOWHERE)
        state.ended[lanes] = False
        state.frame[lanes] = 0
        state.clock.reshape(state.shape.slots, -1)[chosen] = self._free_at[chosen, None]
        if state.shared_stride:
            state.shared.data[: state.shape.slots * state.shared_stride].reshape(state.shape.slots, -1)[chosen] = 0
        for record in state.barrier_records.values():
            record.expected[chosen] = 0
            record.announced[chosen] = 0
        for name, register in self._changing:
            specials.fill(name, register, state, self._multiprocessors)

"""Running a batch of blocks: which lanes go next, and what happens when none can.

The lanes with the lowest key, of all warps of all blocks in the batch, execute one segment together; keys put the
deepest call first and then the lowest instruction, so that lanes which parted meet again at the next common
instruction. When lanes have been kept waiting that way for very long, all are let go on in turn: a lock whose holder
stands behind those who try to take it is released at last.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu.simt.faults import Violation
from accel_magic.gpu.simt.operations import barriers
from accel_magic.gpu.simt.state import NOWHERE, PC_MASK, WARP, compact, distinct_sorted

if TYPE_CHECKING:
    from accel_magic.gpu.simt.blocks import Blocks
    from accel_magic.gpu.simt.program import Gate, Program, Segment
    from accel_magic.gpu.simt.state import State
    from accel_magic.gpu.simt.types import Array

PATIENCE: Final = 4096
"""Segments executed while other lanes wait their turn, before these are let go on too."""
FAIR_EVERY: Final = 2
"""How often, of the scheduler's choices, they are let go on from then."""
GIVE_WAY_EVERY_S: Final = 0.01
"""How often other threads of the process get a turn: numpy gives up the GIL so often, and each time so shortly, that a
thread that waits for it neither gets it nor comes to ask for it."""
GIVE_WAY_S: Final = 50e-6
"""For how long: until a waiting thread has woken up."""
TOGETHER: Final = 256
"""Segments that the same lanes execute before the scheduler looks again."""
TOGETHER_THEN: Final = 8
"""The same, once others have waited for long."""


class Runner:
    """Executes a program in a state.

    Args:
        program: What to execute.
        state: The lanes.
        blocks: What puts blocks into slots.
        limit: Instructions, counted once for all lanes that execute them together, after which the kernel is stopped.

    Attributes:
        instructions: Executed, summed over threads.
        warp_instructions: Executed, summed over warps.

    """

    def __init__(self, program: Program, state: State, blocks: Blocks, limit: int) -> None:
        self.instructions = 0
        self.warp_instructions = 0
        self._segments = program.segments
        self._state = state
        self._blocks = blocks
        self._limit = limit
        self._executed = 0
        self._waited = 0
        self._turns = 0
        self._others = int(NOWHERE)

    def run(self) -> None:
        """Execute until every block has ended.

        Raises:
            Violation: A lane did wrong, or no lane can go on.

        """
        self._blocks.refill(self._state)
        due = time.monotonic() + GIVE_WAY_EVERY_S
        while (key := self._pick()) >= 0:
            self._execute(key)
            if self._state.departed:
                self._after_exits()
            if time.monotonic() >= due:
                time.sleep(GIVE_WAY_S)
                due = time.monotonic() + GIVE_WAY_EVERY_S

    def stop(self) -> None:
        """Let `run` raise soon; from another thread."""
        self._limit = -1

    def _pick(self) -> int:
        """Choose the lanes that go next. Gives their key, -1 when all blocks have ended."""
        state = self._state
        key = int(state.key.min())
        if key == NOWHERE:
            return self._idle()
        here = state.key == key
        rest = np.where(here, NOWHERE, state.key)
        self._others = int(rest.min())
        if self._others != NOWHERE and self._waited > PATIENCE:
            self._turns += 1
            if self._turns % FAIR_EVERY == 0:
                keys = np.unique(rest)[:-1]
                key = int(keys[self._turns // FAIR_EVERY % len(keys)])
                here = state.key == key
                self._others = -1
        state.selection = compact(np.flatnonzero(here))
        return key

    def _execute(self, key: int) -> None:
        """Execute segments for as long as the chosen lanes stay together and stay first."""
        state = self._state
        warps: Array | slice | None = None
        for _ in range(TOGETHER if self._waited <= PATIENCE else TOGETHER_THEN):
            segment = self._segments[key & PC_MASK]
            if segment.mask is not None:
                if not self._gather(key, segment.mask):
                    return
                warps = None
            if warps is None:
                lanes = state.lanes()
                touched = distinct_sorted(lanes // WARP)
                warps = compact(touched)
                count, warp_count = len(lanes), len(touched)
            for step in segment.steps:
                step(state)
            self._account(segment, warps, count, warp_count)
            following = segment.end(state, key)
            if following < 0:
                return
            if following >= self._others:
                break
            key = following
        else:
            following = key
        state.key[state.selection] = following

    def _account(self, segment: Segment, warps: Array | slice, count: int, warp_count: int) -> None:
        state = self._state
        state.clock[warps] += segment.cost
        self.instructions += segment.issued * count
        self.warp_instructions += segment.issued * warp_count
        self._executed += segment.issued + 1
        if self._others != NOWHERE:
            self._waited += 1
        if self._executed > self._limit:
            raise self._stopped(segment)

    def _stopped(self, segment: Segment) -> Violation:
        if self._limit < 0:
            return Violation("it was stopped: nobody waits for it any more", site=None, code="gpu.fault.abandoned")
        return Violation(
            f"it was stopped after {self._limit} instructions: it looks like an endless loop",
            site=segment.first or segment.last,
            lane=int(self._state.lanes()[0]),
            fix="Look at the loop's condition, or make the device with a larger instruction_limit.",
            code="gpu.fault.endless-loop",
        )

    def _gather(self, key: int, gate: Gate) -> bool:
        """Let lanes go on whose whole mask has come to a `.sync` instruction; park the others.

        Gives whether any can go on.
        """
        state = self._state
        if state.parked_count:
            here = state.parked == key
            if here.any():
                state.parked_count -= int(here.sum())
                state.parked[here] = -1
                here[state.selection] = True
                state.selection = compact(np.flatnonzero(here))
        lanes = state.lanes()
        wanted = np.zeros(state.shape.lanes, np.uint32)
        wanted[lanes] = gate.mask(state)
        if gate.predicate is not None:
            wanted[lanes[~state.spread(gate.predicate(state))]] = 0
        alive = state.ballot(state.exists & ~state.ended)
        missing = alive & ~state.ballot(state.active())
        late = (wanted[lanes] & missing[lanes // WARP]) != 0
        if not late.any():
            return True
        parked = lanes[late]
        state.parked[parked] = key
        state.parked_count += len(parked)
        state.key[parked] = NOWHERE
        ready = lanes[~late]
        state.selection = compact(ready)
        return bool(len(ready))

    def _unpark(self) -> None:
        """Let parked lanes try again: lanes that they wait for may have ended."""
        state = self._state
        waiting = state.parked >= 0
        state.key[waiting] = state.parked[waiting]
        state.parked[waiting] = -1
        state.parked_count = 0

    def _after_exits(self) -> None:
        state = self._state
        state.departed = False
        if state.parked_count:
            self._unpark()
        for number in np.unique(state.barrier[state.barrier >= 0]):
            barriers.complete(state, int(number))
        self._blocks.refill(state)

    def _idle(self) -> int:
        """Nothing can run: all blocks have ended, or those left wait for each other."""
        state = self._state
        if not state.live.any():
            return -1
        raise deadlock(self._segments, state)


def deadlock(segments: list[Segment], state: State) -> Violation:
    """Say which threads of the first block that is stuck wait where."""
    slot = int(np.flatnonzero(state.live)[np.argmin(state.block_number[np.flatnonzero(state.live)])])
    mine = (state.slot == slot) & ~state.ended & state.exists
    first = int(np.flatnonzero(mine)[0])
    lines, site = [], None
    for barrier, keys, what in ((True, state.resume, "barrier"), (False, state.parked, "the rest of their warp")):
        held = mine & ((state.barrier >= 0) if barrier else (state.parked >= 0))
        for key in np.unique(keys[held]):
            lanes = np.flatnonzero(held & (keys == key))
            segment = segments[(int(key) & PC_MASK) - barrier]
            place = segment.last if barrier else segment.first
            site = site or place
            lines.append(f"{_threads(state, lanes)} wait for {_whom(state, lanes, what)} at {place}")
    return Violation(
        "deadlock: threads wait for others that never come",
        site=site,
        lane=first,
        why="; ".join(lines),
        fix="Let all threads of a block come to the same barriers, and all lanes of a mask to its .sync instruction.",
        code="gpu.fault.deadlock",
    )


def _whom(state: State, lanes: Array, what: str) -> str:
    return f"barrier {state.barrier[lanes[0]]}" if what == "barrier" else what


def _threads(state: State, lanes: Array) -> str:
    """Name threads by their numbers in the block, in ranges."""
    numbers = state.thread[lanes]
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    ranges = [f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in np.split(numbers, cuts)]
    shown = ", ".join(ranges[:8]) + (", ..." if len(ranges) > 8 else "")
    return f"{len(lanes)} threads ({shown})"

"""The scheduler of a batch of blocks: chooses which lanes run next, and detects deadlocks.

The lanes with the lowest key, of all warps of all blocks in the batch, execute one segment together. Keys order the
deepest call first and then the lowest instruction, so that diverged lanes reconverge at the next common instruction.
Lanes that could run and have not done so for very long take turns with the others: otherwise a lock would never be
released if its holder is at a later instruction than the lanes that spin on it. Lanes that wait for a short time, as
in all diverged code, do not: their warps would stay diverged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.lane_state import NOWHERE, PC_MASK, WARP, compact, distinct_sorted
from accel_magic.devices.sim.operations import barriers
from accel_magic.machine import KERNEL_SECONDS

if TYPE_CHECKING:
    from accel_magic.devices.sim.executable import Executable, Gate, Segment
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array


MAX_CHECK_INTERVAL: Final = 4096
"""Segments executed from one search for starved lanes to the next: lanes that could run all the time and did not."""
MIN_CHECK_INTERVAL: Final = 8
"""The same after several searches that found some: each shortens the time to the next one, others lengthen it."""
FAIR_FOR: Final = 1024
"""Segments during which starved lanes take turns with the others."""
GIVE_WAY_EVERY_S: Final = 0.01
"""How often to yield to other threads of the process: numpy releases the GIL so often and so briefly that a waiting
thread neither gets it nor requests it."""
GIVE_WAY_S: Final = 50e-6
"""How long to yield: enough for a waiting thread to wake up."""
TOGETHER: Final = 256
"""Segments that the same lanes execute before the scheduler chooses again."""
TOGETHER_THEN: Final = 8
"""The same, while starved lanes take turns."""


class Supply(Protocol):
    """Assigns blocks to slots; see `blocks`."""

    @property
    def held(self) -> bool:
        """Whether a slot waits until other slots' blocks have run for longer."""

    def refill(self, state: ExecutionState) -> None:
        """Start blocks in free slots."""


@dataclass(frozen=True)
class EndlessLimits:
    """When a kernel is stopped as endless.

    Attributes:
        instructions: Most instructions; one counts once for all lanes that execute it together.
        seconds: Most CPU time in which no thread ends.

    """

    instructions: int
    seconds: float


class Runner:
    """Executes a program in a state.

    Args:
        program: What to execute.
        state: The lanes.
        blocks: Assigns blocks to slots.
        limits: When the kernel is stopped as endless.

    Attributes:
        instructions: Instructions executed, summed over threads.
        warp_instructions: Instructions executed, summed over warps.

    """

    def __init__(self, program: Executable, state: ExecutionState, blocks: Supply, limits: EndlessLimits) -> None:
        self.instructions = 0
        self.warp_instructions = 0
        self._segments = program.segments
        self._state = state
        self._blocks = blocks
        self._limit = limits.instructions
        self._seconds = limits.seconds
        self._progress = time.thread_time()
        self._executed = 0
        self._turns = 0
        self._check_interval = self._look_at = MAX_CHECK_INTERVAL
        self._fair_until = 0
        self._their_turn = False
        self._keys = state.key.copy()
        self._ran = np.zeros(len(state.key), bool)
        self._starved = np.zeros(len(state.key), bool)
        self._others = int(NOWHERE)

    def run(self) -> None:
        """Execute until every block has ended.

        Raises:
            Violation: A lane faulted, or no lane can continue.

        """
        self._blocks.refill(self._state)
        due = time.monotonic() + GIVE_WAY_EVERY_S
        while (key := self._pick()) >= 0:
            if time.monotonic() >= due:
                self._check_progress(key)
                time.sleep(GIVE_WAY_S)
                due = time.monotonic() + GIVE_WAY_EVERY_S
            self._execute(key)
            if self._state.departed:
                self._after_exits()
            elif self._blocks.held:
                self._blocks.refill(self._state)

    def stop(self) -> None:
        """Make `run` raise soon; called from another thread."""
        self._limit = -1

    def _pick(self) -> int:
        """Select the lanes that run next. Returns their key; -1 if all blocks have ended."""
        state = self._state
        key = int(state.key.min())
        if key == NOWHERE:
            return self._idle()
        if self._turns >= self._look_at:
            self._look()
        starved = self._next_starved()
        if starved != NOWHERE:
            key = starved
        here = state.key == key
        self._others = int(np.where(here, NOWHERE, state.key).min()) if starved == NOWHERE else int(NOWHERE)
        state.selection = compact(np.flatnonzero(here))
        self._ran[state.selection] = True
        return key

    def _look(self) -> None:
        """Find the lanes that could run since the last call and did not."""
        keys = self._state.key
        self._starved = (keys != NOWHERE) & (keys == self._keys) & ~self._ran
        found = bool(self._starved.any())
        interval = self._check_interval // 4 if found else self._check_interval * 2
        self._check_interval = min(max(interval, MIN_CHECK_INTERVAL), MAX_CHECK_INTERVAL)
        self._fair_until = self._turns + FAIR_FOR * found
        self._look_at = self._fair_until + self._check_interval if found else self._turns + self._check_interval
        self._keys, self._ran = keys.copy(), np.zeros(len(keys), bool)

    def _next_starved(self) -> int:
        """Return the lowest key of starved lanes if it is their turn, else NOWHERE."""
        if self._turns >= self._fair_until:
            return int(NOWHERE)
        self._their_turn = not self._their_turn
        if not self._their_turn:
            return int(NOWHERE)
        key = int(np.where(self._starved, self._state.key, NOWHERE).min())
        if key == NOWHERE:  # all have ended, or wait for others
            self._fair_until, self._look_at = self._turns, self._turns + self._check_interval
        return key

    def _execute(self, key: int) -> None:
        """Execute segments while the chosen lanes stay together and stay first."""
        state = self._state
        warps: Array | slice | None = None
        fair = self._turns < self._fair_until
        for _ in range(TOGETHER_THEN if fair else max(1, min(TOGETHER, self._look_at - self._turns))):
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
        self._turns += 1
        if self._executed > self._limit:
            raise self._stopped(segment)

    def _check_progress(self, key: int) -> None:
        """Stop the kernel if no thread has ended for long; the time of the machine's other programs does not count."""
        if time.thread_time() - self._progress > self._seconds:
            raise self._endless(
                self._segments[key & PC_MASK],
                f"after {self._seconds:g} s of CPU time in which no thread ended",
                f"if the kernel needs longer, allow more: %env {KERNEL_SECONDS}=600",
            )

    def _stopped(self, segment: Segment) -> Violation:
        if self._limit < 0:
            return Violation(
                "the kernel was stopped: nothing waits for it any more", site=None, code="gpu.fault.abandoned"
            )
        return self._endless(
            segment, f"after {self._limit} instructions", "create the device with a larger instruction_limit"
        )

    def _endless(self, segment: Segment, when: str, otherwise: str) -> Violation:
        return Violation(
            f"the kernel was stopped {when}: probably an endless loop",
            site=segment.first or segment.last,
            lane=int(self._state.lanes()[0]),
            fix=f"Check the loop's condition, or {otherwise}.",
            code="gpu.fault.endless-loop",
        )

    def _gather(self, key: int, gate: Gate) -> bool:
        """Continue lanes whose whole mask has arrived at a `.sync` instruction; park the others.

        Returns whether any can continue.
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
        requested = np.zeros(state.shape.lanes, np.uint32)
        requested[lanes] = gate.mask(state)
        if gate.predicate is not None:
            requested[lanes[~state.spread(gate.predicate(state))]] = 0
        alive = state.ballot(state.exists & ~state.ended)
        missing = alive & ~state.ballot(state.active())
        late = (requested[lanes] & missing[lanes // WARP]) != 0
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
        """Retry parked lanes: lanes that they wait for may have ended."""
        state = self._state
        waiting = state.parked >= 0
        state.key[waiting] = state.parked[waiting]
        state.parked[waiting] = -1
        state.parked_count = 0

    def _after_exits(self) -> None:
        state = self._state
        state.departed = False
        self._progress = time.thread_time()
        if state.parked_count:
            self._unpark()
        for number in np.unique(state.barrier[state.barrier >= 0]):
            barriers.complete(state, int(number))
        self._blocks.refill(state)

    def _idle(self) -> int:
        """Handle that no lane can run: return -1 if all blocks have ended, else raise a deadlock."""
        state = self._state
        if not state.live.any():
            return -1
        raise deadlock(self._segments, state)


def deadlock(segments: list[Segment], state: ExecutionState) -> Violation:
    """Describe which threads of the first stuck block wait where."""
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
        "deadlock: threads wait for others that never arrive",
        site=site,
        lane=first,
        why="; ".join(lines),
        fix="Make all threads of a block reach the same barriers, and all lanes of a mask its .sync instruction.",
        code="gpu.fault.deadlock",
    )


def _whom(state: ExecutionState, lanes: Array, what: str) -> str:
    number = int(state.barrier[lanes[0]])
    if what != "barrier":
        return what
    return "the cluster's barrier" if number == barriers.CLUSTER else f"barrier {number}"


def _threads(state: ExecutionState, lanes: Array) -> str:
    """List threads by their numbers in the block, as ranges."""
    numbers = state.thread[lanes]
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    ranges = [f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in np.split(numbers, cuts)]
    shown = ", ".join(ranges[:8]) + (", ..." if len(ranges) > 8 else "")
    return f"{len(lanes)} threads ({shown})"

"""Where threads diverge and reconverge in one function, given which branches are divergent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from accel_magic.gpu.verifier.cfg import END
from accel_magic.gpu.verifier.lane_values import TOGETHER, Byte, LaneState, Level, Split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.verifier.cfg import Cfg, Loop
    from accel_magic.gpu.verifier.lane_values import LaneValue


@dataclass(frozen=True, slots=True)
class Branch:
    """The level at which a branch's condition differs between threads.

    Attributes:
        split: The level, and the reads of shared state that the condition depends on.
        lenient: The level under the assumption that lookups of one key succeed, or fail, for all threads alike (null
            checks).

    """

    split: Split = TOGETHER
    lenient: Level = Level.GRID


@dataclass(frozen=True)
class Divergence:
    """Consequences of the branches' levels.

    Attributes:
        control: How threads are split at slots that they do not all reach together.
        lenient: The levels of the same with `Branch.lenient`.
        meetings: How threads were split that reconverge at a slot (or END) after different paths.
        loops: The same for loops that threads leave in different iterations, by index in `Cfg.loops`.

    """

    control: Mapping[int, Split] = field(default_factory=lambda: MappingProxyType({}))
    lenient: Mapping[int, Level] = field(default_factory=lambda: MappingProxyType({}))
    meetings: Mapping[int, Split] = field(default_factory=lambda: MappingProxyType({}))
    loops: Mapping[int, Split] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Shape:
    """The parts of a function's control flow that determine divergence; they do not depend on values."""

    cfg: Cfg

    @cached_property
    def _regions(self) -> dict[int, frozenset[int]]:
        return {}

    @cached_property
    def _joints(self) -> dict[tuple[bool, int], frozenset[int]]:
        return {}

    @cached_property
    def around(self) -> Mapping[int, tuple[int, ...]]:
        """Loops around each slot, by index in `Cfg.loops`."""
        found: dict[int, list[int]] = {slot: [] for slot in self.cfg.reachable}
        for at, loop in enumerate(self.cfg.loops):
            for slot in loop.body:
                found[slot].append(at)
        return {slot: tuple(places) for slot, places in found.items()}

    def region(self, branch: int) -> frozenset[int]:
        """Slots that are control-dependent on a branch: those on a path from it to its post-dominator."""
        if branch not in self._regions:
            inside = self.cfg.between(branch)
            again = any(branch in self.cfg.successors[slot] for slot in inside | {branch})
            self._regions[branch] = inside | {branch} if again else inside
        return self._regions[branch]

    def joints_of_branch(self, branch: int) -> frozenset[int]:
        """Slots (and END) that several successors of a branch reach within one iteration of the loops around it."""
        key = (False, branch)
        if key not in self._joints:
            heads = frozenset(self.cfg.loops[at].head for at in self.around[branch])
            ways = tuple(dict.fromkeys(self.cfg.successors[branch]))
            stop = self.cfg.post_dominators.get(branch, END)
            self._joints[key] = self._joint(ways, heads | {stop})
        return self._joints[key]

    def joints_of_loop(self, at: int) -> frozenset[int]:
        """Slots (and END) reachable from several of the edges that leave a loop."""
        key = (True, at)
        if key not in self._joints:
            loop = self.cfg.loops[at]
            heads = frozenset(other.head for other in self.cfg.loops if loop.body < other.body)
            ways = tuple(to for slot in sorted(loop.exits) for to in self.cfg.successors[slot] if to not in loop.body)
            self._joints[key] = self._joint(ways, heads)
        return self._joints[key]

    def _joint(self, ways: Sequence[int], stops: frozenset[int]) -> frozenset[int]:
        reached: dict[int, int] = {}
        for way in ways:
            for slot in self._reach(way, stops):
                reached[slot] = reached.get(slot, 0) + 1
        return frozenset(slot for slot, times in reached.items() if times > 1)

    def _reach(self, start: int, stops: frozenset[int]) -> set[int]:
        found: set[int] = set()
        work = [start]
        while work:
            slot = work.pop()
            if slot in found:
                continue
            found.add(slot)
            if slot != END and slot not in stops:
                work += self.cfg.successors[slot]
        return found


def diverge(shape: Shape, branches: Mapping[int, Branch]) -> Divergence:
    """Find where threads diverge and reconverge.

    Args:
        shape: The function.
        branches: Its divergent branches.

    """
    control: dict[int, Split] = {}
    lenient: dict[int, Level] = {}
    meetings: dict[int, Split] = {}
    for slot, branch in branches.items():
        _spread(control, shape.region(slot), branch.split)
        _spread(meetings, shape.joints_of_branch(slot), branch.split)
        for inside in shape.region(slot):
            lenient[inside] = max(branch.lenient, lenient.get(inside, Level.GRID))
    loops = {}
    for at, loop in enumerate(shape.cfg.loops):
        split = _exit_split(shape, loop, branches)
        if split != TOGETHER:
            loops[at] = split
            _spread(meetings, shape.joints_of_loop(at), split)
    return Divergence(control, lenient, meetings, loops)


def _spread(found: dict[int, Split], slots: Iterable[int], split: Split) -> None:
    for slot in slots:
        found[slot] = found.get(slot, TOGETHER).with_(split)


def _exit_split(shape: Shape, loop: Loop, branches: Mapping[int, Branch]) -> Split:
    """How threads are split by leaving a loop in different iterations, including exits that only some of them reach."""
    split = TOGETHER
    for slot, branch in branches.items():
        if slot in loop.body and (slot in loop.exits or not loop.exits.isdisjoint(shape.region(slot))):
            split = split.with_(branch.split)
    return split


def left(shape: Shape, divergence: Divergence, source: int, to: int, state: LaneState) -> LaneState:
    """State after an edge: if threads leave a loop in different iterations, values made in it differ accordingly."""
    for at in shape.around[source]:
        body = shape.cfg.loops[at].body
        if at in divergence.loops and to not in body:
            state = _aged(state, body, divergence.loops[at])
    return state


def _aged(state: LaneState, body: frozenset[int], split: Split) -> LaneState:
    def aged(value: LaneValue) -> LaneValue:
        made = value.version[0]
        return value.raised(split.level, split.reads) if (made if made >= 0 else -1 - made) in body else value

    registers = tuple(aged(value) for value in state.registers)
    stack = {at: Byte(aged(cell.value), cell.index, cell.of) for at, cell in state.stack.items()}
    return LaneState(registers, stack, state.pins)

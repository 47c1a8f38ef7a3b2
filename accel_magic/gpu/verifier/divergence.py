"""Where the threads of a group part and meet again in one function, when it is known which branches part them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from accel_magic.gpu.verifier.cfg import END
from accel_magic.gpu.verifier.lanes import TOGETHER, Byte, Level, Split, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.verifier.cfg import Cfg, Loop
    from accel_magic.gpu.verifier.lanes import Value


@dataclass(frozen=True, slots=True)
class Branch:
    """Among which threads a branch's condition differs.

    Attributes:
        split: The level, and the reads of shared state that the condition depends on.
        lenient: The level when lookups of one key are taken to succeed for all threads alike: null checks.

    """

    split: Split = TOGETHER
    lenient: Level = Level.GRID


@dataclass(frozen=True)
class Divergence:
    """What follows from the levels of the branches.

    Attributes:
        control: For slots that not all threads come to together: among which they differ.
        lenient: The same with `Branch.lenient`.
        meetings: For slots (and END) where threads meet that came by different ways: how they were split.
        loops: For loops that threads leave in different rounds, by place in `Cfg.loops`: likewise.

    """

    control: Mapping[int, Split] = field(default_factory=lambda: MappingProxyType({}))
    lenient: Mapping[int, Level] = field(default_factory=lambda: MappingProxyType({}))
    meetings: Mapping[int, Split] = field(default_factory=lambda: MappingProxyType({}))
    loops: Mapping[int, Split] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Shape:
    """What a function's control flow says about divergence before any value is known."""

    cfg: Cfg

    @cached_property
    def _regions(self) -> dict[int, frozenset[int]]:
        return {}

    @cached_property
    def _joints(self) -> dict[tuple[bool, int], frozenset[int]]:
        return {}

    @cached_property
    def around(self) -> Mapping[int, tuple[int, ...]]:
        """Loops around each slot, by place in `Cfg.loops`."""
        found: dict[int, list[int]] = {slot: [] for slot in self.cfg.reachable}
        for at, loop in enumerate(self.cfg.loops):
            for slot in loop.body:
                found[slot].append(at)
        return {slot: tuple(places) for slot, places in found.items()}

    def region(self, branch: int) -> frozenset[int]:
        """Slots on some path from a branch to its post-dominator: whether they are reached depends on it."""
        if branch not in self._regions:
            inside = self.cfg.between(branch)
            again = any(branch in self.cfg.successors[slot] for slot in inside | {branch})
            self._regions[branch] = inside | {branch} if again else inside
        return self._regions[branch]

    def joints_of_branch(self, branch: int) -> frozenset[int]:
        """Slots (and END) that several ways from a branch lead to within one round of the loops around it."""
        key = (False, branch)
        if key not in self._joints:
            heads = frozenset(self.cfg.loops[at].head for at in self.around[branch])
            ways = tuple(dict.fromkeys(self.cfg.successors[branch]))
            stop = self.cfg.post_dominators.get(branch, END)
            self._joints[key] = self._joint(ways, heads | {stop})
        return self._joints[key]

    def joints_of_loop(self, at: int) -> frozenset[int]:
        """Slots (and END) that several of the edges that leave a loop lead to."""
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
    """Say where threads part and meet.

    Args:
        shape: The function.
        branches: Its branches on which some threads differ.

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
    """Among which threads the round differs in which they leave a loop: an exit that some of them miss counts too."""
    split = TOGETHER
    for slot, branch in branches.items():
        if slot in loop.body and (slot in loop.exits or not loop.exits.isdisjoint(shape.region(slot))):
            split = split.with_(branch.split)
    return split


def left(shape: Shape, divergence: Divergence, source: int, to: int, state: State) -> State:
    """State after an edge: what was made in loops that the edge leaves differs as the rounds do."""
    for at in shape.around[source]:
        body = shape.cfg.loops[at].body
        if at in divergence.loops and to not in body:
            state = _aged(state, body, divergence.loops[at])
    return state


def _aged(state: State, body: frozenset[int], split: Split) -> State:
    def aged(value: Value) -> Value:
        made = value.version[0]
        return value.raised(split.level, split.reads) if (made if made >= 0 else -1 - made) in body else value

    registers = tuple(aged(value) for value in state.registers)
    stack = {at: Byte(aged(cell.value), cell.index, cell.of) for at, cell in state.stack.items()}
    return State(registers, stack, state.pins)

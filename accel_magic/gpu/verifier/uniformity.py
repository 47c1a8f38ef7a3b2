"""Which values differ between threads, and where the threads of a warp, a block or the grid diverge.

A data flow analysis over registers, stack bytes and control flow. Its results are bounds: a value at level WARP is the
same in all lanes of a warp that execute the same step together. Values can differ if they come from helpers (see their
table), the context, per-thread maps, results of atomics, or reads of a map that the program itself changes, because
another lane may write between two lanes' reads. A map that the program only reads counts as constant while lanes read
it together. Values merged after a branch differ at the branch's level unless they are the same value; values made in a
loop differ after it if threads leave it in different iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Jump
from accel_magic.gpu.verifier.algebra import LEADER, pins
from accel_magic.gpu.verifier.analysis_input import AnalysisInput
from accel_magic.gpu.verifier.cfg import END
from accel_magic.gpu.verifier.divergence import Branch, Divergence, Shape, diverge, left
from accel_magic.gpu.verifier.flow import STEPS, blurred, call_helper, called
from accel_magic.gpu.verifier.lane_values import (
    TOGETHER,
    LaneState,
    LaneValue,
    Level,
    Split,
    meet,
    merge,
    mix,
    number,
    plain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec, Per
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.cfg import Cfg
    from accel_magic.gpu.verifier.memory_facts import Facts

_ENTRY: Final = 1 << 30
"""Slot in the versions of values at a function's entry."""
_ROUNDS: Final = 100
"""Passes over a program after which all values are assumed to differ."""
_NULLABLE: Final = frozenset({"value_or_null", "record_or_null"})


@dataclass(frozen=True)
class Uniformity:
    """What is known across threads at each reachable instruction.

    Attributes:
        world: The program and its facts.
        cfgs: Control flow, by function.
        states: Values before each instruction.
        branches: Levels of branch conditions.
        control: How threads are split at instructions that they do not all reach together; others are omitted.
        lenient: Levels of the same under the assumption that null checks of one key have the same outcome everywhere.

    """

    world: AnalysisInput
    cfgs: Sequence[Cfg]
    states: Mapping[Place, LaneState]
    branches: Mapping[Place, Level]
    control: Mapping[Place, Split]
    lenient: Mapping[Place, Level]

    @cached_property
    def counted(self) -> frozenset[str]:
        """Maps that the program updates from their old values: by atomics, or by storing a value read there."""
        found = set()
        for place, state in self.states.items():
            instruction = self.world.program.functions[place[0]].code[place[1]]
            if instruction is None or instruction.kind != isa.STX:
                continue
            name = self.world.map_of(place)
            reads = state.registers[instruction.src].reads
            if instruction.mode == isa.MODE_ATOMIC or any(self.world.map_of(read) == name for read in reads):
                found.add(name)
        return frozenset(found)

    def branch_before(self, place: Place) -> Place | None:
        """Return the last branch in the same function that splits the threads that reach an instruction."""
        shape = Shape(self.cfgs[place[0]])
        parting = [
            slot
            for (function, slot), level in self.branches.items()
            if function == place[0] and level >= Level.WARP and place[1] in shape.region(slot)
        ]
        before = [slot for slot in parting if slot < place[1]] or parting
        return (place[0], max(before)) if before else None

    def apart(self, place: Place) -> Level:
        """Level at which threads differ in whether they reach an instruction."""
        return self.control.get(place, TOGETHER).level


def analyse(
    program: EbpfProgram, maps: Sequence[MapSpec], cfgs: Sequence[Cfg], facts: Facts, per: Per = "thread"
) -> Uniformity:
    """Find in which groups of threads values and control flow are the same.

    Args:
        program: One that the memory rules accept.
        maps: The object's maps.
        cfgs: Control flow of each of its functions.
        facts: Facts from the memory analysis; instructions without facts are never reached.
        per: "warp" if only the leader of each warp runs it.

    """
    world = AnalysisInput(program, {spec.name: spec for spec in maps}, facts, warp=per == "warp")
    functions = tuple(_Function(world, place, cfg) for place, cfg in enumerate(cfgs))
    functions[0].entries[(0, -1)] = (_first_state(world), TOGETHER, Level.GRID)
    settled = any(_pass(functions) for _ in range(_ROUNDS))
    if not settled:
        for function in functions:
            function.give_up()
    return Uniformity(
        world,
        cfgs,
        {(f.place, slot): state for f in functions for slot, state in f.states.items()},
        {(f.place, slot): f.branches.get(slot, Branch()).split.level for f in functions for slot in f.cfg.branches},
        {(f.place, slot): split for f in functions for slot, split in f.splits() if split != TOGETHER},
        {(f.place, slot): f.lenient(slot) for f in functions for slot in f.cfg.reachable},
    )


def _first_state(world: AnalysisInput) -> LaneState:
    registers = [world.unknown((_ENTRY, at)) for at in range(11)]
    registers[1] = plain(Level.GRID, (_ENTRY, 1))
    registers[10] = plain(Level.GRID, (_ENTRY, 10))
    return LaneState(tuple(registers), {}, frozenset({LEADER}) if world.warp else frozenset())


def _pass(functions: Sequence[_Function]) -> bool:
    """Process all called functions once; return whether nothing changed."""
    changes = [function.run(functions) for function in functions if function.entries]
    return not any(changes)


@dataclass
class _Function:
    """What is known so far about one function; it grows with each pass."""

    world: AnalysisInput
    place: int
    cfg: Cfg
    states: dict[int, LaneState] = field(default_factory=dict)
    entering: dict[int, LaneState] = field(default_factory=dict)
    edges: dict[tuple[int, int], LaneState] = field(default_factory=dict)
    branches: dict[int, Branch] = field(default_factory=dict)
    divergence: Divergence = field(default_factory=Divergence)
    entries: dict[Place, tuple[LaneState, Split, Level]] = field(default_factory=dict)
    returned: LaneValue | None = None
    moved: bool = False

    def __post_init__(self) -> None:
        self.shape = Shape(self.cfg)
        self.rank = {slot: at for at, slot in enumerate(self.cfg.order)}

    def entry_split(self) -> Split:
        """How the threads are split at the callers."""
        split = TOGETHER
        for _, outer, _ in self.entries.values():
            split = split.with_(outer)
        return split

    def splits(self) -> Iterator[tuple[int, Split]]:
        """How the threads that reach each slot are split."""
        outer = self.entry_split()
        for slot in self.cfg.reachable:
            yield slot, self.divergence.control.get(slot, TOGETHER).with_(outer)

    def lenient(self, slot: int) -> Level:
        """Level of a slot, assuming that null checks of one key have the same outcome in all threads."""
        outer = max((level for *_, level in self.entries.values()), default=Level.GRID)
        return max(outer, self.divergence.lenient.get(slot, Level.GRID))

    def run(self, functions: Sequence[_Function]) -> bool:
        """Process the function once in order; return whether anything changed."""
        changed = self.moved = False
        for slot in self.cfg.order:
            state = self._state_before(slot)
            if state is None or (self.place, slot) not in self.world.facts.registers:
                continue
            changed |= self.states.get(slot) != state
            self.states[slot] = state
            changed |= self._step(slot, state, functions)
        return self._judge_branches() | self._judge_return() | changed | self.moved

    def give_up(self) -> None:
        """Assume that everything differs between lanes."""
        apart = Split(self.world.cap(Level.LANE))
        for slot, state in self.states.items():
            unknown = tuple(self.world.unknown((_ENTRY, at)) for at in range(11))
            self.states[slot] = LaneState(unknown, {}, frozenset())
            self.entries[(self.place, slot)] = (state, apart, apart.level)
        self.branches = {slot: Branch(apart, apart.level) for slot in self.cfg.branches}

    def _state_before(self, slot: int) -> LaneState | None:
        """State before an instruction; None while no path reaches it.

        The states at a loop's back edges are merged into the state at its entry only once that has settled, so values
        that pass through a loop unchanged are never treated as made in it. From then on the state only grows.
        """
        split = self.divergence.meetings.get(slot, TOGETHER)
        sources = [source for source in self.cfg.predecessors[slot] if (source, slot) in self.edges]
        ahead = [self.edges[source, slot] for source in sources if self.rank[source] < self.rank[slot]]
        if slot == self.cfg.order[0]:
            ahead += [state for state, *_ in self.entries.values()]
        if not ahead:
            return None
        entering = meet(ahead, slot, split)
        around = [self.edges[source, slot] for source in sources if self.rank[source] >= self.rank[slot]]
        if not around or self.entering.get(slot) != entering:
            self.moved |= bool(around)
            self.entering[slot] = entering
            return entering
        return meet([entering, *around, self.states[slot]], slot, split)

    def _step(self, slot: int, state: LaneState, functions: Sequence[_Function]) -> bool:
        """Set the states on an instruction's edges; return whether it calls a function with a new entry state."""
        instruction = self.cfg.code[slot]
        if instruction is None:
            return False
        changed = False
        if instruction.opcode == isa.CALL and instruction.src == isa.CALL_LOCAL:
            callee = functions[instruction.imm]
            changed = self._enter(slot, state, callee)
            if callee.returned is None:
                return changed
            value = replace(callee.returned, version=(slot, 0))
            after = called(self.world, (self.place, slot), state, value)
            if instruction.imm in self.world.intruders:
                after = blurred(self.world, (self.place, slot), after)
        else:
            after = self._after(slot, state, instruction)
        for to in self.cfg.successors[slot]:
            self.edges[slot, to] = left(self.shape, self.divergence, slot, to, self._refined(slot, to, after))
        return changed

    def _after(self, slot: int, state: LaneState, instruction: EbpfInstruction) -> LaneState:
        if instruction.opcode == isa.CALL:
            split = self.divergence.control.get(slot, TOGETHER).with_(self.entry_split())
            return call_helper(
                self.world,
                (self.place, slot),
                state,
                instruction,
                apart=self.lenient(slot) is Level.LANE,
                scattered=split.level is Level.LANE,
            )
        step = STEPS.get(instruction.kind)
        return state if step is None else step(self.world, (self.place, slot), state, instruction)

    def _refined(self, slot: int, to: int, state: LaneState) -> LaneState:
        """State on one edge of a branch."""
        instruction = self.cfg.code[slot]
        if slot not in self.cfg.branches or instruction is None:
            return state
        taken = to == self.cfg.successors[slot][1]
        new = pins(self.world, (self.place, slot), state, instruction, taken=taken)
        return replace(state, pins=state.pins | new) if new - state.pins else state

    def _enter(self, slot: int, state: LaneState, callee: _Function) -> bool:
        registers = [self.world.unknown((_ENTRY, at)) for at in range(11)]
        for at in range(1, 6):
            registers[at] = replace(state.registers[at], version=(_ENTRY, at))
        registers[10] = plain(Level.GRID, (_ENTRY, 10))
        split = self.divergence.control.get(slot, TOGETHER).with_(self.entry_split())
        entry = (LaneState(tuple(registers), {}, state.pins), split, self.lenient(slot))
        changed = callee.entries.get((self.place, slot)) != entry
        callee.entries[self.place, slot] = entry
        return changed

    def _judge_branches(self) -> bool:
        """Recompute the levels of all branches; return whether one has risen."""
        before = dict(self.branches)
        for slot in self.cfg.branches & self.states.keys():
            found = self._branch(slot)
            known = self.branches.get(slot, Branch())
            risen = Branch(known.split.with_(found.split), max(known.lenient, found.lenient))
            if risen != Branch():
                self.branches[slot] = risen
        if self.branches == before:
            return False
        self.divergence = diverge(self.shape, self.branches)
        return True

    def _branch(self, slot: int) -> Branch:
        instruction = self.cfg.code[slot]
        state = self.states[slot]
        if instruction is None:
            return Branch()
        one = state.registers[instruction.dst]
        two = state.registers[instruction.src] if instruction.from_register else number(instruction.imm, (slot, 11))
        condition = mix([one, two], (slot, 11))
        split = Split(condition.level, condition.reads)
        return Branch(split, self._lenient_level(slot, instruction, one, two, condition.level))

    def _lenient_level(
        self, slot: int, instruction: EbpfInstruction, one: LaneValue, two: LaneValue, level: Level
    ) -> Level:
        fact = self.world.fact((self.place, slot), instruction.dst)
        if fact.kind not in _NULLABLE or two.constant != 0 or instruction.operation not in (Jump.JEQ, Jump.JNE):
            return level
        return Level.GRID if fact.kind == "record_or_null" or self.world.is_per_thread(fact.map) else one.place

    def _judge_return(self) -> bool:
        """Recompute the function's result; return whether it changed."""
        values = [
            self.edges[slot, END].registers[0] for slot in self.cfg.predecessors[END] if (slot, END) in self.edges
        ]
        if not values:
            return False
        value = merge(values, (_ENTRY, 0), self.divergence.meetings.get(END, TOGETHER))
        changed = value != self.returned
        self.returned = value
        return changed

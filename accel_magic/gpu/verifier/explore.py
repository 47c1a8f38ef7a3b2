"""Following all paths through a program: which states to follow, which ones others cover, and whether loops end."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.verifier import liveness, program_state, stack
from accel_magic.gpu.verifier.analysis_pass import DONE, AnalysisPass
from accel_magic.gpu.verifier.cfg import calls
from accel_magic.gpu.verifier.findings import MOST_STEPS, Breach
from accel_magic.gpu.verifier.instruction_effects import step_of
from accel_magic.gpu.verifier.program_state import at_start
from accel_magic.gpu.verifier.register_values import ANYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.analysis_pass import Hook
    from accel_magic.gpu.verifier.cfg import Cfg, Loop
    from accel_magic.gpu.verifier.instruction_effects import Step
    from accel_magic.gpu.verifier.program_state import Chain, ProgramState
    from accel_magic.gpu.verifier.register_values import RegisterValue
    from accel_magic.gpu.verifier.stack import Cells

_MOST_BREACHES: Final = 20
_JOIN_AFTER: Final = 8
"""States followed from one instruction before further ones are joined with them."""
_WIDEN_AFTER: Final = 24
_LOOK_BACK: Final = 12
"""How many of the latest states at an instruction a new one is compared with, and how many of those similar to it."""
_SUSPICIOUS: Final = 64
"""Iterations of a loop on one path after which the loop is suspected not to end."""
_CROWD: Final = 256
"""States at the same instruction after which even dissimilar ones are joined."""


class StuckError(Exception):
    """A loop may not end.

    Args:
        loop: Its function and head; None if too many instructions were followed outside any loop.
        suspected: It has only run for many iterations so far.

    """

    def __init__(self, loop: Place | None, *, suspected: bool = False) -> None:
        super().__init__(loop)
        self.loop = loop
        self.suspected = suspected


@dataclass(slots=True, eq=False)
class Visit:
    """A state that was followed from a place where paths join.

    Attributes:
        state: The state; it no longer changes.
        slot: Its slot.
        before: The previous visit on its path.
        depth: Number of visits on its path before it.
        finished: The visits at the same place whose paths have all ended; this one is appended when its own have.
        pending: Paths from here that have not ended yet.

    """

    state: ProgramState
    slot: int
    before: Visit | None
    depth: int
    finished: list[Visit] = field(repr=False)
    pending: int = 1


@dataclass(frozen=True)
class ProgramFacts:
    """What is known about a program before its paths are followed.

    Attributes:
        program: The program.
        maps: The object's maps by name.
        graphs: Control flow of each function.
        steps: For each function and slot: the step and its instruction.
        meeting: For each function: the slots where states are compared.
        live: For each function and slot: the registers that are read later, as bits.
        decisive: For each function and slot: the registers from `liveness.decisive`, as bits.
        stack: For each function and slot: the bytes of the stack that are read later, as bits.
        hook: As in `Run`.

    """

    program: EbpfProgram
    maps: Mapping[str, MapSpec]
    graphs: Sequence[Cfg]
    steps: Sequence[Sequence[tuple[Step, EbpfInstruction] | None]]
    meeting: Sequence[frozenset[int]]
    live: Sequence[Mapping[int, int]]
    decisive: Sequence[Mapping[int, int]]
    stack: Sequence[Mapping[int, int]]
    hook: Hook | None


def plan(program: EbpfProgram, maps: Mapping[str, MapSpec], graphs: Sequence[Cfg], hook: Hook | None) -> ProgramFacts:
    """Prepare a program in which `shape` found no faults."""
    return ProgramFacts(
        program,
        maps,
        graphs,
        [
            [None if instruction is None else (step_of(instruction), instruction) for instruction in function.code]
            for function in program.functions
        ],
        [
            graph.joins | graph.loop_heads | {slot + 1 for slot, _ in calls(function)}
            for function, graph in zip(program.functions, graphs, strict=True)
        ],
        [liveness.live(graph) for graph in graphs],
        [liveness.decisive(graph, returns_number=place == 0) for place, graph in enumerate(graphs)],
        [liveness.stack(graph) for graph in graphs],
        hook,
    )


Seen = tuple[tuple["RegisterValue", ...], "Cells", tuple[int, ...]]
"""Registers and stack of the running function before an instruction, and the indices of all active functions."""


@dataclass(slots=True)
class Exploration:
    """One pass over all paths.

    Attributes:
        plan: The program.
        forgetful: Allow states to lose precision where paths join. Breaches found may then be false.
        widened: Loops known not to end in time: function and head. They are followed for a few iterations, and bounds
            that move are set to their extremes.
        trusted: Loops that may run for any number of iterations; others are suspected after `_SUSPICIOUS`.
        run: What the steps collect.
        breaches: Rules that were broken, each once per place.
        history: Everything seen before each instruction.
        forgot: Whether any value was dropped.
        blended: Whether any states were joined.

    """

    plan: ProgramFacts
    forgetful: bool
    widened: frozenset[Place]
    trusted: frozenset[Place]
    run: AnalysisPass = field(init=False)
    breaches: dict[tuple[Place, str], Breach] = field(default_factory=dict)
    history: dict[Place, list[Seen]] = field(default_factory=dict)
    forgot: bool = False
    blended: bool = False
    _visits: dict[tuple[Chain, Place], tuple[list[Visit], list[Visit]]] = field(default_factory=dict)
    _alike: dict[tuple[Chain, Place, tuple[int, ...]], list[Visit]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run = AnalysisPass(self.plan.program, self.plan.maps, hook=self.plan.hook)

    def follow_all(self) -> None:
        """Follow every path.

        Raises:
            StuckError: A loop does not end within `MOST_STEPS` steps, or is suspected not to.

        """
        waiting: list[tuple[ProgramState, int, Visit | None]] = [(at_start(), 0, None)]
        steps = 0
        while waiting and len(self.breaches) < _MOST_BREACHES:
            state, slot, visit = waiting.pop()
            while slot != DONE:
                place = (state.frame.function, slot)
                if slot in self.plan.meeting[place[0]]:
                    try:
                        met = self._meet(state, slot, visit)
                    except Breach as breach:
                        self.breaches.setdefault((breach.place or place, breach.rule), breach)
                        break
                    if met is None:
                        break
                    state, visit = met.state.copy(), met
                steps += 1
                if steps > MOST_STEPS:
                    raise StuckError(self._longest_loop())
                slot = self._step(state, place)
                for branch, target in self.run.branches:
                    waiting.append((branch, target, visit))
                    if visit is not None:
                        visit.pending += 1
                self.run.branches.clear()
            _finish(visit)

    def _step(self, state: ProgramState, place: Place) -> int:
        frame = state.frame
        seen = (tuple(frame.registers), frame.cells, tuple(one.function for one in state.frames))
        self.history.setdefault(place, []).append(seen)
        step = self.plan.steps[place[0]][place[1]]
        if step is None:
            return DONE
        try:
            return step[0](self.run, state, place, step[1])
        except Breach as breach:
            self.breaches.setdefault((breach.place or place, breach.rule), breach)
            return DONE

    def _meet(self, state: ProgramState, slot: int, before: Visit | None) -> Visit | None:
        """Compare a state with earlier ones at its slot; return the visit to continue from, None if one covers it."""
        place = (state.frame.function, slot)
        live = [
            *(self.plan.live[function][back] & ~1 for function, back in state.chain),
            self.plan.live[place[0]][slot],
        ]
        if self.forgetful:
            self._forget(state, place)
        here, finished = self._visits.setdefault((state.chain, place), ([], []))
        alike = self._alike.setdefault((state.chain, place, _signature(state, live[-1])), [])
        soft = self._within_widened(state, slot)
        for visit in (*_latest(alike), *_latest(here if soft else finished)):
            if not program_state.covers(visit.state, state, live):
                continue
            if not visit.pending or soft:
                return None
            if program_state.covers(state, visit.state, live):
                raise StuckError(self._loop_around(state, slot))
        rounds = [visit for visit in here if visit.pending] if place in self.widened else []
        state = _widened(rounds[-1].state, state, live) if rounds else self._blended(state, live, finished, alike)
        visit = Visit(state, slot, before, before.depth + 1 if before else 0, finished)
        here.append(visit)
        alike.append(visit)
        if len(here) % _SUSPICIOUS == 0 and place not in self.trusted | self.widened:
            self._suspect(here, place)
        return visit

    def _within_widened(self, state: ProgramState, slot: int) -> bool:
        """Whether a loop around an instruction is in `widened`: its iterations may then cover each other."""
        return bool(self.widened) and any(
            (function, loop.head) in self.widened for _, function, loop in self._loops_around(state, slot)
        )

    def _forget(self, state: ProgramState, place: Place) -> None:
        """Drop the values of registers that are no longer decisive, and the stack that is not read later."""
        frame = state.frame
        kept = self.plan.stack[place[0]][place[1]]
        for at, cell in frame.cells.items():
            mask = stack.bytes_mask(at, cell.size)
            if cell.value.pointer and mask & kept:
                kept |= mask  # part of an address is not a number
        if frame.written & ~kept:
            frame.written &= kept
            frame.cells = {at: cell for at, cell in frame.cells.items() if not stack.bytes_mask(at, cell.size) & ~kept}
            self.forgot = True
        registers = frame.registers
        for register in _bits(self.plan.live[place[0]][place[1]] & ~self.plan.decisive[place[0]][place[1]]):
            if registers[register].kind == "scalar" and registers[register] is not ANYTHING:
                registers[register] = ANYTHING
                self.forgot = True

    def _blended(
        self, state: ProgramState, live: Sequence[int], finished: list[Visit], alike: list[Visit]
    ) -> ProgramState:
        """Return the state to continue with: the given one, or if there were many, its join with an earlier one."""
        if not self.forgetful:
            return state
        others = [visit for visit in alike[-_WIDEN_AFTER:] if not visit.pending]
        if len(others) < _JOIN_AFTER and len(finished) >= _CROWD:
            others = finished[-_WIDEN_AFTER:]
        if len(others) < _JOIN_AFTER:
            return state
        both = program_state.joined(others[-1].state, state, live, widening=len(others) >= _WIDEN_AFTER)
        if both is None:
            return state
        self.blended = True
        return both

    def _suspect(self, here: Sequence[Visit], place: Place) -> None:
        """Raise StuckError for a loop that has run for many iterations on this path."""
        rounds = sum(visit.pending > 0 for visit in here)
        if rounds >= _SUSPICIOUS and place[1] in self.plan.graphs[place[0]].loop_heads:
            raise StuckError(place, suspected=True)

    def _longest_loop(self) -> Place | None:
        """Find the loop with the most iterations on the longest path; None if the path is in no loop."""
        everything = (visit for here, _ in self._visits.values() for visit in here)
        last = max(everything, key=lambda visit: visit.depth, default=None)
        if last is None:
            return None
        around = self._loops_around(last.state, last.slot)
        if not around:
            return None
        _, function, loop = max(around, key=lambda found: _rounds(found[0], found[2], last))
        return function, loop.head

    def _loop_around(self, state: ProgramState, slot: int) -> Place | None:
        """Find the innermost loop around an instruction, including loops around the calls that led to it."""
        around = self._loops_around(state, slot)
        if not around:
            return None
        _, function, loop = max(around, key=lambda found: (len(found[0]), -len(found[2].body)))
        return function, loop.head

    def _loops_around(self, state: ProgramState, slot: int) -> list[tuple[Chain, int, Loop]]:
        """Find the loops around an instruction and the calls that led to it, each with its call chain and function."""
        at = [*((function, back - 1) for function, back in state.chain), (state.frame.function, slot)]
        return [
            (state.chain[:depth], function, loop)
            for depth, (function, inside) in enumerate(at)
            for loop in self.plan.graphs[function].loops
            if inside in loop.body
        ]


def _finish(visit: Visit | None) -> None:
    """Record the end of a path in all its visits."""
    while visit is not None:
        visit.pending -= 1
        if visit.pending:
            return
        visit.finished.append(visit)
        visit = visit.before


def _widened(old: ProgramState, new: ProgramState, live: Sequence[int]) -> ProgramState:
    both = program_state.joined(old, new, live, widening=True)
    if both is None:
        places = [place for place in new.records.values() if place not in old.records.values()]
        raise Breach(
            "record-leak",
            "each iteration of the loop reserves a record without submitting or discarding the previous one",
            place=(places or list(new.records.values()) or list(old.records.values()))[0],
        )
    return both


def _rounds(chain: Chain, loop: Loop, visit: Visit | None) -> int:
    """Count how often a path has passed a loop's head since it entered the loop."""
    count = 0
    while visit is not None and visit.state.chain[: len(chain)] == chain:
        if len(visit.state.chain) == len(chain):
            if visit.slot not in loop.body:
                break
            count += visit.slot == loop.head
        visit = visit.before
    return count


def _latest(visits: list[Visit]) -> Iterator[Visit]:
    return islice(reversed(visits), _LOOK_BACK)


def _signature(state: ProgramState, mask: int) -> tuple[int, ...]:
    """Return the constants in registers, -1 for others: states that cover each other mostly have the same ones."""
    values = [state.frame.registers[register] for register in _bits(mask)]
    return tuple(value.number.value if value.kind == "scalar" and value.number.known else -1 for value in values)


@lru_cache(maxsize=1024)
def _bits(mask: int) -> tuple[int, ...]:
    return tuple(register for register in range(10) if mask >> register & 1)

"""The rules of SIMT safety: problems that occur when thousands of threads run a program at the same time.

Races are judged within one launch, for each instruction separately: a value belongs to one thread if its key is the
thread's number, or if only one thread of the grid (or of the block that the key numbers) reaches the instruction. Grids
are assumed to have fewer than 2^32 threads. A key that differs from lane to lane does not prove that each lane has its
own value: a plain store is then a warning instead of an error, and an update of a whole entry is not reported. It is
not a race if all threads store the same value.

In strict mode, the default, errors reject a program: its counts would be wrong, or the kernel could hang. Programs with
races that were written for other tools run with `--verify warn`. Updates are promoted to atomics in both modes.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import ARRAYS, HASHES
from accel_magic.gpu.program.sections import Where, attach_of
from accel_magic.gpu.verifier.algebra import LEADER, MISSING
from accel_magic.gpu.verifier.analysis_input import LOOKUP, VALUES, helper_of, written_arguments
from accel_magic.gpu.verifier.findings import VerifierRule, finding
from accel_magic.gpu.verifier.flow import memory
from accel_magic.gpu.verifier.lane_values import Level, Own, mix, number, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from accel_magic.gpu.program.helpers import Helper
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.verdict import Place, VerifierFinding
    from accel_magic.gpu.verifier.analysis_input import AnalysisInput
    from accel_magic.gpu.verifier.cfg import Loop
    from accel_magic.gpu.verifier.lane_values import LaneState, LaneValue
    from accel_magic.gpu.verifier.memory_facts import RegisterFact
    from accel_magic.gpu.verifier.uniformity import Uniformity


_BARRIER: Final = 609
_NOEXIST: Final = 1
_WHOLE_BLOCKS: Final = frozenset({Where.ENTRY, Where.BARRIER})
"""Places that all threads of a block reach together."""
_ATOMIC_FIX: Final = "use `__sync_fetch_and_add(value, n)`, or a per-thread map"
_SIZE_FIX: Final = "use an aligned field of 4 or 8 bytes, the sizes that atomics support, or a per-thread map"

PROMOTED: Final = VerifierRule(
    "promoted-update",
    "a plain read-modify-write of a shared value runs as one atomic operation, so no update is lost",
    "no action needed; to make the atomic explicit, use __sync_fetch_and_add",
    severity="note",
    memory=False,
)

_TABLE: Final = (
    VerifierRule(
        "divergent-barrier",
        "all threads of a block must reach a barrier; if some do not, the others wait forever",
        "call gpu_barrier() where the whole block passes, and branch afterwards",
        memory=False,
    ),
    VerifierRule(
        "divergent-vote",
        "all lanes of a warp must vote together; lanes on another path are missing from the result",
        "vote before the branch, and make the branch condition part of the argument",
        memory=False,
    ),
    VerifierRule(
        "racy-update",
        "several threads store to one value; only the last store survives",
        "store from one thread (thread and block indices all zero), or use an atomic or a per-thread map",
        memory=False,
    ),
    VerifierRule(
        "lost-update",
        "a value is read, changed and written back in separate steps; writes by other threads in between are lost",
        _ATOMIC_FIX,
        memory=False,
    ),
    VerifierRule(
        "hash-insert-race",
        "another thread may insert or change the entry between a lookup and the update that depends on it",
        "insert a zero with BPF_NOEXIST, look the key up again, then use __sync_fetch_and_add",
        memory=False,
    ),
    VerifierRule(
        "same-slot-update",
        "many threads overwrite one entry with different values; only the last one survives",
        "put the thread or block into the key, update from one thread, or pass BPF_NOEXIST to keep the first value",
        severity="warning",
        memory=False,
    ),
    VerifierRule(
        "exit-divergent",
        "gpu_exit() ends only the lanes that call it; the kernel continues without them",
        "exit whole warps or blocks if the kernel's barriers and shuffles need all lanes",
        severity="warning",
        memory=False,
    ),
    VerifierRule(
        "print-per-thread",
        "every thread prints a line; lines that do not fit into the print ring are dropped",
        "print from one thread: `if (gpu_thread_number() == 0)`",
        severity="note",
        memory=False,
    ),
    VerifierRule(
        "spin",
        "a loop waits for a write by another thread, which may be a lane of the same warp that waits for this one",
        "do not wait on the GPU: record the values and combine them on the host",
        memory=False,
    ),
    PROMOTED,
)

RULES: Final[Mapping[str, VerifierRule]] = MappingProxyType({rule.id: rule for rule in _TABLE})
"""SIMT safety rules by id."""


def findings(uniformity: Uniformity, stores: frozenset[Place]) -> list[VerifierFinding]:
    """Check a program against all rules.

    Args:
        uniformity: Which values differ between its threads.
        stores: Stores that belong to promoted updates.

    """
    program = uniformity.world.program
    found = [
        _finding(uniformity, place, rule, message, fix=fix, severity=severity)
        for place in sorted(uniformity.states)
        if place not in stores
        for rule, message, fix, severity in _at(uniformity, place)
    ]
    found += [_finding(uniformity, place, "spin", message) for place, message in waits(uniformity)]
    return _once_for_each_line(found) if program.functions else []


_Report = tuple[str, str, str, str]
"""VerifierRule, message, and the fix and severity if they differ from the rule's, else ''."""


def _finding(
    uniformity: Uniformity, place: Place, rule: str, message: str, *, fix: str = "", severity: str = ""
) -> VerifierFinding:
    found = finding(RULES[rule], uniformity.world.program, place, message, fix=fix)
    return replace(found, severity="warning") if severity == "warning" else found


def _once_for_each_line(found: Sequence[VerifierFinding]) -> list[VerifierFinding]:
    """Keep each rule's first finding on a line: one line of C is often several instructions."""
    kept: dict[object, VerifierFinding] = {}
    for each in found:
        key = (each.rule, each.function, each.slot if each.line is None else (each.line.file, each.line.line))
        kept.setdefault(key, each)
    return list(kept.values())


def _at(uniformity: Uniformity, place: Place) -> Iterator[_Report]:
    instruction = uniformity.world.program.functions[place[0]].code[place[1]]
    if instruction is None:
        return
    helper = helper_of(instruction)
    if helper is not None:
        yield from _call(uniformity, place, helper)
    elif instruction.kind in (isa.ST, isa.STX) and instruction.mode == isa.MODE_MEM:
        yield from _store(uniformity, place, instruction)


def _call(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Report]:
    if helper.converges:
        yield from (_barrier if helper.id == _BARRIER else _vote)(uniformity, place, helper)
    if helper.effect in _EFFECTS:
        yield from _EFFECTS[helper.effect](uniformity, place, helper)
    for register in written_arguments(helper):
        value = plain(Level.LANE if helper.lanes.name == "VARYING" else Level.BLOCK, (place[1], register))
        yield from _written(uniformity, place, register, value)


# Barriers and votes.


def _barrier(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Report]:
    if uniformity.world.warp:
        yield "divergent-barrier", f"only one lane of each warp calls {helper.name}", "use --per thread", ""
    elif not _is_for_whole_blocks(uniformity.world):
        fix = "attach the program to gpu/entry or gpu/barrier"
        yield "divergent-barrier", f"a block's threads may not all reach this place ({_section(uniformity)})", fix, ""
    elif uniformity.apart(place) >= Level.WARP:
        who = "lanes of a warp" if uniformity.apart(place) is Level.LANE else "warps of a block"
        yield "divergent-barrier", f"not all {who} reach {helper.name}: {_reason(uniformity, place)}", "", ""


def _vote(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Report]:
    if uniformity.world.warp:
        yield "divergent-vote", f"{helper.name} sees only the lane that runs the program", "use --per thread", "warning"
    elif uniformity.apart(place) is Level.LANE:
        yield "divergent-vote", f"not all lanes of a warp reach {helper.name}: {_reason(uniformity, place)}", "", ""


def _is_for_whole_blocks(world: AnalysisInput) -> bool:
    try:
        attach = attach_of(world.program)
    except ProgramError:
        return True
    return attach is None or attach.where in _WHOLE_BLOCKS


def _section(uniformity: Uniformity) -> str:
    return uniformity.world.program.section


def _reason(uniformity: Uniformity, place: Place) -> str:
    """Name the branch where threads diverge."""
    branch = uniformity.branch_before(place)
    if branch is None:
        return "they diverge in a function that calls this one"
    line = uniformity.world.program.functions[branch[0]].lines[branch[1]]
    return f"they diverge at instruction {branch[1]}" if line is None else f"they diverge at line {line.line}"


# Effects of helpers.


def _exit(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Report]:
    if uniformity.world.warp:
        yield "exit-divergent", f"{helper.name} ends only one lane of each warp", "use --per thread", ""
    elif uniformity.lenient.get(place, Level.GRID) is Level.LANE:
        yield "exit-divergent", f"only some lanes of a warp exit here: {_reason(uniformity, place)}", "", ""


def _print(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Report]:
    if runners(uniformity.states[place].pins) is Runners.ALL:
        yield "print-per-thread", f"every thread that reaches this place calls {helper.name}", "", ""


def _update(uniformity: Uniformity, place: Place, _helper: Helper) -> Iterator[_Report]:
    world, state = uniformity.world, uniformity.states[place]
    spec = world.maps.get(world.fact(place, 1).map)
    if spec is None or spec.type not in HASHES | ARRAYS:
        return
    keys = memory(world, place, state, 2, spec.key_size)
    if alone(state.pins, max(key.own for key in keys)):
        return
    values = memory(world, place, state, 3, spec.value_size)
    value = mix(values, (place[1], 3))
    fact = world.fact(place, 3)
    hashed = spec.type in HASHES
    if (fact.kind in VALUES and fact.map == spec.name) or _reads(world, value, spec.name):
        rule = "hash-insert-race" if hashed else "lost-update"
        yield rule, f"the new value in {spec.name} is computed from the old one", "", ""
        return
    flags = state.registers[4].constant
    zero = all(each.constant == 0 for each in values)
    if hashed and MISSING + spec.name in state.pins and spec.name in uniformity.counted:
        if not (zero and flags == _NOEXIST):
            what = "another thread may have inserted the key into {} after this thread's lookup"
            yield "hash-insert-race", what.format(spec.name), "", ""
        return
    key = mix(keys, (place[1], 2))
    if flags != _NOEXIST and key.level < Level.LANE and value.level > Level.GRID:
        yield "same-slot-update", f"threads overwrite the same entry of {spec.name} with different values", "", ""


_EFFECTS: Final[Mapping[str, Callable[[Uniformity, Place, Helper], Iterable[_Report]]]] = MappingProxyType(
    {"exit": _exit, "print": _print, "update": _update}
)


# Stores.


def _store(uniformity: Uniformity, place: Place, instruction: EbpfInstruction) -> Iterator[_Report]:
    registers = uniformity.states[place].registers
    value = registers[instruction.src] if instruction.kind == isa.STX else number(instruction.imm, (place[1], -1))
    yield from _written(uniformity, place, instruction.dst, value, fix="" if instruction.size >= 4 else _SIZE_FIX)


def _written(
    uniformity: Uniformity, place: Place, register: int, value: LaneValue, *, fix: str = ""
) -> Iterator[_Report]:
    """Judge a store of a value through a register; `fix` is how to make it atomic, if it differs from the rule's."""
    world, state = uniformity.world, uniformity.states[place]
    fact = world.fact(place, register)
    pointer = state.registers[register]
    if alone(state.pins, pointer.own):
        return
    if fact.kind == "unset" and value.level > Level.GRID:
        yield "racy-update", f"{_who(state)} store different values to memory that may be shared", "", "warning"
    if not shared(world, fact):
        return
    name = fact.map or "a map value"
    if _reads(world, value, fact.map):
        yield "lost-update", f"{name} was read earlier, and other threads may have written to it since", fix, ""
    elif value.level > Level.GRID:
        severity = "warning" if pointer.place is Level.LANE else ""
        yield "racy-update", f"{_who(state)} store different values to {name}", "", severity


def _who(state: LaneState) -> str:
    names = {
        Runners.ALL: "threads that reach this place",
        Runners.ONE_OF_WARP: "lanes of different warps",
        Runners.ONE_OF_BLOCK: "threads of different blocks",
    }
    return names[runners(state.pins)]


def _reads(world: AnalysisInput, value: LaneValue, name: str) -> bool:
    """Whether a value depends on a read of a map."""
    return any(world.map_of(place) == name for place in value.reads)


class Runners(IntEnum):
    """Which threads reach an instruction."""

    ALL = 0
    ONE_OF_WARP = 1
    ONE_OF_BLOCK = 2
    ONE = 3


_THREAD: Final = frozenset({"thread_x", "thread_y", "thread_z"})
_BLOCK: Final = frozenset({"block_x", "block_y", "block_z"})


def runners(pins: frozenset[str]) -> Runners:
    """Return which threads can reach a place where each of these indices is one constant."""
    one_thread = pins >= _THREAD
    if "thread" in pins or (one_thread and ("block" in pins or pins >= _BLOCK)):
        return Runners.ONE
    if one_thread:
        return Runners.ONE_OF_BLOCK
    return Runners.ONE_OF_WARP if pins & {LEADER, "lane"} else Runners.ALL


def alone(pins: frozenset[str], own: Own) -> bool:
    """Whether no other thread of the launch accesses the same value with this instruction."""
    who = runners(pins)
    return who is Runners.ONE or own is Own.THREAD or (own is Own.BLOCK and who is Runners.ONE_OF_BLOCK)


def shared(world: AnalysisInput, fact: RegisterFact) -> bool:
    """Whether a pointer points to memory that all threads share."""
    return fact.kind in VALUES and not world.is_per_thread(fact.map)


def waits(uniformity: Uniformity) -> Iterator[tuple[Place, str]]:
    """Find reads of one shared value, repeated in each iteration of a loop, that decide when the loop ends.

    A compare-and-exchange loop on the value that it read is not a wait: in each iteration some thread makes progress.
    """
    for at, cfg in enumerate(uniformity.cfgs):
        for loop in cfg.loops:
            trying = _exchanged(uniformity, at, loop)
            for place in sorted(_deciding(uniformity, at, loop)):
                name = uniformity.world.map_of(place)
                if (
                    place[0] == at
                    and place[1] in loop.body
                    and name not in trying
                    and _is_fixed(uniformity, place, loop)
                ):
                    yield place, f"the loop waits for another thread to change {name}"


def _deciding(uniformity: Uniformity, at: int, loop: Loop) -> frozenset[Place]:
    """Reads that a loop's exits depend on."""
    found: frozenset[Place] = frozenset()
    for slot in loop.exits:
        instruction = uniformity.world.program.functions[at].code[slot]
        state = uniformity.states.get((at, slot))
        if instruction is None or state is None:
            continue
        found |= state.registers[instruction.dst].reads
        if instruction.from_register:
            found |= state.registers[instruction.src].reads
    return found


def _exchanged(uniformity: Uniformity, at: int, loop: Loop) -> frozenset[str]:
    """Maps in which the loop compares and exchanges a value that it read there before."""
    found = set()
    for slot in loop.body:
        instruction = uniformity.world.program.functions[at].code[slot]
        state = uniformity.states.get((at, slot))
        if instruction is None or state is None or not _is_exchange(instruction):
            continue
        name = uniformity.world.map_of((at, slot))
        if any(uniformity.world.map_of(read) == name for read in state.registers[0].reads):
            found.add(name)
    return frozenset(found)


def _is_exchange(instruction: EbpfInstruction) -> bool:
    return instruction.kind == isa.STX and instruction.mode == isa.MODE_ATOMIC and instruction.imm == isa.CMPXCHG


def _is_fixed(uniformity: Uniformity, place: Place, loop: Loop) -> bool:
    """Whether a read accesses the same place in every iteration."""
    instruction = uniformity.world.program.functions[place[0]].code[place[1]]
    if instruction is None:
        return False
    if helper_of(instruction) is not None:
        return all(not _changes(uniformity, place[0], key, loop) for key in _key(uniformity, place))
    register = instruction.src if instruction.kind == isa.LDX else instruction.dst
    return not _changes(uniformity, place[0], uniformity.states[place].registers[register], loop)


def _changes(uniformity: Uniformity, at: int, value: LaneValue, loop: Loop) -> bool:
    """Whether a value may differ between iterations; lookups of one key give the same place."""
    slot = value.version[0] if value.version[0] >= 0 else -1 - value.version[0]
    if value.constant is not None or slot not in loop.body:
        return False
    instruction = uniformity.world.program.functions[at].code[slot]
    helper = None if instruction is None or value.version[0] < 0 else helper_of(instruction)
    if helper is None or helper.id != LOOKUP:
        return True
    return any(_changes(uniformity, at, key, loop) for key in _key(uniformity, (at, slot)))


def _key(uniformity: Uniformity, place: Place) -> tuple[LaneValue, ...]:
    """Pieces of a lookup's key."""
    spec = uniformity.world.maps.get(uniformity.world.fact(place, 1).map)
    if spec is None:
        return (mix([uniformity.world.unknown((place[1], 2))], (place[1], 2)),)
    return memory(uniformity.world, place, uniformity.states[place], 2, spec.key_size)

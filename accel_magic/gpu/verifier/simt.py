"""The rules of SIMT safety: what goes wrong when thousands of threads run a program at the same time.

Races are judged within one launch, and for each instruction by itself: a value is a thread's own when its key is the
thread's number, or when only one thread of the grid (or of the block that the key numbers) comes to the instruction.
Grids are taken to have fewer than 2^32 threads. That a key differs from lane to lane is no proof that each has its own:
a plain store is then a warning instead of an error, and an update of a whole entry is left to the program. Values of
which all threads store the same are no race.

Errors refuse a program in strict mode, the default: its counts would be wrong, or the kernel could hang. Programs that
were written for other tools and race run with `--verify warn`; what can be promoted is promoted in both modes.
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
from accel_magic.gpu.verifier.findings import Rule, finding
from accel_magic.gpu.verifier.flow import memory
from accel_magic.gpu.verifier.lanes import Level, Own, mix, number, plain
from accel_magic.gpu.verifier.world import LOOKUP, VALUES, helper_of, written_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from accel_magic.gpu.program.helpers import Helper
    from accel_magic.gpu.program.isa import Instruction
    from accel_magic.gpu.program.verdict import Finding, Place
    from accel_magic.gpu.verifier.cfg import Loop
    from accel_magic.gpu.verifier.facts import RegisterFact
    from accel_magic.gpu.verifier.lanes import State, Value
    from accel_magic.gpu.verifier.uniformity import Uniformity
    from accel_magic.gpu.verifier.world import World


_BARRIER: Final = 609
_NOEXIST: Final = 1
_WHOLE_BLOCKS: Final = frozenset({Where.ENTRY, Where.BARRIER})
"""Places that all threads of a block come to together."""
_ATOMIC_FIX: Final = "use `__sync_fetch_and_add(value, n)`, or a per-thread map"
_SIZE_FIX: Final = "atomics exist for 4 and 8 bytes at a multiple of their size: use such a field, or a per-thread map"

PROMOTED: Final = Rule(
    "promoted-update",
    "a plain read-modify-write of a shared value runs as one atomic operation, so that no update is lost",
    "nothing to do; __sync_fetch_and_add says the same in the source",
    severity="note",
    memory=False,
)

_TABLE: Final = (
    Rule(
        "divergent-barrier",
        "all threads of a block meet at a barrier; if some do not come, the others wait for ever",
        "call gpu_barrier() where the whole block comes by, and branch afterwards",
        memory=False,
    ),
    Rule(
        "divergent-vote",
        "all lanes of a warp vote together; lanes that are elsewhere are missing in the result",
        "vote before the branch, with the branch's condition as part of the argument",
        memory=False,
    ),
    Rule(
        "racy-update",
        "several threads store to one value; only what the last one stored stays",
        "let one thread store (all of thread and block index zero), use an atomic, or a per-thread map",
        memory=False,
    ),
    Rule(
        "lost-update",
        "a value is read, changed and written back in steps; what others wrote in between is lost",
        _ATOMIC_FIX,
        memory=False,
    ),
    Rule(
        "hash-insert-race",
        "between a lookup and the update that follows from it another thread may have inserted or counted",
        "insert a zero with BPF_NOEXIST, look the key up again, then use __sync_fetch_and_add",
        memory=False,
    ),
    Rule(
        "same-slot-update",
        "many threads overwrite one entry with different values; the last one stays",
        "put the thread or block into the key, let one thread update, or pass BPF_NOEXIST to keep the first",
        severity="warning",
        memory=False,
    ),
    Rule(
        "exit-divergent",
        "gpu_exit() ends only the lanes that call it; the kernel goes on without them",
        "decide for whole warps or blocks, if the kernel's barriers and shuffles need all lanes",
        severity="warning",
        memory=False,
    ),
    Rule(
        "print-per-thread",
        "every thread prints a line; the print ring drops what does not fit",
        "print in one thread: `if (gpu_thread_number() == 0)`",
        severity="note",
        memory=False,
    ),
    Rule(
        "spin",
        "a loop waits for what another thread writes; that may be a lane of the same warp, which waits for this one",
        "do not wait on the GPU: record what is there, and let the host combine it",
        memory=False,
    ),
    PROMOTED,
)

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in _TABLE})
"""The rules of SIMT safety by id."""


def findings(uniformity: Uniformity, stores: frozenset[Place]) -> list[Finding]:
    """Check a program against all rules.

    Args:
        uniformity: What differs between its threads.
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


_Said = tuple[str, str, str, str]
"""Rule, message, and the fix and severity where they are not the rule's."""


def _finding(
    uniformity: Uniformity, place: Place, rule: str, message: str, *, fix: str = "", severity: str = ""
) -> Finding:
    said = finding(RULES[rule], uniformity.world.program, place, message, fix=fix)
    return replace(said, severity="warning") if severity == "warning" else said


def _once_for_each_line(found: Sequence[Finding]) -> list[Finding]:
    """Keep the first of a rule's findings on a line: a line of C is often several instructions."""
    kept: dict[object, Finding] = {}
    for each in found:
        key = (each.rule, each.function, each.slot if each.line is None else (each.line.file, each.line.line))
        kept.setdefault(key, each)
    return list(kept.values())


def _at(uniformity: Uniformity, place: Place) -> Iterator[_Said]:
    instruction = uniformity.world.program.functions[place[0]].code[place[1]]
    if instruction is None:
        return
    helper = helper_of(instruction)
    if helper is not None:
        yield from _call(uniformity, place, helper)
    elif instruction.kind in (isa.ST, isa.STX) and instruction.mode == isa.MODE_MEM:
        yield from _store(uniformity, place, instruction)


def _call(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Said]:
    if helper.converges:
        yield from (_barrier if helper.id == _BARRIER else _vote)(uniformity, place, helper)
    if helper.effect in _EFFECTS:
        yield from _EFFECTS[helper.effect](uniformity, place, helper)
    for register in written_arguments(helper):
        value = plain(Level.LANE if helper.lanes.name == "VARYING" else Level.BLOCK, (place[1], register))
        yield from _written(uniformity, place, register, value)


# Meeting of lanes.


def _barrier(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Said]:
    if uniformity.world.warp:
        yield "divergent-barrier", f"{helper.name} is called by one lane of each warp only", "use --per thread", ""
    elif not _is_for_whole_blocks(uniformity.world):
        fix = "attach the program to gpu/entry or gpu/barrier"
        yield "divergent-barrier", f"the kernel's threads need not come here together ({_section(uniformity)})", fix, ""
    elif uniformity.apart(place) >= Level.WARP:
        who = "lanes of a warp" if uniformity.apart(place) is Level.LANE else "warps of a block"
        yield "divergent-barrier", f"not all {who} reach {helper.name}: {_reason(uniformity, place)}", "", ""


def _vote(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Said]:
    if uniformity.world.warp:
        yield "divergent-vote", f"{helper.name} sees only the lane that runs the program", "use --per thread", "warning"
    elif uniformity.apart(place) is Level.LANE:
        yield "divergent-vote", f"not all lanes of a warp reach {helper.name}: {_reason(uniformity, place)}", "", ""


def _is_for_whole_blocks(world: World) -> bool:
    try:
        attach = attach_of(world.program)
    except ProgramError:
        return True
    return attach is None or attach.where in _WHOLE_BLOCKS


def _section(uniformity: Uniformity) -> str:
    return uniformity.world.program.section


def _reason(uniformity: Uniformity, place: Place) -> str:
    """Name the branch that keeps threads away."""
    branch = uniformity.branch_before(place)
    if branch is None:
        return "they part in a function that calls this one"
    line = uniformity.world.program.functions[branch[0]].lines[branch[1]]
    return f"they part at instruction {branch[1]}" if line is None else f"they part in line {line.line}"


# Effects of helpers.


def _exit(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Said]:
    if uniformity.world.warp:
        yield "exit-divergent", f"{helper.name} ends one lane of each warp only", "use --per thread", ""
    elif uniformity.lenient.get(place, Level.GRID) is Level.LANE:
        yield "exit-divergent", f"some lanes of a warp end here: {_reason(uniformity, place)}", "", ""


def _print(uniformity: Uniformity, place: Place, helper: Helper) -> Iterator[_Said]:
    if runners(uniformity.states[place].pins) is Runners.ALL:
        yield "print-per-thread", f"{helper.name} is called by every thread that comes here", "", ""


def _update(uniformity: Uniformity, place: Place, _helper: Helper) -> Iterator[_Said]:
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
        yield rule, f"the new value for {spec.name} was computed from the one that was there", "", ""
        return
    flags = state.registers[4].constant
    zero = all(each.constant == 0 for each in values)
    if hashed and MISSING + spec.name in state.pins and spec.name in uniformity.counted:
        if not (zero and flags == _NOEXIST):
            what = "others may have inserted the key to {} since this thread found nothing"
            yield "hash-insert-race", what.format(spec.name), "", ""
        return
    key = mix(keys, (place[1], 2))
    if flags != _NOEXIST and key.level < Level.LANE and value.level > Level.GRID:
        yield "same-slot-update", f"threads overwrite one entry of {spec.name} with different values", "", ""


_EFFECTS: Final[Mapping[str, Callable[[Uniformity, Place, Helper], Iterable[_Said]]]] = MappingProxyType(
    {"exit": _exit, "print": _print, "update": _update}
)


# Stores.


def _store(uniformity: Uniformity, place: Place, instruction: Instruction) -> Iterator[_Said]:
    registers = uniformity.states[place].registers
    value = registers[instruction.src] if instruction.kind == isa.STX else number(instruction.imm, (place[1], -1))
    yield from _written(uniformity, place, instruction.dst, value, fix="" if instruction.size >= 4 else _SIZE_FIX)


def _written(uniformity: Uniformity, place: Place, register: int, value: Value, *, fix: str = "") -> Iterator[_Said]:
    """Judge a store of a value through a register; `fix` is what makes it atomic where it is not the rule's."""
    world, state = uniformity.world, uniformity.states[place]
    fact = world.fact(place, register)
    pointer = state.registers[register]
    if alone(state.pins, pointer.own):
        return
    if fact.kind == "unset" and value.level > Level.GRID:
        yield "racy-update", f"{_who(state)} store different values to what may be shared", "", "warning"
    if not shared(world, fact):
        return
    name = fact.map or "a map's value"
    if _reads(world, value, fact.map):
        yield "lost-update", f"{name} was read before, and others may have written since", fix, ""
    elif value.level > Level.GRID:
        severity = "warning" if pointer.place is Level.LANE else ""
        yield "racy-update", f"{_who(state)} store different values to {name}", "", severity


def _who(state: State) -> str:
    names = {
        Runners.ALL: "all threads that come here",
        Runners.ONE_OF_WARP: "the lanes of all warps that come here",
        Runners.ONE_OF_BLOCK: "the threads of all blocks that come here",
    }
    return names[runners(state.pins)]


def _reads(world: World, value: Value, name: str) -> bool:
    """Whether a value depends on what was read from a map."""
    return any(world.map_of(place) == name for place in value.reads)


class Runners(IntEnum):
    """Who comes to an instruction."""

    ALL = 0
    ONE_OF_WARP = 1
    ONE_OF_BLOCK = 2
    ONE = 3


_THREAD: Final = frozenset({"thread_x", "thread_y", "thread_z"})
_BLOCK: Final = frozenset({"block_x", "block_y", "block_z"})


def runners(pins: frozenset[str]) -> Runners:
    """Tell who can be where these indices are one constant."""
    one_thread = pins >= _THREAD
    if "thread" in pins or (one_thread and ("block" in pins or pins >= _BLOCK)):
        return Runners.ONE
    if one_thread:
        return Runners.ONE_OF_BLOCK
    return Runners.ONE_OF_WARP if pins & {LEADER, "lane"} else Runners.ALL


def alone(pins: frozenset[str], own: Own) -> bool:
    """Whether no other thread of the launch touches the same value with this instruction."""
    who = runners(pins)
    return who is Runners.ONE or own is Own.THREAD or (own is Own.BLOCK and who is Runners.ONE_OF_BLOCK)


def shared(world: World, fact: RegisterFact) -> bool:
    """Whether a pointer leads to memory that all threads share."""
    return fact.kind in VALUES and not world.is_per_thread(fact.map)


def waits(uniformity: Uniformity) -> Iterator[tuple[Place, str]]:
    """Find reads of one shared value, again in each round of a loop, that decide when the loop ends.

    A loop that tries to exchange the value that it read before is no wait: each round some thread gets on.
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
    """Reads on which the exits of a loop depend."""
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
    """Maps of which the loop compares and exchanges a value that it read there before."""
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


def _is_exchange(instruction: Instruction) -> bool:
    return instruction.kind == isa.STX and instruction.mode == isa.MODE_ATOMIC and instruction.imm == isa.CMPXCHG


def _is_fixed(uniformity: Uniformity, place: Place, loop: Loop) -> bool:
    """Whether a read goes to the same place in every round."""
    instruction = uniformity.world.program.functions[place[0]].code[place[1]]
    if instruction is None:
        return False
    if helper_of(instruction) is not None:
        return all(not _changes(uniformity, place[0], key, loop) for key in _key(uniformity, place))
    register = instruction.src if instruction.kind == isa.LDX else instruction.dst
    return not _changes(uniformity, place[0], uniformity.states[place].registers[register], loop)


def _changes(uniformity: Uniformity, at: int, value: Value, loop: Loop) -> bool:
    """Whether a value may be another one in each round: lookups of one key are one place."""
    slot = value.version[0] if value.version[0] >= 0 else -1 - value.version[0]
    if value.constant is not None or slot not in loop.body:
        return False
    instruction = uniformity.world.program.functions[at].code[slot]
    helper = None if instruction is None or value.version[0] < 0 else helper_of(instruction)
    if helper is None or helper.id != LOOKUP:
        return True
    return any(_changes(uniformity, at, key, loop) for key in _key(uniformity, (at, slot)))


def _key(uniformity: Uniformity, place: Place) -> tuple[Value, ...]:
    """Pieces of the key of a lookup."""
    spec = uniformity.world.maps.get(uniformity.world.fact(place, 1).map)
    if spec is None:
        return (mix([uniformity.world.unknown((place[1], 2))], (place[1], 2)),)
    return memory(uniformity.world, place, uniformity.states[place], 2, spec.key_size)

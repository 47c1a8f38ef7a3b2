"""The transfer functions of `uniformity`: the effect of one instruction on what is known across threads."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import context, isa
from accel_magic.gpu.program.helpers import HASHES, HELPERS, PER_THREAD, HelperResult, Lanes
from accel_magic.gpu.program.isa import MapReference
from accel_magic.gpu.verifier.algebra import FOLLOWER, computed, narrowed
from accel_magic.gpu.verifier.analysis_input import (
    ACTIVE_MASK,
    BLOCK_NUMBER,
    IS_LEADER,
    LOOKUP,
    THREAD_NUMBER,
    VALUES,
    AnalysisInput,
    written_arguments,
)
from accel_magic.gpu.verifier.lane_values import (
    NOTHING,
    Byte,
    LaneState,
    LaneValue,
    Level,
    Own,
    Version,
    mix,
    number,
    plain,
    trailing_zeros,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from accel_magic.gpu.program.helpers import Helper
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.memory_facts import RegisterFact

_RESULTS: Final = MappingProxyType(
    # Uniform in larger groups than the warp that `Lanes.UNIFORM` guarantees.
    dict.fromkeys((14, 504, 508, 506, 605, 609, 614), Level.GRID)
    | dict.fromkeys((8, 503, 509, BLOCK_NUMBER), Level.BLOCK)
)
_OWN: Final = MappingProxyType({THREAD_NUMBER: Own.THREAD, BLOCK_NUMBER: Own.BLOCK})
_PARTS: Final = MappingProxyType({511: "lane", THREAD_NUMBER: "thread", BLOCK_NUMBER: "block"})
_WRITTEN_PARTS: Final = MappingProxyType(
    {503: ("block_x", "block_y", "block_z"), 505: ("thread_x", "thread_y", "thread_z")}
)
_FIELD_LEVELS: Final = MappingProxyType(
    {"address": Level.LANE, "mask": Level.LANE, "active": Level.WARP}
    | {f"value{at}": Level.LANE for at in range(context.COMPONENTS)}
)
_FIELDS: Final = MappingProxyType({(field.offset, field.size): field for field in context.FIELDS})
_CALLER_SAVED: Final = range(1, 6)


def with_register(state: LaneState, register: int, value: LaneValue) -> LaneState:
    """Return the state with a register set."""
    registers = list(state.registers)
    registers[register] = value
    return replace(state, registers=tuple(registers))


def read_stack(world: AnalysisInput, state: LaneState, offset: int, size: int, version: Version) -> LaneValue:
    """Value of bytes of the function's own stack, `offset` from r10."""
    found = [state.stack.get(offset + at) for at in range(size)]
    cells = [cell for cell in found if cell is not None]
    if len(cells) < size:
        return world.unknown(version)
    first = cells[0]
    if first.index == 0 and len(_pieces(cells)) == 1:
        return first.value if first.of == size else narrowed(first.value, size, version)
    constants = [cell.constant for cell in cells]
    if None not in constants:
        return number(int.from_bytes(bytes(byte for byte in constants if byte is not None), "little"), version)
    return mix((cell.value for cell in cells), version)


def memory(world: AnalysisInput, place: Place, state: LaneState, register: int, size: int) -> tuple[LaneValue, ...]:
    """Pieces of the memory that a helper's argument points to: one value for each piece written by one store."""
    fact = world.fact(place, register)
    if fact.kind != "stack" or fact.depth or fact.constant is None:
        pointer = state.registers[register]
        fixed = fact.kind in VALUES and fact.map not in world.written
        return (pointer if fixed else mix([world.unknown((place[1], register)), pointer], (place[1], register)),)
    cells = [state.stack.get(fact.constant + at) for at in range(size)]
    if None in cells:
        return (world.unknown((place[1], register)),)
    whole = [cell for cell in cells if cell is not None]
    runs = _pieces(whole)
    return tuple(run[0].value if len(run) >= min(4, size) and run[0].index == 0 else _loose(run) for run in runs)


def _pieces(cells: Sequence[Byte]) -> list[list[Byte]]:
    runs: list[list[Byte]] = []
    for cell in cells:
        last = runs[-1][-1] if runs else None
        if last is not None and _follows(cell, last):
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return runs


def _follows(cell: Byte, last: Byte) -> bool:
    return (cell.value.version, cell.of, cell.index) == (last.value.version, last.of, last.index + 1)


def _loose(cells: Sequence[Byte]) -> LaneValue:
    mixed = mix((cell.value for cell in cells), cells[0].value.version)
    return replace(mixed, constant=0) if all(cell.constant == 0 for cell in cells) else mixed


def _alu(world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction) -> LaneState:
    return with_register(state, instruction.dst, computed(world, place, state, instruction))


def _wide(_world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction) -> LaneState:
    version = (place[1], instruction.dst)
    value = number(instruction.imm, version)
    if isinstance(instruction.reference, MapReference):
        value = plain(Level.GRID, version)
    elif instruction.reference is not None:
        value = replace(plain(Level.GRID, version), zeros=min(3, trailing_zeros(instruction.reference.offset)))
    return with_register(state, instruction.dst, value)


def _load(world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction) -> LaneState:
    version = (place[1], instruction.dst)
    fact = world.fact(place, instruction.src)
    pointer = state.registers[instruction.src]
    if fact.kind == "stack" and fact.depth == 0 and fact.constant is not None:
        value = read_stack(world, state, fact.constant + instruction.offset, instruction.size, version)
        if instruction.mode == isa.MODE_MEMSX:
            value = plain(value.level, version, value.reads)
    elif fact.kind == "stack" and fact.depth == 0:
        value = mix([pointer, *_bytes_between(world, state, fact, instruction)], version)
    elif fact.kind in VALUES:
        value = _loaded(world, place, fact, pointer, version)
    elif fact.kind == "context" and fact.constant is not None:
        field = _FIELDS.get((fact.constant + instruction.offset, instruction.size))
        level = Level.LANE if field is None else _FIELD_LEVELS.get(field.name, Level.GRID)
        value = plain(world.cap(level), version)
    else:
        value = world.unknown(version)
    return with_register(state, instruction.dst, value)


def _loaded(world: AnalysisInput, place: Place, fact: RegisterFact, pointer: LaneValue, version: Version) -> LaneValue:
    """Value read from a map.

    In maps that the program only reads, equal addresses give equal values. In maps that it writes, a value may change
    between the reads of two lanes.
    """
    if world.is_per_thread(fact.map) or fact.map not in world.maps:
        return plain(world.cap(Level.LANE), version, pointer.reads)
    if fact.map in world.written:
        return plain(world.cap(Level.LANE), version, pointer.reads | {place})
    return plain(pointer.level, version, pointer.reads)


def _bytes_between(
    world: AnalysisInput, state: LaneState, fact: RegisterFact, instruction: EbpfInstruction
) -> Iterable[LaneValue]:
    """Values of all stack bytes that a variable offset may reach."""
    for at in _reach(fact, instruction):
        cell = state.stack.get(at)
        yield world.unknown((0, 0)) if cell is None else cell.value


def _reach(fact: RegisterFact, instruction: EbpfInstruction) -> range:
    low = max(fact.low + instruction.offset, -isa.STACK_SIZE)
    return range(low, min(fact.high + instruction.offset + instruction.size, 0))


def _store(world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction) -> LaneState:
    if instruction.mode == isa.MODE_ATOMIC:
        return _atomic(world, place, state, instruction)
    fact = world.fact(place, instruction.dst)
    version = (place[1], -1)
    value = state.registers[instruction.src] if instruction.kind == isa.STX else number(instruction.imm, version)
    if fact.kind == "unset":
        return blurred(world, place, state)
    if fact.kind == "stack" and fact.depth == 0:
        return replace(state, stack=_stored(place[1], state, fact, instruction, value))
    return state


def blurred(world: AnalysisInput, place: Place, state: LaneState) -> LaneState:
    """State after a write that may have changed any byte of the function's stack."""
    return replace(state, stack={at: Byte(world.unknown((place[1], at)), 0, 1) for at in state.stack})


def _stored(
    slot: int, state: LaneState, fact: RegisterFact, instruction: EbpfInstruction, value: LaneValue
) -> Mapping[int, Byte]:
    stack = dict(state.stack)
    if fact.constant is not None:
        start = fact.constant + instruction.offset
        value = value if instruction.size == 8 else narrowed(value, instruction.size, (slot, -1))
        stack.update({start + at: Byte(value, at, instruction.size) for at in range(instruction.size)})
        return stack
    pointer = state.registers[instruction.dst]
    for at in _reach(fact, instruction):
        if at in stack:
            stack[at] = Byte(mix([stack[at].value, value, pointer], (slot, at)), 0, 1)
    return stack


def _atomic(world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction) -> LaneState:
    fact = world.fact(place, instruction.dst)
    if fact.kind == "stack" and fact.depth == 0:
        unknown = world.unknown((place[1], -1))
        stack = {
            at: Byte(unknown, 0, 1) if at in _reach(fact, instruction) else cell for at, cell in state.stack.items()
        }
        state = replace(state, stack=stack)
    if not instruction.imm & isa.FETCH:
        return state
    register = 0 if instruction.imm == isa.CMPXCHG else instruction.src
    shared = fact.kind in VALUES and not world.is_per_thread(fact.map)
    value = plain(world.cap(Level.LANE), (place[1], register), frozenset({place}) if shared else NOTHING)
    return with_register(state, register, value)


def called(world: AnalysisInput, place: Place, state: LaneState, returned: LaneValue) -> LaneState:
    """State after a call: r0 holds the result, r1 to r5 are unknown."""
    slot = place[1]
    registers = list(state.registers)
    registers[0] = returned
    for register in _CALLER_SAVED:
        registers[register] = world.unknown((slot, register))
    return replace(state, registers=tuple(registers))


def call_helper(
    world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction, *, apart: bool, scattered: bool
) -> LaneState:
    """State after a helper call.

    Args:
        world: The program.
        place: Place of the call.
        state: State before it.
        instruction: The call.
        apart: Lanes of the warp have diverged, not counting null checks, so there may be several leaders.
        scattered: Lanes of the warp have diverged in any way, so lanes may see different masks and votes.

    """
    slot = place[1]
    helper = HELPERS.get(instruction.imm)
    if helper is None:
        return blurred(world, place, called(world, place, state, world.unknown((slot, 0))))
    masked = scattered and (helper.converges or helper.id == ACTIVE_MASK)
    level = world.cap(Level.LANE if masked else _result_level(helper))
    for at, register in enumerate(written_arguments(helper)):
        part = _WRITTEN_PARTS.get(helper.id, ("", "", ""))[at]
        value = replace(plain(level, (slot, register)), parts=frozenset({part} - {""}))
        state = _written(world, place, state, register, value)
    if helper.id == LOOKUP:
        return called(world, place, state, _found(world, place, state))
    value = replace(
        plain(level, (slot, 0)),
        own=_OWN.get(helper.id, Own.NOBODY),
        parts=frozenset({_PARTS[helper.id]} if helper.id in _PARTS else ()),
    )
    if helper.id == IS_LEADER and not apart:
        value = replace(value, parts=frozenset({FOLLOWER}))
    return called(world, place, state, value)


def _result_level(helper: Helper) -> Level:
    if helper.lanes is Lanes.VARYING or helper.effect or helper.result is not HelperResult.NUMBER:
        return Level.LANE
    return _RESULTS.get(helper.id, Level.WARP)


def _written(world: AnalysisInput, place: Place, state: LaneState, register: int, value: LaneValue) -> LaneState:
    fact = world.fact(place, register)
    if fact.kind == "unset":
        return blurred(world, place, state)
    if fact.kind != "stack" or fact.depth:
        return state
    stack = dict(state.stack)
    if fact.constant is None:
        unknown = world.unknown((place[1], -1))
        stack.update({at: Byte(unknown, 0, 1) for at in range(fact.low, min(fact.high + 8, 0)) if at in stack})
    else:
        stack.update({fact.constant + at: Byte(value, at, 8) for at in range(8)})
    return replace(state, stack=stack)


def _found(world: AnalysisInput, place: Place, state: LaneState) -> LaneValue:
    """Pointer that a lookup returns."""
    name = world.fact(place, 1).map
    version = (place[1], 0)
    spec = world.maps.get(name)
    if spec is None:
        return world.unknown(version)
    pieces = memory(world, place, state, 2, spec.key_size)
    key = mix(pieces, version)
    zeros = min(3, trailing_zeros(spec.stride))
    if spec.type in PER_THREAD:
        return replace(world.unknown(version), own=Own.THREAD, zeros=zeros)
    changes = spec.type in HASHES and name in world.resized
    level = world.cap(Level.LANE) if changes else key.level
    reads = key.reads | {place} if changes else key.reads
    own = max(piece.own for piece in pieces)
    return LaneValue(level, version, reads, own=own, place=key.level, zeros=zeros)


STEPS: Final[Mapping[int, Callable[[AnalysisInput, Place, LaneState, EbpfInstruction], LaneState]]] = MappingProxyType(
    {
        isa.ALU: _alu,
        isa.ALU64: _alu,
        isa.LD: _wide,
        isa.LDX: _load,
        isa.ST: _store,
        isa.STX: _store,
    }
)
"""Transfer functions by instruction class; `uniformity` handles calls and jumps."""

"""Effects of arithmetic and conditions on what is known about values across threads."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu, Jump
from accel_magic.gpu.verifier.analysis_input import VALUES
from accel_magic.gpu.verifier.lane_values import BITS, LaneValue, Version, mix, number, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.analysis_input import AnalysisInput
    from accel_magic.gpu.verifier.lane_values import LaneState

FOLLOWER: Final = "follower"
"""Part of a value that is zero only in the warp's leader."""
LEADER: Final = "leader"
"""Pin of places that only a warp's leader reaches."""
MISSING: Final = "missing "
"""Prefix of the pin of a map in which a lookup found nothing."""


def narrowed(value: LaneValue, size: int, version: Version) -> LaneValue:
    """Value of the lowest `size` bytes. Indices are below 2^32, so four bytes hold them."""
    if value.constant is not None:
        return number(value.constant & ((1 << 8 * size) - 1), version)
    if size >= 4 and not value.negative:
        return replace(value, version=version)
    return replace(plain(value.level, version, value.reads), zeros=value.zeros)


def computed(world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction) -> LaneValue:
    """Value of an arithmetic instruction's destination."""
    version = (place[1], instruction.dst)
    narrow = instruction.kind == isa.ALU
    operand = state.registers[instruction.src] if instruction.from_register else number(instruction.imm, version)
    before = state.registers[instruction.dst]
    if instruction.operation == Alu.MOV:
        value = _moved(operand, instruction, version, narrow=narrow)
    elif instruction.operation in (Alu.NEG, Alu.END):
        value = mix([before], version)
        if instruction.operation == Alu.NEG:
            value = replace(value, parts=before.parts, negative=not before.negative, zeros=before.zeros)
    else:
        value = _combined(instruction, before, operand, version, narrow=narrow)
        value = _pointer_of(world, place, instruction, state, value)
    return value


def _moved(value: LaneValue, instruction: EbpfInstruction, version: Version, *, narrow: bool) -> LaneValue:
    if instruction.offset:
        return plain(value.level, version, value.reads)
    return narrowed(value, 4, version) if narrow else value


_FOLD: Final[Mapping[int, Callable[[int, int], int]]] = MappingProxyType(
    {
        Alu.ADD: lambda a, b: a + b,
        Alu.SUB: lambda a, b: a - b,
        Alu.MUL: lambda a, b: a * b,
        Alu.OR: lambda a, b: a | b,
        Alu.AND: lambda a, b: a & b,
        Alu.XOR: lambda a, b: a ^ b,
    }
)
_ALIGN: Final[Mapping[int, Callable[[LaneValue, LaneValue], int]]] = MappingProxyType(
    {
        Alu.ADD: lambda a, b: min(a.zeros, b.zeros),
        Alu.SUB: lambda a, b: min(a.zeros, b.zeros),
        Alu.OR: lambda a, b: min(a.zeros, b.zeros),
        Alu.XOR: lambda a, b: min(a.zeros, b.zeros),
        Alu.AND: lambda a, b: max(a.zeros, b.zeros),
        Alu.MUL: lambda a, b: min(BITS, a.zeros + b.zeros),
        Alu.LSH: lambda a, b: 0 if b.constant is None else min(BITS, a.zeros + b.constant),
    }
)


def _combined(
    instruction: EbpfInstruction, one: LaneValue, two: LaneValue, version: Version, *, narrow: bool
) -> LaneValue:
    fold = _FOLD.get(instruction.operation)
    mask = (1 << (32 if narrow else BITS)) - 1
    if fold is not None and one.constant is not None and two.constant is not None:
        return number(fold(one.constant, two.constant) & mask, version)
    align = _ALIGN.get(instruction.operation)
    return replace(
        mix([one, two], version),
        zeros=0 if align is None else align(one, two),
        parts=_parts(instruction.operation, one, two),
        negative=one.negative and two.negative,
    )


def _parts(operation: int, one: LaneValue, two: LaneValue) -> frozenset[str]:
    """Indices whose sum is the result. A bitwise or is zero in the same cases as a sum, so it counts as one."""
    if operation in (Alu.ADD, Alu.OR) and one.negative == two.negative:
        if one.parts and two.parts:
            return one.parts | two.parts
        return one.parts if two.constant == 0 else two.parts if one.constant == 0 else frozenset()
    if operation == Alu.AND and one.parts == {FOLLOWER} and two.constant is not None and two.constant & 1:
        return one.parts
    return frozenset()


def _pointer_of(
    world: AnalysisInput, place: Place, instruction: EbpfInstruction, state: LaneState, value: LaneValue
) -> LaneValue:
    """Keep the owner of a map value when a pointer moves within it."""
    if instruction.operation not in (Alu.ADD, Alu.SUB):
        return value
    for register in (instruction.dst, instruction.src if instruction.from_register else instruction.dst):
        if world.fact(place, register).kind in VALUES:
            return replace(value, own=state.registers[register].own)
    return value


_EQUAL_TAKEN: Final = frozenset({Jump.JEQ})
_EQUAL_NOT_TAKEN: Final = frozenset({Jump.JNE})


def pins(
    world: AnalysisInput, place: Place, state: LaneState, instruction: EbpfInstruction, *, taken: bool
) -> frozenset[str]:
    """Pins that a conditional jump adds on one of its branches."""
    operation = instruction.operation
    equal = operation in (_EQUAL_TAKEN if taken else _EQUAL_NOT_TAKEN)
    unequal = operation in (_EQUAL_NOT_TAKEN if taken else _EQUAL_TAKEN)
    one = state.registers[instruction.dst]
    two = state.registers[instruction.src] if instruction.from_register else number(instruction.imm, (place[1], 11))
    if two.parts and one.constant is not None:
        one, two = two, one
    if unequal and two.constant == 0 and one.parts == {FOLLOWER}:
        return frozenset({LEADER})
    if operation == Jump.JGT and taken and two.constant == 0 and one.parts == {FOLLOWER}:
        return frozenset({LEADER})
    if not equal:
        return frozenset()
    if two.constant == 0:
        fact = world.fact(place, instruction.dst)
        return one.parts | ({MISSING + fact.map} if fact.kind == "value_or_null" else frozenset())
    if two.parts and one.parts and one.negative != two.negative:
        return one.parts | two.parts
    return _pinned_by_number(one, two)


def _pinned_by_number(one: LaneValue, two: LaneValue) -> frozenset[str]:
    if two.constant is None or len(one.parts) != 1 or one.negative:
        return frozenset()
    return frozenset({LEADER}) if one.parts == {FOLLOWER} else one.parts

"""What is known about registers before each instruction: the memory they point into, the offset and the alignment.

A forward data flow analysis within one function. It only improves performance: a known stack address becomes one that
LLVM can optimize, and aligned memory is accessed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.flow import instruction_at
from accel_magic.gpu.program.helpers import ARRAYS, HELPERS, PER_THREAD, HelperResult
from accel_magic.gpu.program.isa import Alu, DataReference, MapReference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.flow import Flow
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfFunction, MapSpec

WIDEST: Final = 16
"""The largest alignment that is tracked."""
STACK_ALIGNMENT: Final = 8
"""Alignment of a frame and of the context."""


class PointerBase(Enum):
    """The base of a register's value, which is an offset from it."""

    NUMBER = "zero"
    STACK = "the frame's end"
    CONTEXT = "the context"
    ARGUMENT = "one of the function's arguments"
    GLOBAL = "shared memory: a map value, a record, a global variable"


@dataclass(frozen=True, slots=True)
class Pointer:
    """What is known about a register's value.

    Attributes:
        kind: The base.
        place: The argument's number (1 to 5) for ARGUMENT.
        offset: Bytes from the base; None if unknown.
        align: Alignment of the base if `offset` is known, otherwise of the value.

    """

    kind: PointerBase
    place: int = 0
    offset: int | None = None
    align: int = 1

    def alignment(self, displacement: int = 0) -> int:
        """Largest known power of two that divides the value plus a displacement, at most WIDEST."""
        return _lowest_bit(self.align | (displacement if self.offset is None else self.offset + displacement))

    def moved(self, by: Pointer, sign: int = 1) -> Pointer:
        """Origin after adding (or subtracting) a number."""
        if self.offset is not None and by.offset is not None:
            return replace(self, offset=self.offset + sign * by.offset)
        return replace(self, offset=None, align=min(self.alignment(), by.alignment()))


UNKNOWN: Final = Pointer(PointerBase.NUMBER)
ARGUMENTS: Final = (1, 2, 3, 4, 5)
"""Argument registers of a call; they are zero after it."""
FRAME: Final = 10
"""The register with the frame's end."""
State = tuple[Pointer, ...]
"""Eleven registers."""


def number(value: int) -> Pointer:
    """Return the origin of a known number."""
    return Pointer(PointerBase.NUMBER, 0, value, WIDEST)


def _lowest_bit(value: int) -> int:
    return min(value & -value, WIDEST) if value else WIDEST


def _join(one: Pointer, other: Pointer) -> Pointer:
    if one == other:
        return one
    align = min(one.alignment(), other.alignment())
    same = (one.kind, one.place) == (other.kind, other.place)
    return Pointer(one.kind, one.place, None, align) if same else Pointer(PointerBase.NUMBER, 0, None, align)


def origins(
    function: EbpfFunction, flow: Flow, entry: State, maps: Sequence[MapSpec], placement: Placement
) -> dict[int, State]:
    """Find what is known before each reachable slot.

    Args:
        function: The function.
        flow: Its control flow.
        entry: State at its start.
        maps: The object's maps.
        placement: Addresses of the maps.

    Returns:
        By slot, the origins of the eleven registers.

    """
    places = {spec.name: place for place, spec in enumerate(maps)}
    before: dict[int, State] = {0: entry}
    waiting = [0]
    while waiting:
        slot = waiting.pop()
        instruction, state = instruction_at(function, slot), before[slot]
        register, origin = _change(instruction, state, places, maps, placement)
        after = (*state[:register], origin, *state[register + 1 :])
        if instruction.opcode in (isa.CALL, isa.CALLX):
            after = (after[0], *(number(0) for _ in ARGUMENTS), *after[len(ARGUMENTS) + 1 :])
        for following in flow.successors[slot]:
            known = before.get(following)
            joined = after if known is None else tuple(map(_join, known, after))
            if joined != known:
                before[following] = joined
                waiting.append(following)
    return before


def _change(
    instruction: EbpfInstruction,
    state: State,
    places: Mapping[str, int],
    maps: Sequence[MapSpec],
    placement: Placement,
) -> tuple[int, Pointer]:
    """Return the register that an instruction changes, and its new origin; the unchanged frame register if none."""
    kind = instruction.kind
    if kind in (isa.ALU, isa.ALU64):
        return instruction.dst, _arithmetic(instruction, state)
    if instruction.wide:
        return instruction.dst, _constant(instruction, places, placement)
    if instruction.opcode in (isa.CALL, isa.CALLX):
        helper = instruction.opcode == isa.CALL and instruction.src == isa.CALL_HELPER
        return 0, _result(instruction.imm, state, maps, placement) if helper else UNKNOWN
    if kind == isa.LDX:
        return instruction.dst, UNKNOWN
    if kind == isa.STX and instruction.mode == isa.MODE_ATOMIC:
        return 0 if instruction.imm == isa.CMPXCHG else instruction.src, UNKNOWN
    return FRAME, state[FRAME]


def _constant(instruction: EbpfInstruction, places: Mapping[str, int], placement: Placement) -> Pointer:
    reference = instruction.reference
    if isinstance(reference, DataReference) and reference.map in places:
        base = placement.bases[places[reference.map]]
        return Pointer(PointerBase.GLOBAL, 0, reference.offset, _lowest_bit(base))
    if isinstance(reference, MapReference) and reference.map in places:
        return number(places[reference.map])
    return number(instruction.imm)


def _result(helper: int, state: State, maps: Sequence[MapSpec], placement: Placement) -> Pointer:
    known = HELPERS.get(helper)
    if known is None or known.result not in (HelperResult.VALUE_OR_NULL, HelperResult.RECORD_OR_NULL):
        return UNKNOWN
    place = state[1].offset
    if state[1].kind is not PointerBase.NUMBER or place is None or not 0 <= place < len(maps):
        return Pointer(PointerBase.GLOBAL)
    # Values of arrays are adjacent; entries of hashes and records of rings start at multiples of eight.
    spacing = maps[place].stride if maps[place].type in ARRAYS | PER_THREAD else 8
    return Pointer(PointerBase.GLOBAL, 0, 0, _lowest_bit(placement.bases[place] | spacing))


def _arithmetic(instruction: EbpfInstruction, state: State) -> Pointer:
    operation = instruction.operation
    target = state[instruction.dst]
    operand = state[instruction.src] if instruction.from_register else number(instruction.imm)
    if instruction.kind == isa.ALU64 and not instruction.offset:
        if operation == Alu.MOV:
            return operand
        if operation == Alu.ADD:
            return _sum(target, operand)
        if operation == Alu.SUB and operand.kind is PointerBase.NUMBER:
            return target.moved(operand, -1)
    if operation == Alu.MOV and not instruction.from_register:
        return number(instruction.imm & 0xFFFFFFFF)
    rule = _ALIGNED.get(operation)
    both_numbers = target.kind is PointerBase.NUMBER and operand.kind is PointerBase.NUMBER and not instruction.offset
    return Pointer(PointerBase.NUMBER, 0, None, rule(target, operand)) if rule and both_numbers else UNKNOWN


def _sum(target: Pointer, operand: Pointer) -> Pointer:
    if operand.kind is PointerBase.NUMBER:
        return target.moved(operand)
    return operand.moved(target) if target.kind is PointerBase.NUMBER else UNKNOWN


def _shifted(target: Pointer, operand: Pointer) -> int:
    return (
        min(target.alignment() << (operand.offset & 31), WIDEST) if operand.offset is not None else target.alignment()
    )


# Alignment of results. 32-bit arithmetic drops only the highest bits.
_ALIGNED: Final[Mapping[int, Callable[[Pointer, Pointer], int]]] = {
    Alu.MOV: lambda _, operand: operand.alignment(),
    Alu.ADD: lambda target, operand: min(target.alignment(), operand.alignment()),
    Alu.SUB: lambda target, operand: min(target.alignment(), operand.alignment()),
    Alu.OR: lambda target, operand: min(target.alignment(), operand.alignment()),
    Alu.XOR: lambda target, operand: min(target.alignment(), operand.alignment()),
    Alu.AND: lambda target, operand: max(target.alignment(), operand.alignment()),
    Alu.MUL: lambda target, operand: min(target.alignment() * operand.alignment(), WIDEST),
    Alu.LSH: _shifted,
}

"""Updates (load, change and store of one memory location) that can become one atomic operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.program.flow import Flow
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfFunction


OPERATIONS: Final[Mapping[int, str]] = {Alu.ADD: "add", Alu.SUB: "sub", Alu.OR: "or", Alu.AND: "and", Alu.XOR: "xor"}
"""Arithmetic with an atomic form, and LLVM's name for it."""


_COMMUTES: Final = frozenset({Alu.ADD, Alu.OR, Alu.AND, Alu.XOR})


_SIZES: Final = (4, 8)


@dataclass(frozen=True, slots=True)
class Update:
    """A load, change and store that form one update.

    Attributes:
        size: Bytes of the memory location.
        silent: Slots without effect after promotion: the load, and moves of its value.
        change: Slot of the arithmetic.
        store: Slot of the store, where the atomic operation takes place.
        read: Registers that hold the loaded value after the store.
        changed: Register that holds the stored value.
        swapped: Whether the loaded value is the second operand of the arithmetic.

    """

    size: int
    silent: frozenset[int]
    read: frozenset[int]
    change: int = -1
    store: int = -1
    changed: int = -1
    swapped: bool = False


def find(function: EbpfFunction, flow: Flow, load: int) -> Update | None:
    """Find the update that begins with the load in a slot; None if it cannot become one atomic operation."""
    first = function.code[load]
    if first is None or first.kind != isa.LDX or first.mode != isa.MODE_MEM or first.size not in _SIZES:
        return None
    update: Update | None = Update(first.size, frozenset({load}), frozenset({first.dst}))
    for slot in range(load + 1, len(function.code)):
        instruction = function.code[slot]
        if instruction is None:
            continue
        if slot in flow.leaders or slot not in flow.successors or update is None:
            return None
        if update.changed >= 0 and _stores_back(update, instruction):
            return replace(update, store=slot)
        update = _step(update, slot, instruction)
    return None


def _stores_back(update: Update, instruction: EbpfInstruction) -> bool:
    return (
        instruction.kind == isa.STX
        and instruction.mode == isa.MODE_MEM
        and (instruction.size, instruction.src) == (update.size, update.changed)
        and instruction.dst not in update.read | {update.changed}
    )


def _step(update: Update, slot: int, instruction: EbpfInstruction) -> Update | None:
    """Account for one instruction between load and store; None if it makes promotion impossible."""
    if instruction.kind not in (isa.ALU, isa.ALU64) and not instruction.wide:
        return None
    target, involved = instruction.dst, update.read | {update.changed}
    from_read = instruction.from_register and instruction.src in update.read
    if _is_move(update, instruction) and from_read and target != update.changed:
        return replace(update, silent=update.silent | {slot}, read=update.read | {target})
    if _is_change(update, instruction) and (target in update.read) != from_read and update.changed < 0:
        return replace(update, change=slot, changed=target, read=update.read - {target}, swapped=from_read)
    if target == update.changed or (instruction.from_register and instruction.src in involved):
        return None
    overwritten = instruction.wide or instruction.operation == Alu.MOV
    if target in update.read and not overwritten:
        return None
    return replace(update, read=update.read - {target})


def _is_move(update: Update, instruction: EbpfInstruction) -> bool:
    whole = instruction.kind == isa.ALU64 or update.size == 4
    return whole and not instruction.wide and instruction.operation == Alu.MOV and not instruction.offset


def _is_change(update: Update, instruction: EbpfInstruction) -> bool:
    return (
        not instruction.wide
        and instruction.operation in OPERATIONS
        and not instruction.offset
        and (instruction.kind == isa.ALU64 or update.size == 4)
        and (not instruction.from_register or instruction.src not in update.read or instruction.operation in _COMMUTES)
    )

"""Lowering of a load, change and store of one place in memory to a single atomic operation, if the verifier says so.

The load reads 4 or 8 bytes. The value, possibly after moves, is combined in one of OPERATIONS with an operand that does
not depend on it, and the result is stored to the same place. Arithmetic on other registers and moves of the value may
come in between, but no jumps, calls or other memory accesses. The verifier has proven that load and store access the
same place; this is not checked again here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen.lowering import accesses, arithmetic
from accel_magic.gpu.program.flow import instruction_at
from accel_magic.gpu.program.updates import OPERATIONS, Update, find

if TYPE_CHECKING:
    from accel_magic.gpu.codegen.lowering.emitter import Emitter
    from accel_magic.gpu.program.flow import Flow
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfFunction


@dataclass
class Promotions:
    """The updates of one function, and the operands seen so far, by the slot of the store."""

    updates: tuple[Update, ...]
    operands: dict[int, str] = field(default_factory=dict)


def promotions(function: EbpfFunction, flow: Flow, loads: frozenset[int]) -> Promotions:
    """Find all updates that begin at the given slots.

    Raises:
        ProgramError: One of them cannot be made one atomic operation.

    """
    updates = []
    for load in sorted(loads):
        update = find(function, flow, load)
        if update is None:
            raise ProgramError(
                f"{function.name}: the update that begins at slot {load} cannot be made one atomic operation",
                why="its load and its store are not connected by exactly one supported operation on the value",
                fix="use __sync_fetch_and_add or another atomic builtin",
                code="gpu.not-atomic",
            )
        updates.append(update)
    return Promotions(tuple(updates))


def lower(out: Emitter, instruction: EbpfInstruction, promoted: Promotions) -> bool:
    """Lower the instruction if it belongs to an update; return whether it does."""
    for update in promoted.updates:
        if out.slot in update.silent:
            return True
        if out.slot == update.change:
            promoted.operands[update.store] = _operand(out, instruction, update)
            return True
        if out.slot == update.store:
            _update(out, instruction, update, promoted.operands[update.store])
            return True
    return False


def _operand(out: Emitter, change: EbpfInstruction, update: Update) -> str:
    if update.swapped:
        return out.read(change.dst, arithmetic.width(change))
    return arithmetic.second(out, change)


def _update(out: Emitter, store: EbpfInstruction, update: Update, operand: str) -> None:
    change = instruction_at(out.function, update.change)
    bits, width = 8 * update.size, arithmetic.width(change)
    narrow = operand
    if bits < width:
        narrow = out.value(f"trunc i{width} {operand} to i{bits}")
    old = accesses.read_modify_write(out, store, OPERATIONS[change.operation], narrow)
    extended = old if bits >= width else out.value(f"zext i{bits} {old} to i{width}")
    for register in sorted(update.read):
        out.write(register, old, bits)
    arithmetic.write(out, change, extended, operand)

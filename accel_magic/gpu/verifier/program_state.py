"""The state of a program between two instructions: registers and stack of every active function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from accel_magic.gpu.verifier import register_values, stack
from accel_magic.gpu.verifier.register_values import UNSET, Ids, RegisterValue
from accel_magic.gpu.verifier.stack import StackCell, StackFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.domain import Scalar


Chain = tuple[tuple[int, int], ...]
"""The calls that led here: for each the caller's index and the slot where it continues."""


@dataclass(slots=True)
class ProgramState:
    """All active functions, starting with the main function.

    Attributes:
        frames: At least one.
        chain: Where each function but the last continues; one shorter than `frames`.
        records: Reserved records not submitted or discarded yet: id and the place of the reserve.

    """

    frames: list[StackFrame]
    chain: Chain
    records: dict[int, Place]

    @property
    def frame(self) -> StackFrame:
        """The function that is running."""
        return self.frames[-1]

    def copy(self) -> ProgramState:
        """Make a copy that can change independently."""
        frames = [StackFrame(one.function, one.registers.copy(), one.cells, one.written) for one in self.frames]
        return ProgramState(frames, self.chain, self.records)

    def refine(self, identity: int, known: Scalar) -> None:
        """Replace a number by a more precise one wherever it is held."""
        self._change(identity, lambda value: value._replace(number=known))

    def settle_null(self, identity: int, *, null: bool) -> None:
        """Turn the result of a lookup or reserve into a pointer, or into zero, wherever it is held."""
        if null:
            self._change(identity, lambda _value: RegisterValue("scalar", register_values.ZERO))
            self.records = {one: place for one, place in self.records.items() if one != identity}
        else:
            self._change(identity, _not_null)

    def release(self, identity: int) -> None:
        """Forget a record; registers and stack that still hold it must not be used."""
        self._change(identity, lambda _value: register_values.RELEASED)
        self.records = {one: place for one, place in self.records.items() if one != identity}

    def _change(self, identity: int, changed: Callable[[RegisterValue], RegisterValue]) -> None:
        for frame in self.frames:
            for at, value in enumerate(frame.registers):
                if value.id == identity:
                    frame.registers[at] = changed(value)
            if any(cell.value.id == identity for cell in frame.cells.values()):
                frame.cells = {
                    at: StackCell(cell.size, changed(cell.value)) if cell.value.id == identity else cell
                    for at, cell in frame.cells.items()
                }


def _not_null(value: RegisterValue) -> RegisterValue:
    return value._replace(kind="record") if value.kind == "record_or_null" else value._replace(kind="value", id=0)


def at_start() -> ProgramState:
    """Return the state at a program's first instruction."""
    return ProgramState([entered(0, 0, [UNSET, register_values.CONTEXT, UNSET, UNSET, UNSET, UNSET])], (), {})


def entered(function: int, depth: int, arguments: list[RegisterValue]) -> StackFrame:
    """Return the frame of a function at its start: r0 to r5 as given, and an empty stack."""
    own = RegisterValue("stack", register_values.ZERO, frame=depth)
    return StackFrame(function, [*arguments, UNSET, UNSET, UNSET, UNSET, own], {})


def covers(old: ProgramState, new: ProgramState, live: Iterable[int]) -> bool:
    """Whether every breach that can follow from the new state can also follow from the old one.

    Args:
        old: A state at the same instruction, reached through the same calls.
        new: The other one.
        live: For each frame: the registers that are read before they are written, as bits.

    """
    if len(old.records) != len(new.records):
        return False
    ids = Ids()
    for one, other, mask in zip(old.frames, new.frames, live, strict=True):
        for at in _registers(mask):
            before, now = one.registers[at], other.registers[at]
            if before is not now and not register_values.covers(before, now, ids):
                return False
            if before is now and not ids.agree(before, now):
                return False
    return all(
        _covers_stack(one, other, ids) for one, other in zip(old.frames, new.frames, strict=True)
    ) and _same_records(old, new, ids)


@lru_cache(maxsize=2048)
def _registers(mask: int) -> tuple[int, ...]:
    return tuple(at for at in range(10) if mask >> at & 1)


def _covers_stack(old: StackFrame, new: StackFrame, ids: Ids) -> bool:
    if old.written & ~new.written:
        return False
    if old.cells is not new.cells:
        for at, cell in new.cells.items():
            if cell.value.pointer and at not in old.cells and old.written & stack.bytes_mask(at, cell.size):
                return False
    for at, cell in old.cells.items():
        now = new.cells.get(at)
        if now is None or now.size != cell.size:
            now = StackCell(cell.size, stack.peek(new, at, cell.size))
        if not register_values.covers(cell.value, now.value, ids):
            return False
    return True


def _same_records(old: ProgramState, new: ProgramState, ids: Ids) -> bool:
    return all(ids.of(one) in new.records or (ids.of(one) is None and one in new.records) for one in old.records)


def joined(old: ProgramState, new: ProgramState, live: Iterable[int], *, widening: bool) -> ProgramState | None:
    """Return a state that covers both; None if they hold values of different kinds.

    With `widening`, values of different kinds become 'unset', and bounds that move are set to their extremes.
    """
    if len(old.records) != len(new.records):
        return None
    ids = Ids()
    frames = []
    for one, other, mask in zip(old.frames, new.frames, live, strict=True):
        registers = [UNSET] * 10 + [other.registers[10]]
        for at in _registers(mask):
            both = register_values.joined(one.registers[at], other.registers[at], ids, widening=widening)
            if both is None and not widening:
                return None
            registers[at] = both or UNSET
        frames.append(StackFrame(other.function, registers, {}, one.written & other.written))
    for one, other, frame in zip(old.frames, new.frames, frames, strict=True):
        if not _join_stacks(one, other, frame, ids, widening=widening):
            return None
    return ProgramState(frames, new.chain, new.records) if _same_records(old, new, ids) else None


def _join_stacks(old: StackFrame, new: StackFrame, result: StackFrame, ids: Ids, *, widening: bool) -> bool:
    """Fill in the stack of `result`; False if bytes written in both hold pointers that cannot be joined."""
    taken = 0
    for at in sorted(old.cells.keys() | new.cells.keys()):
        cell = new.cells.get(at) or old.cells[at]
        mask = stack.bytes_mask(at, cell.size)
        before, now = stack.peek(old, at, cell.size), stack.peek(new, at, cell.size)
        both = register_values.joined(before, now, ids, widening=widening)
        if both is not None and both.kind not in ("unset", "released") and not taken & mask:
            result.cells[at] = StackCell(cell.size, both)
            taken |= mask
        elif result.written & mask and _pointer_at(old, new, at):
            if not widening:
                return False
            result.written &= ~(mask | stack.bytes_mask(at, 8))
    return True


def _pointer_at(old: StackFrame, new: StackFrame, at: int) -> bool:
    return any(at in frame.cells and frame.cells[at].value.pointer for frame in (old, new))

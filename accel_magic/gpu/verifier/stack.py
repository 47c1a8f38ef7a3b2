"""One function's stack: which bytes are written, and the pieces that were stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from accel_magic.gpu.program.isa import STACK_SIZE, Alu
from accel_magic.gpu.verifier.arithmetic import compute
from accel_magic.gpu.verifier.domain import Scalar, constant, truncated, unsigned_below
from accel_magic.gpu.verifier.findings import Breach
from accel_magic.gpu.verifier.register_values import UNSET, RegisterValue, number

if TYPE_CHECKING:
    from collections.abc import Iterator


class StackCell(NamedTuple):
    """A piece of the stack written by one store."""

    size: int
    value: RegisterValue


Cells = dict[int, StackCell]
"""Cells by the offset of the first byte from the frame's end, -512 to -1; they do not overlap. States share the dict,
so every change makes a new one."""


@dataclass(slots=True)
class StackFrame:
    """One active function.

    Attributes:
        function: Its index in `Program.functions`.
        registers: Eleven values, r0 to r10.
        cells: The pieces of its stack that are known. Only they can hold pointers.
        written: Bytes of the stack that were written: bit n is the byte at offset n - 512.

    """

    function: int
    registers: list[RegisterValue]
    cells: Cells
    written: int = 0


def bytes_mask(at: int, size: int) -> int:
    """Bits of `Frame.written` for bytes starting at an offset."""
    return ((1 << size) - 1) << (at + STACK_SIZE)


def _overlapping(cells: Cells, at: int, size: int) -> Iterator[tuple[int, StackCell]]:
    for start, cell in cells.items():
        if start < at + size and at < start + cell.size:
            yield start, cell


def peek(frame: StackFrame, at: int, size: int) -> RegisterValue:
    """Return the value of bytes; 'unset' if they are not all written, or include part of a pointer."""
    mask = bytes_mask(at, size)
    if mask & ~frame.written:
        return UNSET
    cell = frame.cells.get(at)
    if cell is not None and cell.size == size:
        return cell.value
    pieces = list(_overlapping(frame.cells, at, size))
    if any(piece.value.kind != "scalar" for _, piece in pieces):
        return UNSET
    if len(pieces) == 1 and pieces[0][0] <= at and at + size <= pieces[0][0] + pieces[0][1].size:
        start, piece = pieces[0]
        shifted = compute(Alu.RSH, 64, piece.value.number, constant(8 * (at - start)))
        return number(truncated(shifted, size))
    return number(_assembled(pieces, at, size))


def _assembled(pieces: list[tuple[int, StackCell]], at: int, size: int) -> Scalar:
    """Assemble constants; if not all bytes are known, return any number of that size."""
    total = known = 0
    for start, piece in pieces:
        if not piece.value.number.known:
            return unsigned_below(size)
        shift = 8 * (start - at)
        bits = (1 << 8 * piece.size) - 1
        total |= _shifted(piece.value.number.value & bits, shift)
        known |= _shifted(bits, shift)
    limit = (1 << 8 * size) - 1
    return constant(total & limit) if known & limit == limit else unsigned_below(size)


def _shifted(bits: int, by: int) -> int:
    return bits << by if by >= 0 else bits >> -by


def load(frame: StackFrame, at: int, size: int) -> RegisterValue:
    """Read bytes as one value.

    Raises:
        Breach: They are not all written, or include part of a pointer.

    """
    value = peek(frame, at, size)
    if value.kind == "unset":
        require_plain(frame, at, size)
    return value


def require_plain(frame: StackFrame, at: int, size: int, *, addresses: bool = False) -> None:
    """Require that bytes are written and, without `addresses`, hold no pointer.

    Raises:
        Breach: They are not all written, or hold a pointer.

    """
    missing = bytes_mask(at, size) & ~frame.written
    if missing:
        first = (missing & -missing).bit_length() - 1 - STACK_SIZE
        raise Breach(
            "uninitialised-stack",
            f"of the {size} bytes of stack at r10{at:+d}, the byte at r10{first:+d} was never written",
        )
    for start, cell in () if addresses else _overlapping(frame.cells, at, size):
        if cell.value.kind not in ("scalar", "object"):  # policies may use addresses of the driver's objects as keys
            raise Breach("pointer-leak", f"the stack at r10{start:+d} holds an address but is read as plain bytes")


def store(frame: StackFrame, at: int, size: int, value: RegisterValue) -> None:
    """Write bytes as one value."""
    mask = bytes_mask(at, size)
    _drop(frame, at, size)
    frame.cells = {**frame.cells, at: StackCell(size, value)}
    frame.written |= mask


def overwrite(frame: StackFrame, at: int, size: int) -> None:
    """Write unknown bytes."""
    _drop(frame, at, size)
    frame.written |= bytes_mask(at, size)


def blur(frame: StackFrame, low: int, high: int) -> None:
    """Forget the contents of a range in which some bytes may have been overwritten."""
    _drop(frame, low, high - low)


def _drop(frame: StackFrame, at: int, size: int) -> None:
    """Forget pieces that overlap a range. All bytes of a forgotten pointer count as not written."""
    gone = dict(_overlapping(frame.cells, at, size))
    if not gone:
        return
    frame.cells = {start: cell for start, cell in frame.cells.items() if start not in gone}
    for start, cell in gone.items():
        if cell.value.kind != "scalar":
            frame.written &= ~bytes_mask(start, cell.size)

"""Runs of instructions that no code may be put into.

- From an instruction that writes the carry flag to the last one that reads it: the flag does not survive a branch.
- From `wgmma.fence` to `wgmma.wait_group`, or to the last `wgmma` instruction where the wait is behind a label or
  branch: with other code in between the assembler makes them run one after the other.
- From the first store of a call's arguments to the last load of its results: they belong to one basic block.

A place within such a run is moved behind its end; what it needs is kept in registers of its own until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.ptx.model import Address, Declaration, Instruction, Label, Name, Scope, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ENDS_BLOCK: Final = frozenset({"bra", "brx", "ret", "exit", "trap"})
_READS_CARRY: Final = frozenset({"addc", "subc", "madc"})


def moved(body: Scope) -> dict[int, int]:
    """Say where places go that lie within such a run.

    Returns:
        Offset behind the run, by the offset at which an instruction within the run starts.

    """
    arguments = {
        declared.name
        for item in walk(body)
        if isinstance(item, Declaration) and item.space == "param"
        for declared in item.names
    }
    found: dict[int, int] = {}
    for block in _blocks(body):
        spans = sorted({*_carries(block), *_matrices(block), *_calls(block, arguments)})
        for first, last in spans:
            end = block[_behind(last, spans)].end
            for instruction in block[first + 1 : last + 1]:
                found[instruction.start] = max(end, found.get(instruction.start, 0))
    return found


def _behind(last: int, spans: Sequence[tuple[int, int]]) -> int:
    """Find the instruction behind which no run goes on: another one may begin before this one ends."""
    for first, other in spans:
        if first <= last < other:
            last = other
    return last


def _blocks(body: Scope) -> Iterator[list[Instruction]]:
    block: list[Instruction] = []
    for item in walk(body):
        if isinstance(item, Instruction):
            block.append(item)
        if isinstance(item, Label) or (isinstance(item, Instruction) and item.opcode[0] in _ENDS_BLOCK):
            yield block
            block = []
    yield block


def _carries(block: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    first, last = -1, -1
    for place, instruction in enumerate(block):
        if instruction.opcode[0] in _READS_CARRY and first >= 0:
            last = place
        elif "cc" in instruction.opcode:
            if last > first >= 0:
                yield first, last
            first = place
    if last > first >= 0:
        yield first, last


def _matrices(block: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    first, last = -1, -1
    for place, instruction in enumerate(block):
        if instruction.opcode[0] != "wgmma":
            continue
        if instruction.opcode[1] == "fence" and first < 0:
            first = place
        last = place
        if instruction.opcode[1] == "wait_group" and first >= 0:
            yield first, last
            first = -1
    if first >= 0:
        yield first, last


def _calls(block: Sequence[Instruction], arguments: set[str]) -> Iterator[tuple[int, int]]:
    first, last, called = -1, -1, False
    for place, instruction in enumerate(block):
        stores = _touches(instruction, "st", arguments)
        if first >= 0 and called and (stores or instruction.opcode[0] == "call"):
            yield first, last
            first, called = -1, False
        if stores or instruction.opcode[0] == "call":
            first = place if first < 0 else first
            called = called or instruction.opcode[0] == "call"
            last = place
        elif called and _touches(instruction, "ld", arguments):
            last = place
    if first >= 0:
        yield first, last


def _touches(instruction: Instruction, kind: str, arguments: set[str]) -> bool:
    if instruction.opcode[0] != kind or len(instruction.opcode) < 2 or not instruction.opcode[1].startswith("param"):
        return False
    return any(
        isinstance(operand, Address) and isinstance(operand.base, Name) and operand.base.text in arguments
        for operand in instruction.operands
    )

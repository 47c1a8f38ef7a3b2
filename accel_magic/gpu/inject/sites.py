"""Places in a function where code can be inserted, and what is known there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.inject.functions import MemoryOperation, VisibleNames, access, of_function, of_scope
from accel_magic.gpu.program.sections import Where
from accel_magic.ptx.lexer import WORD
from accel_magic.ptx.ptx_model import Address, Declaration, Directive, Instruction, Label, Name, Scope, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accel_magic.ptx.ptx_model import Function


_BARRIERS: Final = frozenset({"bar", "barrier"})
_NO_BARRIER: Final = frozenset({"warp", "arrive"})
"""`bar.warp.sync` synchronizes one warp only, `bar.arrive` does not wait."""
_SIGNALS: Final = frozenset({*_BARRIERS, "mbarrier"})
_OF_WARPS: Final = frozenset({"shfl", "vote", "match", "redux", "elect", "mma", "wmma", "movmatrix"})
"""With `.sync`, their lanes wait for each other. `ldmatrix` is an access, `wgmma` must not leave its group."""
_LOADS: Final = frozenset({"ld", "ldu"})
"""Each lane gets what is at its address; with `ldmatrix` it gets what is at those of others."""
_WITHIN: Final = frozenset({Where.MEMORY, Where.LOADED, Where.BARRIER, Where.FENCE, Where.SYNC})
"""Kinds of places that can be in sequences that must not be split."""
_FENCES: Final = frozenset({"membar", "fence"})
_ENDS: Final = frozenset({"bra", "brx", "ret", "exit", "trap"})
_JUMPS: Final = frozenset({"bra", "brx"})
_LEAVE: Final = frozenset({"ret", "exit"})


@dataclass(frozen=True, slots=True)
class FoundSite:
    """A place.

    Attributes:
        where: Its kind.
        function: The function that contains it.
        at: Offset of the instruction; at an entry or the end of a function, the insertion offset.
        put: Insertion offset; after `at` if the instruction is in a sequence that must not be split.
        head: Offset after the opening brace of the function's body, where declarations can go.
        names: Names visible there.
        instruction: None at an entry and at a function's end.
        access: The access of a memory operation.
        leaves: For a branch that goes straight to the kernel's end: `ret` or `exit`, with which the inserted code must
            end. Otherwise lanes that take the branch would wait at the kernel's end for those that do not.

    """

    where: Where
    function: Function
    at: int
    put: int
    head: int
    names: VisibleNames
    instruction: Instruction | None = None
    access: MemoryOperation | None = None
    leaves: str = ""


@dataclass(frozen=True)
class FoundSites:
    """All places in a function, and the instructions that cannot be instrumented, with the reasons."""

    found: tuple[FoundSite, ...]
    left: tuple[str, ...]


def find(function: Function, variables: VisibleNames, kinds: frozenset[Where]) -> FoundSites:
    """Find places in a function, in the order of the text.

    Args:
        function: The function.
        variables: Names of its module.
        kinds: The kinds of places to find.

    """
    body = function.body
    if body is None:
        return FoundSites((), ())
    names = of_scope(body, of_function(function, variables))
    later = moved(body) if kinds & _WITHIN else {}
    found: list[FoundSite] = []
    left: list[str] = []
    head = body.start + 1
    entry, end = _kinds_of(function)
    if entry in kinds:
        at = first_code(body)
        found.append(FoundSite(entry, function, at, at, head, names))
    ways_out = _ways_out(body) if function.entry and Where.EXIT in kinds else {}
    for instruction, known in _instructions(body, names):
        try:
            kind, what = _kind(instruction, function)
        except ProgramError as error:
            left.append(f"line {instruction.line}: {error.why or error.what}")
            continue
        if kind in kinds and kind is not None:
            put = later.get(instruction.start, instruction.start)
            found.append(FoundSite(kind, function, instruction.start, put, head, known, instruction, what))
        if Where.LOADED in kinds and what is not None and instruction.opcode[0] in _LOADS:
            at, put = instruction.start, max(later.get(instruction.start, 0), instruction.end)
            found.append(FoundSite(Where.LOADED, function, at, put, head, known, instruction, what))
        if instruction.opcode[0] == "bra" and (leaves := ways_out.get(instruction.operand_text.strip())):
            at = instruction.start
            found.append(FoundSite(Where.EXIT, function, at, at, head, known, instruction, leaves=leaves))
    if end in kinds and _falls_through(body):
        found.append(FoundSite(end, function, body.end - 1, body.end - 1, head, names))
    return FoundSites(tuple(found), tuple(left))


def _kinds_of(function: Function) -> tuple[Where, Where]:
    return (Where.ENTRY, Where.EXIT) if function.entry else (Where.FUNCTION, Where.FUNCTION_EXIT)


def _instructions(scope: Scope, names: VisibleNames) -> Iterator[tuple[Instruction, VisibleNames]]:
    for item in scope.items:
        if isinstance(item, Instruction):
            yield item, names
        elif isinstance(item, Scope):
            yield from _instructions(item, of_scope(item, names))


def _ways_out(body: Scope) -> dict[str, str]:
    """Labels directly before a `ret` or `exit` without a predicate, each with that opcode."""
    found: dict[str, str] = {}
    labels: list[str] = []
    for item in walk(body):
        if isinstance(item, Label):
            labels.append(item.name)
        elif isinstance(item, Instruction):
            if item.opcode[0] in _LEAVE and item.predicate is None:
                found.update(dict.fromkeys(labels, item.opcode[0]))
            labels = []
    return found


def _kind(instruction: Instruction, function: Function) -> tuple[Where | None, MemoryOperation | None]:
    opcode = instruction.opcode
    if opcode[0] == "ret":
        return _kinds_of(function)[1], None
    if opcode[0] == "exit":
        return Where.EXIT, None
    if (order := _order(opcode)) is not None:
        return order, None
    if (opcode[0] == "bra" and instruction.predicate) or opcode[0] == "brx":
        return Where.BRANCH, None
    what = access(instruction)
    return (None, None) if what is None else (Where.MEMORY, what)


def _order(opcode: Sequence[str]) -> Where | None:
    """Return the kind of an instruction that orders threads or their accesses."""
    if opcode[0] in _BARRIERS and not _NO_BARRIER & set(opcode):
        return Where.BARRIER
    if opcode[0] in _FENCES:
        return Where.FENCE
    return Where.SYNC if opcode[0] in _SIGNALS or ("sync" in opcode and opcode[0] in _OF_WARPS) else None


def first_code(body: Scope) -> int:
    """Offset of a function's first label, instruction or scope, after its declarations."""
    return next((item.start for item in body.items if isinstance(item, Instruction | Label | Scope)), body.end - 1)


def _falls_through(body: Scope) -> bool:
    """Whether control can reach the closing brace: from the last instruction, or by a jump to a label after it."""
    last: Instruction | None = None
    labels: set[str] = set()
    jumps: set[str] = set()
    for item in walk(body):
        if isinstance(item, Instruction):
            last, labels = item, set()
            if item.opcode[0] in _JUMPS:
                jumps.update(WORD.findall(item.operand_text))
        elif isinstance(item, Label):
            labels.add(item.name)
        elif isinstance(item, Directive):
            jumps.update(WORD.findall(item.text) if item.name == ".branchtargets" else ())
    return last is None or last.predicate is not None or last.opcode[0] not in _ENDS or bool(labels & jumps)


_ENDS_BLOCK: Final = frozenset({"bra", "brx", "ret", "exit", "trap"})
_READS_CARRY: Final = frozenset({"addc", "subc", "madc"})


def moved(body: Scope) -> dict[int, int]:
    """Find sequences that must not be split: carry chains, `wgmma` groups, and calls with their arguments.

    Returns:
        For each instruction but the first in such a sequence: the offset after the sequence, by the instruction's start
        offset.

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
    """Find the first instruction from `last` on that no sequence continues past: sequences may overlap."""
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

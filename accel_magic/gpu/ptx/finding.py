"""Where in a function code can be put, and what is known there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.places import Where
from accel_magic.gpu.ptx.accesses import Access, access
from accel_magic.gpu.ptx.lexer import WORD
from accel_magic.gpu.ptx.model import Directive, Instruction, Label, Scope, walk
from accel_magic.gpu.ptx.regions import moved
from accel_magic.gpu.ptx.registers import Names, of_function, of_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.ptx.model import Function

_BARRIERS: Final = frozenset({"bar", "barrier"})
_NO_BARRIER: Final = frozenset({"warp", "arrive"})
"""`bar.warp.sync` is about one warp, `bar.arrive` does not wait."""
_ENDS: Final = frozenset({"bra", "brx", "ret", "exit", "trap"})
_JUMPS: Final = frozenset({"bra", "brx"})
_LEAVE: Final = frozenset({"ret", "exit"})


@dataclass(frozen=True, slots=True)
class Found:
    """A place.

    Attributes:
        where: Its kind.
        function: The function it lies in.
        at: Offset of the instruction; of an entry or the end of a function where the code goes.
        put: Offset where the code goes; behind `at` where that is within a run that must not be cut.
        head: Offset behind the opening brace of the function's body: where declarations can go.
        names: What can be named there.
        instruction: None at an entry and at a function's end.
        access: Of a memory operation.
        leaves: Of a branch that leads straight out of the kernel: `ret` or `exit`, with which the code is to end. Lanes
            that take it would else wait at the kernel's end for those that do not.

    """

    where: Where
    function: Function
    at: int
    put: int
    head: int
    names: Names
    instruction: Instruction | None = None
    access: Access | None = None
    leaves: str = ""


@dataclass(frozen=True)
class Places:
    """All places of a function, and those that are left alone with the reason."""

    found: tuple[Found, ...]
    left: tuple[str, ...]


def find(function: Function, variables: Names, kinds: frozenset[Where]) -> Places:
    """Find the places of some kinds in a function, in the order of the text.

    Args:
        function: It has a body.
        variables: Names of its module.
        kinds: Which are wanted.

    """
    body = function.body
    if body is None:
        return Places((), ())
    names = of_scope(body, of_function(function, variables))
    later = moved(body) if kinds & {Where.MEMORY, Where.BARRIER} else {}
    found: list[Found] = []
    left: list[str] = []
    head = body.start + 1
    entry, end = _kinds_of(function)
    if entry in kinds:
        at = first_code(body)
        found.append(Found(entry, function, at, at, head, names))
    ways_out = _ways_out(body) if function.entry and Where.EXIT in kinds else {}
    for instruction, known in _instructions(body, names):
        try:
            kind, what = _kind(instruction, function)
        except ProgramError as error:
            left.append(f"line {instruction.line}: {error.why or error.what}")
            continue
        if kind in kinds and kind is not None:
            put = later.get(instruction.start, instruction.start)
            found.append(Found(kind, function, instruction.start, put, head, known, instruction, what))
        if instruction.opcode[0] == "bra" and (leaves := ways_out.get(instruction.operand_text.strip())):
            at = instruction.start
            found.append(Found(Where.EXIT, function, at, at, head, known, instruction, leaves=leaves))
    if end in kinds and _falls_through(body):
        found.append(Found(end, function, body.end - 1, body.end - 1, head, names))
    return Places(tuple(found), tuple(left))


def _kinds_of(function: Function) -> tuple[Where, Where]:
    return (Where.ENTRY, Where.EXIT) if function.entry else (Where.FUNCTION, Where.FUNCTION_EXIT)


def _instructions(scope: Scope, names: Names) -> Iterator[tuple[Instruction, Names]]:
    for item in scope.items:
        if isinstance(item, Instruction):
            yield item, names
        elif isinstance(item, Scope):
            yield from _instructions(item, of_scope(item, names))


def _ways_out(body: Scope) -> dict[str, str]:
    """Labels right before the end of the kernel, with the instruction there."""
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


def _kind(instruction: Instruction, function: Function) -> tuple[Where | None, Access | None]:
    opcode = instruction.opcode
    if opcode[0] == "ret":
        return _kinds_of(function)[1], None
    if opcode[0] == "exit":
        return Where.EXIT, None
    if opcode[0] in _BARRIERS and not _NO_BARRIER & set(opcode):
        return Where.BARRIER, None
    if (opcode[0] == "bra" and instruction.predicate) or opcode[0] == "brx":
        return Where.BRANCH, None
    what = access(instruction)
    return (None, None) if what is None else (Where.MEMORY, what)


def first_code(body: Scope) -> int:
    """Offset of a function's first label, instruction or scope: behind its declarations."""
    return next((item.start for item in body.items if isinstance(item, Instruction | Label | Scope)), body.end - 1)


def _falls_through(body: Scope) -> bool:
    """Whether the closing brace can be reached: by the last instruction, or by a jump to a label behind it."""
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

"""Declarations of PTX: registers, variables with their initial values, and headers of functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.ptx.lexer import IDENTIFIER, unreadable
from accel_magic.gpu.ptx.model import Declaration, Declared, Operand, Parameter
from accel_magic.gpu.ptx.operands import parse_operands

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACES: Final = frozenset({"reg", "global", "const", "shared", "local", "param", "tex", "sreg"})
_LINKAGE: Final = frozenset({"visible", "extern", "weak", "common"})
_TYPE: Final = re.compile(
    r"(?:[bsuf](?:8|16|32|64|128)|f16x2|bf16x2|bf16|tf32|e4m3|e5m2|pred|texref|samplerref|surfref)$"
)
_ATTRIBUTE: Final = re.compile(r"\.attribute\s*\((?:[^()]|\([^()]*\))*\)")
_WORD: Final = re.compile(r"\s*\.([\w:]+)")
_ALIGN: Final = re.compile(r"\s*\.align\s+(\d+)")
_DECLARED: Final = re.compile(
    rf"\s*({IDENTIFIER})\s*(?:<\s*(\d+)\s*>)?((?:\s*\[\s*\w*\s*\])*)\s*(?:=\s*(.*))?$", re.DOTALL
)
_DIMENSION: Final = re.compile(r"\[\s*(\w*)\s*\]")
_HEADER: Final = re.compile(
    rf"(?:\.(?P<linkage>\w+)\s+)?\.(?P<kind>entry|func)\s*(?:\.attribute\s*\([^)]*\)\s*)?"
    rf"(?:\((?P<results>[^()]*)\))?\s*(?P<name>{IDENTIFIER})\s*(?:\((?P<parameters>[^()]*)\))?(?P<directives>.*)$",
    re.DOTALL,
)
_PROTOTYPE: Final = re.compile(
    r"\.callprototype\s*(?:\((?P<results>[^()]*)\))?\s*_\s*(?:\((?P<parameters>[^()]*)\))?(?P<directives>[^;]*);",
    re.DOTALL,
)
_PARAMETER_NAME: Final = re.compile(rf"\s*({IDENTIFIER})\s*((?:\[\s*\w*\s*\]\s*)*)$")


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before a function's body."""

    name: str
    entry: bool
    linkage: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: tuple[str, ...]


def variable(text: str, start: int, end: int, line: int) -> Declaration:
    """Read a declaration, semicolon included.

    Args:
        text: Without comments.
        start: Where it begins in the module's text.
        end: Where it ends there.
        line: Its line.

    Raises:
        ProgramError: It is no declaration.

    """
    attributes = tuple(_ATTRIBUTE.findall(text))
    rest = _ATTRIBUTE.sub(" ", text).strip().removesuffix(";")
    space = kind = linkage = ""
    align, vector = 0, 1
    while match := _ALIGN.match(rest) or _WORD.match(rest):
        rest, word = rest[match.end() :], match[1]
        if word.isdigit():
            align = int(word)
        elif word in _LINKAGE:
            linkage = word
        elif word.split("::")[0] in _SPACES and not space:
            space = word.split("::")[0]
        elif word in {"v2", "v4", "v8"}:
            vector = int(word[1])
        elif _TYPE.match(word):
            kind = word
        else:
            attributes += (f".{word}",)
    if not space or not kind or not rest.strip():
        raise unreadable(line, "it is no declaration that is known", text)
    names = tuple(_declared(part, line) for part in _split(rest))
    return Declaration(space, kind, names, start, end, line, align, vector, linkage, attributes)


def _declared(text: str, line: int) -> Declared:
    match = _DECLARED.match(text)
    if match is None:
        raise unreadable(line, "it is no declaration that is known", text)
    initial: Operand | None = None
    if match[4] is not None:
        (initial,) = parse_operands(match[4], line)
    return Declared(match[1], int(match[2]) if match[2] else None, _dimensions(match[3]), initial)


def _dimensions(text: str) -> tuple[int | None, ...]:
    return tuple(int(size, 0) if size else None for size in _DIMENSION.findall(text))


def header(text: str, line: int) -> Header:
    """Read a function's header: everything before the brace or the semicolon, without comments.

    Raises:
        ProgramError: It is no header.

    """
    match = _HEADER.match(text.strip())
    if match is None:
        raise unreadable(line, "it is no declaration that is known", text)
    return Header(
        match["name"],
        match["kind"] == "entry",
        match["linkage"] or "",
        _parameters(match["results"], line),
        _parameters(match["parameters"], line),
        _directives(match["directives"]),
    )


def prototype(text: str, line: int) -> tuple[tuple[Parameter, ...], tuple[Parameter, ...]]:
    """Read a `.callprototype`: its results and its parameters.

    Raises:
        ProgramError: It is none.

    """
    match = _PROTOTYPE.match(text.strip())
    if match is None:
        raise unreadable(line, "it is no declaration that is known", text)
    return _parameters(match["results"], line), _parameters(match["parameters"], line)


def _directives(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in re.findall(r"\.(?:[^.\"]|\"[^\"]*\")*", text))


def _parameters(text: str | None, line: int) -> tuple[Parameter, ...]:
    return tuple(_parameter(part, line) for part in _split(text or "") if part.strip() not in {"", "_"})


def _parameter(text: str, line: int) -> Parameter:
    space, kind, pointer, rest = "param", "", "", text
    align = pointer_align = 0
    while match := _ALIGN.match(rest) or _WORD.match(rest):
        rest, word = rest[match.end() :], match[1]
        if word.isdigit():
            align, pointer_align = (align, int(word)) if pointer else (int(word), 0)
        elif word == "ptr":
            pointer = "generic"
        elif pointer and word in _SPACES:
            pointer = word
        elif word in _SPACES:
            space = word
        else:
            kind = word
    name = _PARAMETER_NAME.match(rest)
    if name is None or not kind:
        raise unreadable(line, "it is no declaration that is known", text)
    return Parameter(
        "" if name[1] == "_" else name[1], space, kind, align, _dimensions(name[2]), pointer, pointer_align
    )


def _split(text: str) -> Iterator[str]:
    """Cut at commas that are in no bracket."""
    depth, begin = 0, 0
    for found in re.finditer(r"[,(){}\[\]]", text):
        if found[0] == ",":
            if depth == 0:
                yield text[begin : found.start()]
                begin = found.end()
        else:
            depth += 1 if found[0] in "({[" else -1
    if text[begin:].strip():
        yield text[begin:]

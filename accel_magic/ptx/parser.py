"""Parse PTX text into a `Module`, and write it back.

The text is split into statements; an instruction's operands are parsed on first use (`Instruction.operands`). Opcodes
are not checked: unknown ones are kept like any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.ptx.lexer import IDENTIFIER, TRIVIA, Text, unreadable, without_comments
from accel_magic.ptx.ptx_model import (
    Declaration,
    Declared,
    Directive,
    Function,
    Instruction,
    Label,
    Location,
    Module,
    Operand,
    Parameter,
    Predicate,
    Scope,
    Statement,
    TopLevel,
    parse_operands,
)

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
_PARAMETER_NAME: Final = re.compile(rf"\s*({IDENTIFIER})\s*((?:\[\s*\w*\s*\]\s*)*)$")


@dataclass(frozen=True, slots=True)
class Header:
    """A function's header: everything before its body."""

    name: str
    entry: bool
    linkage: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: tuple[str, ...]


def variable(text: str, start: int, end: int, line: int) -> Declaration:
    """Parse a declaration, including its semicolon.

    Args:
        text: The declaration without comments.
        start: Offset of its start in the module's text.
        end: Offset of its end.
        line: Its line.

    Raises:
        ProgramError: It is not a declaration.

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
        raise unreadable(line, "it is not a supported declaration", text)
    names = tuple(_declared(part, line) for part in _split(rest))
    return Declaration(space, kind, names, start, end, line, align, vector, linkage, attributes)


def _declared(text: str, line: int) -> Declared:
    match = _DECLARED.match(text)
    if match is None:
        raise unreadable(line, "it is not a supported declaration", text)
    initial: Operand | None = None
    if match[4] is not None:
        (initial,) = parse_operands(match[4], line)
    return Declared(match[1], int(match[2]) if match[2] else None, _dimensions(match[3]), initial)


def _dimensions(text: str) -> tuple[int | None, ...]:
    return tuple(int(size, 0) if size else None for size in _DIMENSION.findall(text))


def header(text: str, line: int) -> Header:
    """Parse a function's header: everything before the brace or the semicolon, without comments.

    Raises:
        ProgramError: It is not a header.

    """
    match = _HEADER.match(text.strip())
    if match is None:
        raise unreadable(line, "it is not a supported declaration", text)
    return Header(
        match["name"],
        match["kind"] == "entry",
        match["linkage"] or "",
        _parameters(match["results"], line),
        _parameters(match["parameters"], line),
        _directives(match["directives"]),
    )


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
        raise unreadable(line, "it is not a supported declaration", text)
    return Parameter(
        "" if name[1] == "_" else name[1], space, kind, align, _dimensions(name[2]), pointer, pointer_align
    )


def _split(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
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


_INSTRUCTION: Final = re.compile(
    r"(?:@\s*(?P<not>!?)\s*(?P<guard>[\w$%]+)\s+)?(?P<opcode>[a-z]\w*(?:\s*\.[\w:]+)*)(?P<operands>[^;/\"]*);"
)
_LABEL: Final = re.compile(rf"(?P<name>{IDENTIFIER})\s*:(?!:)")
_DIRECTIVE: Final = re.compile(r"\.[A-Za-z_]\w*|@@\w+")
_FUNCTION: Final = re.compile(
    rf"(?:\.(?:visible|extern|weak|common)(?:{TRIVIA.pattern})?)?\.(?:entry|func)\b", re.DOTALL
)
_LINKAGES: Final = frozenset({".visible", ".extern", ".weak", ".common"})
_VARIABLE: Final = frozenset({".reg", ".global", ".const", ".shared", ".local", ".param", ".tex", ".sreg"}) | _LINKAGES
_SHORT: Final = {
    ".version": re.compile(r"\.version\s+\d+\.\d+"),
    ".target": re.compile(r"\.target\s+\w+(?:\s*,\s*\w+)*"),
    ".address_size": re.compile(r"\.address_size\s+\d+"),
    ".file": re.compile(r"\.file\s+\d+\s+\"[^\"\n]*\"(?:\s*,\s*\d+\s*,\s*\d+)?"),
    ".loc": re.compile(
        r"\.loc\s+\d+\s+\d+(?:[ \t]+\d+)?"
        r"(?:\s*,\s*(?:function_name\s+[\w$%.]+(?:\s*\+\s*\w+)?|inlined_at\s+\d+\s+\d+\s+\d+))*"
    ),
    "@@DWARF": re.compile(r"@@DWARF[^\n]*"),
}
"""Directives that do not end with a semicolon."""
_LOC: Final = re.compile(r"\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?")
_INLINED: Final = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_INLINED_FUNCTION: Final = re.compile(r"function_name\s+([\w$%.]+)")
_FILE: Final = re.compile(r"\.file\s+(\d+)\s+\"([^\"\n]*)\"")
_LEAF_STOP: Final = re.compile(r"\"[^\"\n]*\"|//[^\n]*|/\*.*?\*/|[;{}]", re.DOTALL)


def parse(text: str) -> Module:
    """Parse a module.

    Args:
        text: The PTX; a zero byte at its end, which drivers expect, counts as whitespace.

    Raises:
        ProgramError: It is not valid PTX; the message gives the line.

    """
    return _Parser(text).module()


def write(module: Module) -> str:
    """Assemble the module's text from its parts."""
    pieces, at = [], 0
    for start, end in _leaves(module):
        pieces += [module.text[at:start], module.text[start:end]]
        at = end
    return "".join([*pieces, module.text[at:]])


def _leaves(module: Module) -> Iterator[tuple[int, int]]:
    for item in module.items:
        if isinstance(item, Function) and item.body is not None:
            yield item.start, item.header_end
            yield from _inner(item.body)
        else:
            yield item.start, item.end


def _inner(scope: Scope) -> Iterator[tuple[int, int]]:
    yield scope.start, scope.start + 1
    for item in scope.items:
        if isinstance(item, Scope):
            yield from _inner(item)
        else:
            yield item.start, item.end
    yield scope.end - 1, scope.end


class _Parser:
    """Parses a text in one pass; `_at` is the offset of the next statement."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = Text(text)
        self._at = 0
        self._line = 1
        self._counted = 0
        self._location: Location | None = None
        self._located_at: dict[tuple[int, ...], Location] = {}
        self._files = {int(number): path for number, path in _FILE.findall(text)}

    def module(self) -> Module:
        items: list[TopLevel] = []
        self._skip()
        while self._at < self._end:
            items.append(self._top_level())
            self._skip()
        header = {item.name: item.text for item in reversed(items) if isinstance(item, Directive)}
        if ".version" not in header or ".target" not in header:
            raise self._lines.error(0, "`.version` and `.target` are missing")
        major, minor = header[".version"].split()[1].split(".")
        target = tuple(part.strip() for part in header[".target"].split(None, 1)[1].split(","))
        size = int(header.get(".address_size", ".address_size 64").split()[1])
        return Module(self._text, (int(major), int(minor)), target, size, tuple(items), self._files)

    @property
    def _end(self) -> int:
        return len(self._text)

    def _skip(self) -> None:
        match = TRIVIA.match(self._text, self._at)
        if match:
            self._at = match.end()
        while self._text.startswith("\0", self._at):
            self._at += 1

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _top_level(self) -> TopLevel:
        if _FUNCTION.match(self._text, self._at):
            return self._function()
        label = _LABEL.match(self._text, self._at)
        if label:
            return self._label(label)
        match = _DIRECTIVE.match(self._text, self._at)
        if match is None:
            raise self._lines.error(self._at, "a function, a variable or a directive is expected")
        return self._directive(match[0])

    def _label(self, match: re.Match[str]) -> Label:
        line, start = self._line_here(), self._at
        self._at = match.end()
        return Label(match["name"], start, self._at, line)

    def _directive(self, name: str) -> Declaration | Directive:
        line, start = self._line_here(), self._at
        if name in _SHORT:
            match = _SHORT[name].match(self._text, start)
            if match is None:
                raise self._lines.error(start, f"`{name}` is malformed")
            self._at = match.end()
            if name == ".loc":
                self._location = self._located(match[0])
        elif name == ".section":
            self._at = self._behind_braces()
        else:
            self._at = self._behind_semicolon()
        text = self._text[start : self._at]
        if name in _VARIABLE:
            return variable(without_comments(text), start, self._at, line)
        return Directive(name, text, start, self._at, line)

    def _located(self, text: str) -> Location:
        match = _LOC.match(text)
        place = tuple(int(part or 0) for part in match.groups()) if match else (0, 0, 0)
        inlined, function = _INLINED.search(text), _INLINED_FUNCTION.search(text)
        outer = None
        if inlined:
            call = tuple(int(part) for part in inlined.groups())
            outer = self._located_at.get(call) or self._place(call)
        found = self._place(place, function[1] if function else "", outer)
        self._located_at[place] = found
        return found

    def _place(self, place: tuple[int, ...], function: str = "", outer: Location | None = None) -> Location:
        number, line, column = place
        return Location(self._files.get(number, ""), line, column, function, outer)

    def _behind_semicolon(self) -> int:
        """Return the end of the current statement: after the first semicolon outside strings and comments."""
        for found in _LEAF_STOP.finditer(self._text, self._at):
            if found[0] == ";":
                return found.end()
        raise self._lines.error(self._at, "its semicolon is missing")

    def _behind_braces(self) -> int:
        depth = 0
        for found in _LEAF_STOP.finditer(self._text, self._at):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if found[0] == "}" and depth == 0:
                return found.end()
        raise self._lines.error(self._at, "its closing brace is missing")

    def _function(self) -> Function:
        line, start = self._line_here(), self._at
        header_end, opens = self._header()
        declared = header(without_comments(self._text[start:header_end]), line)
        self._location, self._located_at = None, {}
        self._at = header_end
        body = None
        if opens:
            body = self._scope()
        else:
            self._at += 1
        return Function(
            declared.name,
            declared.entry,
            declared.linkage,
            declared.results,
            declared.parameters,
            declared.directives,
            body,
            start,
            header_end,
            self._at,
            line,
        )

    def _header(self) -> tuple[int, bool]:
        """Return the offset where a function's header ends, and whether a body follows."""
        pragma = False
        for found in re.finditer(r"\.pragma\b|\"[^\"\n]*\"|//[^\n]*|/\*.*?\*/|[;{]", self._text[self._at :], re.DOTALL):
            if found[0] == ".pragma":
                pragma = True
            elif found[0] == ";" and pragma:
                pragma = False
            elif found[0] in {";", "{"}:
                return self._at + found.start(), found[0] == "{"
        raise self._lines.error(self._at, "the function's body or its semicolon is missing")

    def _scope(self) -> Scope:
        line, start = self._line_here(), self._at
        self._at += 1
        items: list[Statement] = []
        self._skip()
        while not self._text.startswith("}", self._at):
            if self._at >= self._end:
                raise self._lines.error(start, "its closing brace is missing")
            items.append(self._statement())
            self._skip()
        self._at += 1
        return Scope(tuple(items), start, self._at, line)

    def _statement(self) -> Statement:
        first = self._text[self._at]
        if first == "{":
            return self._scope()
        if first == "." or self._text.startswith("@@", self._at):
            match = _DIRECTIVE.match(self._text, self._at)
            if match is None:
                raise self._lines.error(self._at, "a directive is expected")
            return self._directive(match[0])
        label = _LABEL.match(self._text, self._at)
        return self._label(label) if label else self._instruction()

    def _instruction(self) -> Instruction:
        line, start = self._line_here(), self._at
        match = _INSTRUCTION.match(self._text, start)
        if match:
            self._at = match.end()
        else:
            # It contains comments or strings.
            self._at = self._behind_semicolon()
            match = _INSTRUCTION.fullmatch(without_comments(self._text[start : self._at]).strip())
            if match is None:
                raise self._lines.error(start, "an instruction is expected")
        guard = Predicate(match["guard"], bool(match["not"])) if match["guard"] else None
        opcode = tuple("".join(match["opcode"].split()).split("."))
        return Instruction(opcode, guard, match["operands"].strip(), start, self._at, line, self._location)

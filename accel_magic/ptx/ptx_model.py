"""The parts of a PTX module, with their positions in the original text, which is kept.

Offsets (`start`, `end`) are in characters of the module's text; `end` is exclusive. Lines count from 1.
"""

from __future__ import annotations

import operator
import struct
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from accel_magic.ptx import lexer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.errors import ProgramError


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, variable, function, label or the sink `_`; `%tid.x` is `Name("%tid", "x")`."""

    text: str
    component: str = ""

    @property
    def whole(self) -> str:
        """With its component."""
        return f"{self.text}.{self.component}" if self.component else self.text


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number as written: `7`, `-1`, `0x1fU`, `0f3F800000`, `(1<<4)`; also `WARP_SZ`.

    Attributes:
        text: The original text.
        value: An int for integers; a float for floating point, including NaN and infinities.
        bits: The bit pattern of a `0f` or `0d` number; None for others.

    """

    text: str
    value: int | float
    bits: int | None = None

    @property
    def size(self) -> int:
        """Bytes of a `0f` or `0d` number."""
        return 4 if self.text.lstrip("+-")[1] in "fF" else 8


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, or `[base, {x, y}]` with coordinates for tensors and textures.

    Attributes:
        base: A register, a variable, or a number; for a texture with a sampler, the texture.
        offset: Bytes to add, signed.
        coordinates: The operands after a comma.

    """

    base: Name | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`; also the targets of `.branchtargets` and the values of an initializer."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`a|b`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` for a predicate, `-x` for a register."""

    operand: Operand
    sign: str = "!"


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)` in a call: results or arguments."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class SymbolValue:
    """A constant resolved by the linker: `sym+4`, `generic(sym)+4`, `0xFF(sym)`.

    Attributes:
        symbol: The variable or function.
        offset: Bytes to add.
        generic: Whether it is the generic address.
        mask: Mask that selects one byte of the address; None for the whole address.

    """

    symbol: str
    offset: int = 0
    generic: bool = False
    mask: int | None = None


Operand = Name | Immediate | Address | Vector | Pair | Negated | Group | SymbolValue


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The items of a vector; any other operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)


@dataclass(frozen=True, slots=True)
class Predicate:
    """The guard `@p` or `@!p` of an instruction."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """The source line given by a `.loc`, and where it was inlined.

    Attributes:
        file: Path from `.file`; "" if the module does not give it.
        line: Line, from 1; 0 for code without a source line.
        column: Column, from 1; 0 if unknown.
        function: Inlined function's label, as written; "" if not inlined.
        inlined_at: The location of the call.

    """

    file: str
    line: int
    column: int = 0
    function: str = ""
    inlined_at: Location | None = None


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: Its parts: `("ld", "global", "v4", "f32")`.
        predicate: Its guard.
        operand_text: Everything between opcode and semicolon, without comments.
        line: Line in the PTX.
        location: Line of source, if known.

    """

    opcode: tuple[str, ...]
    predicate: Predicate | None
    operand_text: str
    start: int
    end: int
    line: int
    location: Location | None = None

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Operands in the order of the text.

        Raises:
            ProgramError: They are not valid PTX.

        """
        return parse_operands(self.operand_text, self.line)

    @property
    def name(self) -> str:
        """The whole opcode: `ld.global.v4.f32`."""
        return ".".join(self.opcode)

    @property
    def text(self) -> str:
        """The instruction on one line, without its semicolon."""
        guard = f"@{'!' * self.predicate.negated}{self.predicate.name} " if self.predicate else ""
        return f"{guard}{self.name} {' '.join(self.operand_text.split())}".strip()


@dataclass(frozen=True, slots=True)
class Label:
    """`name:`."""

    name: str
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Declared:
    """One name in a declaration.

    Attributes:
        name: The variable, or the prefix of a range of registers.
        count: Number of registers in a range: `%r<4>` is `%r0` to `%r3`; None for a single name.
        dimensions: Sizes of an array; None for a size that is not given.
        initial: Its initial value, with nested arrays as written; None if there is none.

    """

    name: str
    count: int | None = None
    dimensions: tuple[int | None, ...] = ()
    initial: Operand | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """Registers or variables.

    Attributes:
        space: `reg`, `global`, `const`, `shared`, `local`, `param`, `tex`.
        type: `b32`, `pred`, `f16x2`, ...
        names: The declared names.
        align: Bytes; 0 if not given.
        vector: Elements of `.v2`, `.v4`; 1 for others.
        linkage: `extern`, `visible`, `weak`, `common`, or "".
        attributes: Other directives in it, such as `.attribute(.managed)`.

    """

    space: str
    type: str
    names: tuple[Declared, ...]
    start: int
    end: int
    line: int
    align: int = 0
    vector: int = 1
    linkage: str = ""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other statement that begins with a dot, kept as text.

    Attributes:
        name: `.version`, `.loc`, `.pragma`, `.branchtargets`, `.section`, ...
        text: The whole statement.

    """

    name: str
    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Scope:
    """`{ ... }`; `start` is at the opening brace, `end` just after the closing one."""

    items: tuple[Statement, ...]
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter or result of a function.

    Attributes:
        name: As written; "" for a prototype's `_`.
        space: `param` or `reg`.
        type: `b64`, `u32`, ...
        align: Bytes; 0 if not given.
        dimensions: Sizes of an array of bytes, which is a struct passed by value.
        pointer: The space it points to, given by `.ptr`: `global`, `shared`, `const`, `local`, "generic", or "".
        pointer_align: Alignment of the memory that it points to.

    """

    name: str
    space: str
    type: str
    align: int = 0
    dimensions: tuple[int | None, ...] = ()
    pointer: str = ""
    pointer_align: int = 0


@dataclass(frozen=True)
class Function:
    """An entry or a device function.

    Attributes:
        name: Its name in PTX.
        entry: Whether it is a kernel.
        linkage: `visible`, `extern`, `weak`, or "".
        results: Results of a device function.
        parameters: Parameters.
        directives: Directives between parameters and body: `(".maxntid 128, 1, 1", ".noreturn")`.
        body: None for a declaration.
        header_end: Offset where the header ends: at the brace or the semicolon.

    """

    name: str
    entry: bool
    linkage: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: tuple[str, ...]
    body: Scope | None
    start: int
    header_end: int
    end: int
    line: int


Statement = Label | Instruction | Declaration | Directive | Scope
TopLevel = Function | Declaration | Directive | Label


@dataclass(frozen=True)
class Module:
    """A whole module.

    Attributes:
        text: The original text.
        version: PTX ISA version: (8, 3).
        target: The arguments of `.target`: ("sm_90a", "debug").
        address_size: 64 or 32.
        items: All top-level items, in order.
        files: Paths by their number in `.file`.

    """

    text: str
    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[TopLevel, ...]
    files: dict[int, str] = field(default_factory=dict)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Entries and device functions that have a body, in order."""
        return tuple(item for item in self.items if isinstance(item, Function) and item.body is not None)

    @cached_property
    def kernels(self) -> tuple[Function, ...]:
        """Entries."""
        return tuple(function for function in self.functions if function.entry)

    @cached_property
    def variables(self) -> tuple[Declaration, ...]:
        """Declarations of the module's variables."""
        return tuple(item for item in self.items if isinstance(item, Declaration))


def walk(scope: Scope) -> Iterator[Statement]:
    """Yield all statements of a scope and its nested scopes, in the order of the text; a scope before its content."""
    for item in scope.items:
        yield item
        if isinstance(item, Scope):
            yield from walk(item)


def instructions(scope: Scope) -> Iterator[Instruction]:
    """Yield all instructions of a scope and its nested scopes, in the order of the text."""
    return (item for item in walk(scope) if isinstance(item, Instruction))


_BINARY: Final[dict[str, tuple[int, Callable[[int, int], int]]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, operator.lshift),
    ">>": (8, operator.rshift),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, lambda a, b: int(a / b) if b else 0),
    "%": (10, lambda a, b: a - b * int(a / b) if b else 0),
}
"""Operators of constant expressions, with their precedence."""
_UNARY: Final[dict[str, Callable[[int], int]]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda a: int(not a),
}


_WARP_SIZE: Final = 32


@lru_cache(maxsize=1 << 16)
def parse_operands(text: str, line: int = 0) -> tuple[Operand, ...]:
    """Parse operands separated by commas.

    Args:
        text: Everything after the opcode, without the semicolon and without comments.
        line: The line, for messages.

    Raises:
        ProgramError: They are not valid PTX.

    """
    reader = _Reader(text, line)
    found = reader.list_until("")
    reader.end()
    return found


class _Reader:
    """A recursive-descent parser of operands."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._line = line
        self._tokens = lexer.tokens(text, line)
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    @property
    def _kind_after(self) -> str:
        return self._tokens[self._at + 1][0] if self._at + 1 < len(self._tokens) else ""

    def _take(self) -> str:
        text = self._next
        self._at += 1
        return text

    def _expect(self, text: str) -> None:
        if self._next != text:
            raise self._error(f"{text!r} is missing")
        self._at += 1

    def _error(self, what: str) -> ProgramError:
        return lexer.unreadable(self._line, what, self._text)

    def end(self) -> None:
        if self._next:
            raise self._error(f"{self._next!r} is unexpected")

    def list_until(self, closing: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while self._next != closing:
            items.append(self._operand())
            if self._next != ",":
                break
            self._take()
        return tuple(items)

    def _operand(self) -> Operand:
        first = self._simple()
        if self._next == "|":
            self._take()
            return Pair(first, self._simple())
        return first

    def _simple(self) -> Operand:
        if self._next == "{" or (self._next == "(" and not self._is_expression()):
            return self._list(Vector if self._next == "{" else Group)
        if self._next == "[":
            return self._address()
        if self._next in {"!", "-"} and self._kind_after == "name":
            sign = self._take()
            return Negated(self._simple(), sign)
        if self._kind == "name":
            return self._named()
        return self._number()

    def _list(self, make: type[Vector | Group]) -> Operand:
        closing = {"{": "}", "(": ")"}[self._take()]
        items = self.list_until(closing)
        self._expect(closing)
        return make(items)

    def _is_expression(self) -> bool:
        """Whether a parenthesis contains a constant expression: only numbers and operators, no comma."""
        for kind, text in self._tokens[self._at + 1 :]:
            if text == ")":
                return self._tokens[self._at + 1][1] != ")"
            if kind not in {"int", "mark"} or text == ",":
                return False
        return False

    def _named(self) -> Operand:
        name = self._take()
        component = ""
        if self._kind == "directive":
            component = self._take()[1:]
        if self._next == "(" and name == "generic":
            self._take()
            symbol = self._take()
            self._expect(")")
            return SymbolValue(symbol, self._offset(), generic=True)
        if self._next in {"+", "-"}:
            return SymbolValue(name, self._offset())
        return Immediate(name, _WARP_SIZE) if name == "WARP_SZ" else Name(name, component)

    def _offset(self) -> int:
        """Read `+4`, `+-4`, `-4`, or nothing."""
        total = 0
        while self._next in {"+", "-"}:
            sign = -1 if self._take() == "-" else 1
            total += sign * self._factor()
        return total

    def _address(self) -> Address:
        self._expect("[")
        base: Name | Immediate
        if self._kind == "name":
            base = Name(self._take())
            offset = self._offset()
        else:
            found = self._number()
            if not isinstance(found, Immediate):
                raise self._error("an address is missing")
            base, offset = found, 0
        coordinates: tuple[Operand, ...] = ()
        if self._next == ",":
            self._take()
            coordinates = self.list_until("]")
        self._expect("]")
        return Address(base, offset, coordinates)

    def _number(self) -> Operand:
        begin = self._at
        if self._kind == "float" or (self._next in {"-", "+"} and self._kind_after == "float"):
            return self._floating()
        value = self._expression(0)
        text = "".join(text for _, text in self._tokens[begin : self._at])
        if self._next == "(":
            self._take()
            inner = self._simple()
            self._expect(")")
            if isinstance(inner, Name):
                return SymbolValue(inner.text, mask=value)
            if isinstance(inner, SymbolValue):
                return SymbolValue(inner.symbol, inner.offset, inner.generic, value)
            raise self._error("a symbol is missing")
        return Immediate(text, value)

    def _floating(self) -> Immediate:
        sign = self._take() if self._next in {"-", "+"} else ""
        text = self._take()
        factor = -1.0 if sign == "-" else 1.0
        if text[:2].lower() not in {"0f", "0d"}:
            return Immediate(sign + text, factor * float(text))
        bits = int.from_bytes(bytes.fromhex(text[2:]))
        single = text[1] in "fF"
        layout = ("<I", "<f") if single else ("<Q", "<d")
        (value,) = struct.unpack(layout[1], struct.pack(layout[0], bits))
        if sign == "-":
            bits ^= 1 << (31 if single else 63)
        return Immediate(sign + text, factor * value, bits)

    def _expression(self, tightness: int) -> int:
        value = self._factor()
        while self._next in _BINARY and _BINARY[self._next][0] > tightness:
            binds, calculate = _BINARY[self._take()]
            value = calculate(value, self._expression(binds))
        return value

    def _factor(self) -> int:
        if self._next in _UNARY:
            return _UNARY[self._take()](self._factor())
        if self._next == "(":
            self._take()
            value = self._expression(0)
            self._expect(")")
            return value
        if self._kind != "int":
            raise self._error(f"a number is missing before {self._next!r}" if self._next else "it ends unexpectedly")
        return _integer(self._take())


def _integer(text: str) -> int:
    digits = text.rstrip("U")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    return int(digits, 8 if octal else 0)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's source code."""

    file: str
    line: int
    column: int = 0
    text: str = ""

"""Operands of instructions and values of initialisers: registers, numbers, addresses, vectors, expressions."""

from __future__ import annotations

import operator
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.ptx import lexer
from accel_magic.gpu.ptx.model import Address, Group, Immediate, Name, Negated, Operand, Pair, SymbolValue, Vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.errors import ProgramError

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
"""Operators of constant expressions with how tightly they bind."""
_UNARY: Final[dict[str, Callable[[int], int]]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda a: int(not a),
}


@lru_cache(maxsize=1 << 16)
def parse_operands(text: str, line: int = 0) -> tuple[Operand, ...]:
    """Read operands that are separated by commas.

    Args:
        text: Everything behind the opcode, without the semicolon and without comments.
        line: For messages.

    Raises:
        ProgramError: They are no PTX.

    """
    reader = _Reader(text, line)
    found = reader.list_until("")
    reader.end()
    return found


class _Reader:
    """Reads tokens one after the other."""

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
        """Whether a parenthesis holds a constant expression: numbers and operators only, and no comma."""
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
        return Name(name, component)

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
            raise self._error(f"a number is missing before {self._next!r}" if self._next else "it ends too early")
        return _integer(self._take())


def _integer(text: str) -> int:
    digits = text.rstrip("U")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    return int(digits, 8 if octal else 0)

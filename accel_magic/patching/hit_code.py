"""Translate the C of filters and payloads into programs that hits.c runs in the traced process.

The C is the one that the kernel's programs have (`probes.filters`, `kernel.attach.record_payloads`), so both ways of
tracing a function have the same columns and the same filters.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.attach.record_payloads import accessors
from accel_magic.patching import library
from accel_magic.probes.plan import RETURN_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.kernel.attach.record_payloads import Payload
    from accel_magic.probes.plan import ProbePoint

MOST_SAVED: Final = 16
MOST_PAYLOAD: Final = 1024


class OpCode(enum.IntEnum):
    """What an operation does: the `OP_` constants of hits.h, in their order."""

    END = 0
    CONSTANT = enum.auto()
    REGISTER = enum.auto()
    STACK_POINTER = enum.auto()
    RETURNED = enum.auto()
    DURATION = enum.auto()
    PID = enum.auto()
    TID = enum.auto()
    CPU = enum.auto()
    SAVED = enum.auto()
    COMM_IS = enum.auto()
    USER_STACK = enum.auto()
    ENTERED_STACK = enum.auto()
    PYTHON_STACK = enum.auto()
    READ = enum.auto()
    NEGATE = enum.auto()
    INVERT = enum.auto()
    NOT = enum.auto()
    ADD = enum.auto()
    SUBTRACT = enum.auto()
    MULTIPLY = enum.auto()
    AND = enum.auto()
    OR = enum.auto()
    XOR = enum.auto()
    LEFT = enum.auto()
    RIGHT = enum.auto()
    RIGHT_SIGNED = enum.auto()
    DIVIDE = enum.auto()
    DIVIDE_SIGNED = enum.auto()
    MODULO = enum.auto()
    MODULO_SIGNED = enum.auto()
    EQUAL = enum.auto()
    UNEQUAL = enum.auto()
    LESS = enum.auto()
    LESS_SIGNED = enum.auto()
    LESS_EQUAL = enum.auto()
    LESS_EQUAL_SIGNED = enum.auto()
    BOTH = enum.auto()
    EITHER = enum.auto()
    CHOOSE = enum.auto()
    TEST = enum.auto()
    SAVE = enum.auto()
    PUT = enum.auto()
    PUT_STRING = enum.auto()
    SUM = enum.auto()


class UntranslatableError(ValueError):
    """C that has no translation; the text says what it contains."""


_REGISTERS: Final = {"di": 4, "si": 5, "dx": 6, "cx": 7, "r8": 3, "r9": 2}
"""Where entry.S saves them, in words."""
_VALUES: Final = {
    "AM_STACK_POINTER": OpCode.STACK_POINTER,
    "AM_DURATION": OpCode.DURATION,
    "am_pid": OpCode.PID,
    "am_tid": OpCode.TID,
    "am_cpu": OpCode.CPU,
    "AM_USER_STACK": OpCode.USER_STACK,
    "AM_ENTERED_USER_STACK": OpCode.ENTERED_STACK,
    "AM_PYTHON_STACK": OpCode.PYTHON_STACK,
}
"""Values without a sign."""
_BINARY: Final = {
    "||": (1, OpCode.EITHER, OpCode.EITHER),
    "&&": (2, OpCode.BOTH, OpCode.BOTH),
    "|": (3, OpCode.OR, OpCode.OR),
    "^": (4, OpCode.XOR, OpCode.XOR),
    "&": (5, OpCode.AND, OpCode.AND),
    "==": (6, OpCode.EQUAL, OpCode.EQUAL),
    "!=": (6, OpCode.UNEQUAL, OpCode.UNEQUAL),
    "<": (7, OpCode.LESS, OpCode.LESS_SIGNED),
    "<=": (7, OpCode.LESS_EQUAL, OpCode.LESS_EQUAL_SIGNED),
    ">": (7, OpCode.LESS, OpCode.LESS_SIGNED),
    ">=": (7, OpCode.LESS_EQUAL, OpCode.LESS_EQUAL_SIGNED),
    "<<": (8, OpCode.LEFT, OpCode.LEFT),
    ">>": (8, OpCode.RIGHT, OpCode.RIGHT_SIGNED),
    "+": (9, OpCode.ADD, OpCode.ADD),
    "-": (9, OpCode.SUBTRACT, OpCode.SUBTRACT),
    "*": (10, OpCode.MULTIPLY, OpCode.MULTIPLY),
    "/": (10, OpCode.DIVIDE, OpCode.DIVIDE_SIGNED),
    "%": (10, OpCode.MODULO, OpCode.MODULO_SIGNED),
}
"""Precedence in C; operation on unsigned and on signed values."""
_SWAPPED: Final = (">", ">=")
_CONDITIONS: Final = ("||", "&&", "==", "!=", "<", "<=", ">", ">=")
"""Their result is an `int`."""
_UNARY: Final = {"-": OpCode.NEGATE, "~": OpCode.INVERT, "!": OpCode.NOT}
_TYPES: Final = {f"{sign}{bits}": (bits // 8, sign == "s") for sign in "us" for bits in (8, 16, 32, 64)}
_TOKEN: Final = re.compile(
    r"\s*(0x[0-9a-fA-F]+|\d+)(ULL|LL)?|\s*([A-Za-z_]\w*|->|<<|>>|[<>=!]=|&&|\|\||[-+*/%&|^~!<>(),?:])"
)


@dataclass(frozen=True)
class _Token:
    text: str
    number: int | None = None
    signed: bool = True


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UntranslatableError(text[at : at + 20])
        digits, ending, word = match.groups()
        found.append(_Token(word) if word else _Token(digits, int(digits, 0), ending != "ULL"))
        at = match.end()
    return found


@dataclass
class _Code:
    """Operations, and whether their value is signed."""

    ops: list[tuple[OpCode, int, int, int]]
    signed: bool


def _op(code: OpCode, *, size: int = 0, at: int = 0, value: int = 0) -> tuple[OpCode, int, int, int]:
    return code, size, at, value & (1 << 64) - 1


@dataclass
class _Parser:
    """A parser of one text. `macros` are names of expressions."""

    tokens: list[_Token]
    macros: Mapping[str, str]
    at: int = field(default=0)

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def next(self) -> _Token:
        if self.at == len(self.tokens):
            raise UntranslatableError("its end")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, text: str) -> None:
        found = self.next().text
        if found != text:
            raise UntranslatableError(f"{found} instead of {text}")

    def expression(self, least: int = 1) -> _Code:
        left = self.unary()
        while (operator := self.peek()) in _BINARY and _BINARY[operator][0] >= least:
            self.next()
            precedence, unsigned, signed = _BINARY[operator]
            right = self.expression(precedence + 1)
            both_signed = left.signed if operator in ("<<", ">>") else left.signed and right.signed
            first, second = (right, left) if operator in _SWAPPED else (left, right)
            ops = [*first.ops, *second.ops, _op(signed if both_signed else unsigned)]
            left = _Code(ops, both_signed or operator in _CONDITIONS)
        return left

    def choice(self) -> _Code:
        condition = self.expression()
        if self.peek() != "?":
            return condition
        self.next()
        first = self.expression()
        self.expect(":")
        second = self.expression()
        ops = [*condition.ops, *first.ops, *second.ops, _op(OpCode.CHOOSE)]
        return _Code(ops, first.signed and second.signed)

    def unary(self) -> _Code:
        token = self.next()
        if token.number is not None:
            return _Code([_op(OpCode.CONSTANT, value=token.number)], token.signed)
        if token.text in _UNARY:
            operand = self.unary()
            return _Code([*operand.ops, _op(_UNARY[token.text])], operand.signed or token.text == "!")
        if token.text == "(":
            if self.peek() in ("u64", "s64"):
                signed = self.next().text == "s64"
                self.expect(")")
                return _Code(self.unary().ops, signed)
            inner = self.choice()
            self.expect(")")
            return inner
        return self.name(token.text)

    def name(self, name: str) -> _Code:
        if name in self.macros:
            return _Parser(_tokens(self.macros[name]), self.macros).whole()
        if name in _VALUES:
            return _Code([_op(_VALUES[name])], False)
        if name == "AM_KERNEL_STACK":
            return _Code([_op(OpCode.CONSTANT)], False)
        if name == "AM_REGISTERS":
            return self.register()
        if name in ("AM_SAVED", "AM_COMM_IS", "AM_READ_USER"):
            return self.call(name)
        raise UntranslatableError(name)

    def register(self) -> _Code:
        self.expect("->")
        name = self.next().text
        if name == "ax":
            return _Code([_op(OpCode.RETURNED)], False)
        if name not in _REGISTERS:
            raise UntranslatableError(f"the register {name}")
        return _Code([_op(OpCode.REGISTER, at=_REGISTERS[name])], False)

    def call(self, name: str) -> _Code:
        self.expect("(")
        if name == "AM_READ_USER":
            size, signed = _TYPES[self.next().text]
            self.expect(",")
            code = _Code([*self.expression().ops, _op(OpCode.READ, size=-size if signed else size)], signed)
        elif name == "AM_SAVED":
            number = self.next().number
            if number is None or number >= MOST_SAVED:
                raise UntranslatableError(f"more than {MOST_SAVED} values of the entry")
            code = _Code([_op(OpCode.SAVED, at=number)], False)
        else:
            low = self.expression()
            self.expect(",")
            code = _Code([*low.ops, *self.expression().ops, _op(OpCode.COMM_IS)], True)
        self.expect(")")
        return code

    def whole(self) -> _Code:
        code = self.choice()
        if self.at < len(self.tokens):
            raise UntranslatableError(self.peek())
        return code

    def statements(self) -> list[tuple[OpCode, int, int, int]]:
        """Statements that fill a payload."""
        puts = {"AM_PUT": OpCode.PUT, "AM_PUT_USER_STRING": OpCode.PUT_STRING}
        ops = []
        while self.at < len(self.tokens):
            name = self.next().text
            if name not in puts:
                raise UntranslatableError(name)
            self.expect("(")
            place = self.next().number
            self.expect(",")
            ops += [*self.expression().ops, _op(puts[name], at=place or 0)]
            self.expect(")")
        return ops


@dataclass(frozen=True)
class HitPrograms:
    """Programs of a point, (operations,) of dtype `library.OP`; empty: there is nothing to do.

    Attributes:
        tests: At the entry: the filter, and the values to keep.
        fills: At the hit or the return: the filter, the payload, the sum.
        counts_at_return: Whether `fills` decides whether the hit counts.

    """

    tests: NDArray[np.void]
    fills: NDArray[np.void]
    counts_at_return: bool


def _finished(ops: Sequence[tuple[OpCode, int, int, int]]) -> NDArray[np.void]:
    rows = [(code, size, at, 0, value) for code, size, at, value in (*ops, _op(OpCode.END))]
    return np.array(rows if ops else [], library.OP)


def translate(point: ProbePoint, payload: Payload, *, records: bool) -> HitPrograms:
    """Translate what a point of a user-space function does.

    Args:
        point: The point.
        payload: Its payload.
        records: Whether its hits are recorded.

    Raises:
        UntranslatableError: Something cannot be translated.

    """
    macros = accessors(point)

    def value(text: str) -> list[tuple[OpCode, int, int, int]]:
        return _Parser(_tokens(text), macros).whole().ops

    def condition(text: str) -> list[tuple[OpCode, int, int, int]]:
        return [*value(text), _op(OpCode.TEST)] if text else []

    on_return = point.kind in RETURN_KINDS
    if len(payload.saved) > MOST_SAVED or payload.size > MOST_PAYLOAD:
        raise UntranslatableError(f"{len(payload.saved)} values of the entry, {payload.size} bytes")
    tests = [] if on_return else condition(point.filter.entry)
    if point.latency:
        for number, text in enumerate(payload.saved):
            tests += [*value(text), _op(OpCode.SAVE, at=number)]
    fills = condition(point.filter.entry if on_return else point.filter.exit)
    if records:
        fills += _Parser(_tokens(payload.statements), macros).statements()
    if payload.total:
        fills += _sum(value(payload.total), of_success=point.latency)
    return HitPrograms(_finished(tests), _finished(fills), counts_at_return=on_return or bool(point.filter.exit))


def _sum(value: list[tuple[OpCode, int, int, int]], *, of_success: bool) -> list[tuple[OpCode, int, int, int]]:
    """Add up a value; of measured calls, only of those that returned 0."""
    if of_success:
        succeeded = [
            _op(OpCode.RETURNED),
            _op(OpCode.CONSTANT, value=0xFFFFFFFF),
            _op(OpCode.AND),
            _op(OpCode.NOT),
            _op(OpCode.MULTIPLY),
        ]
        return [*value, *succeeded, _op(OpCode.SUM)]
    return [*value, _op(OpCode.SUM)]

"""64-bit arithmetic and comparisons of filters, as C text.

Signed arithmetic is done on u64 and cast back, because overflow of a signed integer is undefined in C; signed division
is done on magnitudes, because BPF has none.
"""

from __future__ import annotations

import operator as operator_
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MASK = (1 << 64) - 1
_LARGEST_SIGNED = (1 << 63) - 1
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Const:
    """A number known now, within -2^63 .. 2^64 - 1 wherever it is kept."""

    value: int


@dataclass(frozen=True)
class Number:
    """C text, in parentheses, of an s64 (`signed`) or u64."""

    code: str
    signed: bool


Value = Const | Number


def arithmetic(operator: str, a: Value, b: Value) -> Value:
    """C of `a operator b`: one of + - * & | ^, / % with b a positive constant, << >> with b a constant of 0..63.

    Two constants give their exact result, which may need more than 64 bits.
    """
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_FOLDS[operator](a.value, b.value))
    if operator in ("<<", ">>"):
        return _shift(operator, a, b)
    signed = _is_signed(a) and _is_signed(b)
    left, right = _as(a, "u64"), _as(b, "u64")
    if not signed:
        return Number(f"({left} {operator} {right})", signed=False)
    if operator in ("/", "%"):
        value = _as(a, "s64")
        return Number(
            f"({value} < (s64)0x0ULL ? (s64)(-((-{left}) {operator} {right})) : (s64)({left} {operator} {right}))",
            signed=True,
        )
    return Number(f"((s64)({left} {operator} {right}))", signed=True)


def negate(operator: str, a: Value) -> Value:
    """C of `-a` or `~a`."""
    if isinstance(a, Const):
        return Const(-a.value if operator == "-" else ~a.value)
    code = f"({operator}{_as(a, 'u64')})"
    return Number(f"((s64){code})" if a.signed else code, signed=a.signed)


def compare(operator: str, a: Value, b: Value) -> str:
    """C of `a operator b`, exact also between a signed and an unsigned value."""
    if _is_signed(a) and _is_signed(b):
        return f"({_as(a, 's64')} {operator} {_as(b, 's64')})"
    if not _may_be_negative(a) and not _may_be_negative(b):
        return f"({_as(a, 'u64')} {operator} {_as(b, 'u64')})"
    if _is_signed(a):
        a, b, operator = b, a, _FLIPPED[operator]
    same = f"{_as(a, 'u64')} {operator} {_as(b, 'u64')}"
    below = f"{_as(b, 's64')} < (s64)0x0ULL"
    # b below zero: the unsigned a is above it.
    return f"({below} || {same})" if operator in ("!=", ">", ">=") else f"(!({below}) && {same})"


def truth(a: Value) -> str:
    """C of `a != 0`."""
    return f"({_as(a, 'u64')} != (u64)0x0ULL)"


def _is_signed(a: Value) -> bool:
    return a.value <= _LARGEST_SIGNED if isinstance(a, Const) else a.signed


def _may_be_negative(a: Value) -> bool:
    return a.value < 0 if isinstance(a, Const) else a.signed


def _as(a: Value, type_: str) -> str:
    if isinstance(a, Const):
        return f"(({type_})0x{a.value & _MASK:x}ULL)"
    return a.code if type_ == ("s64" if a.signed else "u64") else f"(({type_}){a.code})"


def _shift(operator: str, a: Value, b: Value) -> Value:
    amount = b.value if isinstance(b, Const) else 0
    signed = _is_signed(a)
    if operator == ">>":
        return Number(f"({_as(a, 's64' if signed else 'u64')} >> 0x{amount:x})", signed=signed)
    shifted = f"({_as(a, 'u64')} << 0x{amount:x})"
    return Number(f"((s64){shifted})" if signed else shifted, signed=signed)


def _divide(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


_FOLDS: dict[str, Callable[[int, int], int]] = {
    "+": operator_.add,
    "-": operator_.sub,
    "*": operator_.mul,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "&": operator_.and_,
    "|": operator_.or_,
    "^": operator_.xor,
    "<<": operator_.lshift,
    ">>": operator_.rshift,
}

"""Operands as the compiler of the CPU device sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Register:
    """A register, a special register (`%tid.x`), or a predicate, maybe negated."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """An immediate: a whole number, a float, or the bits of a float and how many they are."""

    value: int | float
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, a function or a label, plus bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """Memory: `[base + offset]`."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two results: `d|p`."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: the result is dropped."""


Operand: TypeAlias = Register | Number | Symbol | Address | Vector | Pair | Sink


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        parts: The opcode: ('ld', 'global', 'v4', 'f32').
        operands: In order.
        predicate: What guards it, None for nothing.
        line: In the PTX, from 1.
        source: `file:line`, '' when unknown.
        text: As written, on one line.

    """

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Register | None
    line: int
    source: str
    text: str

"""What the memory analysis knows about registers and stack before each instruction, joined over all paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.verifier.findings import Place, PointerKind

Kind = Literal[
    "unset",  # never written, gone after a call, of different kinds on different paths, or not read any more
    "scalar",
    "stack",
    "map",  # a map's handle
    "value",
    "value_or_null",
    "record",
    "record_or_null",
    "context",
    "data",  # a byte of a map's first value: global variables
]


@dataclass(frozen=True, slots=True)
class RegisterFact:
    """What a register, or eight or fewer bytes of stack, holds.

    Attributes:
        kind: What it is.
        map: Name of the map that a 'map', 'value', 'record' or 'data' belongs to; '' where paths differ.
        low: Least value of a scalar as a signed number, or least offset of a pointer in bytes. Stack offsets count
            from the frame's end (r10): -512 to 0.
        high: Greatest one; equal to `low` where it is constant.
        frame: Of a stack pointer: the place of the function that owns the stack, in `Program.functions`.
        depth: Of a stack pointer: how many calls that function is above the one that holds the pointer; 0 is its own.

    """

    kind: Kind = "unset"
    map: str = ""
    low: int = 0
    high: int = 0
    frame: int = 0
    depth: int = 0

    @property
    def constant(self) -> int | None:
        """The one value or offset, where there is only one."""
        return self.low if self.low == self.high else None


Registers = tuple[RegisterFact, ...]
"""Eleven facts, r0 to r10."""


@dataclass(frozen=True)
class Facts:
    """All that the memory analysis learnt.

    Attributes:
        registers: Before each instruction that is reached.
        stack: What was stored in the function's own stack as one piece, by the offset of its first byte from r10
            (negative), before each instruction that is reached. Left out are pieces that differ in place between paths,
            and pieces that are not read any more.
        pointers: As in `Verdict`.
        stack_bytes: As in `Verdict`.

    """

    registers: Mapping[Place, Registers] = field(default_factory=lambda: MappingProxyType({}))
    stack: Mapping[Place, Mapping[int, RegisterFact]] = field(default_factory=lambda: MappingProxyType({}))
    pointers: Mapping[Place, PointerKind] = field(default_factory=lambda: MappingProxyType({}))
    stack_bytes: int = 0

"""What one pass of the analysis collects, and what its steps need to know about the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.verifier.findings import Breach
from accel_magic.gpu.verifier.values import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.gpu.program.model import MapSpec, Program
    from accel_magic.gpu.program.verdict import Place, PointerKind
    from accel_magic.gpu.verifier.state import State
    from accel_magic.gpu.verifier.values import Value


DONE: Final = -1
"""What a step returns instead of the next slot when its path ends there."""


@dataclass(slots=True)
class Run:
    """One pass.

    Attributes:
        program: The program.
        maps: The object's maps by name.
        ids: New ids for values.
        branches: States to go on with later, and their slots: what steps put here when they go both ways.
        pointers: What each access was seen to point to.
        lowest: Of each function the lowest offset of its stack that is used.
        prints: What is wrong with a format that is printed, and what mends it.

    """

    program: Program
    maps: Mapping[str, MapSpec]
    ids: Iterator[int] = field(default_factory=lambda: count(1))
    branches: list[tuple[State, int]] = field(default_factory=list)
    pointers: dict[Place, set[PointerKind]] = field(default_factory=dict)
    lowest: dict[int, int] = field(default_factory=dict)
    prints: dict[Place, tuple[str, str]] = field(default_factory=dict)


def read(state: State, register: int) -> Value:
    """Give what a register holds.

    Raises:
        Breach: It holds nothing, or a record that was given back.

    """
    value = state.frame.registers[register]
    if value.kind == "unset":
        if register == 0:
            raise Breach("uninitialised-register", "r0 is used, and nothing has set it on this path")
        raise Breach(
            "uninitialised-register", f"r{register} is used, and nothing has set it on this path, or a call cleared it"
        )
    if value.kind == "released":
        raise Breach("use-after-submit", f"r{register} points to a record that was submitted or discarded")
    return value


def require_scalar(value: Value, what: str) -> Value:
    """Make sure that a value is a number.

    Raises:
        Breach: It is an address.

    """
    if value.kind != "scalar":
        raise Breach("pointer-leak", f"{what} is {NAMES[value.kind]}; only numbers may go there")
    return value

"""Data of one pass of the analysis: what its steps collect, and the program that they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.verifier.findings import Breach
from accel_magic.gpu.verifier.register_values import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.gpu.program.kernel_types import KernelTypes
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec
    from accel_magic.gpu.program.verdict import Place, PointerKind
    from accel_magic.gpu.verifier.program_state import ProgramState
    from accel_magic.gpu.verifier.register_values import RegisterValue


DONE: Final = -1
"""Returned by a step instead of the next slot if its path ends."""


@dataclass(frozen=True)
class Hook:
    """The place that calls a policy.

    Attributes:
        name: Its name.
        arguments: What its context holds, 8 bytes each: the struct that a pointer points to; "" for a number.
        types: The structs.

    """

    name: str
    arguments: tuple[str, ...]
    types: KernelTypes


@dataclass(slots=True)
class AnalysisPass:
    """One pass.

    Attributes:
        program: The program.
        maps: The object's maps by name.
        ids: New ids for values.
        branches: States to follow later, with their slots; steps add them at branches that can go both ways.
        pointers: Kinds of memory that each access was seen to point to.
        lowest: For each function: the lowest stack offset used.
        prints: Problems with formats: message and fix.
        hook: What calls the program, if it is a policy; None in a GPU kernel.

    """

    program: EbpfProgram
    maps: Mapping[str, MapSpec]
    ids: Iterator[int] = field(default_factory=lambda: count(1))
    branches: list[tuple[ProgramState, int]] = field(default_factory=list)
    pointers: dict[Place, set[PointerKind]] = field(default_factory=dict)
    lowest: dict[int, int] = field(default_factory=dict)
    prints: dict[Place, tuple[str, str]] = field(default_factory=dict)
    hook: Hook | None = None


def read(state: ProgramState, register: int) -> RegisterValue:
    """Return the value of a register.

    Raises:
        Breach: It is not set, or holds a record that was submitted or discarded.

    """
    value = state.frame.registers[register]
    if value.kind == "unset":
        if register == 0:
            raise Breach("uninitialised-register", "r0 is used, but it is not set on this path")
        raise Breach(
            "uninitialised-register", f"r{register} is used, but on this path it is not set or a call cleared it"
        )
    if value.kind == "released":
        raise Breach("use-after-submit", f"r{register} points to a record that was already submitted or discarded")
    return value


def require_scalar(value: RegisterValue, what: str) -> RegisterValue:
    """Require that a value is a number.

    Raises:
        Breach: It is an address.

    """
    if value.kind != "scalar":
        raise Breach("pointer-leak", f"{what} is {NAMES[value.kind]}; it must be a number")
    return value

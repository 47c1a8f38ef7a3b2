"""Implementations of all instructions, in tables by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.devices.sim.code import Modifiers, UnknownFormError, step_of
from accel_magic.devices.sim.operations import (
    asynchronous,
    atomic,
    compare,
    convert,
    floating,
    integer,
    lanes,
    logic,
    matrix,
    mbarrier,
    moving,
    warpgroup,
)
from accel_magic.devices.sim.types import TYPES

if TYPE_CHECKING:
    from accel_magic.devices.sim.code import Code, Step

_RULES = {**logic.RULES, **compare.RULES, **convert.RULES}
_STEPS = {
    **moving.STEPS,
    **atomic.STEPS,
    **lanes.STEPS,
    **asynchronous.STEPS,
    **matrix.STEPS,
    **warpgroup.STEPS,
    **mbarrier.STEPS,
}
_FLOATS = frozenset(name for name, kind in TYPES.items() if kind.kind in "fx")
COSTS = {
    **dict.fromkeys(("ld", "st", "atom", "red", "ldmatrix", "cp", "stmatrix"), 8),
    **dict.fromkeys(("div", "rem", "sqrt", "rcp", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh", "mma", "wgmma"), 4),
    **dict.fromkeys(("shfl", "bar", "barrier", "call", "ret", "nanosleep"), 2),
}
"""Cycles of instructions that take more than one. This model makes work visible; it does not predict a GPU."""


def name_of(parts: tuple[str, ...]) -> str:
    """Return the name that an instruction is looked up by: its first part, or its first two."""
    return ".".join(parts[:2]) if parts[:2] in (("bar", "warp"), ("cp", "async")) else parts[0]


def compile_step(code: Code) -> Step:
    """Compile an instruction that does not end a segment.

    Raises:
        UnknownFormError: It is not supported.

    """
    parts = code.instruction.parts
    name = name_of(parts)
    if name in _STEPS:
        modifiers = Modifiers(parts[len(name.split(".")) :])
        step = _STEPS[name](code, modifiers)
        modifiers.finish()
        return step
    table = floating.RULES if _FLOATS.intersection(parts[-1:]) and name in floating.RULES else integer.RULES
    rule = _RULES.get(name) or table.get(name) or floating.RULES.get(name)
    if rule is None:
        raise UnknownFormError(f"the CPU device does not support the instruction {name}")
    return step_of(code, rule)

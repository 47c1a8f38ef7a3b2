"""Implementations of all instructions, in tables by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.devices.sim.instruction_compiler import Modifiers, UnknownFormError, step_of
from accel_magic.devices.sim.operations import (
    asynchronous,
    atomic,
    compare,
    convert,
    floating,
    images,
    integer,
    lanes,
    logic,
    matrix,
    mbarrier,
    moving,
    products,
    warpgroup,
)
from accel_magic.devices.sim.types import TYPES

if TYPE_CHECKING:
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Step

_RULES = {**logic.RULES, **compare.RULES, **convert.RULES}
_STEPS = {
    **moving.STEPS,
    **atomic.STEPS,
    **lanes.STEPS,
    **asynchronous.STEPS,
    **matrix.STEPS,
    **products.STEPS,
    **warpgroup.STEPS,
    **mbarrier.STEPS,
    **images.STEPS,
}
_WIDE = frozenset({"mov", "ld", "ldu", "st", "atom", "call"})
"""Instructions on 128-bit registers."""
_FLOATS = frozenset(name for name, kind in TYPES.items() if kind.kind in "fx")
COSTS = {
    **dict.fromkeys(("ld", "st", "atom", "red", "ldmatrix", "cp", "stmatrix"), 8),
    **dict.fromkeys(("tex", "tld4", "suld", "sust", "sured"), 8),
    **dict.fromkeys(
        ("div", "rem", "sqrt", "rcp", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh", "mma", "wmma", "wgmma"), 4
    ),
    **dict.fromkeys(("shfl", "bar", "barrier", "call", "ret", "nanosleep", "movmatrix"), 2),
}
"""Cycles of instructions that take more than one. This model makes work visible; it does not predict a GPU."""


_REFUSED = {
    "istypep": (
        "types of texture and surface references cannot be tested",
        "Use texture objects: cudaTextureObject_t, cudaSurfaceObject_t.",
    ),
    "tcgen05": (
        "the tensor memory of sm_100 is not supported",
        "Compile the kernel for sm_90a or older: it then uses wgmma or mma.",
    ),
    "cp.reduce": (
        "reductions by bulk copies are not supported",
        "Reduce with red or atom, or copy with cp.async.bulk and add.",
    ),
    "tensormap.replace": (
        "tensor maps cannot be changed in a kernel",
        "Encode them on the host: cuTensorMapEncodeTiled.",
    ),
    "multimem": (
        "addresses of several devices are not supported",
        "Run the kernel on GPUs, or without multicast.",
    ),
}
"""Instructions that no form of is supported, to why, and what to do instead."""


def refuse_unsupported(parts: tuple[str, ...]) -> None:
    """Refuse instructions of a kind that the device does not have.

    Raises:
        UnknownFormError: It is one.

    """
    found = _REFUSED.get(parts[0]) or _REFUSED.get(".".join(parts[:2]))
    if found is not None:
        raise UnknownFormError(*found)


def name_of(parts: tuple[str, ...]) -> str:
    """Return the name that an instruction is looked up by: its first part, or its first two."""
    return ".".join(parts[:2]) if parts[:2] in (("bar", "warp"), ("cp", "async")) else parts[0]


def compile_step(code: CompiledInstruction) -> Step:
    """Compile an instruction that does not end a segment.

    Raises:
        UnknownFormError: It is not supported.

    """
    parts = code.instruction.opcode
    name = name_of(parts)
    if "b128" in parts and name not in _WIDE:
        raise UnknownFormError("128-bit registers can only be moved, loaded, stored, exchanged and compared")
    if name in _STEPS:
        modifiers = Modifiers(parts[len(name.split(".")) :])
        step = _STEPS[name](code, modifiers)
        modifiers.finish()
        return step
    table = floating.RULES if _FLOATS.intersection(parts[-1:]) and name in floating.RULES else integer.RULES
    rule = _RULES.get(name) or table.get(name) or floating.RULES.get(name)
    if rule is None:
        raise UnknownFormError(f"the simulated device does not support the instruction {name}")
    return step_of(code, rule)

"""Comparisons: setp and set (PTX ISA 9.7.6, 9.7.7)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim import float_arithmetic
from accel_magic.devices.sim.instruction_compiler import LaneComputation, Modifiers, require
from accel_magic.devices.sim.types import TYPES, PtxType

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.types import Array

PREDICATE = TYPES["pred"]
_ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


def _nan(a: Array, b: Array) -> Array:
    """Whether either is NaN; false for integers, which equal themselves."""
    result: Array = (a != a) | (b != b)  # noqa: PLR0124 - only NaN differs from itself
    return result


def _or_unordered(test: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: test(a, b) | _nan(a, b)


_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_COMPARE = {
    **_ORDERED,
    "ne": lambda a, b: (a != b) & ~_nan(a, b),
    **{f"{name}u": _or_unordered(_ORDERED[name]) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "num": lambda a, b: ~_nan(a, b),
    "nan": _nan,
}


def _prepared(kind: PtxType, flush: bool) -> Callable[[Array], Array]:
    """Return the conversion that makes operands comparable: halves to floats, subnormals flushed if requested."""
    if kind.name == "bf16":
        return float_arithmetic.widen_bf16
    if kind.name in ("f16x2", "bf16x2"):
        return lambda bits: _pair(kind, bits)
    return float_arithmetic.flush if flush and kind.name == "f32" else lambda a: a


def _pair(kind: PtxType, bits: Array) -> Array:
    halves = np.ascontiguousarray(np.asarray(bits)[..., None]).view(np.uint16)
    return float_arithmetic.widen_bf16(halves) if kind.name == "bf16x2" else halves.view(np.float16)


def _test(modifiers: Modifiers) -> tuple[Callable[[Array, Array], Array], Any, bool]:
    """Take the comparison, the combination and .ftz."""
    name = modifiers.one_of(tuple(_COMPARE))
    require(bool(name), "it has no supported comparison")
    combine = _COMBINE.get(modifiers.one_of(tuple(_COMBINE)))
    return _COMPARE[name], combine, modifiers.flag("ftz")


def _setp(modifiers: Modifiers) -> LaneComputation:
    compare, combine, flush = _test(modifiers)
    kind = modifiers.type()
    prepare = _prepared(kind, flush)

    def plain(a: Array, b: Array) -> tuple[Array, Array]:
        truth = compare(prepare(a), prepare(b))
        return (truth[..., 0], truth[..., 1]) if kind.name.endswith("x2") else (truth, np.logical_not(truth))

    if combine is None:
        return LaneComputation((PREDICATE, PREDICATE), (kind, kind), plain)

    def combined(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        first, second = plain(a, b)
        return combine(first, c), combine(second, c)

    return LaneComputation((PREDICATE, PREDICATE), (kind, kind, PREDICATE), combined)


def _set(modifiers: Modifiers) -> LaneComputation:
    compare, combine, flush = _test(modifiers)
    kind, target = modifiers.type(), modifiers.type()
    prepare = _prepared(kind, flush)
    if kind.name.endswith("x2"):
        return _set_pair(kind, target, compare, combine)
    yes: Any = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(target.name)
    if yes is None:
        yes = np.array(-1).astype(target.dtype)[()]

    def chosen(a: Array, b: Array, *c: Array) -> Array:
        truth = compare(prepare(a), prepare(b))
        return np.where(combine(truth, c[0]) if c else truth, yes, target.dtype(0))

    sources = (kind, kind) if combine is None else (kind, kind, PREDICATE)
    return LaneComputation((target,), sources, chosen)


def _set_pair(
    kind: PtxType, target: PtxType, compare: Callable[[Array, Array], Array], combine: Any
) -> LaneComputation:
    """Build the packed form: 1.0 or 0.0 in each half."""
    require(target == kind, "the result must have the operands' type")
    one = np.uint16(0x3F80 if kind.name == "bf16x2" else 0x3C00)

    def chosen(a: Array, b: Array, *c: Array) -> Array:
        truth = compare(_pair(kind, a), _pair(kind, b))
        if c:
            truth = combine(truth, np.asarray(c[0])[..., None])
        result: Array = np.ascontiguousarray(np.where(truth, one, np.uint16(0))).view(np.uint32)[..., 0]
        return result

    return LaneComputation((target,), (kind, kind) if combine is None else (kind, kind, PREDICATE), chosen)


RULES = {"setp": _setp, "set": _set}
"""Instruction name to the rule that reads its modifiers."""

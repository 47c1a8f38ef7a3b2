"""Float arithmetic: f16, bf16, their pairs, f32 and f64 (PTX ISA 9.7.3 to 9.7.5).

Approximate instructions are computed in double precision and rounded; their error is below the manual's limits. A NaN
result may have different bits than on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim import float_arithmetic
from accel_magic.devices.sim.instruction_compiler import LaneComputation, Modifiers, require, same
from accel_magic.devices.sim.types import TYPES, PtxType

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.types import Array

PREDICATE = TYPES["pred"]
_ROUND = float_arithmetic.MODES
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")


def _around(kind: PtxType, flush: bool, saturate: bool, function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function to apply `.ftz` and `.sat`."""
    if kind.name != "f32":
        flush = False

    def wrapped(*values: Array) -> Array:
        result = function(*map(float_arithmetic.flush, values)) if flush else function(*values)
        result = float_arithmetic.flush(result) if flush else result
        return float_arithmetic.saturate(result) if saturate else result

    return wrapped if flush or saturate else function


def _split(bits: Array) -> Array:
    """Split 32-bit pairs into shape (lanes, 2)."""
    return np.ascontiguousarray(np.asarray(bits)[..., None]).view(np.uint16)


def on_halves(
    kind: PtxType, function: Callable[..., Array], finish: Callable[[Array], Array] | None = None
) -> LaneComputation:
    """Lift a function of floats to f16, bf16 and their pairs.

    The function takes float32. It returns float32, or float64 rounded to odd if float32 is too narrow, so that the
    result is rounded only once.
    """
    brain, pair = kind.name.startswith("bf16"), kind.name.endswith("x2")

    def widen(bits: Array) -> Array:
        bits = _split(bits) if pair else np.asarray(bits)
        return float_arithmetic.widen_bf16(bits) if brain else bits.view(np.float16).astype(np.float32)

    def back(value: Array) -> Array:
        if finish is not None:
            value = finish(value)
        bits = _narrow_bf16(value) if brain else np.asarray(value).astype(np.float16).view(np.uint16)
        result: Array = np.ascontiguousarray(bits).view(np.uint32)[..., 0] if pair else bits
        return result

    raw = TYPES["b32" if pair else "b16"]
    count = function.__code__.co_argcount if hasattr(function, "__code__") else function.nin  # type: ignore[attr-defined]
    return same(raw, count, lambda *values: back(function(*map(widen, values))))


def _narrow_bf16(value: Array) -> Array:
    value = np.asarray(value)
    return float_arithmetic.narrow_wide_to_bf16(value) if value.dtype == np.float64 else float_arithmetic.to_bf16(value)


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Apply a function to float32 operands in float64, where one operation is exact or nearly exact."""

    def two(a: Array, b: Array) -> Array:
        return function(a.astype(np.float64), b.astype(np.float64))

    return two


def _sum(a: Array, b: Array) -> Array:
    return float_arithmetic.to_odd(*float_arithmetic.two_sum(a.astype(np.float64), b.astype(np.float64)))


def _difference(a: Array, b: Array) -> Array:
    return _sum(a, -b)


def _fma_wide(a: Array, b: Array, c: Array) -> Array:
    return float_arithmetic.to_odd(
        *float_arithmetic.two_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    )


_HALF_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": _sum,
    "sub": _difference,
    "mul": _wide(lambda a, b: a * b),
    "fma": _fma_wide,
}
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": float_arithmetic.add,
    "sub": lambda a, b, mode: float_arithmetic.add(a, -b, mode),
    "mul": float_arithmetic.multiply,
    "fma": float_arithmetic.fused,
}


def _arithmetic(name: str, count: int) -> Callable[[Modifiers], LaneComputation]:
    """Rule for add, sub, mul, fma."""

    def rule(modifiers: Modifiers) -> LaneComputation:
        mode = modifiers.one_of(_ROUND, "rn")
        flush, saturate, relu = modifiers.flag("ftz"), modifiers.flag("sat"), modifiers.flag("relu")
        kind = modifiers.type()
        if kind.name in _HALVES:
            return on_halves(kind, _HALF_FUNCTIONS[name], _finish(saturate, relu))
        require(kind.kind == "f", f".{kind.name} is not a supported float type")
        function = _FUNCTIONS[name]
        if mode == "rn" and name in _NUMPY:
            return same(kind, count, _around(kind, flush, saturate, _NUMPY[name]))
        return same(kind, count, _around(kind, flush, saturate, lambda *values: function(*values, mode)))

    return rule


_NUMPY: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _finish(saturate: bool, relu: bool) -> Callable[[Array], Array] | None:
    if saturate:
        return float_arithmetic.saturate
    return (lambda value: np.where(value < 0, value.dtype.type(0), value)) if relu else None


def _div(modifiers: Modifiers) -> LaneComputation:
    modifiers.drop(("approx", "full"))  # correct rounding is within their error bounds
    mode = modifiers.one_of(_ROUND, "rn")
    flush, kind = modifiers.flag("ftz"), modifiers.type()
    require(kind.name in ("f32", "f64"), f".{kind.name} is not a supported float type")
    return same(kind, 2, _around(kind, flush, False, lambda a, b: float_arithmetic.divide(a, b, mode)))


def _unary(function: Callable[..., Array], *, modes: bool = False) -> Callable[[Modifiers], LaneComputation]:
    """Rule for rcp, sqrt, sin, ...: computed in double precision unless a rounding mode is given."""

    def rule(modifiers: Modifiers) -> LaneComputation:
        modifiers.flag("approx")
        mode = modifiers.one_of(_ROUND, "rn") if modes else "rn"
        flush, kind = modifiers.flag("ftz"), modifiers.type()
        if kind.name in _HALVES:
            return on_halves(kind, lambda a: function(a.astype(np.float64)).astype(np.float32))
        if modes:
            return same(kind, 1, _around(kind, flush, False, lambda a: function(a, mode)))
        wide = np.float64
        return same(kind, 1, _around(kind, flush, False, lambda a: function(a.astype(wide)).astype(kind.dtype)))

    return rule


def _sign(
    function: Callable[[Array], Array], on_bits: Callable[[Array, Any], Array]
) -> Callable[[Modifiers], LaneComputation]:
    """Rule for neg and abs, which change only the sign bit, even of NaN."""

    def rule(modifiers: Modifiers) -> LaneComputation:
        flush, kind = modifiers.flag("ftz"), modifiers.type()
        if kind.name not in _HALVES:
            return same(kind, 1, _around(kind, flush, False, function))
        raw = TYPES[f"b{kind.bits}"]
        signs = np.array(0x80008000 & (2**kind.bits - 1)).astype(raw.dtype)[()]
        return same(raw, 1, lambda a: on_bits(a, signs))

    return rule


def _extreme(function: Callable[[Array, Array], Array]) -> Callable[[Modifiers], LaneComputation]:
    """Rule for min and max."""

    def rule(modifiers: Modifiers) -> LaneComputation:
        flush, nan, by_sign = modifiers.flag("ftz"), modifiers.flag("NaN"), modifiers.flag("xorsign")
        absolute, kind = modifiers.flag("abs"), modifiers.type()

        def two(a: Array, b: Array) -> Array:
            x, y = (np.abs(a), np.abs(b)) if absolute else (a, b)
            value = float_arithmetic.strict(function, x, y) if nan else function(x, y)
            return np.where(np.signbit(a) ^ np.signbit(b), -value, value) if by_sign else value

        if kind.name in _HALVES:
            return on_halves(kind, two)
        return same(kind, 2, _around(kind, flush, False, two))

    return rule


def _copysign(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return same(kind, 2, lambda sign, size: np.copysign(size, sign))


def _subnormal(a: Array) -> Array:
    return (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)


_TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (a != 0) & ~_subnormal(a),
    "subnormal": _subnormal,
}


def _testp(modifiers: Modifiers) -> LaneComputation:
    test = modifiers.one_of(tuple(_TESTS))
    require(bool(test), "it has no supported test")
    return LaneComputation((PREDICATE,), (modifiers.type(),), _TESTS[test])


def _reciprocal(a: Array, mode: str) -> Array:
    return float_arithmetic.divide(np.ones_like(a), a, mode)


def _square_root_reciprocal(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


RULES = {
    "add": _arithmetic("add", 2),
    "sub": _arithmetic("sub", 2),
    "mul": _arithmetic("mul", 2),
    "fma": _arithmetic("fma", 3),
    "mad": _arithmetic("fma", 3),
    "div": _div,
    "rcp": _unary(_reciprocal, modes=True),
    "sqrt": _unary(float_arithmetic.square_root, modes=True),
    "rsqrt": _unary(_square_root_reciprocal),
    "sin": _unary(np.sin),
    "cos": _unary(np.cos),
    "ex2": _unary(np.exp2),
    "lg2": _unary(np.log2),
    "tanh": _unary(np.tanh),
    "neg": _sign(np.negative, lambda bits, signs: bits ^ signs),
    "abs": _sign(np.abs, lambda bits, signs: bits & ~signs),
    "min": _extreme(float_arithmetic.lesser),
    "max": _extreme(float_arithmetic.greater),
    "copysign": _copysign,
    "testp": _testp,
}
"""Instruction name to the rule that reads its modifiers."""

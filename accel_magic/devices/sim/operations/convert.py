"""Conversions between number types: cvt (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim import float_arithmetic
from accel_magic.devices.sim.instruction_compiler import LaneComputation, Modifiers, require
from accel_magic.devices.sim.types import TYPES, UNSIGNED, PtxType

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.types import Array

_WHOLE: dict[str, Callable[[Array], Array]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLOAT_MODES = (*float_arithmetic.MODES, "rna")
_EIGHTS = ("e4m3x2", "e5m2x2")


def _is_float(kind: PtxType) -> bool:
    return kind.kind in "fx"


def widen(kind: PtxType, value: Array) -> Array:
    """Convert any float to float64."""
    if kind.name == "bf16":
        return float_arithmetic.widen_bf16(value).astype(np.float64)
    if kind.name == "tf32":
        return np.asarray(value).view(np.float32).astype(np.float64)
    return np.asarray(value).astype(np.float64)


def _limits(kind: PtxType) -> tuple[int, int]:
    info: Any = np.iinfo(kind.dtype)
    return int(info.min), int(info.max)


def _between_integers(source: PtxType, target: PtxType, saturate: bool) -> Callable[[Array], Array]:
    if not saturate:
        return lambda a: np.asarray(a).astype(target.dtype)
    (low, high), (least, most) = _limits(source), _limits(target)
    bounds = source.dtype(max(low, least)), source.dtype(min(high, most))
    return lambda a: np.clip(a, *bounds).astype(target.dtype)


def to_integer(source: PtxType, target: PtxType, mode: str, flush: bool) -> Callable[[Array], Array]:
    """Round to an integer and clamp; NaN gives 0, or only the top bit if either type has 64 bits."""
    least, most = _limits(target)
    sixty_four = source.name == "f64" or target.size == 8
    top = np.array(1 << target.bits - 1, np.uint64).astype(target.dtype)[()]
    nan = top if sixty_four else target.dtype(0)

    def convert(a: Array) -> Array:
        value = widen(source, float_arithmetic.flush(a) if flush else a)
        value = np.asarray(_WHOLE[mode](value))
        inside = (value >= float(least)) & (value < float(most + 1))
        safe = np.where(inside, value, 0.0).astype(target.dtype)
        clamped = np.where(value < 0, target.dtype(least), target.dtype(most))
        return np.where(np.isnan(value), nan, np.where(inside, safe, clamped))

    return convert


def from_integer(target: PtxType, mode: str) -> Callable[[Array], Array]:
    """Convert an integer to a float, rounded once."""

    def convert(a: Array) -> Array:
        a = np.asarray(a)
        low = (a & a.dtype.type(2 ** min(31, a.dtype.itemsize * 8 - 1) - 1)).astype(np.float64)
        upper = a.astype(np.float64) if a.dtype.itemsize < 8 else (a >> a.dtype.type(31)).astype(np.float64) * 2.0**31
        value, error = (upper, np.zeros_like(upper)) if a.dtype.itemsize < 8 else float_arithmetic.two_sum(upper, low)
        if target.name == "f64":
            return float_arithmetic.directed(value, error, mode)
        return _narrowed(target, mode)(float_arithmetic.to_odd(value, error))

    return convert


def _narrowed(target: PtxType, mode: str) -> Callable[[Array], Array]:
    """Return the conversion from float64 (exact, or rounded to odd) to a narrower float."""
    if target.name == "tf32":
        return lambda a: float_arithmetic.to_tf32(a.astype(np.float32), mode)
    if target.name == "bf16":
        if mode == "rz":
            return lambda a: float_arithmetic.to_bf16(float_arithmetic.narrow(a, np.float32, "rz"), "rz")
        return float_arithmetic.narrow_wide_to_bf16
    return lambda a: float_arithmetic.narrow(a, target.dtype, mode)


def _finite(target: PtxType) -> Callable[[Array], Array]:
    """Clamp float64 to the target's finite range: `.satfinite`."""
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38}.get(target.name, float(np.finfo(np.float32).max))
    return lambda a: np.clip(a, -largest, largest)


def _float_to_float(source: PtxType, target: PtxType, mode: str, modifiers: Modifiers) -> Callable[[Array], Array]:
    flush, saturate = modifiers.flag("ftz"), modifiers.flag("sat")
    relu, finite = modifiers.flag("relu"), modifiers.flag("satfinite")
    steps: list[Callable[[Array], Array]] = []
    if flush and source.name == "f32":
        steps.append(float_arithmetic.flush)
    steps.append(lambda a: widen(source, a))
    if mode in _WHOLE:
        steps.append(_WHOLE[mode])
    if saturate:
        steps.append(float_arithmetic.saturate)
    if relu:
        steps.append(lambda a: np.where(a < 0, 0.0, a))
    if finite:
        steps.append(_finite(target))
    steps.append(_narrowed(target, mode if mode in _FLOAT_MODES else "rn"))
    if flush and target.name == "f32":
        steps.append(float_arithmetic.flush)

    def convert(a: Array) -> Array:
        for step in steps:
            a = step(a)
        return a

    return convert


def _pairs(source: PtxType, target: PtxType, mode: str, modifiers: Modifiers) -> LaneComputation:
    """Pack two f32, the first operand in the upper half; or convert a pair of 8-bit floats to a pair of f16."""
    if source.name in _EIGHTS:
        relu = modifiers.flag("relu")
        return LaneComputation((target,), (source,), lambda a: _eights_to_halves(source.name[:4], a, relu))
    one = _half_of(source, target, mode, modifiers)
    if source.name == "f16x2":
        return LaneComputation((target,), (source,), lambda a: one(_halves(a)).view(np.uint16)[..., 0])
    half, whole = UNSIGNED[target.size // 2], UNSIGNED[target.size]

    def pack(upper: Array, lower: Array) -> Array:
        high, low = (np.asarray(one(x)).view(half).astype(whole) for x in (upper, lower))
        return high << whole(target.bits // 2) | low

    return LaneComputation((target,), (source, source), pack)


def _half_of(source: PtxType, target: PtxType, mode: str, modifiers: Modifiers) -> Callable[[Array], Array]:
    """Return the conversion from float32 to one half of a pack."""
    element = target.name[:-2]
    if target.name not in _EIGHTS:
        return _float_to_float(source, TYPES[element], mode, modifiers)
    modifiers.drop(("satfinite",))
    relu = modifiers.flag("relu")
    return lambda a: float_arithmetic.to_eight(element, np.where(a < 0, np.float32(0), a) if relu else a)


def _halves(bits: Array) -> Array:
    return np.ascontiguousarray(np.asarray(bits)[..., None]).view(np.float16).astype(np.float32)


def _eights_to_halves(name: str, bits: Array, relu: bool) -> Array:
    value = float_arithmetic.from_eight(name, np.ascontiguousarray(np.asarray(bits)[..., None]).view(np.uint8))
    value = np.where(value < 0, np.float32(0), value) if relu else value
    result: Array = np.ascontiguousarray(value.astype(np.float16)).view(np.uint32)[..., 0]
    return result


def _pack(modifiers: Modifiers) -> LaneComputation:
    """Build cvt.pack.sat: two clamped s32 in the low bits of the result, above them the low bits of a third operand."""
    modifiers.flag("sat")
    last = modifiers.type()
    rest = [part for part in modifiers.left if part in TYPES]
    source, target = (modifiers.type(), modifiers.type()) if len(rest) == 2 else (last, modifiers.type())
    least, most = _limits(target)
    u32 = TYPES["u32"]
    mask, width = np.uint32(2**target.bits - 1), np.uint32(target.bits)

    def pack(a: Array, b: Array, *c: Array) -> Array:
        high, low = (np.clip(x, least, most).astype(np.int64).astype(np.uint32) & mask for x in (a, b))
        pair = high << width | low
        return (c[0] << np.uint32(2 * target.bits) | pair) if c else pair

    return LaneComputation((u32,), (source, source, u32) if len(rest) == 2 else (source, source), pack)


def _cvt(modifiers: Modifiers) -> LaneComputation:
    if modifiers.flag("pack"):
        return _pack(modifiers)
    mode = modifiers.one_of((*_WHOLE, *_FLOAT_MODES))
    source, target = modifiers.type(), modifiers.type()
    if target.name.endswith("x2"):
        return _pairs(source, target, mode, modifiers)
    if _is_float(source) and _is_float(target):
        return LaneComputation((target,), (source,), _float_to_float(source, target, mode, modifiers))
    if _is_float(source):
        flush = modifiers.flag("ftz") and source.name == "f32"
        modifiers.flag("sat")
        require(mode in _WHOLE, "converting a float to an integer requires .rni, .rzi, .rmi or .rpi")
        return LaneComputation((target,), (source,), to_integer(source, target, mode, flush))
    if _is_float(target):
        saturate = modifiers.flag("sat")
        modifiers.flag("ftz")
        convert = from_integer(target, mode or "rn")
        return LaneComputation(
            (target,), (source,), (lambda a: float_arithmetic.saturate(convert(a))) if saturate else convert
        )
    return LaneComputation((target,), (source,), _between_integers(source, target, modifiers.flag("sat")))


RULES = {"cvt": _cvt}
"""Instruction name to the rule that reads its modifiers."""

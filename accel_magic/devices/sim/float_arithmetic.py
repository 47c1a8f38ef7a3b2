"""Float arithmetic that numpy lacks: fused multiply-add rounded once, directed rounding, flushing, saturation.

All functions take arrays or numpy scalars of one float type and return arrays of it. Sums and products are kept exact
as pairs (rounded value, error). An inexact value that is rounded to odd (its last bit set) can be rounded again to a
narrower type, in any mode, without double rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from accel_magic.devices.sim.types import Array


MODES = ("rn", "rz", "rm", "rp")
"""To nearest even, toward zero, down, up."""
_SPLIT = float(2**27 + 1)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Sum of two float64 and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Product of two float64 and its rounding error (Dekker); invalid near overflow or underflow."""
    p = a * b
    ta, tb = a * _SPLIT, b * _SPLIT
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(value: Array, error: Array) -> Array:
    """Round value + error to odd: if inexact, to the neighboring float64 whose last bit is 1."""
    value = np.asarray(value, np.float64)
    move = (error != 0) & np.isfinite(value) & ((value.view(np.uint64) & np.uint64(1)) == 0)
    if not move.any():
        return value
    return np.where(move, np.nextafter(value, np.where(error > 0, np.inf, -np.inf)), value)


def directed(value: Array, error: Array, mode: str) -> Array:
    """Convert a sum rounded to nearest, with known error, to the sum rounded in `mode`."""
    if mode == "rn":
        return value
    up = {"rp": error > 0, "rm": np.zeros_like(error, bool), "rz": (error > 0) & (value < 0)}[mode]
    down = {"rm": error < 0, "rp": np.zeros_like(error, bool), "rz": (error < 0) & (value > 0)}[mode]
    requested = np.where(up, np.inf, np.where(down, -np.inf, value)).astype(value.dtype)
    return np.where((up | down) & np.isfinite(value), np.nextafter(value, requested), value).astype(value.dtype)


def narrow(value: Array, dtype: Any, mode: str = "rn") -> Array:
    """Round float64 to `dtype` in a mode.

    A value out of range becomes infinity or the largest finite number, depending on the mode.
    """
    value = np.asarray(value, np.float64)
    rounded = value.astype(dtype)
    if mode == "rn":
        return rounded
    back = rounded.astype(np.float64)
    low = (back > value) & (mode == "rm" if mode != "rz" else value > 0)
    high = (back < value) & (mode == "rp" if mode != "rz" else value < 0)
    inf = np.asarray(np.inf, dtype)
    rounded = np.where(low, np.nextafter(rounded, -inf), rounded)
    return np.where(high, np.nextafter(rounded, inf), rounded)


def add(a: Array, b: Array, mode: str = "rn") -> Array:
    """Sum."""
    if mode == "rn":
        return a + b
    if a.dtype != np.float64:
        return _signed_zero(
            narrow(to_odd(*two_sum(a.astype(np.float64), b.astype(np.float64))), a.dtype, mode), a, b, mode
        )
    value, error = two_sum(a, b)
    over = np.isinf(value) & np.isfinite(a) & np.isfinite(b)
    away = value > 0 if mode == "rp" else value < 0 if mode == "rm" else False
    largest = np.copysign(np.finfo(np.float64).max, value)
    value = np.where(over & ~np.asarray(away), largest, value)
    return _signed_zero(directed(value, np.where(over | ~np.isfinite(value), 0.0, error), mode), a, b, mode)


def _signed_zero(total: Array, a: Array, b: Array, mode: str) -> Array:
    """Set the sign of a zero sum of opposite numbers: -0 when rounding down."""
    if mode != "rm":
        return total
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), np.asarray(-0.0, a.dtype), total)


def multiply(a: Array, b: Array, mode: str = "rn") -> Array:
    """Product."""
    if mode == "rn":
        return a * b
    if a.dtype != np.float64:
        return narrow(a.astype(np.float64) * b.astype(np.float64), a.dtype, mode)
    return _each(lambda x, y: Fraction(x) * Fraction(y), mode, a * b, a, b)


def divide(a: Array, b: Array, mode: str = "rn") -> Array:
    """Quotient."""
    if mode == "rn":
        return a / b
    return _each(lambda x, y: Fraction(x) / Fraction(y), mode, np.asarray(a / b), a, b)


def square_root(a: Array, mode: str = "rn") -> Array:
    """Square root."""
    value = np.sqrt(a)
    if mode == "rn":
        return value
    # The sign of the remainder decides; scaling by powers of four keeps the square from overflowing.
    half = np.frexp(a.astype(np.float64))[1] // 2
    root, square = np.ldexp(value.astype(np.float64), -half), np.ldexp(a.astype(np.float64), -2 * half)
    wide, error = two_product(root, root)
    return directed(value, np.where(np.isfinite(value), (square - wide) - error, 0.0), mode)


def fused(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """Product plus a third number, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype != np.float64:
        wide = to_odd(*two_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)))
        return narrow(wide, a.dtype, mode)
    return _fused64(a, b, c, mode)


def _fused64(a: Array, b: Array, c: Array, mode: str) -> Array:
    high, low = two_product(a, b)
    middle, rest = two_sum(c, low)
    value, error = two_sum(high, middle)
    odd = to_odd(*two_sum(rest, error))
    total = value + odd
    size = np.abs(np.stack([a, b, high, c]))
    plain = ((size < 1e290) & ((size > 1e-140) | (size == 0))).all(0)
    if mode == "rn" and plain.all():
        return total
    exact = np.ones_like(plain) if mode != "rn" else ~plain
    where = np.flatnonzero(exact)
    result = np.where(np.isfinite(total), total, a * b + c)
    result[where] = _each(
        lambda x, y, z: Fraction(x) * Fraction(y) + Fraction(z), mode, (a * b + c)[where], a[where], b[where], c[where]
    )
    return result


def _each(exact: Any, mode: str, plain: Array, *values: Array) -> Array:
    """Compute lanes one by one with fractions; lanes without a finite exact result keep the plain one."""
    plain, *spread = np.broadcast_arrays(plain, *values)
    result = np.array(plain)
    for at in range(result.size):
        lane = [float(value[at]) for value in spread]
        if not all(map(math.isfinite, lane)) or math.isnan(result[at]) or (math.isinf(result[at]) and lane[-1] == 0):
            continue
        result[at] = _round(exact(*lane), result[at], mode)
    return result


def _round(exact: Fraction, plain: Any, mode: str) -> Any:
    """Round a fraction to the type of `plain`; an exact zero keeps the sign of `plain`."""
    dtype = type(plain)
    if exact == 0:
        return plain
    near = _nearest(exact, dtype)
    inf = dtype(math.inf)
    above = (math.isinf(near) and near > 0) or (math.isfinite(near) and Fraction(float(near)) > exact)
    below = (math.isinf(near) and near < 0) or (math.isfinite(near) and Fraction(float(near)) < exact)
    if above and (mode == "rm" or (mode == "rz" and exact > 0)):
        return np.nextafter(near, -inf)
    if below and (mode == "rp" or (mode == "rz" and exact < 0)):
        return np.nextafter(near, inf)
    return near


def _nearest(exact: Fraction, dtype: Any) -> Any:
    """Round a fraction to nearest even, once."""
    try:
        wide = exact.numerator / exact.denominator  # Python divides integers with one rounding
    except OverflowError:
        return dtype(math.inf if exact > 0 else -math.inf)
    if dtype is np.float64:
        return dtype(wide)
    error = 0.0 if math.isinf(wide) else float((exact > Fraction(wide)) - (exact < Fraction(wide)))
    return to_odd(np.asarray(wide), np.asarray(error)).astype(dtype)[()]


def flush(a: Array) -> Array:
    """Replace subnormal float32 by zeros of the same sign: `.ftz`."""
    tiny = np.abs(a) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), a), a) if np.any(tiny) else a


def saturate(a: Array) -> Array:
    """Clamp to [0, 1] and replace NaN by 0: `.sat`."""
    return np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0))


def lesser(a: Array, b: Array) -> Array:
    """Minimum: a number wins over NaN, -0 is less than +0."""
    both = np.where(np.signbit(a), a, b)
    return np.where(a == b, both, np.fmin(a, b))


def greater(a: Array, b: Array) -> Array:
    """Maximum: a number wins over NaN, +0 is greater than -0."""
    both = np.where(np.signbit(a), b, a)
    return np.where(a == b, both, np.fmax(a, b))


def strict(function: Any, a: Array, b: Array) -> Array:
    """Minimum or maximum in which NaN wins: `.NaN`."""
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), function(a, b))


@dataclass(frozen=True, slots=True)
class Eight:
    """An 8-bit float (OCP 8-bit Floating Point Specification, revision 1.0): its bits and its largest number."""

    exponent: int
    mantissa: int
    largest: float
    nan: int

    def table(self) -> Array:
        """All 256 values as float32."""
        codes = np.arange(256)
        bias = 2 ** (self.exponent - 1) - 1
        power = (codes >> self.mantissa) & (2**self.exponent - 1)
        part = (codes & (2**self.mantissa - 1)) / 2**self.mantissa
        value = np.where(power == 0, part * 2.0 ** (1 - bias), (1 + part) * 2.0 ** (power - bias))
        value = np.where(codes & 0x80, -value, value)
        return np.where(np.abs(value) <= self.largest, value, self._beyond(codes)).astype(np.float32)

    def _beyond(self, codes: Array) -> Array:
        infinite = (self.exponent == 5) & ((codes & 3) == 0)  # only e5m2 has infinities
        return np.where(infinite, np.where(codes & 0x80, -np.inf, np.inf), np.nan)


EIGHT: Final = MappingProxyType({"e4m3": Eight(4, 3, 448.0, 0x7F), "e5m2": Eight(5, 2, 57344.0, 0x7F)})


def widen_bf16(bits: Array) -> Array:
    """Convert bf16 bits (uint16) to float32."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _cut(value: Array, dropped: int, mode: str) -> Array:
    """Round off the low bits of float32: 'rn' nearest even, 'rna' nearest away, 'rz' toward zero. Returns the bits."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    half: Array = np.uint32((1 << dropped - 1) - 1)
    extra = {
        "rn": half + ((bits >> np.uint32(dropped)) & np.uint32(1)),
        "rna": half + np.uint32(1),
        "rz": np.uint32(0),
    }[mode]
    rounded = bits + extra
    quiet = np.uint32(0x7FFFFFFF)
    return np.where(np.isnan(value), quiet, rounded) >> np.uint32(dropped) << np.uint32(dropped)


def to_bf16(value: Array, mode: str = "rn") -> Array:
    """Convert float32 to bf16 bits (uint16)."""
    return (_cut(value, 16, mode) >> np.uint32(16)).astype(np.uint16)


def to_tf32(value: Array, mode: str = "rna") -> Array:
    """Convert float32 to tf32: float32 whose 13 low bits are zero, as uint32."""
    return _cut(value, 13, mode)


def narrow_wide_to_bf16(value: Array) -> Array:
    """Convert float64 that was rounded to odd to bf16 bits, through a float32 rounded to odd."""
    near = narrow(value, np.float32, "rz")
    bits = np.where(near.astype(np.float64) == value, near.view(np.uint32), near.view(np.uint32) | np.uint32(1))
    return to_bf16(np.where(np.isnan(value), np.float32(np.nan), bits.astype(np.uint32).view(np.float32)))


def from_eight(name: str, codes: Array) -> Array:
    """Convert 8-bit floats (uint8) to float32."""
    return EIGHT[name].table()[codes]


def to_eight(name: str, value: Array) -> Array:
    """Convert float32 to 8-bit floats (uint8), nearest even; too large values become the largest (`.satfinite`)."""
    form = EIGHT[name]
    size = np.minimum(np.abs(np.asarray(value, np.float64)), form.largest)
    lowest = 2 - 2 ** (form.exponent - 1)
    power = np.maximum(np.floor(np.log2(np.maximum(size, 1e-300))), lowest)
    steps = np.rint(size / 2.0 ** (power - form.mantissa)).astype(np.int64)
    base = ((power - lowest).astype(np.int64)) << form.mantissa
    codes = base + steps
    code = np.where(np.isnan(value), form.nan, np.minimum(codes, to_code(form)))
    return (code | np.where(np.signbit(value) & ~np.isnan(value), 0x80, 0)).astype(np.uint8)


def to_code(form: Eight) -> int:
    """Return the code of the largest number."""
    return int(np.flatnonzero(form.table() == np.float32(form.largest))[0])

"""Floats narrower than numpy's: bf16, tf32 and the two 8-bit ones, as bits.

Every one of them is a float32 with fewer bits, so widening is exact and narrowing is rounding of an integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu.simt import floats

if TYPE_CHECKING:
    from accel_magic.gpu.simt.types import Array


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
        infinite = (self.exponent == 5) & ((codes & 3) == 0)  # e5m2 alone has infinities
        return np.where(infinite, np.where(codes & 0x80, -np.inf, np.inf), np.nan)


EIGHT: Final = MappingProxyType({"e4m3": Eight(4, 3, 448.0, 0x7F), "e5m2": Eight(5, 2, 57344.0, 0x7F)})


def widen_bf16(bits: Array) -> Array:
    """bf16 bits (uint16) to float32."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _cut(value: Array, dropped: int, mode: str) -> Array:
    """Drop the low bits of float32, rounding: 'rn' nearest even, 'rna' nearest away, 'rz' towards zero. Bits back."""
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
    """float32 to bf16 bits (uint16)."""
    return (_cut(value, 16, mode) >> np.uint32(16)).astype(np.uint16)


def to_tf32(value: Array, mode: str = "rna") -> Array:
    """float32 to tf32: float32 whose 13 low bits are zero, as uint32."""
    return _cut(value, 13, mode)


def narrow_wide_to_bf16(value: Array) -> Array:
    """float64, rounded to odd before, to bf16 bits: through a float32 that is rounded to odd too."""
    near = floats.narrow(value, np.float32, "rz")
    bits = np.where(near.astype(np.float64) == value, near.view(np.uint32), near.view(np.uint32) | np.uint32(1))
    return to_bf16(np.where(np.isnan(value), np.float32(np.nan), bits.astype(np.uint32).view(np.float32)))


def from_eight(name: str, codes: Array) -> Array:
    """8-bit floats (uint8) to float32."""
    return EIGHT[name].table()[codes]


def to_eight(name: str, value: Array) -> Array:
    """float32 to 8-bit floats (uint8), nearest even, what is too large becomes the largest number (`.satfinite`)."""
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
    """Code of the largest number."""
    return int(np.flatnonzero(form.table() == np.float32(form.largest))[0])

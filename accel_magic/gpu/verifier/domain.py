"""Numbers that are only partly known: known bits, and ranges as signed and unsigned 64-bit and 32-bit values.

This is the abstraction of the kernel's verifier (tnum and ranges, kernel/bpf/verifier.c). Every function here is sound:
its result contains every value that the operation can give for values contained in its arguments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

M32: Final = (1 << 32) - 1
M64: Final = (1 << 64) - 1
_MASKS: Final = {8: 0xFF, 16: 0xFFFF, 32: M32, 64: M64}


class Range(NamedTuple):
    """Least and greatest value, as unsigned and as signed numbers."""

    umin: int
    umax: int
    smin: int
    smax: int


class Tnum(NamedTuple):
    """Known bits: the bits in `mask` are unknown, the others are those of `value`."""

    value: int
    mask: int


FULL: Final = {
    64: Range(0, M64, -(1 << 63), (1 << 63) - 1),
    32: Range(0, M32, -(1 << 31), (1 << 31) - 1),
}
"""All numbers, by width."""
ALL_BITS: Final = Tnum(0, M64)


class Scalar(NamedTuple):
    """A 64-bit number: its bits, its range, and the range of its lower half."""

    bits: Tnum
    wide: Range
    half: Range

    @property
    def known(self) -> bool:
        """Whether it is a constant."""
        return not self.bits.mask

    @property
    def value(self) -> int:
        """That constant, unsigned."""
        return self.bits.value


def signed(value: int, width: int = 64) -> int:
    """Interpret the lowest bits of a number as signed."""
    value &= _MASKS[width]
    return value - (1 << width) if value >> (width - 1) else value


@lru_cache(maxsize=4096)
def constant(value: int) -> Scalar:
    """Return a constant: any Python integer, modulo 2**64."""
    value &= M64
    low = value & M32
    wide, half = signed(value), signed(low, 32)
    return Scalar(Tnum(value, 0), Range(value, value, wide, wide), Range(low, low, half, half))


UNKNOWN: Final = Scalar(ALL_BITS, FULL[64], FULL[32])


@lru_cache(maxsize=64)
def unsigned_below(size: int) -> Scalar:
    """Return any number of that many bytes, zero-extended: the result of a load."""
    limit = (1 << 8 * size) - 1
    found = settle(Tnum(0, limit), Range(0, limit, *FULL[64][2:]), FULL[32])
    return found or UNKNOWN


def settle(bits: Tnum, wide: Range, half: Range) -> Scalar | None:
    """Refine bits and ranges by each other; None if no number fits them all."""
    for _ in range(2):
        tight = _tighten(bits, wide, 64)
        low = _tighten(Tnum(bits.value & M32, bits.mask & M32), half, 32)
        if tight is None or low is None:
            return None
        wide, half = _cross(tight, low)
        if wide.umin > wide.umax or wide.smin > wide.smax or half.umin > half.umax or half.smin > half.smax:
            return None
        met = meet_bits(bits, bits_of_range(wide.umin, wide.umax))
        low_bits = bits_of_range(half.umin, half.umax)
        met = met and meet_bits(met, Tnum(low_bits.value, low_bits.mask | M64 ^ M32))
        if met is None:
            return None
        if met == bits and wide == tight and half == low:
            break
        bits = met
    if not bits.mask:
        number = constant(bits.value)
        return number if _holds(wide, number.wide) and _holds(half, number.half) else None
    return Scalar(bits, wide, half)


def _holds(outer: Range, inner: Range) -> bool:
    return (
        outer.umin <= inner.umin and inner.umax <= outer.umax and outer.smin <= inner.smin and inner.smax <= outer.smax
    )


def _tighten(bits: Tnum, known: Range, width: int) -> Range | None:
    """Refine a range by its bits, and its signed and unsigned bounds by each other."""
    umin, umax, smin, smax = known
    value, mask = bits
    top = 1 << (width - 1)
    full = (top << 1) - 1
    umin = max(umin, value)
    umax = min(umax, value | mask)
    smin = max(smin, ((value | (mask & top)) ^ top) - top)
    smax = min(smax, ((value | (mask & ~top)) ^ top) - top)
    for _ in range(2):
        if umin > umax or smin > smax:
            return None
        if umin >> (width - 1) == umax >> (width - 1):
            smin = max(smin, (umin ^ top) - top)
            smax = min(smax, (umax ^ top) - top)
        elif smin < 0 <= smax < umin:  # only negative numbers are in both
            smax = -1
        elif smin < 0 <= smax and umax < smin & full:  # no negative number is in both
            smin = 0
        if smin >= 0 or smax < 0:
            umin = max(umin, smin & full)
            umax = min(umax, smax & full)
    if umin > umax or smin > smax:
        return None
    return Range(umin, umax, smin, smax)


def _cross(wide: Range, half: Range) -> tuple[Range, Range]:
    """Refine the range of a number and the range of its lower half by each other."""
    umin, umax, smin, smax = wide
    low_umin, low_umax, low_smin, low_smax = half
    if umin >> 32 == umax >> 32:
        low_umin, low_umax = max(low_umin, umin & M32), min(low_umax, umax & M32)
    if smin >> 32 == smax >> 32:
        low_umin, low_umax = max(low_umin, smin & M32), min(low_umax, smax & M32)
    if smin >= -(1 << 31) and smax < 1 << 31:
        # The number is its sign-extended lower half.
        low_smin, low_smax = max(low_smin, smin), min(low_smax, smax)
        smin, smax = max(smin, low_smin), min(smax, low_smax)
    umin, umax = max(umin, umin & ~M32 | low_umin), min(umax, umax & ~M32 | low_umax)
    smin, smax = max(smin, smin & ~M32 | low_umin), min(smax, smax & ~M32 | low_umax)
    return Range(umin, umax, smin, smax), Range(low_umin, low_umax, low_smin, low_smax)


def bits_of_range(low: int, high: int) -> Tnum:
    """Bits that all unsigned numbers in a range have in common."""
    differing = (1 << (low ^ high).bit_length()) - 1
    return Tnum(low & ~differing, differing)


def meet_bits(one: Tnum, other: Tnum) -> Tnum | None:
    """Bits of the numbers that fit both; None if they contradict each other."""
    if (one.value ^ other.value) & ~one.mask & ~other.mask:
        return None
    mask = one.mask & other.mask
    return Tnum((one.value | other.value) & ~mask, mask)


def meet(one: Scalar, other: Scalar) -> Scalar | None:
    """Numbers contained in both; None if there are none."""
    bits = meet_bits(one.bits, other.bits)
    if bits is None:
        return None
    return settle(bits, _meet_ranges(one.wide, other.wide), _meet_ranges(one.half, other.half))


def _meet_ranges(one: Range, other: Range) -> Range:
    return Range(
        max(one.umin, other.umin), min(one.umax, other.umax), max(one.smin, other.smin), min(one.smax, other.smax)
    )


def join(one: Scalar, other: Scalar) -> Scalar:
    """Numbers contained in either, and as few others as possible."""
    if one == other:
        return one
    mask = one.bits.mask | other.bits.mask | (one.bits.value ^ other.bits.value)
    bits = Tnum(one.bits.value & ~mask, mask)
    return Scalar(bits, _join_ranges(one.wide, other.wide), _join_ranges(one.half, other.half))


def _join_ranges(one: Range, other: Range) -> Range:
    return Range(
        min(one.umin, other.umin), max(one.umax, other.umax), min(one.smin, other.smin), max(one.smax, other.smax)
    )


def widen(old: Scalar, new: Scalar) -> Scalar:
    """Join, but set every bound that moved to its extreme, so that repeating it converges after a few steps."""
    if old == new:
        return old
    moved = old.bits.mask | new.bits.mask | (old.bits.value ^ new.bits.value)
    lowest = moved & -moved
    mask = M64 & ~(lowest - 1) if moved != old.bits.mask else moved
    found = settle(
        Tnum(old.bits.value & ~mask, mask), _widen_range(old.wide, new.wide, 64), _widen_range(old.half, new.half, 32)
    )
    return found or UNKNOWN


def _widen_range(old: Range, new: Range, width: int) -> Range:
    full = FULL[width]
    return Range(
        old.umin if old.umin <= new.umin else full.umin,
        old.umax if old.umax >= new.umax else full.umax,
        old.smin if old.smin <= new.smin else full.smin,
        old.smax if old.smax >= new.smax else full.smax,
    )


def includes(outer: Scalar, inner: Scalar) -> bool:
    """Whether the outer one contains every number of the inner one, as far as bits and ranges show it."""
    if outer is inner or outer is UNKNOWN:
        return True
    unknown = outer.bits.mask
    if (inner.bits.mask & ~unknown) or (inner.bits.value ^ outer.bits.value) & ~unknown:
        return False
    return _holds(outer.wide, inner.wide) and _holds(outer.half, inner.half)


def zero_extended(number: Scalar) -> Scalar:
    """Zero-extend the lower 32 bits."""
    if number.wide.umax <= M32:
        return number
    bits = Tnum(number.bits.value & M32, number.bits.mask & M32)
    return settle(bits, Range(number.half.umin, number.half.umax, 0, M32), number.half) or UNKNOWN


def truncated(number: Scalar, size: int) -> Scalar:
    """Zero-extend the lowest bytes, as storing and loading them does."""
    if size == 8:
        return number
    if size == 4:
        return zero_extended(number)
    limit = _MASKS[8 * size]
    if number.wide.umax <= limit:
        return number
    bits = Tnum(number.bits.value & limit, number.bits.mask & limit)
    return settle(bits, Range(0, limit, 0, limit), FULL[32]) or UNKNOWN


def sign_extended(number: Scalar, width: int) -> Scalar:
    """Sign-extend the lowest 8, 16 or 32 bits."""
    limit = 1 << (width - 1)
    if number.wide.smin >= -limit and number.wide.smax < limit:
        return number
    value, mask = number.bits.value & _MASKS[width], number.bits.mask & _MASKS[width]
    above = M64 ^ _MASKS[width]
    if mask & limit:
        mask |= above
    elif value & limit:
        value |= above
    low, high = -limit, limit - 1
    if width == 32 or (number.half.smin >= -limit and number.half.smax < limit):
        low, high = number.half.smin, number.half.smax
    return settle(Tnum(value, mask), Range(0, M64, low, high), FULL[32]) or UNKNOWN

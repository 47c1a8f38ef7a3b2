"""Arithmetic on numbers that are only partly known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.isa import Alu
from accel_magic.gpu.verifier.domain import (
    ALL_BITS,
    FULL,
    M32,
    M64,
    UNKNOWN,
    Range,
    Scalar,
    Tnum,
    constant,
    settle,
    sign_extended,
    signed,
    truncated,
    zero_extended,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Bits = Callable[[int, Tnum, Tnum], Tnum]
    Ranges = Callable[[int, Range, Range], Range]
    Divide = Callable[[int, Range, Range], tuple[int, int]]


def compute(operation: int, width: int, left: Scalar, right: Scalar, *, variant: int = 0) -> Scalar:
    """Return the result of an `Alu` operation other than MOV and END.

    Args:
        operation: An `Alu`. NEG takes its operand as `left`.
        width: 64, or 32 for arithmetic on the lower half, which clears the upper half.
        left: The destination's old value.
        right: The other operand.
        variant: The instruction's offset: 1 for signed division and remainder.

    """
    if left.known and right.known:
        return constant(_EXACT[operation](width, left.value, right.value, variant))
    if (operation, variant) in _DIVISIONS:
        return _divided(width, left, right, *_DIVISIONS[operation, variant])
    if operation == Alu.NEG:
        operation, left, right = Alu.SUB, constant(0), left
    bits, ranges, from_below = _ABSTRACT[operation]
    mask = M64 if width == 64 else M32
    if width == 32:
        left, right = zero_extended(left), zero_extended(right)
        found = _masked(bits(32, left.bits, right.bits), mask)
        half = ranges(32, left.half, right.half)
        return settle(found, Range(half.umin, half.umax, 0, M32), half) or UNKNOWN
    found = _masked(bits(64, left.bits, right.bits), mask)
    half = ranges(32, left.half, right.half) if from_below else FULL[32]
    return settle(found, ranges(64, left.wide, right.wide), half) or UNKNOWN


def moved(width: int, number: Scalar, extend: int) -> Scalar:
    """Return the result of a 64-bit or 32-bit MOV; unless `extend` is 0, it sign-extends the lowest `extend` bits."""
    if extend:
        number = sign_extended(number, extend)
    return number if width == 64 else zero_extended(number)


def swapped(number: Scalar, width: int, *, swap: bool) -> Scalar:
    """Return the result of END: the lowest 16, 32 or 64 bits, with their bytes reversed if `swap`."""
    size = width // 8
    number = truncated(number, size)
    if not swap:
        return number
    value = int.from_bytes(number.bits.value.to_bytes(size, "little"), "big")
    mask = int.from_bytes(number.bits.mask.to_bytes(size, "little"), "big")
    return settle(Tnum(value, mask), FULL[64], FULL[32]) or UNKNOWN


def _masked(bits: Tnum, mask: int) -> Tnum:
    return Tnum(bits.value & mask, bits.mask & mask)


def _exact_divide(width: int, left: int, right: int, variant: int) -> int:
    if not right:
        return 0
    if not variant:
        return left // right
    left, right = signed(left, width), signed(right, width)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _exact_remainder(width: int, left: int, right: int, variant: int) -> int:
    if not right:
        return left
    if not variant:
        return left % right
    left, right = signed(left, width), signed(right, width)
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _exactly(function: Callable[[int, int, int, int], int]) -> Callable[[int, int, int, int], int]:
    """Truncate the operands and the result to the operation's width."""

    def compute_(width: int, left: int, right: int, variant: int) -> int:
        mask = M64 if width == 64 else M32
        return function(width, left & mask, right & mask, variant) & mask

    return compute_


_EXACT: Final[Mapping[int, Callable[[int, int, int, int], int]]] = {
    operation: _exactly(function)
    for operation, function in {
        Alu.ADD: lambda _width, left, right, _variant: left + right,
        Alu.SUB: lambda _width, left, right, _variant: left - right,
        Alu.MUL: lambda _width, left, right, _variant: left * right,
        Alu.DIV: _exact_divide,
        Alu.OR: lambda _width, left, right, _variant: left | right,
        Alu.AND: lambda _width, left, right, _variant: left & right,
        Alu.LSH: lambda width, left, right, _variant: left << (right & (width - 1)),
        Alu.RSH: lambda width, left, right, _variant: left >> (right & (width - 1)),
        Alu.NEG: lambda _width, left, _right, _variant: -left,
        Alu.MOD: _exact_remainder,
        Alu.XOR: lambda _width, left, right, _variant: left ^ right,
        Alu.ARSH: lambda width, left, right, _variant: signed(left, width) >> (right & (width - 1)),
    }.items()
}


def _add_bits(_width: int, left: Tnum, right: Tnum) -> Tnum:
    total = left.value + right.value
    mask = left.mask | right.mask | ((total + left.mask + right.mask) ^ total)
    return Tnum(total & ~mask, mask)


def _sub_bits(_width: int, left: Tnum, right: Tnum) -> Tnum:
    difference = left.value - right.value
    mask = left.mask | right.mask | ((difference + left.mask) ^ (difference - right.mask))
    return Tnum(difference & ~mask, mask)


def _mul_bits(width: int, left: Tnum, right: Tnum) -> Tnum:
    """Know the low zero bits, and all bits if one factor is a known power of two."""
    for one, other in ((left, right), (right, left)):
        if not one.mask and one.value and not one.value & (one.value - 1):
            return Tnum(other.value * one.value, other.mask * one.value)
    zeros = _low_zeros(left, width) + _low_zeros(right, width)
    return Tnum(0, M64 << zeros if zeros < 64 else 0)


def _low_zeros(bits: Tnum, width: int) -> int:
    possible = bits.value | bits.mask
    return (possible & -possible).bit_length() - 1 if possible else width


def _and_bits(_width: int, left: Tnum, right: Tnum) -> Tnum:
    value = left.value & right.value
    return Tnum(value, (left.value | left.mask) & (right.value | right.mask) & ~value)


def _or_bits(_width: int, left: Tnum, right: Tnum) -> Tnum:
    value = left.value | right.value
    return Tnum(value, (left.mask | right.mask) & ~value)


def _xor_bits(_width: int, left: Tnum, right: Tnum) -> Tnum:
    mask = left.mask | right.mask
    return Tnum((left.value ^ right.value) & ~mask, mask)


def _lsh_bits(width: int, left: Tnum, right: Tnum) -> Tnum:
    if right.mask & (width - 1):
        return ALL_BITS
    by = right.value & (width - 1)
    return Tnum(left.value << by, left.mask << by)


def _rsh_bits(width: int, left: Tnum, right: Tnum) -> Tnum:
    if right.mask & (width - 1):
        return ALL_BITS
    by = right.value & (width - 1)
    return Tnum(left.value >> by, left.mask >> by)


def _arsh_bits(width: int, left: Tnum, right: Tnum) -> Tnum:
    if right.mask & (width - 1):
        return ALL_BITS
    by = right.value & (width - 1)
    return Tnum(signed(left.value, width) >> by, signed(left.mask, width) >> by)


def _add_range(width: int, left: Range, right: Range) -> Range:
    return _wrapped(
        width, left.umin + right.umin, left.umax + right.umax, left.smin + right.smin, left.smax + right.smax
    )


def _sub_range(width: int, left: Range, right: Range) -> Range:
    return _wrapped(
        width, left.umin - right.umax, left.umax - right.umin, left.smin - right.smax, left.smax - right.smin
    )


def _mul_range(width: int, left: Range, right: Range) -> Range:
    corners = [one * other for one in (left.smin, left.smax) for other in (right.smin, right.smax)]
    return _wrapped(width, left.umin * right.umin, left.umax * right.umax, min(corners), max(corners))


def _wrapped(width: int, umin: int, umax: int, smin: int, smax: int) -> Range:
    """Wrap a range of integers to a width; the bounds are known only if all of it wraps the same number of times."""
    full = FULL[width]
    turns = umin >> width
    if turns == umax >> width:
        umin, umax = umin - (turns << width), umax - (turns << width)
    else:
        umin, umax = full.umin, full.umax
    top = 1 << (width - 1)
    turns = (smin + top) >> width
    if turns == (smax + top) >> width:
        smin, smax = smin - (turns << width), smax - (turns << width)
    else:
        smin, smax = full.smin, full.smax
    return Range(umin, umax, smin, smax)


def _and_range(width: int, left: Range, right: Range) -> Range:
    full = FULL[width]
    smin = full.smin if left.smin < 0 and right.smin < 0 else 0
    return Range(0, min(left.umax, right.umax), smin, full.smax)


def _or_range(width: int, left: Range, right: Range) -> Range:
    full = FULL[width]
    return Range(max(left.umin, right.umin), full.umax, full.smin, full.smax)


def _xor_range(width: int, _left: Range, _right: Range) -> Range:
    return FULL[width]


def _shifts(width: int, by: Range) -> tuple[int, int] | None:
    """Least and greatest shift distance; None if it may reach the width, because it counts modulo the width."""
    return (by.umin, by.umax) if by.umax < width else None


def _lsh_range(width: int, left: Range, right: Range) -> Range:
    distance = _shifts(width, right)
    if distance is None:
        return FULL[width]
    least, most = distance
    corners = [number << by for number in (left.smin, left.smax) for by in distance]
    return _wrapped_shift(width, Range(left.umin << least, left.umax << most, min(corners), max(corners)))


def _wrapped_shift(width: int, found: Range) -> Range:
    """Keep the bounds of a shifted range only if no bits are shifted out."""
    full = FULL[width]
    unsigned = (found.umin, found.umax) if found.umax <= full.umax else (full.umin, full.umax)
    fits = full.smin <= found.smin and found.smax <= full.smax
    return Range(*unsigned, *((found.smin, found.smax) if fits else (full.smin, full.smax)))


def _rsh_range(width: int, left: Range, right: Range) -> Range:
    distance = _shifts(width, right)
    full = FULL[width]
    if distance is None:
        return Range(0, left.umax, full.smin, full.smax)
    return Range(left.umin >> distance[1], left.umax >> distance[0], full.smin, full.smax)


def _arsh_range(width: int, left: Range, right: Range) -> Range:
    least, most = _shifts(width, right) or (0, width - 1)
    corners = [number >> by for number in (left.smin, left.smax) for by in (least, most)]
    return Range(0, FULL[width].umax, min(corners), max(corners))


_ABSTRACT: Final[Mapping[int, tuple[Bits, Ranges, bool]]] = {
    Alu.ADD: (_add_bits, _add_range, True),
    Alu.SUB: (_sub_bits, _sub_range, True),
    Alu.MUL: (_mul_bits, _mul_range, True),
    Alu.OR: (_or_bits, _or_range, True),
    Alu.AND: (_and_bits, _and_range, True),
    Alu.XOR: (_xor_bits, _xor_range, True),
    Alu.LSH: (_lsh_bits, _lsh_range, False),
    Alu.RSH: (_rsh_bits, _rsh_range, False),
    Alu.ARSH: (_arsh_bits, _arsh_range, False),
}
"""For each operation: its bits, its range, and whether the result's lower half depends on the lower halves only."""


def _divide_unsigned(_width: int, left: Range, right: Range) -> tuple[int, int]:
    least = 0 if right.umin == 0 else left.umin // right.umax
    return least, left.umax // max(right.umin, 1)


def _remainder_unsigned(_width: int, left: Range, right: Range) -> tuple[int, int]:
    if right.umin > left.umax:
        return left.umin, left.umax
    return 0, left.umax if right.umin == 0 else min(left.umax, right.umax - 1)


def _divide_signed(width: int, left: Range, right: Range) -> tuple[int, int]:
    full = FULL[width]
    if right.smin > 0:
        corners = [_toward_zero(number, by) for number in (left.smin, left.smax) for by in (right.smin, right.smax)]
        return min(corners), max(corners)
    if left.smin == full.smin:
        return full.smin, full.smax
    most = max(abs(left.smin), abs(left.smax))
    return -most, most


def _toward_zero(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


def _remainder_signed(_width: int, left: Range, right: Range) -> tuple[int, int]:
    most = max(abs(right.smin), abs(right.smax)) - 1
    if right.smin <= 0 <= right.smax:  # a remainder by zero is the dividend
        most = max(abs(left.smin), abs(left.smax))
    return max(min(left.smin, 0), -most), min(max(left.smax, 0), most)


_DIVISIONS: Final[Mapping[tuple[int, int], tuple[Divide, bool]]] = {
    (Alu.DIV, 0): (_divide_unsigned, False),
    (Alu.MOD, 0): (_remainder_unsigned, False),
    (Alu.DIV, 1): (_divide_signed, True),
    (Alu.MOD, 1): (_remainder_signed, True),
}
"""For each operation and variant: least and greatest result, and whether they are signed."""


def _divided(width: int, left: Scalar, right: Scalar, divide: Divide, by_sign: bool) -> Scalar:
    full = FULL[width]
    if width == 64:
        low, high = divide(64, left.wide, right.wide)
        found = full._replace(smin=low, smax=high) if by_sign else full._replace(umin=low, umax=high)
        return settle(ALL_BITS, found, FULL[32]) or UNKNOWN
    low, high = divide(32, left.half, right.half)
    found = full._replace(smin=low, smax=high) if by_sign else full._replace(umin=low, umax=high)
    return settle(Tnum(0, M32), Range(0, M32, 0, M32), found) or UNKNOWN

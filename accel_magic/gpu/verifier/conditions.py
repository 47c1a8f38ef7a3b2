"""What each outcome of a conditional jump implies about the numbers that it compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.isa import Jump
from accel_magic.gpu.verifier.domain import M32, M64, Range, Scalar, Tnum, meet, meet_bits, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Pair = tuple[Scalar, Scalar] | None
    Assume = Callable[[int, Scalar, Scalar], Pair]


def assume(jump: int, width: int, left: Scalar, right: Scalar, *, taken: bool) -> Pair:
    """Refine two compared numbers by the outcome of a jump; None if that outcome is impossible.

    Args:
        jump: A conditional `Jump`.
        width: 64, or 32 if only the lower halves are compared.
        left: The destination register's number.
        right: The other operand.
        taken: Whether the condition holds.

    """
    relation, flipped = _RELATIONS[jump] if taken else _OPPOSITES[jump]
    if not flipped:
        return relation(width, left, right)
    found = relation(width, right, left)
    return found and (found[1], found[0])


def _range(width: int, number: Scalar) -> Range:
    return number.wide if width == 64 else number.half


def _with(width: int, number: Scalar, known: Range) -> Scalar | None:
    if known == _range(width, number):
        return number
    return settle(number.bits, known, number.half) if width == 64 else settle(number.bits, number.wide, known)


def _both(left: Scalar | None, right: Scalar | None) -> Pair:
    return None if left is None or right is None else (left, right)


def _unsigned_at_most(width: int, left: Scalar, right: Scalar, margin: int = 0) -> Pair:
    one, other = _range(width, left), _range(width, right)
    return _both(
        _with(width, left, one._replace(umax=min(one.umax, other.umax - margin))),
        _with(width, right, other._replace(umin=max(other.umin, one.umin + margin))),
    )


def _signed_at_most(width: int, left: Scalar, right: Scalar, margin: int = 0) -> Pair:
    one, other = _range(width, left), _range(width, right)
    return _both(
        _with(width, left, one._replace(smax=min(one.smax, other.smax - margin))),
        _with(width, right, other._replace(smin=max(other.smin, one.smin + margin))),
    )


def _unsigned_below(width: int, left: Scalar, right: Scalar) -> Pair:
    return _unsigned_at_most(width, left, right, 1)


def _signed_below(width: int, left: Scalar, right: Scalar) -> Pair:
    return _signed_at_most(width, left, right, 1)


def _equal(width: int, left: Scalar, right: Scalar) -> Pair:
    if width == 64:
        same = meet(left, right)
        return same and (same, same)
    return _both(_with_half_of(left, right), _with_half_of(right, left))


def _with_half_of(number: Scalar, other: Scalar) -> Scalar | None:
    low = meet_bits(number.bits, Tnum(other.bits.value & M32, other.bits.mask | M64 ^ M32))
    if low is None:
        return None
    one, two = number.half, other.half
    half = Range(max(one.umin, two.umin), min(one.umax, two.umax), max(one.smin, two.smin), min(one.smax, two.smax))
    return settle(low, number.wide, half)


def _unequal(width: int, left: Scalar, right: Scalar) -> Pair:
    return _both(_without(width, left, right), _without(width, right, left))


def _without(width: int, number: Scalar, other: Scalar) -> Scalar | None:
    """Exclude a number at the ends of a range; excluding one inside cannot be expressed."""
    gone, known = _range(width, other), _range(width, number)
    if gone.umin != gone.umax:
        return number
    umin, umax, smin, smax = known
    if umin == umax == gone.umin:
        return None
    return _with(
        width,
        number,
        Range(
            umin + (umin == gone.umin),
            umax - (umax == gone.umin),
            smin + (smin == gone.smin),
            smax - (smax == gone.smin),
        ),
    )


def _mask(width: int) -> int:
    return M64 if width == 64 else M32


def _shares_bits(width: int, left: Scalar, right: Scalar) -> Pair:
    possible = (left.bits.value | left.bits.mask) & (right.bits.value | right.bits.mask) & _mask(width)
    if not possible:
        return None
    if possible & (possible - 1):
        return left, right
    return _both(_with_bits(left, possible, possible), _with_bits(right, possible, possible))


def _shares_none(width: int, left: Scalar, right: Scalar) -> Pair:
    if left.bits.value & right.bits.value & _mask(width):
        return None
    return _both(
        _with_bits(left, right.bits.value & _mask(width), 0), _with_bits(right, left.bits.value & _mask(width), 0)
    )


def _with_bits(number: Scalar, which: int, value: int) -> Scalar | None:
    """Set the bits in `which` to those of `value`."""
    bits = meet_bits(number.bits, Tnum(value & which, M64 ^ which))
    if bits is None:
        return None
    return number if bits == number.bits else settle(bits, number.wide, number.half)


_RELATIONS: Final[Mapping[int, tuple[Assume, bool]]] = {
    Jump.JEQ: (_equal, False),
    Jump.JNE: (_unequal, False),
    Jump.JGT: (_unsigned_below, True),
    Jump.JGE: (_unsigned_at_most, True),
    Jump.JLT: (_unsigned_below, False),
    Jump.JLE: (_unsigned_at_most, False),
    Jump.JSGT: (_signed_below, True),
    Jump.JSGE: (_signed_at_most, True),
    Jump.JSLT: (_signed_below, False),
    Jump.JSLE: (_signed_at_most, False),
    Jump.JSET: (_shares_bits, False),
}
"""The relation that holds when a jump is taken, and whether its operands are swapped."""

_OPPOSITES: Final[Mapping[int, tuple[Assume, bool]]] = {
    Jump.JEQ: _RELATIONS[Jump.JNE],
    Jump.JNE: _RELATIONS[Jump.JEQ],
    Jump.JGT: _RELATIONS[Jump.JLE],
    Jump.JGE: _RELATIONS[Jump.JLT],
    Jump.JLT: _RELATIONS[Jump.JGE],
    Jump.JLE: _RELATIONS[Jump.JGT],
    Jump.JSGT: _RELATIONS[Jump.JSLE],
    Jump.JSGE: _RELATIONS[Jump.JSLT],
    Jump.JSLT: _RELATIONS[Jump.JSGE],
    Jump.JSLE: _RELATIONS[Jump.JSGT],
    Jump.JSET: (_shares_none, False),
}

"""Integer arithmetic, carry chains and bit counting (PTX ISA 9.7.1 and 9.7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim.instruction_compiler import LaneComputation, Modifiers, require, same
from accel_magic.devices.sim.types import SIGNED, TYPES, UNSIGNED, PtxType, wider

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.types import Array

U32 = TYPES["u32"]
S32 = TYPES["s32"]
CLAMP = ("clamp", "wrap")


def _limits(kind: PtxType) -> tuple[int, int]:
    info = np.iinfo(kind.dtype)
    return int(info.min), int(info.max)


def _saturated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute in 64 bits and clamp to s32."""

    def clamped(*values: Array) -> Array:
        wide = function(*(value.astype(np.int64) for value in values))
        return np.clip(wide, -(2**31), 2**31 - 1).astype(np.int32)

    return clamped


def high(kind: PtxType, a: Array, b: Array) -> Array:
    """Upper half of the product."""
    if kind.size < 8:
        wide = wider(kind).dtype
        return (a.astype(wide) * b.astype(wide) >> wide(kind.bits)).astype(kind.dtype)
    x, y = np.asarray(a).astype(np.uint64), np.asarray(b).astype(np.uint64)
    low32, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low32, x >> half, y & low32, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    upper = x1 * y1 + (middle >> half) + ((middle & low32) + x0 * y1 >> half)
    if kind.signed:
        zero = np.uint64(0)
        upper = upper - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return upper.astype(kind.dtype)


def divide(a: Array, b: Array) -> Array:
    """Quotient, rounded toward zero; all ones for a divisor of zero, as on GPUs."""
    if a.dtype.kind == "u":
        return np.where(b == 0, a.dtype.type(np.iinfo(a.dtype).max), a // np.where(b == 0, b.dtype.type(1), b))
    unsigned = UNSIGNED[a.dtype.itemsize]
    size = _size(a, unsigned) // np.where(b == 0, unsigned(1), _size(b, unsigned))
    quotient = np.where((a < 0) != (b < 0), -size, size).astype(a.dtype)
    return np.where(b == 0, a.dtype.type(-1), quotient)


def _size(a: Array, unsigned: Any) -> Array:
    """Magnitude; correct for the most negative number too."""
    bits = a.astype(unsigned)
    return np.where(a < 0, -bits, bits)


def remainder(a: Array, b: Array) -> Array:
    """Remainder, with the dividend's sign; the dividend itself for a divisor of zero."""
    return np.where(b == 0, a, a - divide(a, b) * b)


def highest(a: Array) -> Array:
    """Position of the highest set bit (int64); -1 for zero."""
    a = np.asarray(a)
    wide = a.astype(np.uint64)
    upper, lower = (wide >> np.uint64(32)).astype(np.float64), (wide & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(upper > 0, np.frexp(upper)[1] + 31, np.frexp(lower)[1] - 1).astype(np.int64)


def count_ones(a: Array) -> Array:
    """Number of set bits (uint32)."""
    x = np.asarray(a).astype(np.uint64)
    u = np.uint64
    x = x - ((x >> u(1)) & u(0x5555555555555555))
    x = (x & u(0x3333333333333333)) + ((x >> u(2)) & u(0x3333333333333333))
    x = (x + (x >> u(4))) & u(0x0F0F0F0F0F0F0F0F)
    return (x * u(0x0101010101010101) >> u(56)).astype(np.uint32)


def reverse(a: Array) -> Array:
    """Reverse the order of the bits."""
    a = np.asarray(a)
    kind = a.dtype.type
    masks = {1: 0x5555555555555555, 2: 0x3333333333333333, 4: 0x0F0F0F0F0F0F0F0F}
    everything = int(np.iinfo(a.dtype).max)
    for step, mask in masks.items():
        m = kind(mask & everything)
        a = ((a >> kind(step)) & m) | ((a & m) << kind(step))
    return a.byteswap()


def _find(kind: PtxType, shift: bool) -> Callable[[Array], Array]:
    def find(a: Array) -> Array:
        bits = np.where(a < 0, ~a, a) if kind.signed else a
        at = highest(np.asarray(bits).astype(UNSIGNED[kind.size]))
        return np.where(at < 0, -1, kind.bits - 1 - at if shift else at).astype(np.uint32)

    return find


def ones(count: Array, dtype: Any) -> Array:
    """Make a mask of the lowest `count` bits; all bits if `count` is at least the width."""
    bits = np.dtype(dtype).itemsize * 8
    inside = np.clip(np.asarray(count).astype(np.int64), 0, bits - 1).astype(dtype)
    return np.where(count >= bits, dtype(np.iinfo(dtype).max), (dtype(1) << inside) - dtype(1)).astype(dtype)


def _extract(kind: PtxType) -> Callable[..., Array]:
    unsigned = UNSIGNED[kind.size]
    top = kind.bits - 1

    def extract(a: Array, start: Array, length: Array) -> Array:
        start = (np.asarray(start) & np.uint32(255)).astype(np.int64)
        length = (np.asarray(length) & np.uint32(255)).astype(np.int64)
        bits = np.asarray(a).astype(unsigned)
        kept = ones(np.minimum(length, top + 1 - start), unsigned)
        value = np.where(start > top, unsigned(0), bits >> np.minimum(start, top).astype(unsigned)) & kept
        if kind.signed:
            sign = bits >> np.clip(start + length - 1, 0, top).astype(unsigned) & unsigned(1)
            value = np.where((sign == 1) & (length > 0), value | ~kept, value)
        return value.astype(kind.dtype)

    return extract


def _insert(kind: PtxType) -> Callable[..., Array]:
    dtype = UNSIGNED[kind.size]

    def insert(a: Array, b: Array, start: Array, length: Array) -> Array:
        start = (np.asarray(start) & np.uint32(255)).astype(np.int64)
        length = (np.asarray(length) & np.uint32(255)).astype(np.int64)
        by = np.minimum(start, kind.bits - 1).astype(dtype)
        mask = np.where(start >= kind.bits, dtype(0), ones(length, dtype) << by)
        return (b & ~mask) | (np.asarray(a) << by & mask)

    return insert


def _add(modifiers: Modifiers, sign: int = 1) -> LaneComputation:
    carry, saturate, kind = modifiers.flag("cc"), modifiers.flag("sat"), modifiers.type()
    require(kind.integer, f".{kind.name} is not an integer type")
    function = np.add if sign > 0 else np.subtract
    if saturate:
        require(kind.name == "s32", ".sat is only supported for .s32")
        return same(kind, 2, _saturated(function))
    return _carrying(kind, sign, False, True) if carry else same(kind, 2, function)


def _add_carry(modifiers: Modifiers, sign: int = 1) -> LaneComputation:
    out, kind = modifiers.flag("cc"), modifiers.type()
    return _carrying(kind, sign, True, out)


def _carrying(kind: PtxType, sign: int, carry_in: bool, carry_out: bool) -> LaneComputation:
    """Build an addition or subtraction with carry; when subtracting, the flag is a borrow."""
    unsigned = TYPES[f"u{kind.bits}"]
    one = unsigned.dtype

    def chained(a: Array, b: Array, flag: Array = np.False_) -> Any:
        more = np.asarray(flag).astype(one)
        if sign > 0:
            first = a + b
            total = first + more
            flags = (first < a) | (total < first)
        else:
            first = a - b
            total = first - more
            flags = (a < b) | (first < more)
        return (total, flags) if carry_out else total

    return LaneComputation((unsigned,), (unsigned,) * 2, chained, carry_in, carry_out)


def _product(kind: PtxType, part: str) -> Callable[[Array, Array], Array]:
    if part == "hi":
        return lambda a, b: high(kind, a, b)
    if part == "wide":
        wide = wider(kind).dtype
        return lambda a, b: np.asarray(a).astype(wide) * np.asarray(b).astype(wide)
    return np.multiply


def _mul(modifiers: Modifiers) -> LaneComputation:
    part, kind = modifiers.one_of(("lo", "hi", "wide")), modifiers.type()
    require(bool(part) and kind.integer, "an integer product must be .lo, .hi or .wide")
    return LaneComputation((wider(kind) if part == "wide" else kind,), (kind, kind), _product(kind, part))


def _mad(modifiers: Modifiers, carry_in: bool = False) -> LaneComputation:
    part, carry_out = modifiers.one_of(("lo", "hi", "wide")), modifiers.flag("cc")
    saturate, kind = modifiers.flag("sat"), modifiers.type()
    require(bool(part) and kind.integer, "an integer product must be .lo, .hi or .wide")
    product = _product(kind, part)
    third = wider(kind) if part == "wide" else kind
    if carry_in or carry_out:
        chain = _carrying(kind, 1, carry_in, carry_out)
        unsigned = UNSIGNED[kind.size]

        def chained(a: Array, b: Array, c: Array, *flag: Array) -> Any:
            return chain.function(product(a, b).astype(unsigned), c, *flag)

        return LaneComputation(chain.results, (kind, kind, chain.results[0]), chained, carry_in, carry_out)
    if saturate:
        return same(kind, 3, _saturated(lambda a, b, c: (a * b >> 32) + c))
    return LaneComputation((third,), (kind, kind, third), lambda a, b, c: product(a, b) + c)


def _mul24(modifiers: Modifiers, add: bool = False) -> LaneComputation:
    part, kind = modifiers.one_of(("lo", "hi")), modifiers.type()

    def product(a: Array, b: Array, *c: Array) -> Array:
        wide = [
            np.asarray(x).astype(np.int64) << 40 >> 40 if kind.signed else x.astype(np.int64) & 0xFFFFFF for x in (a, b)
        ]
        value = (wide[0] * wide[1] >> (16 if part == "hi" else 0)).astype(kind.dtype)
        return value + c[0] if c else value

    return same(kind, 3 if add else 2, product)


def _sad(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return same(kind, 3, lambda a, b, c: c + np.where(a < b, b - a, a - b))


def _simple(count: int, function: Callable[..., Any], signed: bool = False) -> Callable[[Modifiers], LaneComputation]:
    def rule(modifiers: Modifiers) -> LaneComputation:
        kind = modifiers.type()
        require(kind.integer and (kind.signed or not signed), f".{kind.name} is not supported here")
        return same(kind, count, function)

    return rule


def _extreme(function: Any) -> Callable[[Modifiers], LaneComputation]:
    def rule(modifiers: Modifiers) -> LaneComputation:
        relu, kind = modifiers.flag("relu"), modifiers.type()
        require(kind.integer, f".{kind.name} is not supported here")
        if relu:
            return same(kind, 2, lambda a, b: np.maximum(function(a, b), kind.dtype(0)))
        return same(kind, 2, function)

    return rule


def _count(function: Callable[[PtxType], Callable[..., Any]]) -> Callable[[Modifiers], LaneComputation]:
    """Rule for functions that count bits of one operand and give a u32."""

    def rule(modifiers: Modifiers) -> LaneComputation:
        kind = modifiers.type()
        return LaneComputation((U32,), (TYPES[f"u{kind.bits}"],), function(kind))

    return rule


def _bfind(modifiers: Modifiers) -> LaneComputation:
    shift, kind = modifiers.flag("shiftamt"), modifiers.type()
    return LaneComputation((U32,), (kind,), _find(kind, shift))


def _bfe(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return LaneComputation((kind,), (kind, U32, U32), _extract(kind))


def _bfi(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return LaneComputation((kind,), (kind, kind, U32, U32), _insert(kind))


def _bmsk(modifiers: Modifiers) -> LaneComputation:
    wrap = modifiers.one_of(CLAMP) == "wrap"

    def mask(start: Array, count: Array) -> Array:
        first = start.astype(np.int64) & 31 if wrap else start.astype(np.int64)
        length = count.astype(np.int64) & 31 if wrap else count.astype(np.int64)
        bits = ones(length, np.uint64) << np.minimum(first, 32).astype(np.uint64)
        return (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    modifiers.type()
    return LaneComputation((U32,), (U32, U32), mask)


def _szext(modifiers: Modifiers) -> LaneComputation:
    wrap, kind = modifiers.one_of(CLAMP) == "wrap", modifiers.type()

    def extend(a: Array, width: Array) -> Array:
        length = width.astype(np.int64) & 31 if wrap else np.minimum(width.astype(np.int64), 32)
        kept = ones(length, np.uint32)
        value = a.astype(np.uint32) & kept
        sign = value >> np.clip(length - 1, 0, 31).astype(np.uint32) & np.uint32(1)
        return np.where(kind.signed & (sign == 1) & (length > 0), value | ~kept, value).astype(kind.dtype)

    return LaneComputation((kind,), (kind, U32), extend)


def _fns(modifiers: Modifiers) -> LaneComputation:
    modifiers.type()

    def find(mask: Array, base: Array, offset: Array) -> Array:
        mask, base, offset = np.broadcast_arrays(mask, base, offset)
        start, step = base.astype(np.int64), np.sign(offset.astype(np.int64))
        left = np.maximum(np.abs(offset.astype(np.int64)), 1)
        found = np.full(mask.shape, 0xFFFFFFFF, np.uint32)
        for distance in range(32):
            at = start + step * distance
            inside = (at >= 0) & (at < 32) & ((step != 0) | (distance == 0))
            hit = inside & (mask >> np.clip(at, 0, 31).astype(np.uint32) & np.uint32(1) == 1)
            left = left - hit
            found = np.where(hit & (left == 0), at.astype(np.uint32), found)
        return found

    return LaneComputation((U32,), (U32, U32, S32), find)


def _dot(parts: int) -> Callable[[Modifiers], LaneComputation]:
    """Rule for dp4a, and for dp2a with two 16-bit numbers in the first operand."""

    def rule(modifiers: Modifiers) -> LaneComputation:
        half = modifiers.one_of(("lo", "hi"))
        second, first = modifiers.type(), modifiers.type()
        total = TYPES["s32" if "s" in (first.kind, second.kind) else "u32"]
        width = 4 // parts

        def dot(a: Array, b: Array, c: Array) -> Array:
            left = _pieces(a, (SIGNED if first.signed else UNSIGNED)[width])
            right = _pieces(b, (SIGNED if second.signed else UNSIGNED)[1])
            right = right[..., 2:] if half == "hi" else right[..., :parts]
            return (c + (left * right).sum(-1)).astype(total.dtype)

        return LaneComputation((total,), (U32, U32, total), dot)

    return rule


def _differences(modifiers: Modifiers) -> LaneComputation:
    """Rule for vabsdiff4: the absolute differences of four bytes, or their sum added to the third operand."""
    adds = modifiers.flag("add")
    second, first, result = modifiers.type(), modifiers.type(), modifiers.type()

    def differ(a: Array, b: Array, c: Array) -> Array:
        left, right = (
            _pieces(value, (SIGNED if kind.signed else UNSIGNED)[1]) for value, kind in ((a, first), (b, second))
        )
        found = np.abs(left - right)
        if adds:
            return (c + found.sum(-1)).astype(result.dtype)
        whole: Array = np.ascontiguousarray(found.astype(np.uint8)).view(result.dtype)[..., 0]
        return whole

    return LaneComputation((result,), (U32, U32, result), differ)


def _pieces(a: Array, dtype: Any) -> Array:
    """Split 32-bit numbers into shape (lanes, pieces), int64."""
    return np.ascontiguousarray(np.asarray(a)[..., None]).view(dtype).astype(np.int64)


RULES = {
    "add": _add,
    "sub": lambda modifiers: _add(modifiers, -1),
    "addc": _add_carry,
    "subc": lambda modifiers: _add_carry(modifiers, -1),
    "mul": _mul,
    "mad": _mad,
    "madc": lambda modifiers: _mad(modifiers, carry_in=True),
    "mul24": _mul24,
    "mad24": lambda modifiers: _mul24(modifiers, add=True),
    "sad": _sad,
    "div": _simple(2, divide),
    "rem": _simple(2, remainder),
    "abs": _simple(1, lambda a: np.where(a < 0, -a, a), signed=True),
    "neg": _simple(1, np.negative, signed=True),
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "popc": _count(lambda _kind: count_ones),
    "clz": _count(lambda kind: lambda a: (kind.bits - 1 - highest(a)).astype(np.uint32)),
    "brev": _simple(1, reverse),
    "bfind": _bfind,
    "bfe": _bfe,
    "bfi": _bfi,
    "bmsk": _bmsk,
    "szext": _szext,
    "fns": _fns,
    "vabsdiff4": _differences,
    "dp4a": _dot(4),
    "dp2a": _dot(2),
}
"""Instruction name to the rule that reads its modifiers."""

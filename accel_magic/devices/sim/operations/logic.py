"""Logic, shifts and byte permutation (PTX ISA 9.7.8, 9.7.9.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim.instruction_compiler import LaneComputation, Modifiers, require, same
from accel_magic.devices.sim.types import TYPES, PtxType

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.types import Array

U32 = TYPES["u32"]


def _bitwise(count: int, function: Callable[..., Any]) -> Callable[[Modifiers], LaneComputation]:
    def rule(modifiers: Modifiers) -> LaneComputation:
        kind = modifiers.type()
        require(kind.kind in "bp", "logic operations support only .b16, .b32, .b64 and .pred")
        return same(kind, count, function)

    return rule


def _cnot(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return same(kind, 1, lambda a: (a == 0).astype(kind.dtype))


def _shl(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return LaneComputation((kind,), (kind, U32), lambda a, by: shift_left(kind, a, by))


def shift_left(kind: PtxType, a: Array, by: Array) -> Array:
    """Shift left; shifting by the width or more gives zero."""
    inside = np.minimum(by, kind.bits - 1).astype(kind.dtype)
    return np.where(by >= kind.bits, kind.dtype(0), a << inside)


def _shr(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    return LaneComputation((kind,), (kind, U32), lambda a, by: shift_right(kind, a, by))


def shift_right(kind: PtxType, a: Array, by: Array) -> Array:
    """Shift right; shifting by the width or more gives copies of the sign, or zero for unsigned."""
    moved = a >> np.minimum(by, kind.bits - 1).astype(kind.dtype)
    return moved if kind.signed else np.where(by >= kind.bits, kind.dtype(0), moved)


def _shf(modifiers: Modifiers) -> LaneComputation:
    left = modifiers.one_of(("l", "r")) == "l"
    wrap = modifiers.one_of(("clamp", "wrap")) == "wrap"
    modifiers.type()

    def funnel(low: Array, high: Array, by: Array) -> Array:
        both = np.asarray(high).astype(np.uint64) << np.uint64(32) | np.asarray(low).astype(np.uint64)
        steps = by & np.uint32(31) if wrap else np.minimum(by, np.uint32(32))
        steps = np.asarray(steps).astype(np.uint64)
        moved = both << steps >> np.uint64(32) if left else both >> steps
        return (moved & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return LaneComputation((U32,), (U32, U32, U32), funnel)


def lookup3(table: int, a: Array, b: Array, c: Array) -> Array:
    """Apply a function of three bits, given as its truth table."""
    a, b, c = (np.asarray(x) for x in (a, b, c))
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
    for row in range(8):
        if table >> row & 1:
            result = result | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def _lop3(modifiers: Modifiers) -> LaneComputation:
    combine = modifiers.one_of(("or", "and"))
    modifiers.type()
    if not combine:
        return LaneComputation((U32,), (U32, U32, U32, U32), lambda a, b, c, table: lookup3(int(table), a, b, c))

    def with_predicate(a: Array, b: Array, c: Array, table: Array, q: Array) -> tuple[Array, Array]:
        value = lookup3(int(table), a, b, c)
        return value, (value != 0) | q if combine == "or" else (value != 0) & q

    return LaneComputation((U32, TYPES["pred"]), (U32, U32, U32, U32, TYPES["pred"]), with_predicate)


def _bytes_of(low: Array, high: Array) -> Array:
    both = np.asarray(high).astype(np.uint64) << np.uint64(32) | np.asarray(low).astype(np.uint64)
    return np.ascontiguousarray(both[..., None]).view(np.uint8)


_ROWS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "f4e": lambda s: (s, s + 1, s + 2, s + 3),
    "b4e": lambda s: (s, s + 7, s + 6, s + 5),
    "rc8": lambda s: (s, s, s, s),
    "ecl": lambda s: tuple(max(s, at) for at in range(4)),
    "ecr": lambda s: tuple(min(s, at) for at in range(4)),
    "rc16": lambda s: ((s & 1) * 2, (s & 1) * 2 + 1) * 2,
}
"""prmt's modes: the bytes that each selector value picks, lowest first."""


def _prmt(modifiers: Modifiers) -> LaneComputation:
    modifiers.type()
    mode = modifiers.one_of(tuple(_ROWS))

    def permute(a: Array, b: Array, selector: Array) -> Array:
        a, b, selector = np.broadcast_arrays(a, b, selector)
        pieces = _bytes_of(a, b)
        if mode:
            table = np.array([[at & 7 for at in _ROWS[mode](step)] for step in range(4)])
            chosen, sign = table[(selector & np.uint32(3)).astype(np.int64)], False
        else:
            nibbles = selector[..., None].astype(np.int64) >> np.arange(0, 16, 4)
            chosen, sign = nibbles & 7, (nibbles & 8) != 0
        picked = np.take_along_axis(pieces, chosen, -1)
        spread = np.where(picked & 0x80, 0xFF, 0).astype(np.uint8)
        result: Array = np.ascontiguousarray(np.where(sign, spread, picked)).view(np.uint32)[..., 0]
        return result

    return LaneComputation((U32,), (U32, U32, U32), permute)


def _select(modifiers: Modifiers) -> LaneComputation:
    kind = modifiers.type()
    raw = TYPES[f"u{kind.bits}"] if kind.kind in "fx" else kind
    return LaneComputation((raw,), (raw, raw, TYPES["pred"]), lambda a, b, p: np.where(p, a, b))


def _slct(modifiers: Modifiers) -> LaneComputation:
    modifiers.flag("ftz")
    test, kind = modifiers.type(), modifiers.type()
    raw = TYPES[f"u{kind.bits}"]
    return LaneComputation((raw,), (raw, raw, test), lambda a, b, c: np.where(c >= 0, a, b))


RULES = {
    "and": _bitwise(2, np.bitwise_and),
    "or": _bitwise(2, np.bitwise_or),
    "xor": _bitwise(2, np.bitwise_xor),
    "not": _bitwise(1, np.invert),
    "cnot": _cnot,
    "shl": _shl,
    "shr": _shr,
    "shf": _shf,
    "lop3": _lop3,
    "prmt": _prmt,
    "selp": _select,
    "slct": _slct,
}
"""Instruction name to the rule that reads its modifiers."""

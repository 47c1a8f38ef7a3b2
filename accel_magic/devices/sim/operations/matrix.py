"""Matrix loads, stores and products of a warp: ldmatrix, stmatrix and mma.sync (PTX ISA 9.7.14).

Products are exact, summed in double precision, then rounded once; GPUs guarantee less and differ from each other.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.sim import access
from accel_magic.devices.sim import floats as small_floats
from accel_magic.devices.sim.access import Access
from accel_magic.devices.sim.code import Modifiers, Vector, require
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.operations.moving import space_of
from accel_magic.devices.sim.state import WARP
from accel_magic.devices.sim.types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.code import Code, Operand, Step
    from accel_magic.devices.sim.faults import Site
    from accel_magic.devices.sim.state import State
    from accel_magic.devices.sim.types import Array

U32 = TYPES["u32"]
_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_GROUP: Final = np.arange(WARP) // 4
_INDEX: Final = np.arange(WARP) % 4
_COUNTS: Final = {"x1": 1, "x2": 2, "x4": 4}


def _items(operand: Operand) -> list[Operand]:
    return list(operand.items) if isinstance(operand, Vector) else [operand]


def whole_warps(state: State, site: Site) -> Array:
    """Numbers of the executing lanes, shape (warps, 32).

    Raises:
        Violation: Only part of a warp executes.

    """
    lanes = state.lanes()
    if len(lanes) % WARP or (lanes.reshape(-1, WARP)[:, 0] + WARP - 1 != lanes.reshape(-1, WARP)[:, -1]).any():
        raise Violation(
            "a matrix instruction was executed by part of a warp",
            site=site,
            lane=int(lanes[0]),
            fix=f"Use a block size that is a multiple of {WARP}, and execute the instruction in all lanes.",
            code="gpu.fault.incomplete-warp",
        )
    return lanes.reshape(-1, WARP)


def _matrices(modifiers: Modifiers) -> tuple[int, bool, str]:
    """Return the number of matrices of 8 x 8 halves, whether they are transposed, and their space."""
    modifiers.drop(("sync", "aligned"))
    shape, count = modifiers.one_of(("m8n8",)), _COUNTS.get(modifiers.one_of(tuple(_COUNTS)), 0)
    turned, space = modifiers.flag("trans"), space_of(modifiers)
    require(bool(shape) and count > 0 and modifiers.type().bits == 16, "only .m8n8 of .b16 is supported")
    return count, turned, space


def _transposed(rows: Array) -> Array:
    """Transpose matrices of halves: words of shape (warps, count, 8, 4)."""
    halves = np.ascontiguousarray(rows).view(np.uint16)
    return np.ascontiguousarray(halves.swapaxes(2, 3)).view(np.uint32)


def _ldmatrix(code: Code, modifiers: Modifiers) -> Step:
    count, turned, space = _matrices(modifiers)
    writers = [code.write(item, U32) for item in _items(code.operands[0])]
    require(len(writers) == count, f"it must have {count} destination registers")
    address = code.address(code.operands[1], space)
    how = Access(space, 4, 4, False, code.site)

    def step(state: State) -> None:
        lanes = whole_warps(state, code.site)
        giving = np.flatnonzero(state.lane[lanes.reshape(-1)] < 8 * count)
        addresses = state.spread(address(state))[giving]
        before = state.selection
        state.selection = lanes.reshape(-1)[giving]
        words = np.stack(access.load(state, how, addresses), axis=-1)
        state.selection = before
        rows = words.reshape(-1, count, 8, 4)
        if turned:
            rows = _transposed(rows)
        for number, write in enumerate(writers):
            if write is not None:
                write(state, rows[:, number].reshape(-1))

    return step


def _stmatrix(code: Code, modifiers: Modifiers) -> Step:
    count, turned, space = _matrices(modifiers)
    readers = [code.read(item, U32) for item in _items(code.operands[1])]
    require(len(readers) == count, f"it must have {count} source registers")
    address = code.address(code.operands[0], space)
    how = Access(space, 4, 4, True, code.site)

    def step(state: State) -> None:
        lanes = whole_warps(state, code.site)
        giving = np.flatnonzero(state.lane[lanes.reshape(-1)] < 8 * count)
        addresses = state.spread(address(state))[giving]
        rows = np.stack([state.spread(read(state)).reshape(-1, 8, 4) for read in readers], axis=1)
        if turned:
            rows = _transposed(rows)
        before = state.selection
        state.selection = lanes.reshape(-1)[giving]
        access.store(state, how, addresses, list(rows.reshape(-1, 4).T))
        state.selection = before

    return step


def _eight(kind: str, words: Array) -> Array:
    widened: Array = small_floats.EIGHT[kind].table()[words.view(np.uint8)].astype(np.float64)
    return widened


def words_to(kind: str) -> Callable[[Array], Array]:
    """Return the conversion from packed words, shape (..., 1), to float64 or int64, shape (..., elements per word)."""
    table: dict[str, Callable[[Array], Array]] = {
        "f16": lambda words: words.view(np.float16).astype(np.float64),
        "bf16": lambda words: small_floats.widen_bf16(words.view(np.uint16)).astype(np.float64),
        "tf32": lambda words: (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64),
        **{kind: partial(_eight, kind) for kind in small_floats.EIGHT},
        "s8": lambda words: words.view(np.int8).astype(np.int64),
        "u8": lambda words: words.view(np.uint8).astype(np.int64),
    }
    require(kind in table, f"products of .{kind} are not supported")
    return table[kind]


def left_of(words: list[Array], convert: Callable[[Array], Array], depth: int) -> Array:
    """Assemble the left matrices, shape (warps, 16, depth), from fragments of shape (warps, 32)."""
    parts = [convert(np.ascontiguousarray(word)[..., None]) for word in words]
    width = parts[0].shape[-1]
    matrix = np.zeros((len(words[0]), 16, depth), parts[0].dtype)
    for number, part in enumerate(parts):
        for element in range(width):
            matrix[:, _GROUP + 8 * (number % 2), _INDEX * width + 4 * width * (number // 2) + element] = part[
                ..., element
            ]
    return matrix


def _right(words: list[Array], convert: Callable[[Array], Array], depth: int) -> Array:
    """Assemble the right matrices, shape (warps, depth, 8)."""
    parts = [convert(np.ascontiguousarray(word)[..., None]) for word in words]
    width = parts[0].shape[-1]
    matrix = np.zeros((len(words[0]), depth, 8), parts[0].dtype)
    for number, part in enumerate(parts):
        for element in range(width):
            matrix[:, _INDEX * width + 4 * width * number + element, _GROUP] = part[..., element]
    return matrix


_ROWS: Final = np.stack([_GROUP, _GROUP, _GROUP + 8, _GROUP + 8])
_COLUMNS: Final = np.stack([2 * _INDEX, 2 * _INDEX + 1, 2 * _INDEX, 2 * _INDEX + 1])
"""Rows and columns, in the 16 x 8 matrix, of the four accumulator elements that each lane holds; shape (4, 32)."""


class Accumulator:
    """Reads and writes 16 x 8 accumulators of one type."""

    def __init__(self, kind: str) -> None:
        require(kind in ("f32", "s32", "f16"), f"sums of .{kind} are not supported")
        self.kind = kind
        self.registers = 2 if kind == "f16" else 4

    def take(self, words: list[Array]) -> Array:
        """Assemble matrices, shape (warps, 16, 8)."""
        matrix = np.zeros((len(words[0]), 16, 8), np.int64 if self.kind == "s32" else np.float64)
        if self.kind == "f16":
            halves = [np.ascontiguousarray(word)[..., None].view(np.float16) for word in words]
            columns = [halves[at // 2][..., at % 2] for at in range(4)]
        else:
            dtype = np.int32 if self.kind == "s32" else np.float32
            columns = [np.ascontiguousarray(word).view(dtype) for word in words]
        for at, column in enumerate(columns):
            matrix[:, _ROWS[at], _COLUMNS[at]] = column
        return matrix

    def give(self, matrix: Array, *, saturate: bool) -> list[Array]:
        """Split matrices into uint32 words of shape (warps, 32)."""
        if saturate:
            matrix = np.clip(matrix, -(2**31), 2**31 - 1)
        dtype: Any = {"f32": np.float32, "s32": np.int32, "f16": np.float16}[self.kind]
        columns = [matrix[:, _ROWS[at], _COLUMNS[at]].astype(dtype) for at in range(4)]
        if self.kind != "f16":
            return [np.ascontiguousarray(column).view(np.uint32) for column in columns]
        pairs = [np.stack(columns[at : at + 2], axis=-1) for at in (0, 2)]
        return [np.ascontiguousarray(pair).view(np.uint32)[..., 0] for pair in pairs]


def _mma(code: Code, modifiers: Modifiers) -> Step:
    modifiers.drop(("sync", "aligned"))
    saturate = modifiers.flag("satfinite")
    shape = _SHAPE.match(modifiers.left.pop(0)) if modifiers.left else None
    require(shape is not None and shape.groups()[:2] == ("16", "8"), "only products of 16 x 8 are supported")
    require(modifiers.flag("row") and modifiers.flag("col"), "only .row.col is supported")
    require(len(modifiers.left) == 4, "it must name four types")
    target, left, right, source = modifiers.left
    modifiers.left.clear()
    depth = int(shape.group(3)) if shape else 0
    into, from_ = Accumulator(target), Accumulator(source)
    readers = [[code.read(item, U32) for item in _items(operand)] for operand in code.operands[1:4]]
    writers = [code.write(item, U32) for item in _items(code.operands[0])]
    per_word = {"tf32": 1, "f16": 2, "bf16": 2, "s8": 4, "u8": 4}.get(left, 0)
    require(per_word > 0 and depth % (4 * per_word) == 0, "this shape is not supported")
    words = depth // (4 * per_word)
    require([len(row) for row in readers] == [2 * words, words, from_.registers], "its operands do not fit its shape")
    from_left, from_right = words_to(left), words_to(right)

    def step(state: State) -> None:
        whole_warps(state, code.site)
        a, b, c = ([state.spread(read(state)).reshape(-1, WARP) for read in row] for row in readers)
        product = left_of(a, from_left, depth) @ _right(b, from_right, depth) + from_.take(c)
        for write, given in zip(writers, into.give(product, saturate=saturate), strict=True):
            if write is not None:
                write(state, given.reshape(-1))

    return step


STEPS: dict[str, Callable[[Code, Modifiers], Step]] = {"ldmatrix": _ldmatrix, "stmatrix": _stmatrix, "mma": _mma}
"""Instruction name to the function that compiles it."""

"""Matrix products of a warp: mma.sync, dense and sparse, and wmma (PTX ISA 9.7.14).

Products are exact, summed in double precision, then rounded once; GPUs guarantee less and differ from each other.
Those of doubles are rounded at every step, in an order that differs from a GPU's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.instruction_compiler import Modifiers, UnknownFormError, require
from accel_magic.devices.sim.lane_state import WARP
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations import fragments
from accel_magic.devices.sim.operations.fragments import BITS, Fragment
from accel_magic.devices.sim.operations.moving import space_of
from accel_magic.devices.sim.types import TYPES
from accel_magic.ptx.ptx_model import Immediate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Reader, Step
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

U32 = TYPES["u32"]
_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_LAYOUTS: Final = ("row", "col")
_KINDS: Final[Mapping[frozenset[str], tuple[str, ...]]] = {
    frozenset({"f64"}): ("f64",),
    frozenset({"tf32"}): ("f32",),
    frozenset({"bf16"}): ("f32",),
    frozenset({"f16"}): ("f16", "f32"),
    frozenset({"e4m3", "e5m2"}): ("f16", "f32"),
    frozenset({"s8", "u8"}): ("s32",),
    frozenset({"s4", "u4"}): ("s32",),
    frozenset({"b1"}): ("s32",),
}
"""Types that may be multiplied with each other, to the types of their sums."""


@dataclass(frozen=True)
class _Types:
    """The four types of a product."""

    target: str
    left: str
    right: str
    source: str

    def __post_init__(self) -> None:
        given = {self.left, self.right}
        known = next((into for kinds, into in _KINDS.items() if given <= kinds), None)
        if known is None:
            unknown = sorted(given - BITS.keys())
            raise UnknownFormError(
                f"products of .{unknown[0]} are not supported" if unknown else "these types cannot be multiplied"
            )
        require({self.target, self.source} <= set(known), f"sums of .{self.left} products are {' or '.join(known)}")


@dataclass(frozen=True)
class _Product:
    """What a product computes.

    Attributes:
        types: Types of the matrices.
        logic: '' to multiply; 'and' or 'xor' to count the bits of that operation.
        saturate: Whether integer sums stay in range instead of wrapping around.

    """

    types: _Types
    logic: str
    saturate: bool

    def __call__(self, left: Array, right: Array, added: Array) -> Array:
        """Multiply and add raw matrices; shapes (..., m, k), (..., k, n) and (..., m, n)."""
        types = self.types
        a, b = fragments.numbers(types.left)(left), fragments.numbers(types.right)(right)
        product = a @ b
        if self.logic == "xor":
            product = a.sum(-1)[..., None] + b.sum(-2)[..., None, :] - 2 * product
        total = product + fragments.numbers(types.source)(added)
        if self.saturate:
            total = np.clip(total, -(2**31), 2**31 - 1)
        return fragments.raw(types.target)(total)


def _shape(modifiers: Modifiers) -> tuple[int, int, int]:
    found = next((match for one in modifiers.left if (match := _SHAPE.match(one))), None)
    if found is None:
        raise UnknownFormError("its shape is not supported")
    modifiers.left.remove(found[0])
    rows, columns, depth = (int(one) for one in found.groups())
    return rows, columns, depth


def _logic(modifiers: Modifiers) -> str:
    logic = modifiers.one_of(("and", "xor"))
    require(modifiers.flag("popc") == bool(logic), "its operation is not supported")
    return logic


def _types(modifiers: Modifiers) -> _Types:
    """Take four types; two for products of halves by wmma, which name only the sums."""
    names = list(modifiers.left)
    modifiers.left.clear()
    if len(names) == 2:
        names[1:1] = ["f16", "f16"]
    require(len(names) == 4, "it must name four types")
    return _Types(*names)


def _mma(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.drop(("sync", "aligned", "rn"))
    sparse = modifiers.flag("sp") or modifiers.flag("sp::ordered_metadata")
    saturate, logic, size = modifiers.flag("satfinite"), _logic(modifiers), _shape(modifiers)
    require(not any(one.startswith("kind::") for one in modifiers.left), "products of scaled blocks are not supported")
    layouts = modifiers.one_of(_LAYOUTS), modifiers.one_of(_LAYOUTS)
    types = _types(modifiers)
    volta = size == (8, 8, 4) and types.left == "f16"
    require(volta or layouts == ("row", "col"), "only .row.col is supported for this shape")
    require(bool(logic) == (types.left == "b1"), "only single bits are combined by logic")
    product = _Product(types, logic, saturate)
    if sparse:
        return _multiply(code, _sparse_fragments(types, size), product, _Sparsity.of(code, types.left, size))
    return _multiply(code, _volta_fragments(types, layouts) if volta else _fragments(types, size), product, None)


@dataclass(frozen=True)
class _Fragments:
    target: Fragment
    left: Fragment
    right: Fragment
    source: Fragment


def _fragments(types: _Types, size: tuple[int, int, int]) -> _Fragments:
    rows, columns, depth = size
    step = 4 * max(32 // BITS[types.left], 1)
    most = step if rows == 8 else step * (4 if types.left == "f64" else 2)
    require(
        columns == 8 and rows in (8, 16) and depth % step == 0 and step <= depth <= most,
        "this shape is not supported for these types",
    )
    return _Fragments(
        fragments.sums(types.target, rows, columns),
        fragments.left(types.left, rows, depth),
        fragments.right(types.right, depth, columns),
        fragments.sums(types.source, rows, columns),
    )


def _volta_fragments(types: _Types, layouts: tuple[str, str]) -> _Fragments:
    require(all(layouts), "the layouts of its matrices are missing")
    return _Fragments(
        fragments.sums_of_four(types.target),
        fragments.left_of_four(types.left, by_rows=layouts[0] == "row"),
        fragments.right_of_four(types.right, by_rows=layouts[1] == "row"),
        fragments.sums_of_four(types.source),
    )


def _sparse_fragments(types: _Types, size: tuple[int, int, int]) -> _Fragments:
    rows, columns, depth = size
    step = 8 * max(32 // BITS[types.left], 1)
    require(types.left not in ("f64", "b1"), f"sparse products of .{types.left} are not supported")
    require(rows == 16 and columns == 8 and depth in (step, 2 * step), "this shape is not supported for these types")
    return _Fragments(
        fragments.sums(types.target, rows, columns),
        fragments.left(types.left, rows, depth // 2),
        fragments.right(types.right, depth, columns),
        fragments.sums(types.source, rows, columns),
    )


_CHUNKS: Final = {32: 2, 16: 4, 8: 4, 4: 8}
"""Columns of which half are stored, by the bits of an element."""


@dataclass(frozen=True)
class _Sparsity:
    """The places of a sparse left matrix's elements: for every half of a chunk's elements, a nibble of metadata.

    Attributes:
        read: Reads the metadata's register.
        kind: Type of the elements.
        nibbles: Lane and first bit of each nibble; shape (2, 16 rows, chunks).
        depth: Columns of the expanded matrix.

    """

    read: Reader
    kind: str
    nibbles: Array
    depth: int

    @classmethod
    def of(cls, code: CompiledInstruction, kind: str, size: tuple[int, int, int]) -> _Sparsity:
        """Compile the last two operands: the metadata, and which lanes of each four hold it."""
        depth = size[2]
        require(len(code.operands) == 6, "its metadata or its sparsity selector is missing")
        selector, chunks = code.operands[5], depth // _CHUNKS[BITS[kind]]
        lanes = chunks // 4
        if not isinstance(selector, Immediate) or not 0 <= selector.value < 4 // lanes:
            raise UnknownFormError(f"its sparsity selector must be a constant below {4 // lanes}")
        row, chunk = np.arange(16)[:, None], np.arange(chunks)[None, :]
        first = 4 * (row % 8) + int(selector.value) * lanes
        if BITS[kind] > 8:  # a lane holds 16 bits of a row, and in its upper half those of the row 8 below
            places = first + chunk // 4 + 0 * row, 4 * (chunk % 4) + 16 * (row // 8)
        else:
            places = first + 2 * (chunk // 8) + row // 8, 4 * (chunk % 8) + 0 * row
        return cls(code.read(code.operands[4], U32), kind, np.stack(np.broadcast_arrays(*places)), depth)

    def expand(self, state: ExecutionState, compressed: Array) -> Array:
        """Return the matrices with their zeros, shape (warps, 1, 16, depth)."""
        words = state.spread(self.read(state)).reshape(-1, WARP)
        lane, shift = self.nibbles
        nibbles = words[:, lane] >> shift.astype(np.uint32) & np.uint32(15)
        columns = _columns(self.kind, nibbles.astype(np.int64))
        result = np.zeros((len(words), 1, 16, self.depth), compressed.dtype)
        np.put_along_axis(result, columns[:, None], compressed, axis=-1)
        return result


def _columns(kind: str, nibbles: Array) -> Array:
    """Return the column of each stored element, shape (warps, 16, elements), from nibbles (warps, 16, chunks)."""
    chunk = np.arange(nibbles.shape[-1])
    low, high = nibbles & 3, nibbles >> 2
    if BITS[kind] == 32:  # one of two: its two halves are named
        return 2 * chunk + low // 2
    pairs = np.stack([low, high], axis=-1)
    if BITS[kind] == 4:  # two of four pairs
        places = (8 * chunk[:, None] + 2 * pairs)[..., None] + np.arange(2)
    else:  # two of four
        places = 4 * chunk[:, None] + pairs
    columns: Array = places.reshape(*nibbles.shape[:2], -1)
    return columns


def _multiply(code: CompiledInstruction, held: _Fragments, product: _Product, sparsity: _Sparsity | None) -> Step:
    target, *operands = code.operands[:4]
    require(len(operands) == 3, "it has too few operands")
    writers = held.target.writers(code, target)
    sources = [
        (one, one.readers(code, operand))
        for one, operand in zip((held.left, held.right, held.source), operands, strict=True)
    ]

    def step(state: ExecutionState) -> None:
        fragments.whole_warps(state, code.site)
        left, right, added = (one.read(state, readers) for one, readers in sources)
        if sparsity is not None:
            left = sparsity.expand(state, left)
        held.target.write(state, writers, product(left, right, added))

    return step


_WMMA_SHAPES: Final[Mapping[tuple[int, int, int], tuple[str, ...]]] = {
    **dict.fromkeys([(16, 16, 16), (8, 32, 16), (32, 8, 16)], ("f16", "bf16", "s8", "u8")),
    (16, 16, 8): ("tf32",),
    (8, 8, 4): ("f64",),
    (8, 8, 32): ("s4", "u4"),
    (8, 8, 128): ("b1",),
}


def _wmma_fragment(role: str, kind: str, size: tuple[int, int, int]) -> Fragment:
    """Return the fragment of a matrix of wmma; a GPU's layout is unspecified.

    Halves of a left or right matrix always take eight registers: the smaller ones hold each element several times.
    """
    rows, columns, depth = size
    require(kind in BITS, f"matrices of .{kind} are not supported")
    require(size in _WMMA_SHAPES, "this shape is not supported")
    if role in ("c", "d"):
        require(kind in ("f16", "f32", "s32", "f64"), f"sums of .{kind} are not supported")
        return fragments.sums(kind, rows, columns)
    require(kind in _WMMA_SHAPES[size], f"this shape is not supported for .{kind}")
    found = fragments.left(kind, rows, depth) if role == "a" else fragments.right(kind, depth, columns)
    return found.repeated(8 // found.registers) if kind == "f16" else found


def _wmma(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    action = modifiers.one_of(tuple(_WMMA))
    require(bool(action), "it has no supported action")
    return _WMMA[action](code, modifiers)


def _wmma_mma(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.drop(("sync", "aligned", "rn"))
    saturate, logic, size = modifiers.flag("satfinite"), _logic(modifiers), _shape(modifiers)
    require(bool(modifiers.one_of(_LAYOUTS)) and bool(modifiers.one_of(_LAYOUTS)), "its layouts are missing")
    types = _types(modifiers)
    held = _Fragments(
        *(_wmma_fragment(role, kind, size) for role, kind in zip("dabc", vars(types).values(), strict=True))
    )
    return _multiply(code, held, _Product(types, logic, saturate), None)


@dataclass(frozen=True)
class _InMemory:
    """A matrix in memory, which a warp loads or stores.

    Attributes:
        fragment: Its place in registers.
        base: Reads its address.
        stride: Reads the elements from one row (or column) to the next; None if they are contiguous.
        by_rows: Whether rows are contiguous, not columns.
        how: The access to one element, or to the byte that contains it.

    """

    fragment: Fragment
    base: Reader
    stride: Reader | None
    by_rows: bool
    how: LaneAccess

    @classmethod
    def of(cls, code: CompiledInstruction, modifiers: Modifiers, operands: list[Operand], *, write: bool) -> _InMemory:
        """Compile the address and stride of `wmma.load` and `wmma.store`, and their fragment."""
        modifiers.drop(("sync", "aligned"))
        role, layout = modifiers.one_of(("a", "b", "c", "d")), modifiers.one_of(_LAYOUTS)
        size, space = _shape(modifiers), space_of(modifiers)
        require(bool(role) and bool(layout) and len(modifiers.left) == 1, "its matrix, layout or type is missing")
        fragment = _wmma_fragment(role, modifiers.left.pop(), size)
        how = LaneAccess(space, max(BITS[fragment.kind] // 8, 1), 1, write, code.site)
        stride = code.read(operands[1], U32) if len(operands) > 1 else None
        return cls(fragment, code.address(operands[0], space), stride, layout == "row", how)

    def places(self, state: ExecutionState, lanes: Array) -> tuple[Array, Array]:
        """Return the address of every element, and its first bit there; uint64, shape (warps, rows, columns)."""
        _, rows, columns = self.fragment.shape
        base = state.spread(self.base(state)).reshape(lanes.shape)[:, :1, None]
        row, column = np.arange(rows, dtype=np.uint64)[:, None], np.arange(columns, dtype=np.uint64)[None, :]
        outer, inner, natural = (row, column, columns) if self.by_rows else (column, row, rows)
        stride = np.full((len(lanes), 1, 1), natural, np.uint64)
        if self.stride is not None:
            stride = state.spread(self.stride(state)).reshape(lanes.shape)[:, :1, None].astype(np.uint64)
        bits = (outer * stride + inner) * np.uint64(BITS[self.fragment.kind])
        return base + (bits >> np.uint64(3)), bits & np.uint64(7)


def _wmma_load(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    place = _InMemory.of(code, modifiers, code.operands[1:], write=False)
    held, writers = place.fragment, place.fragment.writers(code, code.operands[0])

    def step(state: ExecutionState) -> None:
        lanes = fragments.whole_warps(state, code.site)
        addresses, shifts = place.places(state, lanes)
        before = state.selection
        state.selection = np.repeat(lanes[:, 0], addresses[0].size)
        (units,) = memory_access.load(state, place.how, addresses.reshape(-1))
        state.selection = before
        matrix = units.reshape(addresses.shape)
        if BITS[held.kind] < 8:
            matrix = matrix >> shifts.astype(np.uint8) & np.uint8(2 ** BITS[held.kind] - 1)
        held.write(state, writers, matrix[:, None])

    return step


def _wmma_store(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    place = _InMemory.of(code, modifiers, [code.operands[0], *code.operands[2:]], write=True)
    held, readers = place.fragment, place.fragment.readers(code, code.operands[1])

    def step(state: ExecutionState) -> None:
        lanes = fragments.whole_warps(state, code.site)
        matrix = held.read(state, readers)[:, 0].astype(f"u{place.how.unit}")
        addresses, _ = place.places(state, lanes)
        before = state.selection
        state.selection = np.repeat(lanes[:, 0], addresses[0].size)
        memory_access.store(state, place.how, addresses.reshape(-1), [matrix.reshape(-1)])
        state.selection = before

    return step


_WMMA: Final[Mapping[str, Callable[[CompiledInstruction, Modifiers], Step]]] = {
    "load": _wmma_load,
    "store": _wmma_store,
    "mma": _wmma_mma,
}
STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {"mma": _mma, "wmma": _wmma}
"""Instruction name to the function that compiles it."""

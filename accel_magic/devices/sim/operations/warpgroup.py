"""Warp-group matrix products of sm_90: wgmma (PTX ISA 9.7.15).

Each of the group's four warps multiplies 16 rows of the left matrix by the whole right matrix. Descriptors give the
matrices in shared memory: their start, the distance between their 8-row cores, and how 16-byte pieces are swizzled
among the banks. Products complete when they are issued, and are summed like those of `mma`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import Modifiers, require
from accel_magic.devices.sim.lane_state import WARP
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations import fragments
from accel_magic.devices.sim.operations.fragments import whole_warps
from accel_magic.devices.sim.types import TYPES
from accel_magic.ptx.ptx_model import Immediate, Vector, items_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.faults import FaultSite
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Reader, Step, Writer
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

U32, U64, PREDICATE = TYPES["u32"], TYPES["u64"], TYPES["pred"]
_SHAPE: Final = re.compile(r"m64n(\d+)k(\d+)$")
_ROWS: Final = 16
"""Rows of the product per warp."""
_CORE: Final = 8
_PIECE: Final = 16
"""Bytes that swizzling keeps together."""
_WIDTHS: Final = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a swizzled row by the descriptor's mode; mode 0 does not swizzle."""
_BYTES: Final = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


@dataclass(frozen=True)
class _Matrix:
    """A matrix in shared memory.

    Attributes:
        kind: Type of its elements.
        length: Rows of a left matrix, or columns of a right one.
        depth: The other dimension, which is summed over.
        turned: Transposed: consecutive bytes run along its length, not its depth.
        site: The instruction.

    """

    kind: str
    length: int
    depth: int
    turned: bool
    site: FaultSite

    def read(self, state: ExecutionState, lanes: Array, descriptors: Array, first: Array) -> Array:
        """Read one matrix for each warp.

        Args:
            state: The state.
            lanes: One lane of each warp, shape (warps,).
            descriptors: uint64, shape (warps,).
            first: Each warp's start along the length, shape (warps,).

        Returns:
            float64 or int64, shape (warps, length, depth).

        """
        size = _BYTES[self.kind]
        found = [self._places(int(one), int(start)) for one, start in zip(descriptors, first, strict=True)]
        addresses = np.stack(found)
        before = state.selection
        state.selection = np.repeat(lanes, self.length * self.depth)
        how = LaneAccess("shared", size, 1, False, self.site)
        (units,) = memory_access.load(state, how, addresses.reshape(-1).astype(np.uint64))
        state.selection = before
        return fragments.numbers(self.kind)(units).reshape(len(lanes), self.length, self.depth)

    def _places(self, descriptor: int, first: int) -> Array:
        """Return the addresses of all elements, shape (length, depth)."""
        size = _BYTES[self.kind]
        leading, stride = (_decoded(descriptor >> at) for at in (16, 32))
        width, pieces = _WIDTHS[descriptor >> 62], _PIECE // size
        along, deep = np.arange(first, first + self.length)[:, None], np.arange(self.depth)[None, :]
        if width == _PIECE and self.turned:
            places = along % pieces * size + along // pieces * stride + deep % _CORE * _PIECE + deep // _CORE * leading
        elif width == _PIECE:
            places = along % _CORE * _PIECE + along // _CORE * stride + deep % pieces * size + deep // pieces * leading
        elif self.turned:
            row = width // size
            places = along % row * size + along // row * leading + deep % _CORE * width + deep // _CORE * stride
        else:
            places = along % _CORE * width + along // _CORE * stride + deep * size
        addresses = _decoded(descriptor) + places
        swizzled: Array = addresses ^ (addresses >> 3 & (width - _PIECE))
        return swizzled


def _decoded(field: int) -> int:
    """Decode a 14-bit field of a descriptor to bytes."""
    return (field & 0x3FFF) << 4


def _wgmma(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    action = modifiers.one_of(("fence", "commit_group", "wait_group", "mma_async"))
    modifiers.drop(("sync", "aligned"))
    require(bool(action), "it has no supported action")
    return _product(code, modifiers) if action == "mma_async" else _nothing


def _nothing(_state: ExecutionState) -> None:
    """Do nothing: earlier products are already complete."""


def _product(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    saturate = modifiers.flag("satfinite")
    shape = _SHAPE.match(modifiers.left.pop(0)) if modifiers.left else None
    require(shape is not None and len(modifiers.left) == 3, "its shape or its types are not supported")
    columns, depth = (int(one) for one in shape.groups()) if shape else (0, 0)
    target, left, right = modifiers.left
    modifiers.left.clear()
    require({left, right} <= _BYTES.keys(), f"products of .{left} and .{right} are not supported")
    require(depth * _BYTES[left] == 32, "this shape is not supported")
    result, a, b, *rest = code.operands
    into, from_sums, to_sums = fragments.sums(target, _ROWS, _CORE), fragments.numbers(target), fragments.raw(target)
    signs, turned = _constants(rest[1:], in_registers=isinstance(a, Vector))
    sums, writers = _registers(code, result)
    require(len(writers) == columns // _CORE * into.registers, "its operands do not fit its shape")
    first = _left(code, a, left, depth, turned=turned[0])
    second, from_right = code.read(b, U64), _Matrix(right, columns, depth, turned[1], code.site)
    adds = code.read(rest[0], PREDICATE)

    def step(state: ExecutionState) -> None:
        lanes = whole_warps(state, code.site)[:, 0]
        given = [state.spread(read(state)).reshape(-1, WARP) for read in sums]
        others = state.spread(second(state)).reshape(-1, WARP)[:, 0]
        start = np.zeros(len(lanes), np.int64)
        product = first(state, lanes) @ from_right.read(state, lanes, others, start).swapaxes(1, 2) * signs
        added = state.spread(adds(state)).reshape(-1, WARP)[:, :1, None]
        for at in range(columns // _CORE):
            words = slice(at * into.registers, (at + 1) * into.registers)
            part = product[..., at * _CORE : (at + 1) * _CORE]
            part = part + np.where(added, from_sums(into.take(given[words])[:, 0]), 0)
            if saturate:
                part = np.clip(part, -(2**31), 2**31 - 1)
            into.write(state, writers[words], to_sums(part)[:, None])

    return step


def _constants(operands: list[Operand], *, in_registers: bool) -> tuple[int, tuple[bool, bool]]:
    """Return the product's sign and whether each matrix is transposed; some types omit the last operands."""
    require(all(isinstance(one, Immediate) for one in operands), "its last operands must be constants")
    values = [int(one.value) for one in operands if isinstance(one, Immediate)]
    sign = values[0] * values[1] if len(values) > 1 else 1
    turned = [bool(value) for value in values[2:]]
    if in_registers:
        turned = [False, *turned]
    return sign, (turned[0], turned[1]) if len(turned) > 1 else (False, False)


def _registers(code: CompiledInstruction, operand: Operand) -> tuple[list[Reader], list[Writer | None]]:
    items = items_of(operand)
    return [code.read(item, U32) for item in items], [code.write(item, U32) for item in items]


def _left(
    code: CompiledInstruction, operand: Operand, kind: str, depth: int, *, turned: bool
) -> Callable[[ExecutionState, Array], Array]:
    """Return a function that reads each warp's rows of the left matrix, shape (warps, 16, depth)."""
    if isinstance(operand, Vector):
        held, convert = fragments.left(kind, _ROWS, depth), fragments.numbers(kind)
        readers = held.readers(code, operand)
        return lambda state, _lanes: convert(held.read(state, readers)[:, 0])
    matrix, read = _Matrix(kind, _ROWS, depth, turned, code.site), code.read(operand, U64)

    def rows(state: ExecutionState, lanes: Array) -> Array:
        warps = lanes // WARP % state.shape.warps
        if (warps // 4 * 4 + 4 > state.shape.warps).any():
            raise Violation(
                "a warp-group product in a block without four warps for the group",
                site=code.site,
                lane=int(lanes[0]),
                fix="Use a block size that is a multiple of 128.",
                code="gpu.fault.incomplete-warp-group",
            )
        return matrix.read(state, lanes, state.spread(read(state)).reshape(-1, WARP)[:, 0], _ROWS * (warps % 4))

    return rows


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {"wgmma": _wgmma}
"""Instruction name to the function that compiles it."""

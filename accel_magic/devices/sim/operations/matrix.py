"""Matrix loads, stores and transpositions of a warp: ldmatrix, stmatrix and movmatrix (PTX ISA 9.7.14.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.instruction_compiler import Modifiers, require
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations.fragments import whole_warps
from accel_magic.devices.sim.operations.moving import space_of
from accel_magic.devices.sim.types import TYPES
from accel_magic.ptx.ptx_model import items_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Step
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array

U32 = TYPES["u32"]
_COUNTS: Final = {"x1": 1, "x2": 2, "x4": 4}


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


def _ldmatrix(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    count, turned, space = _matrices(modifiers)
    writers = [code.write(item, U32) for item in items_of(code.operands[0])]
    require(len(writers) == count, f"it must have {count} destination registers")
    address = code.address(code.operands[1], space)
    how = LaneAccess(space, 4, 4, False, code.site)

    def step(state: ExecutionState) -> None:
        lanes = whole_warps(state, code.site)
        giving = np.flatnonzero(state.lane[lanes.reshape(-1)] < 8 * count)
        addresses = state.spread(address(state))[giving]
        before = state.selection
        state.selection = lanes.reshape(-1)[giving]
        words = np.stack(memory_access.load(state, how, addresses), axis=-1)
        state.selection = before
        rows = words.reshape(-1, count, 8, 4)
        if turned:
            rows = _transposed(rows)
        for number, write in enumerate(writers):
            if write is not None:
                write(state, rows[:, number].reshape(-1))

    return step


def _stmatrix(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    count, turned, space = _matrices(modifiers)
    readers = [code.read(item, U32) for item in items_of(code.operands[1])]
    require(len(readers) == count, f"it must have {count} source registers")
    address = code.address(code.operands[0], space)
    how = LaneAccess(space, 4, 4, True, code.site)

    def step(state: ExecutionState) -> None:
        lanes = whole_warps(state, code.site)
        giving = np.flatnonzero(state.lane[lanes.reshape(-1)] < 8 * count)
        addresses = state.spread(address(state))[giving]
        rows = np.stack([state.spread(read(state)).reshape(-1, 8, 4) for read in readers], axis=1)
        if turned:
            rows = _transposed(rows)
        before = state.selection
        state.selection = lanes.reshape(-1)[giving]
        memory_access.store(state, how, addresses, list(rows.reshape(-1, 4).T))
        state.selection = before

    return step


def _movmatrix(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.drop(("sync", "aligned"))
    shape, turned = modifiers.flag("m8n8"), modifiers.flag("trans")
    require(shape and turned and modifiers.type().bits == 16, "only .m8n8.trans of .b16 is supported")
    write, read = code.write(code.operands[0], U32), code.read(code.operands[1], U32)

    def step(state: ExecutionState) -> None:
        whole_warps(state, code.site)
        rows = state.spread(read(state)).reshape(-1, 1, 8, 4)
        if write is not None:
            write(state, _transposed(rows).reshape(-1))

    return step


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "movmatrix": _movmatrix,
}
"""Instruction name to the function that compiles it."""

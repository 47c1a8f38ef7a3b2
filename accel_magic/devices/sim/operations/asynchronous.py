"""Asynchronous copies and waiting: cp.async, nanosleep (PTX ISA 9.7.9.25).

Copies complete when they are issued; code that waits for them as the manual requires sees the same results as on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.instruction_compiler import Modifiers, require
from accel_magic.devices.sim.lane_state import WARP
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations import mbarrier, tensors
from accel_magic.devices.sim.operations.moving import ORDERS, space_of
from accel_magic.devices.sim.types import TYPES
from accel_magic.ptx.ptx_model import Immediate

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Step
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array

U32 = TYPES["u32"]


def _cp_async(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    if modifiers.flag("bulk"):
        if "prefetch" not in modifiers.left and modifiers.flag("tensor"):
            return tensors.copy(code, modifiers)
        return mbarrier.bulk(code, modifiers)
    if modifiers.flag("mbarrier"):
        return mbarrier.arrive_behind_copies(code, modifiers)
    if modifiers.one_of(("commit_group", "wait_group", "wait_all")):
        return lambda _state: None
    modifiers.drop(ORDERS)
    target_space, source_space = space_of(modifiers), space_of(modifiers)
    require((target_space, source_space) == ("shared", "global"), "it can only copy from global to shared memory")
    size = code.operands[2]
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        require(False, "it can only copy 4, 8 or 16 bytes")
        raise AssertionError
    count = int(size.value) // 4
    target, source = code.address(code.operands[0], "shared"), code.address(code.operands[1], "global")
    given = code.read(code.operands[3], U32) if len(code.operands) > 3 else None
    read, write = LaneAccess("global", 4, count, False, code.site), LaneAccess("shared", 4, count, True, code.site)

    def step(state: ExecutionState) -> None:
        where = state.spread(target(state))
        kept = None if given is None else state.spread(given(state)).astype(np.int64)
        values = _partial(state, read, state.spread(source(state)), kept)
        memory_access.store(state, write, where, values)

    return step


def _partial(state: ExecutionState, how: LaneAccess, addresses: Array, kept: Array | None) -> list[Array]:
    """Load the first `kept` bytes of each lane and set the rest to zero; lanes with 0 bytes read nothing."""
    if kept is None:
        return memory_access.load(state, how, addresses)
    values = [np.zeros(len(addresses), np.uint32) for _ in range(how.count)]
    some = np.flatnonzero(kept > 0)
    if len(some):
        before = state.selection
        state.selection = state.lanes()[some]
        loaded = memory_access.load(state, how, addresses[some])
        state.selection = before
        for number, (value, found) in enumerate(zip(values, loaded, strict=True)):
            left = np.clip(kept[some] - 4 * number, 0, 4).astype(np.uint64)
            mask = (np.uint64(1) << left * np.uint64(8)) - np.uint64(1)
            value[some] = (found & mask).astype(np.uint32)
    return values


def _nanosleep(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.type()
    read = code.read(code.operands[0], U32)

    def step(state: ExecutionState) -> None:
        warps = state.lanes() // WARP
        longest = np.zeros(len(state.clock), np.int64)
        np.maximum.at(longest, warps, state.spread(read(state)).astype(np.int64))
        state.clock += longest

    return step


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {"cp.async": _cp_async, "nanosleep": _nanosleep}
"""Instruction name to the function that compiles it."""

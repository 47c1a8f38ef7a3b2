"""Bulk copies of boxes of tensors between global and shared memory, by tensor maps (PTX ISA, cp.async.bulk.tensor).

Copies complete when they are issued. Elements outside the tensor are read as zeros and not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import Modifiers, UnknownFormError, require
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations import mbarrier
from accel_magic.devices.sim.operations.moving import space_of
from accel_magic.devices.sim.tensor_maps import ALIGN, BYTES, TiledMap
from accel_magic.devices.sim.types import TYPES, UNSIGNED
from accel_magic.ptx.ptx_model import Immediate, items_of

if TYPE_CHECKING:
    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Reader, Step
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

_AXES: Final = {f"{axes}d": axes for axes in range(1, 6)}
_SHARED_ALIGN: Final = 128
_PIECE: Final = 16
"""Bytes that swizzling keeps together."""


def copy(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    """Compile `cp.async.bulk.tensor` in tiled mode."""
    require("multicast::cluster" not in modifiers.left, "copies to several blocks of a cluster are not supported")
    for mode in modifiers.left:
        require("im2col" not in mode, "copies in the mode im2col are not supported")
        require("gather4" not in mode and "scatter4" not in mode, "copies of four rows (sm_100) are not supported")
    axes = _AXES.get(modifiers.one_of(tuple(_AXES)), 0)
    require(bool(axes), "it has no supported number of dimensions")
    completes = modifiers.flag("mbarrier::complete_tx::bytes")
    modifiers.drop({"tile", "bulk_group", "L2::cache_hint", "cta_group::1"})
    loads = space_of(modifiers) == "shared"
    require(space_of(modifiers) == ("global" if loads else "shared"), "it copies between shared and global memory only")
    require(completes == loads, "it has no completion mechanism that the device supports")
    shared, tensor = (code.operands[0], code.operands[1]) if loads else (code.operands[1], code.operands[0])
    where, place, coordinates = code.address(shared, "shared"), *_tensor(code, tensor, axes)
    barrier = code.address(code.operands[2], "shared") if completes else None

    def step(state: ExecutionState) -> None:
        here, maps = state.spread(where(state)), state.spread(place(state))
        starts = np.stack([state.spread(read(state)).astype(np.int64) for read in coordinates])
        lanes, moved = state.lanes(), np.zeros(state.count(), np.int64)
        for lane in range(len(lanes)):
            with state.selecting(lanes[lane : lane + 1]):
                one = _read(state, code, maps[lane : lane + 1], axes)
                _require_aligned(state, code, here[lane])
                moved[lane] = _move(state, code, one, starts[:, lane], here[lane], loads=loads)
        if barrier is not None:
            mbarrier.change(state, code, "shared", state.spread(barrier(state)), brought=moved)

    return step


def _tensor(code: CompiledInstruction, operand: Operand, axes: int) -> tuple[Reader, list[Reader]]:
    """Compile `[map, {x, y}]`: the address of the map, and the coordinates."""
    address = code.indexed(operand)
    require(len(address.coordinates) == 1, "its tensor has no coordinates")
    given = address.coordinates[0]
    items = items_of(given)
    require(len(items) == axes, f"it has {len(items)} coordinates; {axes} are required")
    base, offset = address.base, np.uint64(address.offset)
    if isinstance(base, Immediate):
        raise UnknownFormError("its tensor map has no address")
    if code.register(base):
        read = code.read(base, TYPES["u64"])
        place = lambda state: read(state) + offset  # noqa: E731 - one of two readers
    else:
        place = code.address_of(base.whole, address.offset, generic=True)
    return place, [code.read(item, TYPES["s32"]) for item in items]


def _read(state: ExecutionState, code: CompiledInstruction, address: Array, axes: int) -> TiledMap:
    """Read the executing lane's tensor map.

    Raises:
        Violation: There is none at this address, or it has another number of dimensions.

    """
    how = LaneAccess("", 8, 1, False, code.site)
    words = [memory_access.load(state, how, address + np.uint64(at))[0] for at in range(0, BYTES, 8)]
    found = TiledMap.unpack(np.concatenate(words).tobytes())
    if found is None or len(found.sizes) != axes or int(address[0]) % ALIGN:
        raise Violation(
            "invalid tensor map",
            site=code.site,
            lane=int(state.lanes()[0]),
            address=int(address[0]),
            why=f"its address must be a multiple of {ALIGN}"
            if int(address[0]) % ALIGN
            else "these bytes are not a tensor map"
            if found is None
            else f"it has {len(found.sizes)} dimensions, the instruction {axes}",
            fix="Pass what cuTensorMapEncodeTiled wrote as a parameter: const __grid_constant__ CUtensorMap.",
            code="gpu.fault.bad-tensor-map",
        )
    return found


def _require_aligned(state: ExecutionState, code: CompiledInstruction, address: Array) -> None:
    if int(address) % _SHARED_ALIGN:
        raise Violation(
            f"invalid bulk copy at {int(address):#x} in shared memory",
            site=code.site,
            lane=int(state.lanes()[0]),
            address=int(address),
            fix=f"Align the array in shared memory: alignas({_SHARED_ALIGN}).",
            code="gpu.fault.bad-bulk-copy",
        )


def _move(
    state: ExecutionState, code: CompiledInstruction, what: TiledMap, start: Array, shared: Array, *, loads: bool
) -> int:
    """Copy a box for the executing lane; returns its bytes, with those outside the tensor."""
    offsets, inside = _box(what, start)
    places = _swizzled(shared + np.arange(len(offsets), dtype=np.uint64) * np.uint64(what.unit), what)
    some = np.flatnonzero(inside)
    lane = state.lanes()[:1]
    whole, part = np.repeat(lane, len(offsets)), np.repeat(lane, len(some))
    in_tensor = (what.address + offsets[some]).astype(np.uint64)
    values = np.zeros(len(offsets), UNSIGNED[what.unit])
    if loads:
        with state.selecting(part):
            if len(some):
                values[some] = memory_access.load(
                    state, LaneAccess("global", what.unit, 1, False, code.site), in_tensor
                )[0]
        with state.selecting(whole):
            memory_access.store(state, LaneAccess("shared", what.unit, 1, True, code.site), places, [values])
    else:
        with state.selecting(part):
            if len(some):
                taken = memory_access.load(state, LaneAccess("shared", what.unit, 1, False, code.site), places[some])
                memory_access.store(state, LaneAccess("global", what.unit, 1, True, code.site), in_tensor, taken)
    return len(offsets) * what.unit


def _box(what: TiledMap, start: Array) -> tuple[Array, Array]:
    """Return the offset of each element of the box, innermost axis first (int64 bytes), and whether it is inside."""
    offsets, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
    strides = (what.unit, *what.strides)
    for axis, count in enumerate(what.counts):
        index = start[axis] + np.arange(count) * what.steps[axis]
        offsets = (index[:, None] * strides[axis] + offsets[None, :]).reshape(-1)
        inside = (((index >= 0) & (index < what.sizes[axis]))[:, None] & inside[None, :]).reshape(-1)
    return offsets, inside


def _swizzled(addresses: Array, what: TiledMap) -> Array:
    """Exchange pieces of 16 bytes, by the address of their row."""
    if not what.swizzle:
        return addresses
    swizzled: Array = addresses ^ (addresses >> np.uint64(3) & np.uint64((_PIECE << what.swizzle) - _PIECE))
    return swizzled

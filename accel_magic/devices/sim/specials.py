"""Special registers: a thread's identity, and the time.

Times come from a model, not a GPU: a warp's clock advances by the cost of the instructions it executes, one cycle is
one nanosecond, and %clock and %globaltimer read the same clock. A cluster has one block.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim.lane_state import WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.lane_state import BatchShape, ExecutionState
    from accel_magic.devices.sim.types import Array

RESIDENT_BLOCKS: Final = 32
RESIDENT_THREADS: Final = 2048
_AXES: Final = {"x": 0, "y": 1, "z": 2}


def _now(state: ExecutionState, elapsed: int) -> Array:
    """Clock of each executing lane's warp, uint64."""
    return (state.clock[state.lanes() // WARP] + elapsed).view(np.uint64)


DYNAMIC: Final[dict[str, Callable[[ExecutionState, int], Array]]] = {
    "%clock": lambda state, elapsed: _now(state, elapsed) & np.uint64(0xFFFFFFFF),
    "%clock_hi": lambda state, elapsed: _now(state, elapsed) >> np.uint64(32),
    "%clock64": _now,
    "%globaltimer": _now,
    "%globaltimer_lo": lambda state, elapsed: _now(state, elapsed) & np.uint64(0xFFFFFFFF),
    "%globaltimer_hi": lambda state, elapsed: _now(state, elapsed) >> np.uint64(32),
}
"""Registers computed on each read from the state and the cycles since the segment began."""

_LANE: Final[dict[str, Callable[[Array], Array]]] = {
    "%laneid": lambda lane: lane,
    "%lanemask_eq": lambda lane: np.uint32(1) << lane,
    "%lanemask_lt": lambda lane: (np.uint32(1) << lane) - np.uint32(1),
    "%lanemask_le": lambda lane: ((np.uint32(1) << lane) - np.uint32(1)) | np.uint32(1) << lane,
    "%lanemask_gt": lambda lane: ~(((np.uint32(1) << lane) - np.uint32(1)) | np.uint32(1) << lane),
    "%lanemask_ge": lambda lane: ~((np.uint32(1) << lane) - np.uint32(1)),
}
_UNIFORM: Final[dict[str, Callable[[BatchShape, int, int], int]]] = {
    "%nwarpid": lambda _shape, _sms, _launch: RESIDENT_THREADS // WARP,
    "%nsmid": lambda _shape, sms, _launch: sms,
    "%gridid": lambda _shape, _sms, launch: launch,
    "%dynamic_smem_size": lambda shape, _sms, _launch: shape.dynamic,
    "%total_smem_size": lambda shape, _sms, _launch: shape.shared,
    "%aggr_smem_size": lambda shape, _sms, _launch: shape.shared,
    "%cluster_ctarank": lambda _shape, _sms, _launch: 0,
    "%cluster_nctarank": lambda _shape, _sms, _launch: 1,
    "%is_explicit_cluster": lambda _shape, _sms, _launch: 0,
    "%current_graph_exec": lambda _shape, _sms, _launch: 0,
}
_VECTORS: Final = (
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
)
_WORKSPACE: Final = {"%envreg1": 32, "%envreg2": 0}
"""Halves of the address of the workspace of a cooperative launch, as CUDA's headers expect them."""
_ENVIRONMENT: Final = re.compile(r"%(envreg([0-9]|[12][0-9]|3[01])|pm[0-7](_64)?)$")


def known(name: str) -> bool:
    """Whether a name is a special register that the device supports."""
    vector, _, axis = name.partition(".")
    return (
        name in DYNAMIC
        or name in _LANE
        or name in _UNIFORM
        or name in ("%warpid", "%smid")
        or (vector in _VECTORS and axis in _AXES)
        or bool(_ENVIRONMENT.match(name))
    )


def size_of(name: str) -> int:
    """Bytes of a special register; 0 for a predicate."""
    if name == "%is_explicit_cluster":
        return 0
    return 8 if name in ("%gridid", "%current_graph_exec") or name.endswith("_64") else 4


def changes(name: str) -> bool:
    """Whether it differs between the blocks that run in one slot."""
    return name.startswith(("%ctaid", "%clusterid"))


def fill(name: str, target: Array, state: ExecutionState, multiprocessors: int) -> None:
    """Fill the array, shape (lanes,), of a special register that is constant while a block runs."""
    vector, _, axis = name.partition(".")
    if name in _LANE:
        target[:] = _LANE[name](state.lane)
    elif name in _UNIFORM:
        target[:] = _UNIFORM[name](state.shape, multiprocessors, state.launch)
    elif vector in _VECTORS:
        target[:] = _coordinate(vector, _AXES[axis], state)
    elif name == "%warpid":
        target[:] = state.thread // WARP
    elif name in _WORKSPACE:
        target[:] = state.workspace >> _WORKSPACE[name] & 0xFFFFFFFF
    elif name == "%smid":
        target[:] = state.slot % multiprocessors
    else:
        target[:] = 0


def _coordinate(vector: str, axis: int, state: ExecutionState) -> Array | int:
    grid, block = state.shape.grid, state.shape.block
    if vector == "%tid":
        return _along(state.thread, block, axis)
    if vector in ("%ctaid", "%clusterid"):
        return _along(np.maximum(state.block_number, 0)[state.slot], grid, axis)
    return {"%ntid": block, "%nctaid": grid, "%nclusterid": grid, "%cluster_ctaid": (0, 0, 0)}.get(vector, (1, 1, 1))[
        axis
    ]


def _along(numbers: Array, sizes: tuple[int, int, int], axis: int) -> Array:
    return (numbers, numbers // sizes[0], numbers // (sizes[0] * sizes[1]))[axis] % sizes[axis]

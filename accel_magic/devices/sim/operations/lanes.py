"""Communication between the lanes of a warp: shuffles, votes, matches, reductions (PTX ISA 9.7.9.6, 9.7.13.9 ff.).

The `.sync` forms wait until all lanes of their mask have arrived; the compiler puts a gate before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.devices.sim import float_arithmetic
from accel_magic.devices.sim.instruction_compiler import Modifiers, require
from accel_magic.devices.sim.lane_state import WARP
from accel_magic.devices.sim.types import TYPES
from accel_magic.ptx.ptx_model import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Step, Writer
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array

U32 = TYPES["u32"]
PREDICATE = TYPES["pred"]


def _pair(code: CompiledInstruction, first: Any, second: Any = PREDICATE) -> tuple[Writer | None, Writer | None]:
    """Compile a destination `d` or `d|p`."""
    target = code.operands[0]
    if isinstance(target, Pair):
        return code.write(target.first, first), code.write(target.second, second)
    return code.write(target, first), None


def _put(write: Writer | None, state: ExecutionState, values: Array) -> None:
    if write is not None:
        write(state, values)


def _full(state: ExecutionState, values: Array) -> Array:
    """Scatter values of the executing lanes into shape (lanes,), with zero in other lanes."""
    values = np.asarray(values)
    everywhere = np.zeros(state.shape.lanes, values.dtype)
    everywhere[state.selection] = values
    return everywhere


def _source_lane(mode: str, lane: Array, by: Array, c: Array) -> tuple[Array, Array]:
    """Return the lane that each lane reads, and whether it is in its segment: the manual's pseudocode."""
    clamp, segment = c & 31, c >> 8 & 31
    low = lane & segment
    high = low | clamp & ~segment
    by = by & 31
    if mode == "up":
        source = lane - by
        return source, source >= high
    if mode == "down":
        source = lane + by
    elif mode == "bfly":
        source = lane ^ by
    else:
        source = low | by & ~segment & 31
    return source, source <= high


def _shfl(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.flag("sync")
    mode = modifiers.one_of(("up", "down", "bfly", "idx"))
    require(bool(mode), "it has no supported mode")
    modifiers.type()
    value, by, c = (code.read(operand, U32) for operand in code.operands[1:4])
    write, inside = _pair(code, U32)

    def step(state: ExecutionState) -> None:
        values = _full(state, value(state))
        lanes = state.lanes()
        lane = lanes % WARP
        source, good = _source_lane(
            mode, lane, np.asarray(by(state)).astype(np.int64), np.asarray(c(state)).astype(np.int64)
        )
        source = np.where(good, source, lane)
        _put(write, state, values[lanes - lane + source])
        _put(inside, state, good)

    return step


def _voters(state: ExecutionState, mask: Array) -> Array:
    """Return the lanes whose votes each executing lane counts: executing and in its mask; uint32 per executing lane."""
    return state.ballot(state.active())[state.lanes() // WARP] & mask


def _vote(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    sync, mode = modifiers.flag("sync"), modifiers.one_of(("all", "any", "uni", "ballot"))
    require(bool(mode), "it has no supported mode")
    modifiers.type()
    truth = code.read(code.operands[1], PREDICATE)
    mask = code.read(code.operands[2], U32) if sync else None
    write = code.write(code.operands[0], U32 if mode == "ballot" else PREDICATE)

    def step(state: ExecutionState) -> None:
        voters = _voters(state, np.uint32(0xFFFFFFFF) if mask is None else mask(state))
        votes = state.ballot(_full(state, state.spread(truth(state))))[state.lanes() // WARP] & voters
        _put(write, state, _DECIDE[mode](votes, voters))

    return step


_DECIDE: dict[str, Callable[[Array, Array], Array]] = {
    "all": lambda votes, voters: votes == voters,
    "any": lambda votes, _voters: votes != 0,
    "uni": lambda votes, voters: (votes == voters) | (votes == 0),
    "ballot": lambda votes, _voters: votes,
}


def _activemask(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.type()
    write = code.write(code.operands[0], U32)
    return lambda state: _put(write, state, state.ballot(state.active())[state.lanes() // WARP])


def _table(state: ExecutionState, mask: Array) -> tuple[Array, Array, Array]:
    """Return the warps with executing lanes, each executing lane's row among them, and participation (warps, 32)."""
    warps = state.warps()
    rows = np.searchsorted(warps, state.lanes() // WARP)
    taking = np.zeros(state.shape.lanes, np.bool_)
    taking[state.selection] = np.asarray(mask).astype(np.uint32) >> state.lane[state.selection] & np.uint32(1) == 1
    return warps, rows, taking.reshape(-1, WARP)[warps]


def _match(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.flag("sync")
    mode = modifiers.one_of(("any", "all"))
    require(bool(mode), "it has no supported mode")
    kind = TYPES[f"u{modifiers.type().bits}"]
    value, mask = code.read(code.operands[1], kind), code.read(code.operands[2], U32)
    write, same = _pair(code, U32)

    def step(state: ExecutionState) -> None:
        warps, rows, taking = _table(state, mask(state))
        values = _full(state, value(state)).reshape(-1, WARP)[warps]
        equal = (values[:, :, None] == values[:, None, :]) & taking[:, None, :]
        packed = np.packbits(equal, axis=2, bitorder="little").view(np.uint32)[..., 0]
        mine = packed[rows, state.lanes() % WARP]
        if mode == "any":
            _put(write, state, mine)
            return
        everyone = np.packbits(taking, axis=1, bitorder="little").view(np.uint32)[:, 0][rows]
        _put(write, state, np.where(mine == everyone, everyone, np.uint32(0)))
        _put(same, state, mine == everyone)

    return step


_REDUCE: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "add": (np.add, lambda _dtype: 0),
    "and": (np.bitwise_and, lambda dtype: np.iinfo(dtype).max),
    "or": (np.bitwise_or, lambda _dtype: 0),
    "xor": (np.bitwise_xor, lambda _dtype: 0),
    "min": (np.minimum, lambda dtype: np.iinfo(dtype).max),
    "max": (np.maximum, lambda dtype: np.iinfo(dtype).min),
}


def _redux(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.flag("sync")
    name = modifiers.one_of(tuple(_REDUCE))
    absolute, nan = modifiers.flag("abs"), modifiers.flag("NaN")
    kind = modifiers.type()
    require(bool(name) and (kind.integer or name in ("min", "max")), "its operation is not supported")
    value, mask = code.read(code.operands[1], kind), code.read(code.operands[2], U32)
    write = code.write(code.operands[0], kind)

    def step(state: ExecutionState) -> None:
        warps, rows, taking = _table(state, mask(state))
        values = _full(state, np.abs(value(state)) if absolute else value(state)).reshape(-1, WARP)[warps]
        if kind.kind == "f":
            results = _float_extreme(name, values, taking, nan)
        else:
            function, neutral = _REDUCE[name]
            rest = np.array(neutral(kind.dtype)).astype(kind.dtype)
            results = function.reduce(np.where(taking, values, rest), axis=1, dtype=kind.dtype)
        _put(write, state, results[rows])

    return step


def _float_extreme(name: str, values: Array, taking: Array, nan: bool) -> Array:
    pick = float_arithmetic.lesser if name == "min" else float_arithmetic.greater
    values = np.where(taking, values, np.float32(np.inf if name == "min" else -np.inf))
    result = values[:, 0]
    for column in range(1, WARP):
        result = float_arithmetic.strict(pick, result, values[:, column]) if nan else pick(result, values[:, column])
    return result


def _elect(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.flag("sync")
    mask = code.read(code.operands[1], U32)
    leader, chosen = _pair(code, U32)

    def step(state: ExecutionState) -> None:
        voters = _voters(state, mask(state))
        lowest = voters & (~voters + np.uint32(1))
        first = np.log2(np.maximum(lowest, 1).astype(np.float64)).astype(np.uint32)
        _put(leader, state, first)
        _put(chosen, state, first == state.lane[state.selection])

    return step


def _warp_barrier(_code: CompiledInstruction, modifiers: Modifiers) -> Step:
    modifiers.left.clear()
    return lambda _state: None


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {
    "shfl": _shfl,
    "vote": _vote,
    "activemask": _activemask,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "bar.warp": _warp_barrier,
}
"""Instruction name to the function that compiles it."""
MASKS: dict[str, int | None] = {
    "shfl": 4,
    "vote": 2,
    "match": 2,
    "redux": 2,
    "elect": 1,
    "bar.warp": 0,
    **dict.fromkeys(("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma")),
}
"""Index of the operand of a `.sync` form that holds the mask of lanes to wait for; None for the whole warp."""

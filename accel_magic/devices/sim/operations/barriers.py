"""Barriers of a block: bar and barrier (PTX ISA 9.7.13.1).

Lanes arrive one by one, as on GPUs since Volta, so a barrier in divergent code completes when all threads have arrived,
from whatever path. Threads that have ended are not waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import Modifiers, UnknownFormError, require
from accel_magic.devices.sim.lane_state import NOWHERE, PC_MASK, WARP, distinct_sorted
from accel_magic.devices.sim.types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, End, Reader, Writer
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

U32 = TYPES["u32"]
PREDICATE = TYPES["pred"]
BARRIERS = 16
CLUSTER = 16
"""Number of the cluster's barrier, which the block shares with no other: a cluster has one block."""


@dataclass
class Waiting:
    """The state of one barrier in the blocks of a batch.

    Attributes:
        expected: Threads that must arrive, 0 for all of the block; shape (slots,).
        announced: Threads that arrived without waiting; shape (slots,).

    """

    expected: Array
    announced: Array


def waiting(state: ExecutionState, number: int) -> Waiting:
    """Return a barrier's record, created on first use."""
    slots = state.shape.slots
    empty = Waiting(np.zeros(slots, np.int64), np.zeros(slots, np.int64))
    record: Waiting = state.barrier_records.setdefault(number, empty)
    return record


def complete(state: ExecutionState, number: int) -> bool:
    """Release the threads of every block that has completed a barrier. Returns whether there was one."""
    if number == CLUSTER:
        return _complete_cluster(state)
    record = waiting(state, number)
    slots = state.shape.slots
    here = state.barrier == number
    exception = np.bincount(state.slot[here], minlength=slots)
    # A barrier with a count counts whole warps: ended threads count if their warp is at the barrier.
    companions = here.reshape(-1, WARP).any(1).repeat(WARP) & (state.ended | ~state.exists)
    counted = exception + np.bincount(state.slot[companions], minlength=slots)
    all_here = (record.expected == 0) & (exception + record.announced >= state.live)
    enough = (record.expected > 0) & (counted + record.announced >= record.expected)
    done = (all_here | enough) & (exception + record.announced > 0)
    if not done.any():
        return False
    _release(state, np.flatnonzero(here & done[state.slot]))
    record.announced[done] = 0
    state.barriers += int(done.sum())
    return True


def _complete_cluster(state: ExecutionState) -> bool:
    """Release the threads that wait for a phase in which all threads of the block have arrived."""
    last = np.full(state.shape.slots, np.iinfo(np.int64).max)
    running = np.flatnonzero(state.exists & ~state.ended)
    np.minimum.at(last, state.slot[running], state.arrivals[running])
    done = np.flatnonzero((state.barrier == CLUSTER) & (state.arrivals <= last[state.slot]))
    _release(state, done)
    state.barriers += len(np.unique(state.slot[done]))
    return bool(len(done))


def _release(state: ExecutionState, lanes: Array) -> None:
    if not len(lanes):
        return
    _synchronize_clocks(state, lanes)
    keys = state.resume[lanes]
    state.key[lanes] = keys
    state.barrier[lanes] = -1
    for key in np.unique(keys):
        finish = state.finishers.get(int(key) & PC_MASK)
        if finish is not None:
            finish(state, lanes[keys == key], lanes)


def _synchronize_clocks(state: ExecutionState, lanes: Array) -> None:
    """Set the clocks of all warps of a block to the arrival of the last one."""
    warps = distinct_sorted(lanes // WARP)
    slots = warps // state.shape.warps
    last = np.zeros(state.shape.slots, np.int64)
    np.maximum.at(last, slots, state.clock[warps])
    state.clock[warps] = last[slots]


def _number(state: ExecutionState, code: CompiledInstruction, read: Reader) -> Array:
    numbers = state.spread(read(state)).astype(np.int64)
    bad = numbers >= BARRIERS
    if bad.any():
        first = int(np.argmax(bad))
        raise Violation(
            f"invalid barrier number {numbers[first]}",
            site=code.site,
            lane=int(state.lanes()[first]),
            why=f"a block has {BARRIERS} barriers",
            fix=f"Use barriers 0 to {BARRIERS - 1}.",
            code="gpu.fault.bad-barrier",
        )
    return numbers


def _arrive(
    state: ExecutionState, code: CompiledInstruction, number: Reader, count: Reader | None, key: int, *, wait: bool
) -> int:
    """Make the executing lanes arrive at a barrier. Returns -1: their keys are written here."""
    lanes, numbers = state.lanes(), _number(state, code, number)
    counts = np.zeros(len(lanes), np.int64) if count is None else state.spread(count(state)).astype(np.int64)
    if wait:
        state.barrier[lanes] = numbers
        state.resume[lanes] = key + 1
        state.key[lanes] = NOWHERE
    for one in np.unique(numbers):
        chosen = numbers == one
        record = waiting(state, int(one))
        record.expected[state.slot[lanes[chosen]]] = counts[chosen]
        if not wait:
            record.announced += np.bincount(state.slot[lanes[chosen]], minlength=state.shape.slots)
            state.key[lanes[chosen]] = key + 1
        complete(state, int(one))
    return -1


_ALL_THREADS: dict[str, Callable[[Array, Array], Array]] = {
    "popc": lambda yes, _total: yes,
    "and": lambda yes, total: yes == total,
    "or": lambda yes, _total: yes > 0,
}


def _reduction(state_votes: str, write: Writer | None) -> Callable[[ExecutionState, Array, Array], None]:
    """Make a function that writes the reduction over all participants to the lanes of one instruction."""

    def finish(state: ExecutionState, mine: Array, everyone: Array) -> None:
        slots = state.slot[everyone]
        total = np.bincount(slots, minlength=state.shape.slots)
        yes = np.bincount(slots, weights=state.vote[everyone], minlength=state.shape.slots).astype(np.int64)
        before = state.selection
        state.selection = mine
        if write is not None:
            write(state, _ALL_THREADS[state_votes](yes, total)[state.slot[mine]])
        state.selection = before

    return finish


def _bar(code: CompiledInstruction, modifiers: Modifiers, segment: int) -> End:
    modifiers.drop(("cta", "aligned"))
    mode = modifiers.one_of(("sync", "arrive", "red"))
    require(bool(mode), "it has no supported action")
    if mode == "red":
        return _bar_red(code, modifiers, segment)
    number, count = _operands(code, code.operands)
    require(mode == "sync" or count is not None, "the number of threads is missing")
    return lambda state, key: _arrive(state, code, number, count, key, wait=mode == "sync")


def _operands(code: CompiledInstruction, operands: list[Operand]) -> tuple[Reader, Reader | None]:
    if not operands:
        raise UnknownFormError("the barrier's number is missing")
    return code.read(operands[0], U32), code.read(operands[1], U32) if len(operands) > 1 else None


def _bar_red(code: CompiledInstruction, modifiers: Modifiers, segment: int) -> End:
    operation = modifiers.one_of(tuple(_ALL_THREADS))
    require(bool(operation), "its operation is not supported")
    modifiers.type()
    write = code.write(code.operands[0], U32 if operation == "popc" else PREDICATE)
    truth = code.read(code.operands[-1], PREDICATE)
    number, count = _operands(code, code.operands[1:-1])
    finish = _reduction(operation, write)

    def end(state: ExecutionState, key: int) -> int:
        state.vote[state.selection] = truth(state)
        state.finishers[segment + 1] = finish
        return _arrive(state, code, number, count, key, wait=True)

    return end


def _cluster(modifiers: Modifiers) -> End:
    """Compile `barrier.cluster`, with one instruction to arrive and one to wait."""
    modifiers.drop(("acquire", "release", "relaxed", "aligned"))
    mode = modifiers.one_of(("arrive", "wait"))
    require(bool(mode), "it has no supported action")
    return _cluster_arrive if mode == "arrive" else _cluster_wait


def _cluster_arrive(state: ExecutionState, key: int) -> int:
    lanes = state.lanes()
    state.arrivals[lanes] += 1
    state.key[lanes] = key + 1
    _complete_cluster(state)
    return -1


def _cluster_wait(state: ExecutionState, key: int) -> int:
    lanes = state.lanes()
    state.barrier[lanes] = CLUSTER
    state.resume[lanes] = key + 1
    state.key[lanes] = NOWHERE
    _complete_cluster(state)
    return -1


NAMES = ("bar", "barrier")


def compile_barrier(code: CompiledInstruction, modifiers: Modifiers, segment: int) -> End:
    """Compile a barrier that ends the segment with this number."""
    end: End = _cluster(modifiers) if modifiers.flag("cluster") else _bar(code, modifiers, segment)
    return end

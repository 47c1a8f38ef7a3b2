"""Barriers in shared memory, and the bulk copies that complete on them (PTX ISA 9.7.9.25, 9.7.13.15).

A barrier is a 64-bit word with a device-specific layout: the expected arrivals of a phase, the pending arrivals, the
bytes that copies have yet to transfer, and the phase's parity. Copies complete when they are issued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim import memory_access
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import Modifiers, require
from accel_magic.devices.sim.memory_access import LaneAccess
from accel_magic.devices.sim.operations.moving import ORDERS, space_of
from accel_magic.devices.sim.types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, Reader, Step
    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.devices.sim.types import Array
    from accel_magic.ptx.ptx_model import Operand

U32, U64, PREDICATE = TYPES["u32"], TYPES["u64"], TYPES["pred"]
_COUNT: Final = (1 << 20) - 1
_EXPECTED, _PENDING, _BYTES, _PARITY = 0, 20, 40, 63
"""First bit of each part of the word. The byte count is stored with an offset: the middle of its 23 bits is zero."""
_NO_BYTES: Final = 1 << 22
_ALL_BYTES: Final = (1 << 23) - 1


def _word(expected: int, pending: int, bytes_: int, parity: int) -> int:
    return expected << _EXPECTED | pending << _PENDING | (bytes_ + _NO_BYTES) << _BYTES | parity << _PARITY


def _after(word: int, *, arrivals: int = 0, dropped: int = 0, brought: int = 0, announced: int = 0) -> int:
    """Return a barrier's word after arrivals or bytes; -1 if more arrive than it expects."""
    expected, pending = word >> _EXPECTED & _COUNT, word >> _PENDING & _COUNT
    missing = (word >> _BYTES & _ALL_BYTES) - _NO_BYTES + announced - brought
    parity = word >> _PARITY
    if arrivals > pending or dropped > expected:
        return -1
    expected, pending = expected - dropped, pending - arrivals
    if not pending and not missing and (arrivals or brought):
        pending, parity = expected, 1 - parity
    return _word(expected, pending, missing, parity)


def change(state: ExecutionState, code: CompiledInstruction, space: str, addresses: Array, **amounts: Array) -> Array:
    """Update the executing lanes' barriers; lanes with the same barrier are combined.

    Args:
        state: The state.
        code: The instruction.
        space: Space of the addresses.
        addresses: uint64, one per executing lane.
        amounts: Each lane's amounts, int64, as for `_after`.

    Returns:
        The previous word of each lane's barrier, uint64.

    Raises:
        Violation: More threads arrive than a barrier expects.

    """
    lanes = state.lanes()
    keys = addresses | state.slot[lanes].astype(np.uint64) << np.uint64(48)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    sums = {name: np.bincount(group, weights=values).astype(np.int64) for name, values in amounts.items()}
    whole = state.selection
    state.selection = lanes[first]
    (before,) = memory_access.load(state, LaneAccess(space, 8, 1, False, code.site), addresses[first])
    after = [
        _after(int(word), **{name: int(values[place]) for name, values in sums.items()})
        for place, word in enumerate(before)
    ]
    if min(after) < 0:
        wrong = after.index(-1)
        raise Violation(
            "more threads arrive at a barrier than it expects",
            site=code.site,
            lane=int(lanes[first[wrong]]),
            address=int(addresses[first[wrong]]),
            fix="Initialize it with the number of arrivals in each phase.",
            code="gpu.fault.barrier-overrun",
        )
    memory_access.store(state, LaneAccess(space, 8, 1, True, code.site), addresses[first], [np.array(after, np.uint64)])
    state.selection = whole
    words: Array = before[group]
    return words


def _number(code: CompiledInstruction, operand: Operand | None, default: int = 1) -> Reader:
    if operand is None:
        return lambda _state: np.uint32(default)
    return code.read(operand, U32)


def _each(state: ExecutionState, read: Reader) -> Array:
    """Read a number in each executing lane; int64."""
    return state.spread(read(state)).astype(np.int64)


def _mbarrier(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    action = modifiers.one_of(tuple(_ACTIONS))
    require(bool(action), "it has no supported action")
    modifiers.drop({"b64", "noComplete"})
    if action == "pending_count":
        return _pending_count(code)
    space = space_of(modifiers)
    modifiers.drop(ORDERS)
    return _ACTIONS[action](code, modifiers, space)


def _init(code: CompiledInstruction, _modifiers: Modifiers, space: str) -> Step:
    address, count = code.address(code.operands[0], space), _number(code, code.operands[1])
    how = LaneAccess(space, 8, 1, True, code.site)

    def step(state: ExecutionState) -> None:
        words = [_word(count, count, 0, 0) for count in _each(state, count).tolist()]
        memory_access.store(state, how, state.spread(address(state)), [np.array(words, np.uint64)])

    return step


def _inval(code: CompiledInstruction, _modifiers: Modifiers, space: str) -> Step:
    address, how = code.address(code.operands[0], space), LaneAccess(space, 8, 1, True, code.site)
    return lambda state: memory_access.store(
        state, how, state.spread(address(state)), [np.zeros(state.count(), np.uint64)]
    )


def _arrive(code: CompiledInstruction, modifiers: Modifiers, space: str, *, drop: bool = False) -> Step:
    """Compile `arrive [state], [barrier], count`; with expect_tx, `count` is bytes to expect, with one arrival."""
    announces = modifiers.flag("expect_tx")
    result, place, *more = code.operands
    write = code.write(result, U64)
    address, amount = code.address(place, space), _number(code, more[0] if more else None)

    def step(state: ExecutionState) -> None:
        amounts = _each(state, amount)
        ones = np.ones_like(amounts)
        arrivals = ones if announces else amounts
        brings = {"arrivals": arrivals, "announced": amounts if announces else 0 * ones}
        before = change(
            state, code, space, state.spread(address(state)), dropped=arrivals if drop else 0 * ones, **brings
        )
        if write is not None:
            write(state, before)

    return step


def _arrive_drop(code: CompiledInstruction, modifiers: Modifiers, space: str) -> Step:
    return _arrive(code, modifiers, space, drop=True)


def _announce(code: CompiledInstruction, _modifiers: Modifiers, space: str) -> Step:
    return _bytes(code, space, "announced")


def _complete(code: CompiledInstruction, _modifiers: Modifiers, space: str) -> Step:
    return _bytes(code, space, "brought")


def _bytes(code: CompiledInstruction, space: str, what: str) -> Step:
    address, amount = code.address(code.operands[0], space), _number(code, code.operands[1])

    def step(state: ExecutionState) -> None:
        change(state, code, space, state.spread(address(state)), **{what: _each(state, amount)})

    return step


def _wait(code: CompiledInstruction, modifiers: Modifiers, space: str) -> Step:
    """Compile a test whether a phase, given by token or parity, is complete; it never blocks, so programs retry."""
    by_parity = modifiers.flag("parity")
    write = code.write(code.operands[0], PREDICATE)
    address = code.address(code.operands[1], space)
    given = code.read(code.operands[2], U32 if by_parity else U64)
    how = LaneAccess(space, 8, 1, False, code.site)

    def step(state: ExecutionState) -> None:
        (words,) = memory_access.load(state, how, state.spread(address(state)))
        requested = state.spread(given(state)).astype(np.uint64)
        parity = requested & np.uint64(1) if by_parity else requested >> np.uint64(_PARITY)
        if write is not None:
            write(state, words >> np.uint64(_PARITY) != parity)

    return step


def _pending_count(code: CompiledInstruction) -> Step:
    write, given = code.write(code.operands[0], U32), code.read(code.operands[1], U64)

    def step(state: ExecutionState) -> None:
        if write is not None:
            words = state.spread(given(state)) >> np.uint64(_PENDING) & np.uint64(_COUNT)
            write(state, words.astype(np.uint32))

    return step


_ACTIONS: Final[dict[str, Callable[[CompiledInstruction, Modifiers, str], Step]]] = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive_drop": _arrive_drop,
    "expect_tx": _announce,
    "complete_tx": _complete,
    "test_wait": _wait,
    "try_wait": _wait,
    "pending_count": lambda code, _modifiers, _space: _pending_count(code),
}


def bulk(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    """Compile `cp.async.bulk`: copies of contiguous bytes between global and shared memory."""
    if modifiers.one_of(("commit_group", "wait_group", "prefetch")):
        modifiers.left.clear()
        return lambda _state: None
    require("multicast::cluster" not in modifiers.left, "copies to several blocks of a cluster are not supported")
    completes = modifiers.flag("mbarrier::complete_tx::bytes")
    modifiers.drop({"bulk_group", "L2::cache_hint"})
    target_space, source_space = space_of(modifiers), space_of(modifiers)
    target, source = code.address(code.operands[0], target_space), code.address(code.operands[1], source_space)
    size = _number(code, code.operands[2])
    barrier = code.address(code.operands[3], "shared") if completes else None
    read, write = LaneAccess(source_space, 8, 1, False, code.site), LaneAccess(target_space, 8, 1, True, code.site)

    def step(state: ExecutionState) -> None:
        sizes, to, from_ = _each(state, size), state.spread(target(state)), state.spread(source(state))
        whole, lanes = state.selection, state.lanes()
        _require_pieces(state, code, sizes, to, from_)
        state.selection = np.repeat(lanes, sizes // 8)
        steps = np.concatenate([np.arange(0, one, 8).astype(np.uint64) for one in sizes.tolist()])
        (values,) = memory_access.load(state, read, np.repeat(from_, sizes // 8) + steps)
        memory_access.store(state, write, np.repeat(to, sizes // 8) + steps, [values])
        state.selection = whole
        if barrier is not None:
            change(state, code, "shared", state.spread(barrier(state)), brought=sizes)

    return step


def _require_pieces(state: ExecutionState, code: CompiledInstruction, sizes: Array, to: Array, from_: Array) -> None:
    """Check that sizes are positive, and sizes and addresses are multiples of 16 bytes."""
    wrong = (sizes <= 0) | ((sizes.astype(np.uint64) | to | from_) & np.uint64(15) != 0)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise Violation(
            f"invalid bulk copy of {sizes[first]} bytes from {int(from_[first]):#x} to {int(to[first]):#x}",
            site=code.site,
            lane=int(state.lanes()[first]),
            address=int(to[first]),
            fix="Use addresses and sizes that are multiples of 16 bytes.",
            code="gpu.fault.bad-bulk-copy",
        )


def arrive_behind_copies(code: CompiledInstruction, modifiers: Modifiers) -> Step:
    """Compile `cp.async.mbarrier.arrive`: the copies before it are complete, so it arrives at once.

    Without `noinc` the pending arrivals are incremented first, so the net effect is nothing.
    """
    require(modifiers.flag("arrive"), "it has no supported action")
    counted = modifiers.flag("noinc")
    modifiers.drop({"b64"})
    space = space_of(modifiers)
    address = code.address(code.operands[0], space)

    def step(state: ExecutionState) -> None:
        ones = np.full(state.count(), int(counted), np.int64)
        change(state, code, space, state.spread(address(state)), arrivals=ones)

    return step


STEPS: dict[str, Callable[[CompiledInstruction, Modifiers], Step]] = {"mbarrier": _mbarrier}
"""Instruction name to the function that compiles it."""

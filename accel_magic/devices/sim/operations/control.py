"""Branches, calls and ends (PTX ISA 9.7.12), as ends of segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.instruction_compiler import Modifiers, UnknownFormError
from accel_magic.devices.sim.lane_state import NOWHERE, PC_MASK
from accel_magic.devices.sim.types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import CompiledInstruction, End, Reader
    from accel_magic.devices.sim.lane_state import ExecutionState

U32 = TYPES["u32"]


def fall(_state: ExecutionState, key: int) -> int:
    """Continue with the next segment."""
    return key + 1


def branching(read: Reader, end: End, skip: int = 1) -> End:
    """Guard an end with a predicate: lanes where it is false continue `skip` segments later."""

    def end_under_predicate(state: ExecutionState, key: int) -> int:
        truth = read(state)
        if truth.all():
            return end(state, key)
        if not truth.any():
            return key + skip
        lanes = state.lanes()
        state.key[lanes[~truth]] = key + skip
        state.selection = lanes[truth]
        following = end(state, key)
        if following >= 0:
            state.key[state.selection] = following
        return -1

    return end_under_predicate


def _target(code: CompiledInstruction, name: str) -> int:
    if name not in code.scope.labels:
        raise UnknownFormError(f"there is no label {name}")
    return code.scope.labels[name]


def _bra(code: CompiledInstruction, modifiers: Modifiers) -> End:
    modifiers.flag("uni")
    target = code.symbol(code.operands[0])
    if target is None:
        raise UnknownFormError("its target is not a label")
    segment = _target(code, target.symbol)
    return lambda _state, key: (key & ~PC_MASK) | segment


def _brx(code: CompiledInstruction, modifiers: Modifiers) -> End:
    modifiers.drop(("idx", "uni"))
    table = code.symbol(code.operands[1])
    if table is None or table.symbol not in code.scope.tables:
        raise UnknownFormError("its targets are not a .branchtargets list")
    targets = np.array([_target(code, name) for name in code.scope.tables[table.symbol]], np.int64)
    read = code.read(code.operands[0], U32)
    site = code.site

    def end(state: ExecutionState, key: int) -> int:
        chosen = state.spread(read(state)).astype(np.int64)
        bad = chosen >= len(targets)
        if bad.any():
            first = int(np.argmax(bad))
            raise Violation(
                f"branch to entry {chosen[first]} of a list of {len(targets)}",
                site=site,
                lane=int(state.lanes()[first]),
                fix="Check the index computed here against the length of the list.",
                code="gpu.fault.bad-branch",
            )
        state.key[state.selection] = (key & ~PC_MASK) | targets[chosen]
        return -1

    return end


def _exit(_code: CompiledInstruction, _modifiers: Modifiers) -> End:
    return leave


def leave(state: ExecutionState, _key: int) -> int:
    """End the threads."""
    lanes = state.lanes()
    state.key[lanes] = NOWHERE
    state.ended[lanes] = True
    state.live -= np.bincount(state.slot[lanes], minlength=len(state.live))
    state.departed = True
    return -1


def _trap(code: CompiledInstruction, _modifiers: Modifiers) -> End:
    site = code.site

    def end(state: ExecutionState, _key: int) -> int:
        raise Violation(
            f"the kernel stopped itself with {code.instruction.opcode[0]}",
            site=site,
            lane=int(state.lanes()[0]),
            why="a check failed, or code was reached that should be unreachable",
            fix="Check the conditions that lead to this line of the kernel.",
            code="gpu.fault.trap",
        )

    return end


ENDS: dict[str, Callable[[CompiledInstruction, Modifiers], End]] = {
    "bra": _bra,
    "brx": _brx,
    "exit": _exit,
    "trap": _trap,
    "brkpt": _trap,
}
"""Instruction name to the function that compiles it; `call` and `ret` need the module and are in `calls`."""

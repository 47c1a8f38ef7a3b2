"""Plain updates of shared values (load, arithmetic, store) that can become one atomic operation.

`program.updates.find` recognizes the pattern. The lowering replaces the store by the atomic operation; registers that
held the value read or the value written then hold the atomic's result or the arithmetic's result for it. This module
proves that load and store access the same place, and that the place is shared and aligned for an atomic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.flow import flow_of
from accel_magic.gpu.program.isa import Alu
from accel_magic.gpu.program.updates import find
from accel_magic.gpu.verifier.findings import finding
from accel_magic.gpu.verifier.simt import PROMOTED, alone, shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.updates import Update
    from accel_magic.gpu.program.verdict import Place, VerifierFinding
    from accel_magic.gpu.verifier.lane_values import LaneValue
    from accel_magic.gpu.verifier.uniformity import Uniformity


def promoted(uniformity: Uniformity) -> tuple[frozenset[Place], frozenset[Place], list[VerifierFinding]]:
    """Find the updates that become atomic.

    Returns:
        Their loads, in the form that `lower` takes; their stores; and a note for each.

    """
    loads, stores, notes = set(), set(), []
    for load, update in _updates(uniformity):
        store = (load[0], update.store)
        loads.add(load)
        stores.add(store)
        notes.append(_note(uniformity, store, update))
    return frozenset(loads), frozenset(stores), notes


def _updates(uniformity: Uniformity) -> Iterator[tuple[Place, Update]]:
    for at, function in enumerate(uniformity.world.program.functions):
        loads = [(at, slot) for slot, each in enumerate(function.code) if each is not None and each.kind == isa.LDX]
        candidates = [load for load in loads if _reads_shared(uniformity, load)]
        flow = flow_of(function) if candidates else None
        for load in candidates:
            update = None if flow is None else find(function, flow, load[1])
            if update is not None and _is_one_place(uniformity, load, (at, update.store)):
                yield load, update


def _reads_shared(uniformity: Uniformity, load: Place) -> bool:
    instruction = _instruction(uniformity, load)
    return load in uniformity.states and shared(uniformity.world, uniformity.world.fact(load, instruction.src))


def _is_one_place(uniformity: Uniformity, load: Place, store: Place) -> bool:
    """Whether load and store access the same aligned place, which other threads may change as well."""
    first, last = _instruction(uniformity, load), _instruction(uniformity, store)
    state = uniformity.states[store]
    source, target = uniformity.states[load].registers[first.src], state.registers[last.dst]
    return (
        source.version == target.version
        and first.offset == last.offset
        and _is_aligned(target, last)
        and not alone(state.pins, target.own)
    )


def _is_aligned(pointer: LaneValue, instruction: EbpfInstruction) -> bool:
    return instruction.offset % instruction.size == 0 and (1 << pointer.zeros) % instruction.size == 0


def _instruction(uniformity: Uniformity, place: Place) -> EbpfInstruction:
    instruction = uniformity.world.program.functions[place[0]].code[place[1]]
    if instruction is None:
        raise AssertionError(place)
    return instruction


def _note(uniformity: Uniformity, store: Place, update: Update) -> VerifierFinding:
    world = uniformity.world
    name = world.fact(store, _instruction(uniformity, store).dst).map or "a map value"
    operation = Alu(_instruction(uniformity, (store[0], update.change)).operation).name.lower()
    message = f"the update of {name} runs as an atomic {operation} of {update.size} bytes"
    return finding(PROMOTED, world.program, store, message)

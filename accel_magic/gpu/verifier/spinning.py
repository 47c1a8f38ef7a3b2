"""Loops that wait for another thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.gpu import isa
from accel_magic.gpu.verifier.flow import memory
from accel_magic.gpu.verifier.lanes import mix
from accel_magic.gpu.verifier.world import LOOKUP, helper_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.isa import Instruction
    from accel_magic.gpu.verifier.cfg import Loop
    from accel_magic.gpu.verifier.findings import Place
    from accel_magic.gpu.verifier.lanes import Value
    from accel_magic.gpu.verifier.uniformity import Uniformity


def waits(uniformity: Uniformity) -> Iterator[tuple[Place, str]]:
    """Find reads of one shared value, again in each round of a loop, that decide when the loop ends.

    A loop that tries to exchange the value that it read before is no wait: each round some thread gets on.
    """
    for at, cfg in enumerate(uniformity.cfgs):
        for loop in cfg.loops:
            trying = _exchanged(uniformity, at, loop)
            for place in sorted(_deciding(uniformity, at, loop)):
                name = uniformity.world.map_of(place)
                if (
                    place[0] == at
                    and place[1] in loop.body
                    and name not in trying
                    and _is_fixed(uniformity, place, loop)
                ):
                    yield place, f"the loop waits for another thread to change {name}"


def _deciding(uniformity: Uniformity, at: int, loop: Loop) -> frozenset[Place]:
    """Reads on which the exits of a loop depend."""
    found: frozenset[Place] = frozenset()
    for slot in loop.exits:
        instruction = uniformity.world.program.functions[at].code[slot]
        state = uniformity.states.get((at, slot))
        if instruction is None or state is None:
            continue
        found |= state.registers[instruction.dst].reads
        if instruction.from_register:
            found |= state.registers[instruction.src].reads
    return found


def _exchanged(uniformity: Uniformity, at: int, loop: Loop) -> frozenset[str]:
    """Maps of which the loop compares and exchanges a value that it read there before."""
    found = set()
    for slot in loop.body:
        instruction = uniformity.world.program.functions[at].code[slot]
        state = uniformity.states.get((at, slot))
        if instruction is None or state is None or not _is_exchange(instruction):
            continue
        name = uniformity.world.map_of((at, slot))
        if any(uniformity.world.map_of(read) == name for read in state.registers[0].reads):
            found.add(name)
    return frozenset(found)


def _is_exchange(instruction: Instruction) -> bool:
    return instruction.kind == isa.STX and instruction.mode == isa.MODE_ATOMIC and instruction.imm == isa.CMPXCHG


def _is_fixed(uniformity: Uniformity, place: Place, loop: Loop) -> bool:
    """Whether a read goes to the same place in every round."""
    instruction = uniformity.world.program.functions[place[0]].code[place[1]]
    if instruction is None:
        return False
    if helper_of(instruction) is not None:
        return all(not _changes(uniformity, place[0], key, loop) for key in _key(uniformity, place))
    register = instruction.src if instruction.kind == isa.LDX else instruction.dst
    return not _changes(uniformity, place[0], uniformity.states[place].registers[register], loop)


def _changes(uniformity: Uniformity, at: int, value: Value, loop: Loop) -> bool:
    """Whether a value may be another one in each round: lookups of one key are one place."""
    slot = value.version[0] if value.version[0] >= 0 else -1 - value.version[0]
    if value.constant is not None or slot not in loop.body:
        return False
    instruction = uniformity.world.program.functions[at].code[slot]
    helper = None if instruction is None or value.version[0] < 0 else helper_of(instruction)
    if helper is None or helper.id != LOOKUP:
        return True
    return any(_changes(uniformity, at, key, loop) for key in _key(uniformity, (at, slot)))


def _key(uniformity: Uniformity, place: Place) -> tuple[Value, ...]:
    """Pieces of the key of a lookup."""
    spec = uniformity.world.maps.get(uniformity.world.fact(place, 1).map)
    if spec is None:
        return (mix([uniformity.world.unknown((place[1], 2))], (place[1], 2)),)
    return memory(uniformity.world, place, uniformity.states[place], 2, spec.key_size)

"""Input of the analyses across threads: the program, its maps, and the facts from the memory analysis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import HELPERS, PER_THREAD, Arg
from accel_magic.gpu.verifier.cfg import calls
from accel_magic.gpu.verifier.lane_values import LaneValue, Level, Version, plain
from accel_magic.gpu.verifier.memory_facts import RegisterFact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from accel_magic.gpu.program.helpers import Helper
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.memory_facts import Facts

LOOKUP: Final = 1
UPDATE: Final = 2
DELETE: Final = 3
ACTIVE_MASK: Final = 600
IS_LEADER: Final = 601
THREAD_NUMBER: Final = 607
BLOCK_NUMBER: Final = 608
"""Helpers that these analyses treat specially."""

VALUES: Final = frozenset({"value", "value_or_null", "data"})
"""Kinds of pointers to map values."""


@dataclass(frozen=True)
class AnalysisInput:
    """Input of all transfer functions.

    Attributes:
        program: The program.
        maps: Its maps by name.
        facts: Facts from the memory analysis.
        warp: Only one lane of each warp runs, so nothing differs within a warp.

    """

    program: EbpfProgram
    maps: Mapping[str, MapSpec]
    facts: Facts
    warp: bool = False

    def fact(self, place: Place, register: int) -> RegisterFact:
        """Fact about a register before an instruction."""
        registers = self.facts.registers.get(place)
        return RegisterFact() if registers is None else registers[register]

    def cap(self, level: Level) -> Level:
        """Limit a level to WARP if only one lane of each warp runs."""
        return min(level, Level.WARP) if self.warp else level

    def unknown(self, version: Version) -> LaneValue:
        """Unknown value."""
        return plain(self.cap(Level.LANE), version)

    def is_per_thread(self, name: str) -> bool:
        """Whether a map has separate values for each thread."""
        return name in self.maps and self.maps[name].type in PER_THREAD

    def map_of(self, place: Place) -> str:
        """Name of the map that a load, store, atomic or lookup accesses."""
        instruction = self.program.functions[place[0]].code[place[1]]
        if instruction is None:
            return ""
        if instruction.opcode == isa.CALL:
            return self.fact(place, 1).map
        return self.fact(place, instruction.src if instruction.kind == isa.LDX else instruction.dst).map

    @cached_property
    def written(self) -> frozenset[str]:
        """Maps whose values the program changes; all maps if it is unknown which."""
        facts = [self.fact(place, register) for place, register in self._targets()]
        stored = (fact.map for fact in facts if fact.kind in VALUES or fact.kind == "unset")
        return self._all_if_unknown(stored) | self.resized

    @cached_property
    def resized(self) -> frozenset[str]:
        """Maps that the program inserts into or deletes from; all maps if it is unknown which."""
        instructions = ((place, self.program.functions[place[0]].code[place[1]]) for place in self.facts.registers)
        return self._all_if_unknown(
            self.fact(place, 1).map
            for place, instruction in instructions
            if instruction is not None and helper_of(instruction) in (HELPERS[UPDATE], HELPERS[DELETE])
        )

    @cached_property
    def intruders(self) -> frozenset[int]:
        """Functions that may write to the stacks of their callers, directly or through functions they call."""
        found = {place[0] for place, register in self._targets() if self._is_foreign(place, register)}
        while True:
            more = {
                at
                for at, function in enumerate(self.program.functions)
                if at not in found and any(callee in found for _, callee in calls(function))
            }
            if not more:
                return frozenset(found)
            found |= more

    def _is_foreign(self, place: Place, register: int) -> bool:
        fact = self.fact(place, register)
        return fact.kind == "unset" or (fact.kind == "stack" and fact.depth > 0)

    def _targets(self) -> Iterator[tuple[Place, int]]:
        """Instructions that write to memory, and the registers with the addresses."""
        for place in self.facts.registers:
            instruction = self.program.functions[place[0]].code[place[1]]
            if instruction is None:
                continue
            if instruction.kind in (isa.ST, isa.STX):
                yield place, instruction.dst
            for register in written_arguments(helper_of(instruction)):
                yield place, register

    def _all_if_unknown(self, names: Iterable[str]) -> frozenset[str]:
        found = frozenset(names)
        return frozenset(self.maps) if "" in found else found


def helper_of(instruction: EbpfInstruction) -> Helper | None:
    """Return the helper that an instruction calls, or None."""
    if instruction.opcode == isa.CALL and instruction.src == isa.CALL_HELPER:
        return HELPERS.get(instruction.imm)
    return None


def written_arguments(helper: Helper | None) -> tuple[int, ...]:
    """Registers through which a helper writes 8 bytes."""
    if helper is None:
        return ()
    return tuple(at for at, argument in enumerate(helper.arguments, start=1) if argument is Arg.OUT8)

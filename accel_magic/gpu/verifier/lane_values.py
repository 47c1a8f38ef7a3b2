"""What is known about a value across the threads of a GPU: which threads share it, and which have a unique one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.program.verdict import Place


class Level(IntEnum):
    """The group of threads in which a value is the same; wider groups have smaller numbers.

    Threads are compared at the same step: the same instruction, reached through the same calls, in the same iteration
    of every loop around it. After a loop, threads that left it in different iterations are compared by the values that
    they left with.
    """

    GRID = 0
    BLOCK = 1
    WARP = 2
    LANE = 3


class Own(IntEnum):
    """The owner of a unique value: no other block or thread of the launch has the same one."""

    NOBODY = 0
    BLOCK = 1
    THREAD = 2


Version = tuple[int, int]
"""Where a value was made: slot and register. For a merge of paths before a slot: -1 - slot, and the register or stack
offset. Equal versions are the same value within one iteration of every loop."""
NOTHING: Final[frozenset[Place]] = frozenset()
BITS: Final = 64
_MASK: Final = (1 << BITS) - 1


@dataclass(frozen=True, slots=True)
class LaneValue:
    """Value of a register or of stack bytes.

    Attributes:
        level: The group of threads in which it is the same.
        version: Where it was made.
        reads: Reads of state changed by threads that it depends on: loads, atomics, lookups in hashes.
        own: Its owner if it is unique. For a pointer into a map value: the key's owner.
        place: For a pointer into a map value: the group in which it is the same, ignoring null. Otherwise the level.
        constant: The number (unsigned, 64 bits), if known.
        zeros: How many of its lowest bits are known to be zero (alignment).
        parts: Indices whose sum it is, so it is zero only if all of them are.
        negative: It is the negative of that sum.

    """

    level: Level = Level.GRID
    version: Version = (0, 0)
    reads: frozenset[Place] = NOTHING
    own: Own = Own.NOBODY
    place: Level = Level.GRID
    constant: int | None = None
    zeros: int = 0
    parts: frozenset[str] = frozenset()
    negative: bool = False

    def raised(self, level: Level, reads: frozenset[Place]) -> LaneValue:
        """Return the value with at least this level and these reads; if that changes it, it is no longer unique."""
        if level <= self.level and level <= self.place and reads <= self.reads:
            return self
        return replace(
            self,
            level=max(level, self.level),
            place=max(level, self.place),
            reads=self.reads | reads,
            own=Own.NOBODY,
            parts=frozenset(),
        )


def plain(level: Level, version: Version, reads: frozenset[Place] = NOTHING) -> LaneValue:
    """Value with only the level known."""
    return LaneValue(level, version, reads, place=level)


def trailing_zeros(bits: int) -> int:
    """Count the zero bits below the lowest set bit; 64 for zero."""
    return BITS if bits == 0 else (bits & -bits).bit_length() - 1


def number(constant: int, version: Version) -> LaneValue:
    """Constant value."""
    bits = constant & _MASK
    return LaneValue(version=version, constant=bits, zeros=trailing_zeros(bits))


def mix(values: Iterable[LaneValue], version: Version) -> LaneValue:
    """Value computed from others in some way."""
    level, place, reads = Level.GRID, Level.GRID, NOTHING
    for value in values:
        level, place, reads = max(level, value.level), max(place, value.place), reads | value.reads
    return LaneValue(level, version, reads, place=place)


@dataclass(frozen=True, slots=True)
class Split:
    """How threads reach a place on different paths: the level of the difference, and the reads that caused it."""

    level: Level = Level.GRID
    reads: frozenset[Place] = NOTHING

    def with_(self, other: Split) -> Split:
        """Combine two splits."""
        return Split(max(self.level, other.level), self.reads | other.reads)


TOGETHER: Final = Split()


def merge(values: Sequence[LaneValue], meeting: Version, split: Split) -> LaneValue:
    """Value of one register where several paths meet.

    Args:
        values: The value on each path.
        meeting: Version of the result if the values have different versions.
        split: How threads are split between the paths.

    """
    first = values[0]
    if all(value is first or value == first for value in values):
        return first
    same = all(value.version == first.version for value in values)
    mixed = mix(values, first.version if same else meeting)
    parts = {(value.parts, value.negative) for value in values}
    constants = {value.constant for value in values}
    return LaneValue(
        level=mixed.level if same else max(mixed.level, split.level),
        version=mixed.version,
        reads=mixed.reads if same else mixed.reads | split.reads,
        own=min(value.own for value in values) if same else Own.NOBODY,
        place=mixed.place if same else max(mixed.place, split.level),
        constant=constants.pop() if len(constants) == 1 else None,
        zeros=min(value.zeros for value in values),
        parts=first.parts if len(parts) == 1 else frozenset(),
        negative=first.negative and len(parts) == 1,
    )


@dataclass(frozen=True, slots=True)
class Byte:
    """One byte of the stack: the value stored there, the index of the byte in it, and the value's size in bytes."""

    value: LaneValue
    index: int
    of: int

    @property
    def constant(self) -> int | None:
        """The byte, if known."""
        return None if self.value.constant is None else self.value.constant >> 8 * self.index & 255


@dataclass(frozen=True, slots=True)
class LaneState:
    """What is known before an instruction.

    Attributes:
        registers: r0 to r10.
        stack: Bytes of this function's frame that every path wrote, by their offset from r10.
        pins: Indices that are one constant in all threads that reach the instruction, e.g. `thread_x` or `lane`;
            `leader` if only leaders reach it; `missing NAME` if a lookup in that map found nothing.

    """

    registers: tuple[LaneValue, ...]
    stack: Mapping[int, Byte]
    pins: frozenset[str] = frozenset()


def meet(states: Sequence[LaneState], slot: int, split: Split) -> LaneState:
    """State where several paths meet before `slot`."""
    if len(states) == 1:
        return states[0]
    registers = tuple(
        merge(values, (-1 - slot, at), split)
        for at, values in enumerate(zip(*(state.registers for state in states), strict=True))
    )
    stack = _meet_stacks([state.stack for state in states], slot, split)
    return LaneState(registers, stack, frozenset.intersection(*(state.pins for state in states)))


def _meet_stacks(stacks: Sequence[Mapping[int, Byte]], slot: int, split: Split) -> Mapping[int, Byte]:
    first = stacks[0]
    if all(stack is first for stack in stacks):
        return first
    met = {}
    for at, byte in first.items():
        others = [stack.get(at) for stack in stacks]
        found = [other for other in others if other is not None]
        if len(found) == len(stacks):
            met[at] = byte if all(other is byte for other in found) else _meet_bytes(found, at, slot, split)
    return met


def _meet_bytes(found: Sequence[Byte], at: int, slot: int, split: Split) -> Byte:
    first = found[0]
    if all((byte.index, byte.of) == (first.index, first.of) for byte in found):
        meeting = (-1 - slot, at - first.index)
        return Byte(merge([byte.value for byte in found], meeting, split), first.index, first.of)
    mixed = mix((byte.value for byte in found), (-1 - slot, at))
    return Byte(mixed.raised(split.level, split.reads), 0, 1)

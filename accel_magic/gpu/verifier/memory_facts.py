"""What the memory analysis found out about registers and stack before each instruction, joined over all paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from accel_magic.gpu.verifier.cfg import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.program.object_model import EbpfProgram
    from accel_magic.gpu.program.verdict import Place, PointerKind
    from accel_magic.gpu.verifier.explore import Exploration, Seen
    from accel_magic.gpu.verifier.register_values import RegisterValue
    from accel_magic.gpu.verifier.stack import Cells


Kind = Literal[
    "unset",  # never written, cleared by a call, of different kinds on different paths, or not read later
    "scalar",
    "stack",
    "map",  # a map's handle
    "value",
    "value_or_null",
    "record",
    "record_or_null",
    "context",
    "object",  # of the driver, in a policy
    "data",  # a byte of a map's first value: global variables
]


@dataclass(frozen=True, slots=True)
class RegisterFact:
    """Contents of a register, or of at most eight bytes of stack.

    Attributes:
        kind: The kind of value.
        map: Name of the map that a 'map', 'value', 'record' or 'data' belongs to; '' if paths differ.
        low: Least value of a scalar as a signed number, or least offset of a pointer in bytes. Stack offsets are
            relative to the frame's end (r10): -512 to 0.
        high: Greatest value or offset; equal to `low` if it is constant.
        frame: For a stack pointer: index in `Program.functions` of the function that owns the stack.
        depth: For a stack pointer: how many calls above the current function that function is; 0 for its own stack.

    """

    kind: Kind = "unset"
    map: str = ""
    low: int = 0
    high: int = 0
    frame: int = 0
    depth: int = 0

    @property
    def constant(self) -> int | None:
        """The value or offset, if it is constant."""
        return self.low if self.low == self.high else None


Registers = tuple[RegisterFact, ...]
"""Eleven facts, r0 to r10."""


@dataclass(frozen=True)
class Facts:
    """Everything that the memory analysis found out.

    Attributes:
        registers: Registers before each reachable instruction.
        stack: Pieces of the function's own stack, each written by one store, by the offset of the first byte from r10
            (negative), before each reachable instruction. Pieces that paths place differently, or that are not read
            later, are omitted.
        pointers: As in `Verdict`.
        stack_bytes: As in `Verdict`.

    """

    registers: Mapping[Place, Registers] = field(default_factory=lambda: MappingProxyType({}))
    stack: Mapping[Place, Mapping[int, RegisterFact]] = field(default_factory=lambda: MappingProxyType({}))
    pointers: Mapping[Place, PointerKind] = field(default_factory=lambda: MappingProxyType({}))
    stack_bytes: int = 0


_UNSET = RegisterFact()


def collect(program: EbpfProgram, exploration: Exploration) -> Facts:
    """Join the observations of all paths at each instruction."""
    pointers = {place: next(iter(kinds)) for place, kinds in exploration.run.pointers.items() if len(kinds) == 1}
    return Facts(
        MappingProxyType(
            {
                place: _registers(seen, exploration.plan.live[place[0]][place[1]])
                for place, seen in exploration.history.items()
            }
        ),
        MappingProxyType({place: _stack(seen) for place, seen in exploration.history.items()}),
        MappingProxyType(pointers),
        _deepest(program, exploration.run.lowest),
    )


def _registers(seen: Sequence[Seen], live: int) -> Registers:
    """Join registers. Those not read later are 'unset', because paths that differ only in them were merged."""
    owners = [functions for _, _, functions in seen]
    columns = zip(*(registers for registers, _, _ in seen), strict=True)
    requested = live | 1 << 10
    return tuple(
        _joined(column, owners) if requested >> register & 1 else _UNSET for register, column in enumerate(columns)
    )


def _joined(column: Iterable[RegisterValue], owners: Sequence[tuple[int, ...]]) -> RegisterFact:
    """Join the facts of one register; each distinct object is processed once."""
    different = {id(value): (value, functions) for value, functions in zip(column, owners, strict=True)}
    return _join({_fact(value, functions) for value, functions in different.values()})


def _join(facts: set[RegisterFact]) -> RegisterFact:
    kinds = {(fact.kind, fact.frame, fact.depth) for fact in facts}
    if len(kinds) != 1:
        return _UNSET
    kind, frame, depth = kinds.pop()
    maps = {fact.map for fact in facts}
    low, high = min(fact.low for fact in facts), max(fact.high for fact in facts)
    return RegisterFact(kind, maps.pop() if len(maps) == 1 else "", low, high, frame, depth)


def _fact(value: RegisterValue, functions: tuple[int, ...]) -> RegisterFact:
    if value.kind == "unset" or value.kind == "released":  # noqa: PLR1714 - the type checker follows this form
        return _UNSET
    owner, depth = (functions[value.frame], len(functions) - 1 - value.frame) if value.kind == "stack" else (0, 0)
    return RegisterFact(value.kind, value.map, value.number.wide.smin, value.number.wide.smax, owner, depth)


def _stack(seen: Sequence[Seen]) -> Mapping[int, RegisterFact]:
    different = {id(cells): (cells, functions) for _, cells, functions in seen}
    found = list(different.values())
    common = set.intersection(*(set(_pieces(cells)) for cells, _ in found))
    return MappingProxyType(
        {at: _join({_fact(cells[at].value, functions) for cells, functions in found}) for at, _ in sorted(common)}
    )


def _pieces(cells: Cells) -> Iterable[tuple[int, int]]:
    return ((at, cell.size) for at, cell in cells.items())


def _deepest(program: EbpfProgram, lowest: Mapping[int, int]) -> int:
    """Stack bytes of the deepest call chain; each function's stack is rounded up to a multiple of 8 bytes."""
    needs = [-lowest.get(place, 0) + 7 & ~7 for place in range(len(program.functions))]
    deepest: dict[int, int] = {}

    def below(place: int) -> int:
        if place not in deepest:
            called = {to for _, to in calls(program.functions[place])}
            deepest[place] = needs[place] + max((below(to) for to in called), default=0)
        return deepest[place]

    return below(0)

"""From all that an exploration saw to one set of facts."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from accel_magic.gpu.verifier.cfg import calls
from accel_magic.gpu.verifier.facts import Facts, RegisterFact, Registers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.model import Program
    from accel_magic.gpu.verifier.explore import Exploration, Seen
    from accel_magic.gpu.verifier.stack import Cells
    from accel_magic.gpu.verifier.values import Value

_UNSET = RegisterFact()


def collect(program: Program, exploration: Exploration) -> Facts:
    """Join what was seen on all paths, instruction by instruction."""
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
    """Join what registers held. Those that are not read any more are left out: paths that differ only there are one."""
    owners = [functions for _, _, functions in seen]
    columns = zip(*(registers for registers, _, _ in seen), strict=True)
    wanted = live | 1 << 10
    return tuple(
        _joined(column, owners) if wanted >> register & 1 else _UNSET for register, column in enumerate(columns)
    )


def _joined(column: Iterable[Value], owners: Sequence[tuple[int, ...]]) -> RegisterFact:
    """Join the facts of one register; each different object is looked at once."""
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


def _fact(value: Value, functions: tuple[int, ...]) -> RegisterFact:
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


def _deepest(program: Program, lowest: Mapping[int, int]) -> int:
    """Add up the stacks of the chain of calls that needs most; each function's is a multiple of 8 bytes."""
    needs = [-lowest.get(place, 0) + 7 & ~7 for place in range(len(program.functions))]
    deepest: dict[int, int] = {}

    def below(place: int) -> int:
        if place not in deepest:
            called = {to for _, to in calls(program.functions[place])}
            deepest[place] = needs[place] + max((below(to) for to in called), default=0)
        return deepest[place]

    return below(0)

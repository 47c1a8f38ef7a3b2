"""What names mean within a function: which are registers, and of what type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel_magic.gpu.ptx.model import Declaration, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from accel_magic.gpu.ptx.model import Function, Module


@dataclass(frozen=True)
class Names:
    """Names that can be used at a place, those of the scopes around it included.

    Attributes:
        single: (space, type) of registers and variables by name.
        ranges: (count, type) of ranges of registers by prefix.
        outer: Names of the scope around.

    """

    single: Mapping[str, tuple[str, str]]
    ranges: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    outer: Names | None = None

    def find(self, name: str) -> tuple[str, str] | None:
        """Give (space, type) of a name; None if it is not declared."""
        scope: Names | None = self
        while scope is not None:
            if name in scope.single:
                return scope.single[name]
            for prefix, number in _splits(name) if scope.ranges else ():
                count, kind = scope.ranges.get(prefix, (0, ""))
                if number < count:
                    return "reg", kind
            scope = scope.outer
        return None


def _splits(name: str) -> Iterator[tuple[str, int]]:
    """Cut a name into a prefix and a number in all ways: `%r12` is `%r` 12 or `%r1` 2."""
    digits = len(name) - len(name.rstrip("0123456789"))
    for count in range(digits, 0, -1):
        number = name[-count:]
        if number[0] != "0" or count == 1:
            yield name[:-count], int(number)


def of_module(module: Module) -> Names:
    """Give the names of a module's variables."""
    return _names(module.variables, None)


def of_function(function: Function, outer: Names) -> Names:
    """Give a function's parameters, as `param` or `reg`, over the module's names."""
    return Names({one.name: (one.space, one.type) for one in (*function.results, *function.parameters)}, {}, outer)


def of_scope(scope: Scope, outer: Names) -> Names:
    """Give the names declared directly in a scope, over those around it."""
    declared = [item for item in scope.items if isinstance(item, Declaration)]
    return _names(declared, outer) if declared else outer


def _names(declarations: Iterable[Declaration], outer: Names | None) -> Names:
    single, ranges = {}, {}
    for one in declarations:
        for declared in one.names:
            if declared.count is None:
                single[declared.name] = (one.space, one.type)
            else:
                ranges[declared.name] = (declared.count, one.type)
    return Names(single, ranges, outer)

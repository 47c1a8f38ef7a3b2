"""What names mean within a function: which are registers, and of what type."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.ptx.model import Declaration, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from accel_magic.gpu.ptx.model import Function, Module

_NUMBERED: Final = re.compile(r"(.*?)(\d+)$")


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
        numbered = _NUMBERED.match(name)
        scope: Names | None = self
        while scope is not None:
            if name in scope.single:
                return scope.single[name]
            if numbered and numbered[1] in scope.ranges:
                count, kind = scope.ranges[numbered[1]]
                if int(numbered[2]) < count:
                    return "reg", kind
            scope = scope.outer
        return None


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

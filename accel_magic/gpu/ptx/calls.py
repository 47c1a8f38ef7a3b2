"""Which functions of a module get to which others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.ptx.lexer import WORD
from accel_magic.gpu.ptx.model import Function, instructions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from accel_magic.gpu.ptx.model import Module

NAMING: Final = frozenset({"call", "mov", "cvta", "st"})
"""Instructions that may name a function."""
_OF_THE_SYSTEM: Final = frozenset({"vprintf", "malloc", "free", "__assertfail"})
"""Functions outside of all modules, which call nothing of a module."""


@dataclass(frozen=True)
class Calls:
    """Who calls whom.

    Attributes:
        direct: Functions that each function names.
        named: By kernel: the functions that it gets to by their names, itself included; naming counts as calling.
        kept: Functions whose address a variable of the module keeps, and those that they get to.
        blind: Kernels that may call what is kept.

    """

    direct: Mapping[str, frozenset[str]]
    named: Mapping[str, frozenset[str]]
    kept: frozenset[str]
    blind: frozenset[str]

    def of(self, kernel: str) -> frozenset[str]:
        """Name all functions that a kernel may get to, itself included."""
        return self.named[kernel] | self.kept if kernel in self.blind else self.named[kernel]

    def users(self, function: str) -> list[str]:
        """Name the kernels that may get to a function."""
        return [kernel for kernel in self.named if function in self.of(kernel)]

    def below(self, function: str) -> frozenset[str]:
        """Name the functions that a function gets to by their names, itself included."""
        return _closure([function], self.direct)


def calls(module: Module) -> Calls:
    """Find out who calls whom in a module."""
    names = {function.name for function in module.functions}
    direct = {function.name: frozenset(_named(function, names)) for function in module.functions}
    declared = {item.name for item in module.items if isinstance(item, Function)}
    outside = declared - names - _OF_THE_SYSTEM
    blind = {function.name for function in module.functions if _is_blind(function, declared, outside)}
    texts = [module.text[one.start : one.end] for one in module.variables]
    kept = _closure((word for text in texts for word in names.intersection(WORD.findall(text))), direct)
    named = {kernel.name: _closure([kernel.name], direct) for kernel in module.kernels}
    return Calls(direct, named, kept, frozenset(kernel for kernel, reached in named.items() if reached & blind))


def _named(function: Function, names: set[str]) -> set[str]:
    return {
        word
        for instruction in (instructions(function.body) if function.body else ())
        if instruction.opcode[0] in NAMING
        for word in names.intersection(WORD.findall(instruction.operand_text))
    }


def _is_blind(function: Function, declared: set[str], outside: set[str]) -> bool:
    """Whether a function calls through an address, or what another module defines, which may do so."""
    for instruction in instructions(function.body) if function.body else ():
        if instruction.opcode[0] == "call":
            words = WORD.findall(instruction.operand_text)
            if outside.intersection(words) or not declared.intersection(words):
                return True
    return False


def _closure(start: Iterable[str], direct: Mapping[str, frozenset[str]]) -> frozenset[str]:
    seen, waiting = set[str](), list(start)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += direct.get(name, ())
    return frozenset(seen)

"""Flatten a parsed function to a list of instructions, each with its scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from accel_magic.devices.sim.instruction_compiler import Variable
from accel_magic.devices.sim.variables import align, sizes, type_named
from accel_magic.ptx import ptx_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.instruction_compiler import Arrays, FunctionScope

FRAME_ALIGN = 16


@dataclass(frozen=True)
class Mark:
    """A label, and the scope that it belongs to."""

    name: str
    scope: FunctionScope


@dataclass(frozen=True)
class Placed:
    """An instruction and its scope."""

    instruction: ptx_model.Instruction
    scope: FunctionScope


Entry: TypeAlias = Mark | Placed


class BodyReader:
    """Reads one function's body.

    Args:
        arrays: The numbering of the module's registers.
        frame: Bytes of the frame that parameters take.
        shared: Allocates shared memory: bytes and alignment to an offset.

    Attributes:
        entries: Labels and instructions, in order.
        frame: Bytes of the frame so far.
        numbers: Numbers of the function's registers.

    """

    def __init__(self, arrays: Arrays, frame: int, shared: Callable[[int, int], int]) -> None:
        self.entries: list[Entry] = []
        self.frame = frame
        self.numbers: list[int] = []
        self._arrays = arrays
        self._shared = shared

    def read(self, body: ptx_model.Scope, scope: FunctionScope) -> None:
        """Append statements to `entries`, and add declarations to the scope."""
        tables: str = ""
        for item in body.items:
            if isinstance(item, ptx_model.Scope):
                self.read(item, scope.inner())
            elif isinstance(item, ptx_model.Declaration):
                self._declare(item, scope)
            elif isinstance(item, ptx_model.Label):
                tables = item.name
                self.entries.append(Mark(item.name, scope))
            elif isinstance(item, ptx_model.Instruction):
                self.entries.append(Placed(item, scope))
            elif item.name == ".branchtargets":
                names = item.text.partition(".branchtargets")[2].strip(" ;\n\t")
                scope.tables[tables] = tuple(name.strip() for name in names.split(","))

    def register(self, name: str, kind: str, scope: FunctionScope) -> None:
        """Declare a register."""
        declared = type_named(kind)
        base = self._arrays.register(0 if declared.kind == "p" else declared.size)
        self.numbers.append(base)
        scope.registers[name] = (base, declared)

    def _declare(self, declaration: ptx_model.Declaration, scope: FunctionScope) -> None:
        for one in declaration.names:
            if declaration.space == "reg":
                names = [one.name] if one.count is None else [f"{one.name}{at}" for at in range(one.count)]
                for name in names:
                    self.register(name, declaration.type, scope)
            elif declaration.space in ("local", "param"):
                scope.variables[one.name] = self._in_frame(declaration, one)
            elif declaration.space == "shared":
                size, to = sizes(declaration, one)
                scope.variables[one.name] = Variable("shared", self._shared(size, to), size)

    def _in_frame(self, declaration: ptx_model.Declaration, one: ptx_model.Declared) -> Variable:
        size, to = sizes(declaration, one)
        at = align(self.frame, min(to, FRAME_ALIGN))
        self.frame = at + size
        return Variable("local", at, size, declaration.space == "param")

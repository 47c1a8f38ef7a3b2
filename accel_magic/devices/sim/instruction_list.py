"""Flatten a parsed function to a list of instructions, each with its scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from accel_magic.devices.sim import specials
from accel_magic.devices.sim.instruction_compiler import (
    Address,
    Instruction,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Symbol,
    UnknownFormError,
    Variable,
    Vector,
)
from accel_magic.devices.sim.variables import align, number, sizes, type_named
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


def instruction(placed: Placed) -> Instruction:
    """Convert an instruction."""
    raw, scope = placed.instruction, placed.scope
    where = raw.location
    return Instruction(
        parts=raw.opcode,
        operands=tuple(operand(item, scope) for item in raw.operands),
        predicate=Register(raw.predicate.name, raw.predicate.negated) if raw.predicate else None,
        line=raw.line,
        source=f"{where.file}:{where.line}" if where is not None and where.line else "",
        text=text(raw),
    )


def text(raw: ptx_model.Instruction) -> str:
    """Format an instruction on one line."""
    guard = f"@{'!' * raw.predicate.negated}{raw.predicate.name} " if raw.predicate else ""
    return f"{guard}{raw.name} {' '.join(raw.operand_text.split())}".strip()


def operand(item: ptx_model.Operand, scope: FunctionScope) -> Operand:
    """Convert an operand; names are looked up in the scope."""
    return _CONVERT[type(item)](item, scope)


def _name(item: ptx_model.Name, scope: FunctionScope) -> Operand:
    name = f"{item.text}.{item.component}" if item.component else item.text
    if name == "_":
        return Sink()
    if name == "WARP_SZ":
        return Number(32)
    if name in scope.registers or specials.known(name):
        return Register(name)
    if name.startswith("%") and name not in scope.variables:
        raise UnknownFormError(f"{name} is not a register that the device supports")
    return Symbol(name)


def _address(item: ptx_model.Address, scope: FunctionScope) -> Operand:
    coordinates = tuple(operand(one, scope) for one in item.coordinates)
    if isinstance(item.base, ptx_model.Immediate):
        return Address(None, int(item.base.value) + item.offset, coordinates)
    base = _name(item.base, scope)
    if not isinstance(base, Register | Symbol):
        raise UnknownFormError("its address has no base")
    return Address(base, item.offset, coordinates)


def _negated(item: ptx_model.Negated, scope: FunctionScope) -> Operand:
    inner = operand(item.operand, scope)
    if item.sign != "!" or not isinstance(inner, Register):
        raise UnknownFormError("only predicates can be negated")
    return Register(inner.name, not inner.negated)


_CONVERT: dict[type, Callable[..., Operand]] = {
    ptx_model.Name: _name,
    ptx_model.Immediate: lambda item, _scope: number(item),
    ptx_model.Address: _address,
    ptx_model.Vector: lambda item, scope: Vector(tuple(operand(one, scope) for one in item.items)),
    ptx_model.Group: lambda item, scope: Vector(tuple(operand(one, scope) for one in item.items)),
    ptx_model.Pair: lambda item, scope: Pair(operand(item.first, scope), operand(item.second, scope)),
    ptx_model.Negated: _negated,
    ptx_model.SymbolValue: lambda item, _scope: Symbol(item.symbol, item.offset),
}

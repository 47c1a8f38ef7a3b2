"""Compiling one instruction: operands to functions that read and write lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from accel_magic.errors import ProgramError
from accel_magic.gpu.simt import specials
from accel_magic.gpu.simt.faults import Site
from accel_magic.gpu.simt.forms import UnknownFormError
from accel_magic.gpu.simt.memory import CODE, LOCAL, PARAMETER, SHARED
from accel_magic.gpu.simt.operands import Address, Instruction, Number, Operand, Pair, Register, Sink, Symbol, Vector
from accel_magic.gpu.simt.types import FLOATS, SIGNED, TYPES, UNSIGNED, Array, Type

if TYPE_CHECKING:
    from collections import ChainMap
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.simt.state import State

Reader: TypeAlias = "Callable[[State], Array]"
"""Gives an operand's values in the executing lanes, or one numpy scalar for all of them."""
Writer: TypeAlias = "Callable[[State, Array], None]"
"""Stores a result in the executing lanes."""
Step: TypeAlias = "Callable[[State], None]"
"""Executes one instruction in the executing lanes."""
End: TypeAlias = "Callable[[State, int], int]"
"""Ends a segment: gets the key at which the lanes stand, gives the key at which all of them go on, or -1 when it has
written the lanes' keys itself."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Something declared that has an address.

    Attributes:
        space: 'global', 'const', 'shared', 'local', or 'param' (of a kernel). Parameters of functions, and of calls,
            are 'local': they live in the frame.
        offset: Address in its space; in a function's frame for local variables.
        size: Bytes.
        parameter: It is a parameter that lies in the frame, whose address registers hold as a generic one.

    """

    space: str
    offset: int
    size: int
    parameter: bool = False


@dataclass
class Arrays:
    """Numbering of the arrays that a module's code reads and writes.

    Attributes:
        bases: Bytes of each register, by number; 0 for a predicate.
        views: Register number, dtype and whether only its low bytes are seen, for each typed array.
        specials: Names of special registers that are arrays of their own.

    """

    bases: list[int] = field(default_factory=list)
    views: dict[tuple[int, str, int], int] = field(default_factory=dict)
    specials: dict[str, int] = field(default_factory=dict)

    def register(self, size: int) -> int:
        """Number a new register."""
        self.bases.append(size)
        return len(self.bases) - 1

    def view(self, base: int, dtype: Any, step: int = 1) -> int:
        """Number a typed view of a register; with a step, of the low bytes of each value."""
        return self.views.setdefault((base, np.dtype(dtype).str, step), len(self.views))

    def special(self, name: str) -> int:
        """Number the array of a special register."""
        if name not in self.specials:
            self.specials[name] = self.register(specials.size_of(name))
        return self.specials[name]


@dataclass(frozen=True)
class Scope:
    """What names mean within a function.

    Attributes:
        function: Its name.
        registers: Name to number and declared type.
        variables: Name to variable.
        functions: Name to number, for every function of the module.
        labels: Name to segment, filled in before anything runs.
        tables: Name of a `.branchtargets` to the labels that it lists.

    """

    function: str
    registers: ChainMap[str, tuple[int, Type]]
    variables: ChainMap[str, Variable]
    functions: Mapping[str, int]
    labels: ChainMap[str, int]
    tables: ChainMap[str, tuple[str, ...]]

    def inner(self) -> Scope:
        """Make a scope within this one."""
        return Scope(
            self.function,
            self.registers.new_child(),
            self.variables.new_child(),
            self.functions,
            self.labels.new_child(),
            self.tables.new_child(),
        )


class Code:
    """One instruction on its way to being executable.

    Args:
        instruction: What to compile.
        scope: Its names.
        arrays: The module's registers.
        elapsed: Cycles that the segment took before it.

    """

    def __init__(self, instruction: Instruction, scope: Scope, arrays: Arrays, elapsed: int = 0) -> None:
        self.instruction = instruction
        self.operands = list(instruction.operands)
        self.scope = scope
        self.arrays = arrays
        self.elapsed = elapsed
        self.site = Site(scope.function, instruction.text, instruction.line, instruction.source)

    def error(self, why: str, fix: str = "Compile the kernel for sm_80, or without this instruction.") -> ProgramError:
        """Refuse the instruction."""
        return ProgramError(
            f"CPU device (simulated): it cannot run `{self.instruction.text}` of {self.scope.function}, "
            f"PTX line {self.instruction.line}.",
            why=why,
            fix=fix,
            code="gpu.ptx.unsupported",
        )

    def read(self, operand: Operand, kind: Type) -> Reader:
        """Compile a source."""
        return _READERS[type(operand)](self, operand, kind)

    def write(self, operand: Operand, kind: Type) -> Writer | None:
        """Compile a destination; None when the result is dropped."""
        if isinstance(operand, Sink):
            return None
        if not isinstance(operand, Register):
            raise UnknownFormError("its result goes to something that is no register")
        base, declared = self.named(operand.name)
        if kind.kind == "p" or declared.kind == "p":
            if kind.kind != declared.kind:
                raise UnknownFormError(f"{operand.name} is .{declared.name}, not .{kind.name}")
            return _writer(self.arrays.view(base, np.bool_))
        if declared.size < kind.size:
            raise UnknownFormError(f"{operand.name} is .{declared.name}, too narrow for .{kind.name}")
        if declared.size == kind.size:
            return _writer(self.arrays.view(base, kind.dtype))
        wide = SIGNED if kind.signed else UNSIGNED
        write = _writer(self.arrays.view(base, wide[declared.size]))
        if kind.integer:
            return write
        return lambda state, values: write(state, np.asarray(values).view(UNSIGNED[kind.size]))

    def named(self, name: str) -> tuple[int, Type]:
        """Look a register up."""
        found = self.scope.registers.get(name)
        if found is None:
            raise UnknownFormError(f"{name} is not declared")
        return found

    def address(self, operand: Operand, space: str) -> Reader:
        """Compile an address in a space, '' for generic: uint64, one per executing lane."""
        if not isinstance(operand, Address):
            raise UnknownFormError("it needs an address")
        offset = np.array(operand.offset & 0xFFFF_FFFF_FFFF_FFFF, np.uint64)[()]
        base = operand.base
        if isinstance(base, Register):
            _, declared = self.named(base.name)
            read = self.read(base, TYPES[f"u{declared.bits}"])
            if declared.size == 8:
                return (lambda state: read(state) + offset) if offset else read
            return lambda state: (read(state).astype(np.uint64) + offset) & np.uint64(0xFFFFFFFF)
        if isinstance(base, Symbol):
            return self.symbol(base.name, operand.offset + base.offset, generic=not space)
        return lambda state: np.full(state.count(), offset)

    def symbol(self, name: str, offset: int, *, generic: bool) -> Reader:
        """Compile the address of a variable or function: uint64, one per executing lane."""
        if name in self.scope.functions:
            code = np.uint64(CODE + 16 * self.scope.functions[name])
            return lambda state: np.full(state.count(), code)
        variable = self.scope.variables.get(name)
        if variable is None:
            raise UnknownFormError(f"{name} is not declared")
        window = {"shared": SHARED, "local": LOCAL, "param": PARAMETER}.get(variable.space, 0) if generic else 0
        place = np.uint64(variable.offset + offset + window)
        if variable.space == "local":
            return lambda state: state.frame[state.selection].view(np.uint64) + place
        return lambda state: np.full(state.count(), place)


def _writer(number: int) -> Writer:
    def write(state: State, values: Array) -> None:
        state.arrays[number][state.selection] = values

    return write


def _register(code: Code, operand: Operand, kind: Type) -> Reader:
    assert isinstance(operand, Register)  # noqa: S101 - the table below says so
    if specials.known(operand.name) and operand.name not in code.scope.registers:
        return _special(code, operand.name, kind)
    base, declared = code.named(operand.name)
    if kind.kind == "p":
        if declared.kind != "p":
            raise UnknownFormError(f"{operand.name} is .{declared.name}, not .pred")
        number = code.arrays.view(base, np.bool_)
        if operand.negated:
            return lambda state: ~state.arrays[number][state.selection]
        return lambda state: state.arrays[number][state.selection]
    if declared.size < kind.size or declared.kind == "p":
        raise UnknownFormError(f"{operand.name} is .{declared.name}, which does not hold .{kind.name}")
    number = code.arrays.view(base, kind.dtype, declared.size // kind.size)
    return lambda state: state.arrays[number][state.selection]


def _special(code: Code, name: str, kind: Type) -> Reader:
    dynamic = specials.DYNAMIC.get(name)
    if dynamic is not None:
        elapsed = code.elapsed
        return lambda state: dynamic(state, elapsed).astype(kind.dtype)
    base = code.arrays.special(name)
    size = code.arrays.bases[base]
    if size == 0:
        number = code.arrays.view(base, np.bool_)
    elif size >= kind.size:
        number = code.arrays.view(base, kind.dtype, size // kind.size)
    else:
        narrow = code.arrays.view(base, UNSIGNED[size])
        return lambda state: state.arrays[narrow][state.selection].astype(kind.dtype)
    return lambda state: state.arrays[number][state.selection]


def immediate(operand: Number, kind: Type) -> Any:
    """Make a numpy scalar of an immediate."""
    if kind.kind == "p":
        return np.bool_(operand.value)
    if kind.kind == "f" and operand.bits:
        pattern = np.array(int(operand.value), UNSIGNED[operand.bits // 8])
        return pattern.view(FLOATS[operand.bits // 8]).astype(kind.dtype)[()]
    if kind.kind == "f":
        return np.array(float(operand.value)).astype(kind.dtype)[()]
    if isinstance(operand.value, float):
        raise UnknownFormError(f"{operand.value} is no whole number")
    return np.array(operand.value & 2**kind.bits - 1, UNSIGNED[kind.size]).view(kind.dtype)[()]


def _number(_code: Code, operand: Operand, kind: Type) -> Reader:
    assert isinstance(operand, Number)  # noqa: S101 - the table below says so
    value = immediate(operand, kind)
    return lambda _state: value


def _symbol(code: Code, operand: Operand, kind: Type) -> Reader:
    assert isinstance(operand, Symbol)  # noqa: S101 - the table below says so
    read = code.symbol(operand.name, operand.offset, generic=False)
    return lambda state: read(state).astype(kind.dtype)


def _not_a_source(_code: Code, operand: Operand, _kind: Type) -> Reader:
    raise UnknownFormError(f"an operand that is {type(operand).__name__.lower()} is not known here")


_READERS: dict[type, Callable[[Code, Operand, Type], Reader]] = {
    Register: _register,
    Number: _number,
    Symbol: _symbol,
    Address: _not_a_source,
    Vector: _not_a_source,
    Pair: _not_a_source,
    Sink: _not_a_source,
}

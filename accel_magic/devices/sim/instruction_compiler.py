"""Compile one instruction: turn operands into functions that read and write lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from accel_magic.devices.sim import specials
from accel_magic.devices.sim.device_memory import CODE, LOCAL, PARAMETER, SHARED
from accel_magic.devices.sim.faults import FaultSite
from accel_magic.devices.sim.types import FLOATS, SIGNED, TYPES, UNSIGNED, Array, PtxType
from accel_magic.ptx.ptx_model import Address, Immediate, Name, Negated, Pair, SymbolValue, items_of

if TYPE_CHECKING:
    from collections import ChainMap
    from collections.abc import Callable, Collection, Mapping, Sequence

    from accel_magic.devices.sim.lane_state import ExecutionState
    from accel_magic.ptx.ptx_model import Instruction, Operand

SINK = Name("_")
"""Discards a result."""


class UnknownFormError(Exception):
    """An instruction with unsupported modifiers or types; the compiler turns it into a ProgramError.

    Args:
        why: The reason.
        fix: What to do instead; '' if only a GPU can run it.

    """

    def __init__(self, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.fix = fix


class Modifiers:
    """The parts of an opcode after its name. Each supported part is taken; what is left is unsupported."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.left = [part for part in parts if part]

    def flag(self, name: str) -> bool:
        """Take an optional modifier; return whether it was there."""
        if name not in self.left:
            return False
        self.left.remove(name)
        return True

    def one_of(self, names: Collection[str], default: str = "") -> str:
        """Take the first of several mutually exclusive modifiers."""
        for part in self.left:
            if part in names:
                self.left.remove(part)
                return part
        return default

    def drop(self, names: Collection[str]) -> None:
        """Discard modifiers that have no effect here."""
        self.left = [part for part in self.left if part not in names]

    def type(self) -> PtxType:
        """Take the last type.

        Raises:
            UnknownFormError: There is none.

        """
        for at in range(len(self.left) - 1, -1, -1):
            if self.left[at] in TYPES:
                return TYPES[self.left.pop(at)]
        raise UnknownFormError("it has no type that the device supports")

    def finish(self) -> None:
        """Check that every modifier was taken.

        Raises:
            UnknownFormError: A modifier was not.

        """
        if self.left:
            raise UnknownFormError(f".{'.'.join(self.left)} is not supported here")


@dataclass(frozen=True)
class LaneComputation:
    """What one instruction computes for a set of lanes.

    Attributes:
        results: Types of its results.
        sources: Types of its sources.
        function: Maps one array per source to one array, or to a tuple of arrays if there are several results.
        carry_in: The carry flag is an additional source, the last (bool).
        carry_out: The carry flag is an additional result, the last (bool).

    """

    results: tuple[PtxType, ...]
    sources: tuple[PtxType, ...]
    function: Callable[..., Any]
    carry_in: bool = False
    carry_out: bool = False


def same(kind: PtxType, count: int, function: Callable[..., Any]) -> LaneComputation:
    """Make a form with one result and `count` sources, all of one type."""
    return LaneComputation((kind,), (kind,) * count, function)


def require(condition: bool, why: str) -> None:
    """Reject a form unless a condition holds.

    Raises:
        UnknownFormError: It does not hold.

    """
    if not condition:
        raise UnknownFormError(why)


def _carry(state: ExecutionState) -> Array:
    return state.carry[state.selection]


def _keep_carry(state: ExecutionState, flags: Array) -> None:
    state.carry[state.selection] = flags


def step_of(code: CompiledInstruction, rule: Callable[[Modifiers], LaneComputation]) -> Step:
    """Compile an arithmetic instruction.

    Raises:
        UnknownFormError: Its modifiers, types or operands are not supported.

    """
    modifiers = Modifiers(code.instruction.opcode[1:])
    form = rule(modifiers)
    modifiers.finish()
    if not code.operands:
        raise UnknownFormError("it has no operands")
    first = code.operands[0]
    targets = (first.first, first.second) if isinstance(first, Pair) else items_of(first)
    sources = code.operands[1:]
    if len(sources) != len(form.sources):
        raise UnknownFormError(f"it has {len(sources)} source operands; {len(form.sources)} are required")
    readers = [code.read(operand, kind) for operand, kind in zip(sources, form.sources, strict=True)]
    if len(targets) > len(form.results):
        raise UnknownFormError("it has more destination operands than results")
    writers = [code.write(target, kind) for target, kind in zip(targets, form.results, strict=False)]
    if form.carry_in:
        readers.append(_carry)
    if form.carry_out:
        writers.append(_keep_carry)
    if all(isinstance(operand, Immediate) for operand in sources) and not form.carry_in:
        readers = [_spread(reader) for reader in readers]
    return _step(form.function, readers, writers, many=len(form.results) + form.carry_out > 1)


def _spread(read: Reader) -> Reader:
    return lambda state: np.atleast_1d(read(state))


def _step(function: Callable[..., Any], readers: list[Reader], writers: list[Writer | None], *, many: bool) -> Step:
    """Chain reading, computing and writing; the common cases avoid loops."""
    if many:
        return _several(function, readers, writers)
    write = writers[0]
    if write is None:
        return lambda _state: None
    if len(readers) == 1:
        (a,) = readers
        return lambda state: write(state, function(a(state)))
    if len(readers) == 2:
        a, b = readers
        return lambda state: write(state, function(a(state), b(state)))
    return lambda state: write(state, function(*[read(state) for read in readers]))


def _several(function: Callable[..., Any], readers: list[Reader], writers: list[Writer | None]) -> Step:
    def step(state: ExecutionState) -> None:
        results = function(*[read(state) for read in readers])
        for write, result in zip(writers, results, strict=False):
            if write is not None:
                write(state, result)

    return step


def guarded(read: Reader, step: Step) -> Step:
    """Execute a step only in the lanes whose predicate is true."""

    def under_predicate(state: ExecutionState) -> None:
        truth = read(state)
        if truth.all():
            step(state)
            return
        before = state.selection
        chosen = state.numbers[before][truth]
        if not len(chosen):
            return
        state.selection = chosen
        try:
            step(state)
        finally:
            state.selection = before

    return under_predicate


Reader: TypeAlias = "Callable[[ExecutionState], Array]"
"""Returns an operand's values in the executing lanes, or one numpy scalar for all of them."""
Writer: TypeAlias = "Callable[[ExecutionState, Array], None]"
"""Stores a result in the executing lanes."""
Step: TypeAlias = "Callable[[ExecutionState], None]"
"""Executes one instruction in the executing lanes."""
End: TypeAlias = "Callable[[ExecutionState, int], int]"
"""Ends a segment: takes the key of the lanes and returns the key where all of them continue, or -1 if it has written
the lanes' keys itself."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter with an address.

    Attributes:
        space: 'global', 'const', 'shared', 'local', or 'param' (a kernel's). Parameters of functions and of calls are
            'local': they are in the frame.
        offset: Address in its space; for local variables, the offset in the function's frame.
        size: Bytes.
        parameter: Whether it is a parameter in the frame; registers hold its address as a generic address.

    """

    space: str
    offset: int
    size: int
    parameter: bool = False


@dataclass
class Arrays:
    """Numbers for the arrays that a module's code reads and writes.

    Attributes:
        bases: Bytes of each register, by number; 0 for a predicate.
        views: (register number, dtype, step) of each typed array to its number; see `view`.
        specials: Special registers that have arrays, to their register numbers.

    """

    bases: list[int] = field(default_factory=list)
    views: dict[tuple[int, str, int], int] = field(default_factory=dict)
    specials: dict[str, int] = field(default_factory=dict)

    def register(self, size: int) -> int:
        """Number a new register."""
        self.bases.append(size)
        return len(self.bases) - 1

    def view(self, base: int, dtype: Any, step: int = 1) -> int:
        """Number a typed view of a register; a step above 1 selects the low bytes of each value."""
        return self.views.setdefault((base, np.dtype(dtype).str, step), len(self.views))

    def special(self, name: str) -> int:
        """Number the array of a special register."""
        if name not in self.specials:
            self.specials[name] = self.register(specials.size_of(name))
        return self.specials[name]


@dataclass(frozen=True)
class FunctionScope:
    """The names visible within a function.

    Attributes:
        function: The function's name.
        registers: Name to number and declared type.
        variables: Name to variable.
        functions: Name to number, for every function of the module.
        labels: Name to segment, filled in before anything runs.
        tables: Name of a `.branchtargets` to the labels that it lists.

    """

    function: str
    registers: ChainMap[str, tuple[int, PtxType]]
    variables: ChainMap[str, Variable]
    functions: Mapping[str, int]
    labels: ChainMap[str, int]
    tables: ChainMap[str, tuple[str, ...]]

    def inner(self) -> FunctionScope:
        """Make a nested scope."""
        return FunctionScope(
            self.function,
            self.registers.new_child(),
            self.variables.new_child(),
            self.functions,
            self.labels.new_child(),
            self.tables.new_child(),
        )


class CompiledInstruction:
    """One instruction being compiled.

    Args:
        instruction: The instruction.
        scope: Its names.
        arrays: The module's registers.
        elapsed: Cycles that the segment takes before it.

    """

    def __init__(self, instruction: Instruction, scope: FunctionScope, arrays: Arrays, elapsed: int = 0) -> None:
        self.instruction = instruction
        self.operands = list(instruction.operands)
        self.scope = scope
        self.arrays = arrays
        self.elapsed = elapsed
        where = instruction.location
        source = f"{where.file}:{where.line}" if where is not None and where.line else ""
        self.site = FaultSite(scope.function, instruction.text, instruction.line, source)

    def read(self, operand: Operand, kind: PtxType) -> Reader:
        """Compile a source."""
        if isinstance(operand, Immediate):
            value = immediate(operand, kind)
            return lambda _state: value
        if isinstance(operand, Negated):
            name = self.register(operand.operand) if operand.sign == "!" else ""
            require(bool(name), "only predicates can be negated")
            return _register(self, name, kind, negated=True)
        if name := self.register(operand):
            return _register(self, name, kind)
        if found := self.symbol(operand):
            read = self.address_of(found.symbol, found.offset, generic=False)
            return lambda state: read(state).astype(kind.dtype)
        raise UnknownFormError(f"an operand of kind {type(operand).__name__.lower()} is not supported here")

    def guard(self) -> Reader | None:
        """Compile the instruction's predicate; None without one."""
        found = self.instruction.predicate
        return None if found is None else _register(self, found.name, TYPES["pred"], negated=found.negated)

    def register(self, operand: Operand) -> str:
        """The name of an operand that is a register or a special register; '' for others.

        Raises:
            UnknownFormError: It is a register that the device does not support.

        """
        name = operand.whole if isinstance(operand, Name) else ""
        if name in self.scope.registers or specials.known(name):
            return name
        if name.startswith("%") and name not in self.scope.variables:
            raise UnknownFormError(f"{name} is not a register that the device supports")
        return ""

    def symbol(self, operand: Operand) -> SymbolValue | None:
        """The variable, function or label that an operand names, plus an offset; None for other operands."""
        if not isinstance(operand, Name) or operand == SINK or self.register(operand):
            return operand if isinstance(operand, SymbolValue) else None
        return SymbolValue(operand.whole)

    def write(self, operand: Operand, kind: PtxType) -> Writer | None:
        """Compile a destination; None if the result is discarded."""
        if operand == SINK:
            return None
        name = self.register(operand)
        require(bool(name), "its destination is not a register")
        base, declared = self.named(name)
        if kind.kind == "p" or declared.kind == "p":
            if kind.kind != declared.kind:
                raise UnknownFormError(f"{name} is .{declared.name}, not .{kind.name}")
            return _writer(self.arrays.view(base, np.bool_))
        if declared.size < kind.size:
            raise UnknownFormError(f"{name} is .{declared.name}, too narrow for .{kind.name}")
        if declared.size == kind.size:
            return _writer(self.arrays.view(base, kind.dtype))
        wide = SIGNED if kind.signed else UNSIGNED
        write = _writer(self.arrays.view(base, wide[declared.size]))
        if kind.integer:
            return write
        return lambda state, values: write(state, np.asarray(values).view(UNSIGNED[kind.size]))

    def named(self, name: str) -> tuple[int, PtxType]:
        """Look up a register."""
        found = self.scope.registers.get(name)
        if found is None:
            raise UnknownFormError(f"{name} is not declared")
        return found

    def indexed(self, operand: Operand) -> Address:
        """Return an operand that is a place in a texture, surface or tensor."""
        if not isinstance(operand, Address):
            raise UnknownFormError("an operand must be an address")
        return operand

    def address(self, operand: Operand, space: str) -> Reader:
        """Compile an address in a space, '' for generic: uint64, one per executing lane."""
        if not isinstance(operand, Address):
            raise UnknownFormError("an operand must be an address")
        require(not operand.coordinates, "an address with coordinates is not supported here")
        base = operand.base
        added = operand.offset if isinstance(base, Name) else operand.offset + int(base.value)
        offset = np.array(added & 0xFFFF_FFFF_FFFF_FFFF, np.uint64)[()]
        if name := self.register(base):
            _, declared = self.named(name)
            require(declared.size in UNSIGNED, f"{name} is .{declared.name}, which is not an address")
            read = self.read(base, TYPES[f"u{declared.bits}"])
            if declared.size == 8:
                return (lambda state: read(state) + offset) if offset else read
            return lambda state: (read(state).astype(np.uint64) + offset) & np.uint64(0xFFFFFFFF)
        if isinstance(base, Name):
            return self.address_of(base.whole, operand.offset, generic=not space)
        return lambda state: np.full(state.count(), offset)

    def address_of(self, name: str, offset: int, *, generic: bool) -> Reader:
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
    def write(state: ExecutionState, values: Array) -> None:
        state.arrays[number][state.selection] = values

    return write


def _register(code: CompiledInstruction, name: str, kind: PtxType, *, negated: bool = False) -> Reader:
    if specials.known(name) and name not in code.scope.registers:
        return _special(code, name, kind)
    base, declared = code.named(name)
    if kind.kind == "p":
        if declared.kind != "p":
            raise UnknownFormError(f"{name} is .{declared.name}, not .pred")
        number = code.arrays.view(base, np.bool_)
        if negated:
            return lambda state: ~state.arrays[number][state.selection]
        return lambda state: state.arrays[number][state.selection]
    if declared.size < kind.size or declared.kind == "p":
        raise UnknownFormError(f"{name} is .{declared.name}, which cannot hold .{kind.name}")
    number = code.arrays.view(base, kind.dtype, declared.size // kind.size)
    return lambda state: state.arrays[number][state.selection]


def _special(code: CompiledInstruction, name: str, kind: PtxType) -> Reader:
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


def immediate(operand: Immediate, kind: PtxType) -> Any:
    """Convert an immediate to a numpy scalar; a float written as its bits keeps them."""
    value = operand.value if operand.bits is None else operand.bits
    if kind.kind == "p":
        return np.bool_(value)
    if kind.kind == "f" and operand.bits is not None:
        pattern = np.array(value, UNSIGNED[operand.size])
        return pattern.view(FLOATS[operand.size]).astype(kind.dtype)[()]
    if kind.kind == "f":
        return np.array(float(value)).astype(kind.dtype)[()]
    if isinstance(value, float):
        raise UnknownFormError(f"{value} is not an integer")
    return np.array(value & 2**kind.bits - 1, UNSIGNED[kind.size]).view(kind.dtype)[()]

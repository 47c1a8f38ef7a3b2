"""Compile PTX to executable form, once per module."""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from accel_magic.devices.sim import instruction_compiler, operations
from accel_magic.devices.sim.device_memory import CODE, SHARED
from accel_magic.devices.sim.executable import BlockProgram, Executable, ExecutableFunction, Gate, Segment
from accel_magic.devices.sim.instruction_compiler import (
    Arrays,
    CompiledInstruction,
    FunctionScope,
    Modifiers,
    UnknownFormError,
    Variable,
)
from accel_magic.devices.sim.instruction_list import FRAME_ALIGN, BodyReader, Entry, Mark, Placed
from accel_magic.devices.sim.operations import barriers, calls, control, lanes
from accel_magic.devices.sim.types import TYPES
from accel_magic.devices.sim.variables import Slot, align, image, parameters, sizes
from accel_magic.errors import ProgramError
from accel_magic.ptx import ptx_model
from accel_magic.ptx.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from accel_magic.devices.sim.device_memory import Heap
    from accel_magic.devices.sim.instruction_compiler import Step

_BLOCK_PROGRAM = re.compile(r"\.pragma\s+\"accel_magic (\w+) ([\w$%]+) (\d{1,9}) (\d{1,9})\"")
_RESERVED = "%reserved_smem_offset_1"
"""Register that holds where the shared memory begins that is reserved for cooperative groups of several warps."""
_RESERVED_BYTES = 1 << 10
_ALL = ptx_model.Immediate("0xffffffff", 0xFFFFFFFF)
"""The mask of all lanes."""
_ENDING = frozenset({*control.ENDS, *barriers.NAMES, "ret"})


@dataclass(frozen=True)
class LoadedModule:
    """A loaded module.

    Attributes:
        kernels: Name of each kernel to the sizes of its parameters in bytes.
        globals: Name of each variable in global or constant memory to its device address and bytes.
        program: The executable form.

    """

    kernels: Mapping[str, tuple[int, ...]]
    globals: Mapping[str, tuple[int, int]]
    program: Executable


def load(source: str, heap: Heap) -> LoadedModule:
    """Compile PTX and place its variables in global memory.

    Raises:
        ProgramError: It is not PTX, or it contains an instruction, a type or a call that the device does not support.
        MachineError: There is not enough free memory for its variables.

    """
    parsed = parse(source)
    if parsed.address_size != 64:
        raise ProgramError(
            "simulated device: only PTX with 64-bit addresses is supported.",
            why=f"The module has .address_size {parsed.address_size}.",
            fix="Compile for 64 bits.",
            code="gpu.ptx.unsupported",
        )
    return _Loader(parsed, heap).load()


class _Loader:
    """Compiles one module."""

    def __init__(self, parsed: ptx_model.Module, heap: Heap) -> None:
        self._parsed = parsed
        self._heap = heap
        self._shared = 0
        self._variables: ChainMap[str, Variable] = ChainMap()
        self._numbers: dict[str, int] = {}
        self._program = Executable([], [], Arrays(), 0, {})
        self._dynamic: list[str] = []
        self._dynamic_align = FRAME_ALIGN

    def load(self) -> LoadedModule:
        for number, function in enumerate(self._parsed.functions):
            self._numbers[function.name] = number
            self._program.functions.append(ExecutableFunction(function.name, number, function.entry))
        self._declare_variables()
        bodies = [self._read(function) for function in self._parsed.functions]
        self._place_dynamic()
        for compiled, entries in zip(self._program.functions, bodies, strict=True):
            _Compiler(self._program, compiled, entries).compile()
        _mark_recursion(self._program)
        self._program.shared = self._shared
        return LoadedModule(
            {
                function.name: tuple(slot.size for slot in function.parameters)
                for function in self._program.functions
                if function.kernel
            },
            {
                name: (variable.offset, variable.size)
                for name, variable in self._variables.items()
                if variable.space in ("global", "const")
            },
            self._program,
        )

    def _declare_variables(self) -> None:
        if _RESERVED in self._parsed.text:
            place = self._take_shared(_RESERVED_BYTES, FRAME_ALIGN)
            self._variables[_RESERVED] = Variable("shared", place, _RESERVED_BYTES)
        declared = [(item, one) for item in self._parsed.variables for one in item.names]
        for item, one in declared:
            size, to = sizes(item, one)
            if item.space == "shared":
                if item.linkage == "extern" and not size:
                    self._dynamic.append(one.name)
                    self._dynamic_align = max(self._dynamic_align, to)
                else:
                    self._variables[one.name] = Variable("shared", self._take_shared(size, to), size)
            elif item.space in ("global", "const") and item.linkage != "extern":
                address = self._heap.allocate(size, max(to, 16), constant=item.space == "const")
                self._variables[one.name] = Variable(item.space, address, size)
        for item, one in declared:
            self._initialize(item, one)

    def _initialize(self, item: ptx_model.Declaration, one: ptx_model.Declared) -> None:
        try:
            data = image(item, one, self._address)
        except UnknownFormError as error:
            raise ProgramError(
                f"simulated device: cannot initialize {one.name}, PTX line {item.line}.",
                why=str(error),
                fix="Initialize it with numbers or addresses.",
                code="gpu.ptx.unsupported",
            ) from None
        if data is not None and one.name in self._variables:
            self._heap.view(self._variables[one.name].offset, len(data))[:] = data

    def _address(self, symbol: str, generic: bool) -> int:
        if symbol in self._numbers:
            return CODE + 16 * self._numbers[symbol]
        if symbol not in self._variables:
            raise UnknownFormError(f"{symbol} is not declared")
        variable = self._variables[symbol]
        return variable.offset + (SHARED if generic and variable.space == "shared" else 0)

    def _take_shared(self, size: int, to: int) -> int:
        at = align(self._shared, to)
        self._shared = at + size
        return at

    def _place_dynamic(self) -> None:
        """Place dynamic shared memory after the static part, for all kernels of the module."""
        self._shared = align(self._shared, self._dynamic_align)
        for name in self._dynamic:
            self._variables[name] = Variable("shared", self._shared, 0)

    def _read(self, raw: ptx_model.Function) -> list[Entry]:
        function = self._program.functions[self._numbers[raw.name]]
        scope = FunctionScope(raw.name, ChainMap(), self._variables.new_child(), self._numbers, ChainMap(), ChainMap())
        arrays = self._program.arrays
        if raw.body is None:
            return []
        try:
            function.results, end = parameters(raw.results)
            function.parameters, end = parameters(raw.parameters, end)
            function.parameter_bytes = end
            reader = BodyReader(arrays, 0 if raw.entry else end, self._take_shared)
            function.results = self._declare(function.results, reader, scope, raw.entry)
            function.parameters = self._declare(function.parameters, reader, scope, raw.entry)
            reader.read(raw.body, scope)
        except UnknownFormError as error:
            raise ProgramError(
                f"simulated device: cannot run {raw.name}, PTX line {raw.line}.",
                why=str(error),
                code="gpu.ptx.unsupported",
            ) from None
        function.frame = align(reader.frame, FRAME_ALIGN)
        function.registers = reader.numbers
        function.threads = _most_threads(raw.directives)
        _refuse_clusters(raw)
        function.blocks = tuple(one for one in _block_programs(raw.body) if one.entry in self._numbers)
        return reader.entries

    def _declare(
        self, slots: tuple[Slot, ...], reader: BodyReader, scope: FunctionScope, kernel: bool
    ) -> tuple[Slot, ...]:
        """Declare parameters in the scope; for those in registers, the register's number replaces the offset."""
        placed = []
        for slot in slots:
            if slot.register:
                reader.register(slot.name, slot.type.name, scope)
                placed.append(Slot(slot.name, slot.type, scope.registers[slot.name][0], slot.size, True))
                continue
            space = "param" if kernel else "local"
            scope.variables[slot.name] = Variable(space, slot.offset, slot.size, not kernel)
            placed.append(slot)
        return tuple(placed)


def _refuse_clusters(raw: ptx_model.Function) -> None:
    """Refuse a kernel that is compiled for clusters of several blocks: with one it would compute something else."""
    blocks = _product_of(raw.directives, (".reqnctapercluster",))
    if blocks > 1:
        raise ProgramError(
            f"simulated device: cannot run {raw.name}, PTX line {raw.line}.",
            why=f"It needs clusters of {blocks} blocks; the device has clusters of one block.",
            fix="Run the kernel on a GPU (--device cuda), or compile it without __cluster_dims__.",
            code="gpu.ptx.unsupported",
        )


def _block_programs(body: ptx_model.Scope) -> Iterator[BlockProgram]:
    """Find the directives in a kernel's body that name programs for its blocks: see `gpu.inject.blocks`."""
    for item in body.items:
        if isinstance(item, ptx_model.Directive) and (found := _BLOCK_PROGRAM.match(item.text)):
            yield BlockProgram(found[1], found[2], int(found[3]), int(found[4]))


def _most_threads(directives: tuple[str, ...]) -> int:
    """Read `.maxntid` or `.reqntid`: most threads of a block; 0 if neither is given."""
    return _product_of(directives, (".maxntid", ".reqntid"))


def _product_of(directives: tuple[str, ...], names: tuple[str, ...]) -> int:
    """Return the product of the numbers of the first directive with one of these names; 0 if there is none."""
    for directive in directives:
        words = directive.replace(",", " ").split()
        if words[0] in names:
            total = 1
            for word in words[1:]:
                total *= int(word, 0)
            return total
    return 0


class _Compiler:
    """Compiles one function's instructions into segments."""

    def __init__(self, program: Executable, function: ExecutableFunction, entries: list[Entry]) -> None:
        self._program = program
        self._function = function
        self._entries = entries

    def compile(self) -> None:
        """Append the function's segments to the program's."""
        first_view = len(self._program.arrays.views)
        self._function.entry = len(self._program.segments)
        rows = list(_cut(self._entries, self._function.entry, self._is_end, self._is_gate))
        for row in rows:
            self._segment(row)
        self._program.segments.append(Segment([], calls.compile_return(self._function)))
        self._function.views = range(first_view, len(self._program.arrays.views))

    def _is_gate(self, placed: Placed) -> bool:
        parts = placed.instruction.opcode
        return operations.name_of(parts) in lanes.MASKS and "sync" in parts

    def _is_end(self, placed: Placed) -> int:
        """Segments that an instruction ends: 0, 1, or 2 for a call, which adds one that collects its results."""
        parts = placed.instruction.opcode
        if parts[0] == "call":
            return 2 if self._defined(placed) else 0
        return int(parts[0] in _ENDING and operations.name_of(parts) != "bar.warp")

    def _defined(self, placed: Placed) -> bool:
        """Whether a call's target is a function of the module."""
        names = [item.text for item in placed.instruction.operands if isinstance(item, ptx_model.Name)]
        known = any(name in placed.scope.functions for name in names[:1])
        return known or any(name in placed.scope.registers for name in names[:1])

    def _segment(self, row: list[Placed]) -> None:
        segments = self._program.segments
        segment = Segment([], control.fall)
        segments.append(segment)
        for placed in row:
            try:
                self._add(segment, placed)
            except UnknownFormError as error:
                _refuse(self._function.name, placed, error)

    def _add(self, segment: Segment, placed: Placed) -> None:
        opcode = placed.instruction.opcode
        operations.refuse_unsupported(opcode)
        code = CompiledInstruction(placed.instruction, placed.scope, self._program.arrays, segment.cost)
        segment.first = segment.first or code.site
        segment.issued += 1
        segment.cost += operations.COSTS.get(opcode[0], 1)
        closes = self._is_end(placed)
        if closes:
            segment.last = code.site
            self._end(segment, code, skip=closes)
            return
        if self._is_gate(placed):
            segment.mask = _gate(code)
        step = self._intrinsic(code) if opcode[0] == "call" else operations.compile_step(code)
        guard = code.guard()
        segment.steps.append(instruction_compiler.guarded(guard, step) if guard else step)

    def _intrinsic(self, code: CompiledInstruction) -> Step:
        target = code.symbol(calls.parts_of(code).target)
        if target is None:
            raise UnknownFormError("it does not name a function")
        return calls.intrinsic(code, target.symbol)

    def _end(self, segment: Segment, code: CompiledInstruction, skip: int) -> None:
        name = code.instruction.opcode[0]
        number = len(self._program.segments) - 1
        modifiers = Modifiers(code.instruction.opcode[1:])
        if name == "call":
            end, collect = calls.compile_call(code, self._program, self._function)
            self._program.segments.append(Segment([collect], control.fall))
            modifiers.left.clear()
        elif name == "ret":
            end = calls.compile_return(self._function)
            modifiers.drop(("uni",))
        elif name in barriers.NAMES:
            end = barriers.compile_barrier(code, modifiers, number)
        else:
            end = control.ENDS[name](code, modifiers)
        modifiers.finish()
        guard = code.guard()
        segment.end = control.branching(guard, end, skip) if guard else end


def _gate(code: CompiledInstruction) -> Gate:
    """Compile the condition that a `.sync` instruction waits for."""
    place = lanes.MASKS[operations.name_of(code.instruction.opcode)]
    mask = _ALL if place is None else code.operands[place]
    return Gate(code.read(mask, TYPES["u32"]), code.guard())


def _cut(
    entries: list[Entry], number: int, is_end: Callable[[Placed], int], is_gate: Callable[[Placed], bool]
) -> Iterator[list[Placed]]:
    """Split a function into rows that become segments, and set the segment numbers of its labels."""
    row: list[Placed] = []
    for entry in entries:
        if isinstance(entry, Mark):
            if row:
                yield row
                number += 1
                row = []
            entry.scope.labels[entry.name] = number
            continue
        if is_gate(entry) and row:
            yield row
            number += 1
            row = []
        row.append(entry)
        closed = is_end(entry)
        if closed:
            yield row
            number += closed
            row = []
    if row:
        yield row


def _refuse(function: str, placed: Placed, error: UnknownFormError) -> NoReturn:
    why = str(error)
    raise ProgramError(
        f"simulated device: cannot run `{placed.instruction.text}` in {function}, PTX line {placed.instruction.line}.",
        why=f"{why[0].upper()}{why[1:]}.",
        fix=error.fix or "Run the kernel on a GPU (--device cuda), or write it without this instruction.",
        code="gpu.ptx.unsupported",
    ) from None


def _mark_recursion(program: Executable) -> None:
    """Find functions that may be entered again before they return."""
    by_name = {function.name: function for function in program.functions}
    devices = {function.name for function in program.functions if not function.kernel}

    def reached(function: ExecutableFunction) -> set[str]:
        seen: set[str] = set()
        left = [function]
        while left:
            one = left.pop()
            new = (one.calls | (devices if one.indirect else set())) - seen
            seen |= new
            left += [by_name[name] for name in new]
        return seen

    for function in program.functions:
        function.recursive = function.name in reached(function)

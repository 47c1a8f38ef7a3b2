"""Finds what the instructions of a compiled function refer to: maps, global data, other functions, source lines."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.gpu import elf
from accel_magic.gpu.isa import CALL, CALL_LOCAL, SLOT, DataReference, MapReference, decode
from accel_magic.gpu.model import Function

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.btf import Btf
    from accel_magic.gpu.isa import Instruction
    from accel_magic.gpu.model import KernelField, SourceLine

Place = tuple[int, int]
"""Where something lies: a section's number, and bytes from its beginning."""
_C_LIBRARY = frozenset({"memcpy", "memset", "memmove", "memcmp", "strlen", "strcmp"})


@dataclass(frozen=True)
class Unit:
    """An object while its functions are linked.

    Attributes:
        source: What messages call it.
        file: Its ELF file.
        debug: Its BTF.
        functions: By where they begin.
        maps: Names of declared maps by where they lie.
        data: Names of maps of global data by their sections.

    """

    source: str
    file: elf.Elf
    debug: Btf
    functions: Mapping[Place, elf.Symbol]
    maps: Mapping[Place, str]
    data: Mapping[int, str]


@dataclass(frozen=True)
class Linked:
    """A function whose references are known.

    Attributes:
        function: With its calls of other functions as the file has them.
        callees: Where each slot with such a call goes.
        problems: What there is not on a GPU; a function that only programs for the CPU call may refer to it.

    """

    function: Function
    callees: Mapping[int, Place]
    problems: tuple[ProgramError, ...]


def link(unit: Unit, place: Place) -> Linked:
    """Link the function that begins at `place`.

    Raises:
        ProgramError: The object contradicts itself.

    """
    number, start = place
    symbol, section = unit.functions[place], unit.file.sections[number]
    end = start + symbol.size
    if not symbol.size or end > section.size:
        raise damaged(unit.source, f"{symbol.name} has {symbol.size} bytes at {start} of section {section.name}")
    try:
        code = list(decode((section.data or b"")[start:end]))
    except ValueError as error:
        raise damaged(unit.source, f"{symbol.name}: {error}") from None
    lines = _lines(unit.debug.lines.get(section.name, ()), start, len(code))
    callees: dict[int, Place] = {}
    fields = dict(_kernel_fields(unit, section.name, range(start, end)))
    problems = [_kernel_type(unit, symbol.name, lines[slot], field) for slot, field in fields.items()]
    missing: list[str] = []
    relocations = {at.offset: at for at in unit.file.relocations.get(number, ()) if start <= at.offset < end}
    for slot, instruction in enumerate(code):
        relocation = relocations.pop(start + SLOT * slot, None)
        try:
            if instruction is not None and instruction.opcode == CALL and (relocation or instruction.src == CALL_LOCAL):
                callees[slot] = _callee(unit, (number, start + SLOT * slot), instruction, relocation)
            elif relocation is not None:
                code[slot] = _referring(unit, instruction, relocation)
        except _MissingError as error:
            problems.append(_problem(unit, symbol.name, lines[slot], error))
            missing.append(problems[-1].why)
    if relocations:
        raise _unknown(unit, next(iter(relocations.values())))
    function = Function(symbol.name, tuple(code), lines, tuple(fields.items()), tuple(missing))
    return Linked(function, callees, tuple(problems))


def damaged(source: str, why: str) -> ProgramError:
    """Make the error for an object that contradicts itself."""
    return ProgramError(
        f"{source} is damaged", why=why, fix="compile it again: clang -target bpf -O2 -g", code="gpu.object-damaged"
    )


class _MissingError(Exception):
    """What a GPU has not: what it is, and what to do instead."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


def _problem(unit: Unit, function: str, line: SourceLine | None, missing: _MissingError) -> ProgramError:
    where = f"{line.file}:{line.line}" if line else unit.source
    why = str(missing) + (f": `{line.text.strip()}`" if line and line.text else "")
    return ProgramError(
        f"{where}: {function} cannot run on a GPU", why=why, fix=missing.fix, code="gpu.unsupported-in-program"
    )


def _lines(known: Sequence[tuple[int, SourceLine]], start: int, slots: int) -> tuple[SourceLine | None, ...]:
    """Give each slot the last line that was named before it, within the function."""
    named = [(at, line) for at, line in known if start <= at < start + SLOT * slots and line.line]
    places = [at for at, _ in named]
    after = [bisect_right(places, start + SLOT * slot) for slot in range(slots)]
    return tuple(named[count - 1][1] if count else None for count in after)


def _kernel_fields(unit: Unit, section: str, span: range) -> Iterator[tuple[int, KernelField]]:
    """Slots of a function that depend on the running kernel's types."""
    for at, wanted in unit.debug.kernel_types.get(section, ()):
        if at in span:
            yield (at - span.start) // SLOT, unit.debug.kernel_field(wanted)


def _kernel_type(unit: Unit, function: str, line: SourceLine | None, field: KernelField) -> ProgramError:
    missing = f"it needs to know {field.type or 'a type'} of the running kernel (CO-RE)"
    fix = "use only types of your own: no vmlinux.h with preserve_access_index"
    return _problem(unit, function, line, _MissingError(missing, fix))


def _callee(unit: Unit, call: Place, instruction: Instruction, relocation: elf.Relocation | None) -> Place:
    """Tell where a call goes."""
    number, at = call
    target = (number, at + SLOT * (instruction.imm + 1))
    if relocation is not None:
        symbol = relocation.symbol
        if relocation.type != elf.OF_CALL:
            raise _unknown(unit, relocation)
        if symbol.section is None:
            raise _no_function(symbol.name)
        target = (symbol.section, symbol.value + SLOT * (instruction.imm + 1))
    if target not in unit.functions:
        raise damaged(unit.source, f"a call at {at} of section {unit.file.sections[number].name} goes to no function")
    return target


def _no_function(name: str) -> _MissingError:
    if name in _C_LIBRARY:
        return _MissingError(
            f"it calls {name} of the C library",
            f"use __builtin_{name} with a small size that is known when compiling, or a loop",
        )
    return _MissingError(
        f"it calls {name}, which this object does not define",
        "call helpers of accel_gpu.h and functions of the same file: those of the kernel are not on a GPU",
    )


def _referring(unit: Unit, instruction: Instruction | None, relocation: elf.Relocation) -> Instruction:
    """Give a wide load what it refers to."""
    symbol = relocation.symbol
    if instruction is None or not instruction.wide or relocation.type != elf.OF_ADDRESS:
        raise _unknown(unit, relocation)
    if symbol.section is None:
        raise _MissingError(
            f"it reads {symbol.name}, which this object does not define",
            "use variables of the same file: those of the kernel are not on a GPU",
        )
    offset = symbol.value + instruction.imm
    if name := unit.maps.get((symbol.section, offset)):
        return replace(instruction, imm=0, reference=MapReference(name))
    section = unit.file.sections[symbol.section]
    if symbol.section in unit.data and offset < section.size:
        _need_plain_data(unit, symbol.section)
        return replace(instruction, imm=0, reference=DataReference(unit.data[symbol.section], offset))
    if section.code:
        raise _MissingError(
            f"it takes the address of function {_function_at(unit, symbol, offset)}", "call it, or write a loop"
        )
    raise damaged(unit.source, f"{symbol.name} + {offset} is neither a map nor a global variable")


def _unknown(unit: Unit, relocation: elf.Relocation) -> ProgramError:
    what = f"a relocation of type {relocation.type} refers to {relocation.symbol.name}"
    return damaged(unit.source, f"{what} at {relocation.offset}, where there is nothing of the kind")


def _function_at(unit: Unit, symbol: elf.Symbol, offset: int) -> str:
    place = (symbol.section or 0, offset)
    return unit.functions[place].name if place in unit.functions else symbol.name


def _need_plain_data(unit: Unit, section: int) -> None:
    """Refuse data that holds addresses: it would have to know where everything lies."""
    if held := unit.file.relocations.get(section):
        raise _MissingError(
            f"its data in {unit.data[section]} holds the address of {held[0].symbol.name}",
            "keep texts in arrays (char names[4][16]) and other values in the variable itself",
        )

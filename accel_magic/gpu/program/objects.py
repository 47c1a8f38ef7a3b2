"""Loads compiled eBPF objects: programs with the functions that they call, maps and global data."""

from __future__ import annotations

import graphlib
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import bpf_elf, btf, clang, sections
from accel_magic.gpu.program import btf as btf_layouts
from accel_magic.gpu.program.helpers import KFUNCS, MapType
from accel_magic.gpu.program.isa import CALL, CALL_HELPER, CALL_LOCAL, SLOT, DataReference, MapReference, decode
from accel_magic.gpu.program.object_model import BpfObject, EbpfFunction, EbpfProgram, MapSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.program.btf import Btf
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import KernelField
    from accel_magic.ptx.ptx_model import SourceLine


_SUBPROGRAMS = ".text"
_DATA = (".rodata", ".data", ".bss")


def load(path: str | Path, *, include: Sequence[str | Path] = (), gpu_names: str = "") -> BpfObject:
    """Load a program's file. C is compiled first; headers are searched in `include` before our own folders.

    `gpu_names` is as in `accel_magic.gpu.program.sections.attach_of`.

    Raises:
        ProgramError: It cannot be read, does not compile, or cannot be loaded.
        MachineError: There is no clang.

    """
    path = Path(path)
    if path.suffix == ".c":
        return load_object(clang.compile_program(path, include=include), path.name, gpu_names=gpu_names)
    return load_object(path, gpu_names=gpu_names)


def load_object(source: str | Path | bytes, name: str = "", *, gpu_names: str = "") -> BpfObject:
    """Load a compiled object.

    Args:
        source: Its path, or its bytes.
        name: Its name in messages; by default that of its path.
        gpu_names: Glob of additional GPU kernels, as in `accel_magic.gpu.program.sections.attach_of`.

    Raises:
        ProgramError: It cannot be read, is not an eBPF object with BTF, is damaged, or a GPU program refers to
            something that exists only in the kernel. CPU programs keep such references.

    """
    data = source if isinstance(source, bytes) else _read(Path(source))
    name = name or ("the object" if isinstance(source, bytes) else Path(source).name)
    file = bpf_elf.read_elf(data, name)
    described = _description(file, name)
    map_section = file.named(".maps")
    declared = dict(btf_layouts.declared_maps(described)) if map_section is not None else {}
    data_maps = dict(_global_data(file, described))
    maps = (*declared.values(), *data_maps.values())
    _refuse_duplicates(name, maps)
    unit = Unit(
        source=name,
        file=file,
        debug=described,
        functions=_functions(file),
        maps={(map_section or 0, at): spec.name for at, spec in declared.items()},
        data={number: spec.name for number, spec in data_maps.items()},
    )
    return BpfObject(name, tuple(_programs(unit, gpu_names)), maps, _license(file), data)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(bpf_elf.LARGEST + 1)
    except OSError as error:
        raise ProgramError(
            f"the program {path} cannot be read",
            why=error.strerror or str(error),
            fix="name a C file, e.g. count.bpf.c, or an object compiled from one",
            code="program.unreadable",
        ) from None


def _description(file: bpf_elf.BpfElf, name: str) -> btf.Btf:
    if any(section.name == "maps" or section.name.startswith("maps/") for section in file.sections):
        raise ProgramError(
            f"{name} declares its maps in the old way",
            why='it has a section "maps" of struct bpf_map_def, which libbpf 1.0 does not support either',
            fix='declare them with __uint and __type in SEC(".maps")',
            code="gpu.map.old-declaration",
        )
    if file.named(".BTF") is None:
        raise ProgramError(
            f"{name} has no type information",
            why="without BTF, maps and source lines are unknown",
            fix="compile it with debug information: clang -target bpf -O2 -g",
            code="gpu.no-btf-in-object",
        )
    return btf.parse(file.described(".BTF"), file.described(".BTF.ext"), source=name)


def _global_data(file: bpf_elf.BpfElf, described: btf.Btf) -> Iterator[tuple[int, MapSpec]]:
    """Yield the sections of global variables: (number, an array with one value)."""
    for number, section in enumerate(file.sections):
        of_data = any(section.name == name or section.name.startswith(f"{name}.") for name in _DATA)
        if not of_data or not section.allocated or not section.size:
            continue
        layout = btf_layouts.variables(described, section.name, section.size)
        yield (
            number,
            MapSpec(section.name, MapType.ARRAY, 4, section.size, 1, initial=section.data, value=layout),
        )


def _refuse_duplicates(source: str, maps: Sequence[MapSpec]) -> None:
    (name, count), *_ = [*Counter(spec.name for spec in maps).most_common(1), ("", 0)]
    if count > 1:
        raise ProgramError(
            f"{source} has {count} maps called {name}", fix="give each map a unique name", code="gpu.map.name-twice"
        )


def _functions(file: bpf_elf.BpfElf) -> dict[Place, bpf_elf.BpfSymbol]:
    """Return functions by their start, in the order of the file."""
    found = {
        (symbol.section, symbol.value): symbol
        for symbol in file.symbols
        if symbol.function and symbol.section is not None and file.sections[symbol.section].code
    }
    return dict(sorted(found.items(), key=lambda item: item[0]))


def _license(file: bpf_elf.BpfElf) -> str:
    number = file.named("license")
    text = b"" if number is None else file.sections[number].data or b""
    return text.partition(b"\0")[0].decode(errors="replace")


def _programs(unit: Unit, gpu_names: str) -> Iterator[EbpfProgram]:
    """Yield the programs, in the order of the file."""
    linked = {place: link(unit, place) for place in unit.functions}
    called = {callee for function in linked.values() for callee in function.callees.values()}
    for place, symbol in unit.functions.items():
        section = unit.file.sections[place[0]].name
        if section == _SUBPROGRAMS or (symbol.local and place in called):
            continue
        if symbol.local:
            raise ProgramError(
                f"{unit.source}: the program {symbol.name} is static",
                why="programs must be visible outside the file",
                fix="remove `static`",
                code="gpu.static-program",
            )
        yield _program(EbpfProgram(symbol.name, section, ()), place, linked, gpu_names)


def _program(program: EbpfProgram, entry: Place, linked: Mapping[Place, Linked], gpu_names: str) -> EbpfProgram:
    """Add a program's functions: its own, then all that it calls, directly or not."""
    places = [entry]
    for place in places:  # grows during the loop
        places += dict.fromkeys(callee for callee in linked[place].callees.values() if callee not in places)
    try:
        graphlib.TopologicalSorter({place: {*linked[place].callees.values()} for place in places}).prepare()
    except graphlib.CycleError as error:
        raise _recursion(program.name, [linked[place] for place in reversed(error.args[1])]) from None
    problems = [problem for place in places for problem in linked[place].problems]
    if problems and not _for_cpu(program, gpu_names):
        raise problems[0]
    numbers = {place: number for number, place in enumerate(places)}
    return replace(program, functions=tuple(_numbered(linked[place], numbers) for place in places))


def _recursion(program: str, chain: Sequence[Linked]) -> ProgramError:
    """Create the error for functions of which each calls the next; the last is the first again."""
    caller, callee = chain[0], chain[1].function.name
    calls = (caller.function.lines[slot] for slot, name in caller.names.items() if name == callee)
    line = next(calls, None)
    where = f"{line.file}:{line.line}: {caller.function.name}" if line else program
    text = f": `{line.text.strip()}`" if line and line.text else ""
    return ProgramError(
        f"{where} calls {'itself' if len(chain) == 2 else f'{callee}, which calls it again'}",
        why=f"rule recursion, a function must not call itself: {' -> '.join(one.function.name for one in chain)}{text}",
        fix="write it as a loop with a constant bound",
        code="gpu.recursion",
    )


def _for_cpu(program: EbpfProgram, gpu_names: str) -> bool:
    try:
        return sections.is_policy(program) or not sections.is_gpu(program, gpu_names=gpu_names)
    except ProgramError:  # raised again when the program is attached
        return False


def _numbered(linked: Linked, numbers: Mapping[Place, int]) -> EbpfFunction:
    """Set the immediates of local calls to the functions' indexes in the program."""
    code = list(linked.function.code)
    for slot, callee in linked.callees.items():
        call = code[slot]
        code[slot] = call and replace(call, src=CALL_LOCAL, imm=numbers[callee])
    return replace(linked.function, code=tuple(code))


Place = tuple[int, int]
"""A position in the object: (number of the section, offset in bytes)."""
_C_LIBRARY = frozenset({"memcpy", "memset", "memmove", "memcmp", "strlen", "strcmp"})


@dataclass(frozen=True)
class Unit:
    """An object while its functions are linked.

    Attributes:
        source: Its name in messages.
        file: Its ELF file.
        debug: Its BTF.
        functions: Functions by their start.
        maps: Names of declared maps by their position.
        data: Names of maps of global data by their sections.

    """

    source: str
    file: bpf_elf.BpfElf
    debug: Btf
    functions: Mapping[Place, bpf_elf.BpfSymbol]
    maps: Mapping[Place, str]
    data: Mapping[int, str]


@dataclass(frozen=True)
class Linked:
    """A function with resolved references.

    Attributes:
        function: The function; its calls of other functions are unchanged.
        callees: The callee of each slot with such a call.
        names: Their names.
        problems: References that do not exist on a GPU; allowed if only CPU programs call the function.

    """

    function: EbpfFunction
    callees: Mapping[int, Place]
    names: Mapping[int, str]
    problems: tuple[ProgramError, ...]


def link(unit: Unit, place: Place) -> Linked:
    """Link the function that begins at `place`.

    Raises:
        ProgramError: The object is inconsistent.

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
            if instruction is not None and instruction.opcode == CALL and relocation and _is_kfunc(relocation):
                code[slot] = replace(instruction, src=CALL_HELPER, imm=KFUNCS[relocation.symbol.name])
            elif (
                instruction is not None and instruction.opcode == CALL and (relocation or instruction.src == CALL_LOCAL)
            ):
                callees[slot] = _callee(unit, (number, start + SLOT * slot), instruction, relocation)
            elif relocation is not None:
                code[slot] = _referring(unit, instruction, relocation)
        except _MissingError as error:
            problems.append(_problem(unit, symbol.name, lines[slot], error))
            missing.append(problems[-1].why)
    if relocations:
        raise _unknown(unit, next(iter(relocations.values())))
    function = EbpfFunction(symbol.name, tuple(code), lines, tuple(fields.items()), tuple(missing))
    names = {slot: unit.functions[callee].name for slot, callee in callees.items()}
    return Linked(function, callees, names, tuple(problems))


def _is_kfunc(relocation: bpf_elf.BpfRelocation) -> bool:
    symbol = relocation.symbol
    return relocation.type == bpf_elf.OF_CALL and symbol.section is None and symbol.name in KFUNCS


def damaged(source: str, why: str) -> ProgramError:
    """Create the error for an inconsistent object."""
    return ProgramError(
        f"{source} is damaged", why=why, fix="compile it again: clang -target bpf -O2 -g", code="gpu.object-damaged"
    )


class _MissingError(Exception):
    """A reference that does not exist on a GPU, and the fix."""

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
    """Return for each slot the last source line at or before it, within the function."""
    named = [(at, line) for at, line in known if start <= at < start + SLOT * slots and line.line]
    places = [at for at, _ in named]
    after = [bisect_right(places, start + SLOT * slot) for slot in range(slots)]
    return tuple(named[count - 1][1] if count else None for count in after)


def _kernel_fields(unit: Unit, section: str, span: range) -> Iterator[tuple[int, KernelField]]:
    """Yield the slots of a function that depend on the running kernel's types."""
    for at, requested in unit.debug.kernel_types.get(section, ()):
        if at in span:
            yield (at - span.start) // SLOT, unit.debug.kernel_field(requested)


def _kernel_type(unit: Unit, function: str, line: SourceLine | None, field: KernelField) -> ProgramError:
    missing = f"it depends on {field.type or 'a type'} of the running kernel (CO-RE)"
    fix = "use only your own types, without vmlinux.h and preserve_access_index"
    return _problem(unit, function, line, _MissingError(missing, fix))


def _callee(unit: Unit, call: Place, instruction: EbpfInstruction, relocation: bpf_elf.BpfRelocation | None) -> Place:
    """Return the callee of a call."""
    number, at = call
    target = (number, at + SLOT * (instruction.imm + 1))
    if relocation is not None:
        symbol = relocation.symbol
        if relocation.type != bpf_elf.OF_CALL:
            raise _unknown(unit, relocation)
        if symbol.section is None:
            raise _no_function(symbol.name)
        target = (symbol.section, symbol.value + SLOT * (instruction.imm + 1))
    if target not in unit.functions:
        raise damaged(unit.source, f"the call at {at} in section {unit.file.sections[number].name} reaches no function")
    return target


def _no_function(name: str) -> _MissingError:
    if name in _C_LIBRARY:
        return _MissingError(
            f"it calls {name} of the C library",
            f"use __builtin_{name} with a small constant size, or a loop",
        )
    return _MissingError(
        f"it calls {name}, which this object does not define",
        "call only helpers of accel_gpu.h and functions of the same file; kernel functions do not exist on a GPU",
    )


def _referring(unit: Unit, instruction: EbpfInstruction | None, relocation: bpf_elf.BpfRelocation) -> EbpfInstruction:
    """Set the reference of a wide load."""
    symbol = relocation.symbol
    if instruction is None or not instruction.wide or relocation.type != bpf_elf.OF_ADDRESS:
        raise _unknown(unit, relocation)
    if symbol.section is None:
        raise _MissingError(
            f"it reads {symbol.name}, which this object does not define",
            "use only variables of the same file; kernel variables do not exist on a GPU",
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
            f"it takes the address of function {_function_at(unit, symbol, offset)}",
            "call it directly, or write a loop",
        )
    raise damaged(unit.source, f"{symbol.name} + {offset} is neither a map nor a global variable")


def _unknown(unit: Unit, relocation: bpf_elf.BpfRelocation) -> ProgramError:
    what = f"a relocation of type {relocation.type} refers to {relocation.symbol.name}"
    return damaged(unit.source, f"{what} at {relocation.offset}, which cannot have one")


def _function_at(unit: Unit, symbol: bpf_elf.BpfSymbol, offset: int) -> str:
    place = (symbol.section or 0, offset)
    return unit.functions[place].name if place in unit.functions else symbol.name


def _need_plain_data(unit: Unit, section: int) -> None:
    """Reject data that holds addresses, which are not known before the program is placed on a device."""
    if held := unit.file.relocations.get(section):
        raise _MissingError(
            f"its data in {unit.data[section]} holds the address of {held[0].symbol.name}",
            "keep texts in arrays (char names[4][16]) and other values in the variable itself",
        )

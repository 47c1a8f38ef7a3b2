"""Loads compiled eBPF objects: programs with the functions they call, their maps and global data."""

from __future__ import annotations

import graphlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.gpu import btf, btf_layouts, clang, elf, sections
from accel_magic.gpu.helpers import MapType
from accel_magic.gpu.isa import CALL_LOCAL
from accel_magic.gpu.linking import Linked, Place, Unit, link
from accel_magic.gpu.model import BpfObject, Function, MapSpec, Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SUBPROGRAMS = ".text"
_DATA = (".rodata", ".data", ".bss")


def load(path: str | Path, *, include: Sequence[str | Path] = (), gpu_names: str = "") -> BpfObject:
    """Load a program's file: C is compiled first, with `include` searched for headers before our own.

    `gpu_names` is as for `accel_magic.gpu.sections.attach_of`.

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
        name: What messages call it; else its path's name.
        gpu_names: Glob of kernels whose probes are for the GPU, as for `accel_magic.gpu.sections.attach_of`.

    Raises:
        ProgramError: It cannot be read, is no eBPF object with BTF, is damaged, or a program for the GPU refers to what
            there is only in the kernel, with its name. Of programs for the CPU such references stay as they are.

    """
    data = source if isinstance(source, bytes) else _read(Path(source))
    name = name or ("the object" if isinstance(source, bytes) else Path(source).name)
    file = elf.read_elf(data, name)
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
            return file.read(elf.LARGEST + 1)
    except OSError as error:
        raise ProgramError(
            f"the program {path} cannot be read",
            why=error.strerror or str(error),
            fix="name a C file, e.g. count.bpf.c, or an object made of one",
            code="program.unreadable",
        ) from None


def _description(file: elf.Elf, name: str) -> btf.Btf:
    if any(section.name == "maps" or section.name.startswith("maps/") for section in file.sections):
        raise ProgramError(
            f"{name} declares its maps in the old way",
            why='it has a section "maps" of struct bpf_map_def, which libbpf 1.0 gave up too',
            fix='declare them with __uint and __type in SEC(".maps")',
            code="gpu.map.old-declaration",
        )
    if file.named(".BTF") is None:
        raise ProgramError(
            f"{name} does not describe itself",
            why="it has no BTF: maps and source lines are unknown",
            fix="compile it with debug information: clang -target bpf -O2 -g",
            code="gpu.no-btf-in-object",
        )
    return btf.parse(file.described(".BTF"), file.described(".BTF.ext"), source=name)


def _global_data(file: elf.Elf, described: btf.Btf) -> Iterator[tuple[int, MapSpec]]:
    """Go through the sections of global variables: (number, an array with one value)."""
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
            f"{source} has {count} maps called {name}", fix="give each map a name of its own", code="gpu.map.name-twice"
        )


def _functions(file: elf.Elf) -> dict[Place, elf.Symbol]:
    """Functions by where they begin, in the order of the file."""
    found = {
        (symbol.section, symbol.value): symbol
        for symbol in file.symbols
        if symbol.function and symbol.section is not None and file.sections[symbol.section].code
    }
    return dict(sorted(found.items(), key=lambda item: item[0]))


def _license(file: elf.Elf) -> str:
    number = file.named("license")
    text = b"" if number is None else file.sections[number].data or b""
    return text.partition(b"\0")[0].decode(errors="replace")


def _programs(unit: Unit, gpu_names: str) -> Iterator[Program]:
    """Put the programs together, in the order of the file."""
    linked = {place: link(unit, place) for place in unit.functions}
    called = {callee for function in linked.values() for callee in function.callees.values()}
    for place, symbol in unit.functions.items():
        section = unit.file.sections[place[0]].name
        if section == _SUBPROGRAMS or (symbol.local and place in called):
            continue
        if symbol.local:
            raise ProgramError(
                f"{unit.source}: the program {symbol.name} is static",
                why="only functions that can be seen from outside are programs",
                fix="leave out `static`",
                code="gpu.static-program",
            )
        yield _program(Program(symbol.name, section, ()), place, linked, gpu_names)


def _program(program: Program, entry: Place, linked: Mapping[Place, Linked], gpu_names: str) -> Program:
    """Give a program its functions: its own, then all that it reaches by calls."""
    places = [entry]
    for place in places:  # grows meanwhile
        places += dict.fromkeys(callee for callee in linked[place].callees.values() if callee not in places)
    try:
        graphlib.TopologicalSorter({place: {*linked[place].callees.values()} for place in places}).prepare()
    except graphlib.CycleError as error:
        raise ProgramError(
            f"{program.name} calls a function that calls itself",
            why=" -> ".join(linked[place].function.name for place in error.args[1]),
            fix="write it as a loop with a constant bound",
            code="gpu.recursion",
        ) from None
    problems = [problem for place in places for problem in linked[place].problems]
    if problems and not _for_cpu(program, gpu_names):
        raise problems[0]
    numbers = {place: number for number, place in enumerate(places)}
    return replace(program, functions=tuple(_numbered(linked[place], numbers) for place in places))


def _for_cpu(program: Program, gpu_names: str) -> bool:
    try:
        return not sections.is_gpu(program, gpu_names=gpu_names)
    except ProgramError:  # whoever asks where it goes is told
        return False


def _numbered(linked: Linked, numbers: Mapping[Place, int]) -> Function:
    """Turn calls of other functions into their places in the program."""
    code = list(linked.function.code)
    for slot, callee in linked.callees.items():
        call = code[slot]
        code[slot] = call and replace(call, src=CALL_LOCAL, imm=numbers[callee])
    return replace(linked.function, code=tuple(code))

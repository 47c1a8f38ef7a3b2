"""The programs of a GPU trace: found by tool or file name, compiled, and verified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from accel_magic.c_programs import bpf_folder
from accel_magic.errors import ProbeError, ProgramError
from accel_magic.gpu.host.kernel_maps import split
from accel_magic.gpu.maps.filling import content_of, fillable, require_entries
from accel_magic.gpu.program import clang, isa, objects, sections
from accel_magic.gpu.program.program_source import GpuProgram, GpuSource
from accel_magic.gpu.program.settings import entries, variables, with_variables, with_zeroed
from accel_magic.gpu.verifier import budget, judge, verify
from accel_magic.kernel.attach.function_bindings import is_binding
from accel_magic.probes.globs import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.devices.targets import Target
    from accel_magic.gpu.program.object_model import BpfObject, EbpfProgram, Per
    from accel_magic.gpu.program.verdict import Verdict

Verify = Literal["strict", "warn", "off"]
_SUFFIXES = (".c", ".o")
NOT_ON_OPENCL = {8: "bpf_get_smp_processor_id", 507: "gpu_exit", 509: "gpu_sm_id"}
"""Helpers that OpenCL devices do not have."""


def with_budget(source: GpuSource, threads: int) -> GpuSource:
    """Add to each verdict the findings on resource budgets, for maps sized for so many threads."""
    return replace(source, gpu=tuple(replace(each, verdict=_budgeted(source, each, threads)) for each in source.gpu))


def _budgeted(source: GpuSource, each: GpuProgram, threads: int) -> Verdict:
    more = budget.findings(each.program, source.object.maps, each.verdict, threads=threads)
    return replace(each.verdict, findings=(*each.verdict.findings, *more))


def load(
    names: Sequence[str],
    *,
    per: Per | None = None,
    verify_mode: Verify | None = None,
    refuse: bool = True,
    settings: Mapping[str, int] = MappingProxyType({}),
    fill: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[GpuSource, ...]:
    """Compile and verify tools and files.

    Args:
        names: Names of tools, or paths of `.bpf.c` or `.o` files.
        per: Overrides the granularity that the programs declare, except that of programs for blocks.
        verify_mode: `strict` rejects programs with errors; `warn` only those that could access memory they do not own;
            `off` none. None: `strict` for C files and for tools, `warn` for compiled objects, which may be older than
            the rules.
        refuse: Whether to raise an error for a rejected program; otherwise its verdict holds the errors.
        settings: Values of variables ("limit") and of entries of maps ("table.3"), in all sources that have them.
        fill: Content of maps, likewise: as `accel_magic.gpu.maps.filling.content_of` takes it.

    Raises:
        ProbeError: A tool or file does not exist, or is named twice; no source has a variable or map of this name, or a
            value does not fit.
        ProgramError: A program does not compile, or the verifier rejects it.
        MachineError: A C program has to be compiled, and there is no clang.

    """
    if len(set(names)) < len(names):
        raise ProbeError("the same program is named twice", fix="name each program once", code="gpu.program-twice")
    sources = tuple(_load(name, per, verify_mode, settings, fill, refuse=refuse) for name in names)
    _require_used(sources, settings, fill)
    return sources


def _require_used(sources: Sequence[GpuSource], settings: Mapping[str, int], fill: Mapping[str, Any]) -> None:
    """Raise ProbeError if no source has what was set."""
    used = frozenset[str]().union(*(source.settings for source in sources))
    unused = sorted((settings.keys() | fill.keys()) - used)
    if unused:
        names = [name for source in sources for name in variables(source.object)]
        tables = [spec.name for source in sources for spec in source.object.maps if fillable(spec)]
        raise ProbeError(
            f"no program has {', '.join(unused)}",
            why=f"the variables are {', '.join(names) or 'none'}; the maps are {', '.join(tables) or 'none'}",
            fix=suggestion(unused[0].partition(".")[0], [*names, *tables])
            or "write --set VARIABLE=NUMBER, --set MAP.KEY=NUMBER or --fill MAP=VARIABLE",
            code="program.bad-setting",
        )


def require_device(sources: Sequence[GpuSource], device: Target) -> None:
    """Check that a device can run all programs.

    Raises:
        ProgramError: A program is for whole blocks, and the device is no simulated one; or it uses a helper that OpenCL
            devices do not have.

    """
    programs = (each for source in sources for each in source.gpu if each.per == "block")
    if device.kind != "cpu" and (first := next(programs, None)):
        raise ProgramError(
            f'{first.program.name}: SEC("{first.program.section}") cannot be attached on a GPU',
            why="the GPU's hardware assigns blocks to multiprocessors, and runs no program for it",
            fix="run it on the simulated device: --device cpu",
            code="gpu.blocks-by-hardware",
        )
    for source in sources if device.kind == "opencl" else ():
        missing = sorted(
            {NOT_ON_OPENCL[one] for each in source.gpu for one in _called(each.program) & NOT_ON_OPENCL.keys()}
        )
        if missing:
            raise ProgramError(
                f"{source.name} uses helpers that OpenCL devices do not have: {', '.join(missing)}",
                why="OpenCL does not say which compute unit runs a kernel, and no called function can end it",
                fix="use another tool, e.g. threadhist, memtrace or branchdiv",
                code="gpu.unsupported-helper",
            )


def _called(program: EbpfProgram) -> set[int]:
    """Numbers of the helpers that a program calls."""
    return {
        instruction.imm
        for function in program.functions
        for instruction in function.code
        if instruction is not None and instruction.opcode == isa.CALL and instruction.src == isa.CALL_HELPER
    }


def without_bindings(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split words into tools and files, and bindings of CPU programs (`on_launch=uprobe:cuda:cuLaunchKernel`)."""
    bindings = tuple(word for word in words if is_binding(word) and not Path(word).expanduser().is_file())
    return tuple(word for word in words if word not in bindings), bindings


@cache
def tools() -> tuple[str, ...]:
    """Names of the GPU tools, in alphabetical order: each has a program `bpf/gpu/NAME.bpf.c`."""
    return tuple(sorted(path.name.removesuffix(".bpf.c") for path in (bpf_folder() / "gpu").glob("*.bpf.c")))


def path_of(name: str) -> Path:
    """Find the C or object file of a tool, or a user's file. Raises ProbeError if there is none."""
    if name in tools():
        return bpf_folder() / "gpu" / f"{name}.bpf.c"
    path = Path(name).expanduser()
    if path.suffix in _SUFFIXES or path.is_file():
        if path.is_file():
            return path
        raise ProbeError(
            f"there is no program at {name}",
            why="the file does not exist",
            fix=f"check the path; the current folder is {Path.cwd()}",
            code="program.not-found",
        )
    close = get_close_matches(name, tools(), n=1)
    raise ProbeError(
        f"there is no GPU tool {name!r}",
        why=f"the tools are {', '.join(tools())}",
        fix=f"did you mean {close[0]}?" if close else "name a tool, or the file of a program: mine.bpf.c",
        code="gpu.no-tool",
    )


@dataclass(frozen=True)
class _Given:
    """An object with what the user set in it: its maps' content by map, and a description of each setting by name."""

    object: BpfObject
    filled: Mapping[str, Mapping[bytes, bytes]]
    described: Mapping[str, str]


def _given(found: BpfObject, settings: Mapping[str, int], fill: Mapping[str, Any]) -> _Given:
    """Set what the object has of the settings. Raises ProbeError if a value does not fit."""
    found, initialised = with_variables(found, settings)
    found, zeroed = with_zeroed(found, settings)
    tables = {spec.name: content_of(spec, fill[spec.name]) for spec in found.maps if spec.name in fill}
    single = entries([spec for spec in found.maps if fillable(spec)], settings)
    filled = {name: tables.get(name, {}) | single.get(name, {}) for name in tables.keys() | single.keys()}
    for spec in found.maps:
        require_entries(spec, filled.get(spec.name, {}))
    used = [name for name in settings if name in initialised | zeroed or name.partition(".")[0] in single]
    lines = {name: f"{name} = {settings[name]}" for name in used}
    lines |= {name: f"{name}: filled with {len(table):,} entries" for name, table in tables.items()}
    return _Given(found, filled, lines)


def _load(
    name: str,
    per: Per | None,
    mode: Verify | None,
    settings: Mapping[str, int],
    fill: Mapping[str, Any],
    *,
    refuse: bool,
) -> GpuSource:
    path = path_of(name)
    compiled = clang.object_of(name) if name in tools() else None
    found = objects.load(path) if compiled is None else objects.load_object(compiled, path.name)
    given = _given(found, settings, fill)
    found = given.object
    if mode is None:
        mode = "warn" if path.suffix == ".o" else "strict"
    attaches = [(program, sections.attach_of(program)) for program in found.programs]
    cpu = tuple(program for program, attach in attaches if attach is None)
    own = [(program, attach) for program, attach in attaches if attach is not None]
    if not found.programs:
        raise ProgramError(
            f"{path.name} has no GPU program",
            why="no section names a GPU attach point",
            fix='name one in a section: SEC("gpu/entry")',
            code="gpu.no-gpu-program",
        )
    sides = split(found.maps, [program for program, _ in own], cpu)
    if refuse and mode == "strict":
        for error in sides.refused.values():
            raise error
    found = replace(found, maps=sides.device)
    judged = verify if refuse else judge
    gpu = []
    for program, attach in own:
        runs = "block" if attach.per == "block" else per or attach.per or "thread"
        verdict = judged(program, found.maps, mode=mode, per=runs)
        gpu.append(GpuProgram(_named(program, path), attach, runs, verdict))
    called = name if name in tools() else path.name
    return GpuSource(called, found, tuple(gpu), cpu, sides.kernel, sides.refused, given.filled, given.described)


def _named(program: EbpfProgram, path: Path) -> EbpfProgram:
    """Prefix the program's name with its file's: programs of several sources share a kernel."""
    stem = "".join(letter if letter.isalnum() else "_" for letter in path.name.partition(".")[0])
    return replace(program, name=f"{stem}_{program.name}")

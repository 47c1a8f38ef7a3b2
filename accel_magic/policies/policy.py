"""Policies of a GPU's driver in gpu_ext's interface: from C or an object to verified programs, by hook."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.c_programs import bpf_folder
from accel_magic.errors import ProgramError
from accel_magic.gpu.program import bpf_elf, btf, clang, objects
from accel_magic.gpu.program.helpers import KFUNCS, MapType
from accel_magic.gpu.program.isa import CALL, CALL_HELPER
from accel_magic.gpu.program.kernel_types import KernelTypes, adapted
from accel_magic.gpu.program.sections import is_policy
from accel_magic.gpu.program.settings import entries, filled, with_variables
from accel_magic.gpu.verifier import refusal
from accel_magic.gpu.verifier.analysis_pass import Hook
from accel_magic.gpu.verifier.findings import judged
from accel_magic.gpu.verifier.safety import analyse
from accel_magic.policies.lints import PolicyCode, lint
from accel_magic.probes.globs import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.findings import Finding
    from accel_magic.gpu.program.object_model import BpfObject, EbpfFunction, EbpfProgram, MapSpec
    from accel_magic.gpu.program.verdict import Place, PointerKind

HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu_test_trigger": ("", ""),
    "gpu_page_prefetch": (
        "",
        "uvm_perf_prefetch_bitmap_tree",
        "uvm_va_block_region_t",
        "uvm_bpf_prefetch_decision",
    ),
    "gpu_page_prefetch_iter": (
        "uvm_perf_prefetch_bitmap_tree",
        "uvm_va_block_region_t",
        "uvm_va_block_region_t",
        "",
        "uvm_bpf_prefetch_decision",
    ),
    "gpu_block_activate": ("uvm_pmm_gpu_struct", "uvm_gpu_chunk_struct", "uvm_bpf_pmm_decision_ctx"),
    "gpu_block_access": ("uvm_pmm_gpu_struct", "uvm_gpu_chunk_struct", "uvm_bpf_pmm_decision_ctx"),
    "gpu_evict_prepare": ("uvm_pmm_gpu_struct", "list_head", "list_head"),
}
"""Hooks of `struct gpu_mem_ops` in their order: what their arguments point to; "" for a number."""
SCHEDULING: Final[Mapping[str, tuple[str, ...]]] = {
    "on_task_init": ("nv_gpu_task_init_ctx",),
    "on_bind": ("nv_gpu_bind_ctx",),
    "on_task_destroy": ("nv_gpu_task_destroy_ctx",),
    "on_timeslice_control": ("nv_gpu_timeslice_control_ctx",),
}
"""Hooks of `struct nv_gpu_sched_ops`, likewise."""
MEMORY_TABLE, SCHEDULING_TABLE = "gpu_mem_ops", "nv_gpu_sched_ops"
_TABLES: Final = {MEMORY_TABLE: HOOKS, SCHEDULING_TABLE: SCHEDULING}
PROBED: Final = "uvm_perf_prefetch_get_hint_va_block"
"""The driver's function that policies probe to learn the block of a fault; its first argument."""
LAUNCH: Final = "cuLaunchKernel"
"""The library function at which a scheduling policy may act when a process launches a kernel."""
LAUNCHES: Final = ("launch", "launched")
"""Hooks at its entry and at its return."""
_REGISTERS: Final = ("",) * 21
_PREEMPT: Final = "bpf_nv_gpu_preempt_tsg"
_NO_LONGER: Final = ("bpf_gpu_migrate_range", "bpf_gpu_block_move_head", "bpf_gpu_block_move_tail")
"""Functions of gpu_ext's earlier interface that its present driver does not have."""
_SECTIONS: Final = (".struct_ops", ".struct_ops.link")
_OLDER: Final[Mapping[str, str]] = {
    "uvm_gpu_ext": "it is for gpu_ext's first interface (uvm_gpu_ext)",
}
_PROBES: Final = {"uprobe": LAUNCHES[0], "uretprobe": LAUNCHES[1]}
_PLAIN: Final[Mapping[int, MapType]] = {5: MapType.HASH, 6: MapType.ARRAY, 9: MapType.HASH, 10: MapType.HASH}
"""Maps with a value for each processor, of which the model has one, and maps that forget what was least recently used:
when they are full, updates fail in the model."""


@dataclass(frozen=True)
class Hooked:
    """A verified program of a policy.

    Attributes:
        program: The program, with the model's types.
        pointers: What its loads and stores point to, as in `Verdict`.
        loops: Whether it has loops.

    """

    program: EbpfProgram
    pointers: Mapping[Place, PointerKind]
    loops: bool


@dataclass(frozen=True)
class Policy:
    """A policy that the verifier accepted.

    Attributes:
        name: Its name, from the file.
        object: The compiled object.
        maps: Its maps, as the model has them.
        table: `MEMORY_TABLE` or `SCHEDULING_TABLE`: what it decides about.
        hooks: Its programs by hook: names of `HOOKS` and `PROBED`, or of `SCHEDULING` and `LAUNCHES`.
        lints: What may go wrong with it on a GPU.
        values: What its maps hold at first, by map: key -> value.
        settings: Names of the settings and of the filled maps that it has.

    """

    name: str
    object: BpfObject
    maps: tuple[MapSpec, ...]
    table: str
    hooks: Mapping[str, Hooked]
    lints: tuple[Finding, ...]
    values: Mapping[str, Mapping[bytes, bytes]]
    settings: frozenset[str]


def shipped() -> dict[str, Path]:
    """Return the shipped policies' files by name."""
    return {path.name.removesuffix(".bpf.c"): path for path in sorted((bpf_folder() / "policies").glob("*.bpf.c"))}


def load(
    source: str | Path,
    *,
    include: Sequence[str | Path] = (),
    settings: Mapping[str, int] = MappingProxyType({}),
    fill: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
) -> Policy:
    """Load a policy, and verify it.

    Args:
        source: Name of a shipped policy, path of a C file or of an object; or C: text with a line break.
        include: Folders of headers, searched before our own.
        settings: Values of variables ("quota") and of entries of maps ("policy_config.1"); those that it does not have
            are left out.
        fill: Content of maps, likewise.

    Raises:
        ProbeError: A setting does not fit.
        ProgramError: It does not compile, is not a policy of this interface, or the verifier rejects it.
        MachineError: There is no clang.

    """
    if isinstance(source, str) and "\n" not in source and source in shipped():
        source = shipped()[source]
    elif isinstance(source, str) and source.isidentifier() and not Path(source).exists():
        raise ProgramError(
            f"there is no policy {source}",
            why="it is not the name of a shipped policy, and there is no such file",
            fix=suggestion(source, shipped()) or f"name a file, or one of {', '.join(shipped())}",
            code="program.unreadable",
        )
    text = isinstance(source, str) and "\n" in source
    name = "policy" if text else Path(source).name.partition(".")[0]
    if text or Path(source).suffix == ".c":
        loaded = objects.load_object(_compiled(source, name, include), f"{name}.bpf.c")
    else:
        loaded = objects.load_object(source)
    return _policy(name, loaded, settings, fill)


def _compiled(source: str | Path, name: str, include: Sequence[str | Path]) -> bytes:
    try:
        return clang.compile_program(source, include=[*include, bpf_folder() / "policies"], name=f"{name}.bpf.c")
    except ProgramError as error:
        for function in _NO_LONGER:
            if f"'{function}'" in str(error):
                raise _error(name, f"it calls {function}, which gpu_ext's present driver does not have") from error
        raise


def _policy(name: str, loaded: BpfObject, settings: Mapping[str, int], fill: Mapping[str, Mapping[int, int]]) -> Policy:
    loaded, used = with_variables(loaded, settings)
    programs = {program.name: program for program in loaded.programs}
    maps = tuple(_plain(spec) for spec in loaded.maps)
    hooked = {}
    table, members = _table(loaded)
    probes = {program.name: _probed(program, table) for program in loaded.programs if not is_policy(program)}
    for program in loaded.programs:
        if not probes.get(program.name, "a hook"):
            raise _error(name, f'{program.name} is in SEC("{program.section}"), which the model does not call')
    for hook, called in members.items():
        if called not in programs:
            raise _error(name, f"{hook} is {called}, which is not a program of the object")
        if KFUNCS[_PREEMPT] in _called(programs[called]):
            raise _error(name, f"{hook} calls {_PREEMPT}, which may sleep; call it in a probe of {LAUNCH}")
        hooked[hook] = _verified(programs[called], maps, Hook(hook, _TABLES[table][hook], types()))
    for called, hook in probes.items():
        hooked[hook] = _verified(programs[called], maps, Hook(hook, _REGISTERS, types()))
    looping = [hook for hook, one in hooked.items() if one.loops]
    lints = lint(PolicyCode(name, {hook: one.program for hook, one in hooked.items()}, maps, looping))
    values, whole = entries(maps, settings), filled(maps, fill)
    used |= {one for one in settings if one.partition(".")[0] in values} | whole.keys()
    values = {table: whole.get(table, {}) | values.get(table, {}) for table in whole.keys() | values.keys()}
    return Policy(name, loaded, maps, table, hooked, lints, values, frozenset(used))


def _probed(program: EbpfProgram, table: str) -> str:
    """Return the hook of a program that is a probe; "" if it is none that the model calls."""
    kind, _, place = program.section.partition("/")
    if table == MEMORY_TABLE:
        return PROBED if kind == "kprobe" and place == PROBED else ""
    kind, _, sleeps = kind.partition(".")
    if kind not in _PROBES or place.rpartition(":")[2] != LAUNCH or sleeps not in ("", "s"):
        return ""
    if not sleeps and KFUNCS[_PREEMPT] in _called(program):
        raise _error(program.name, f'it calls {_PREEMPT}, which may sleep: SEC("{kind}.s/{place}")')
    return _PROBES[kind]


def _called(program: EbpfProgram) -> set[int]:
    """Numbers of the helpers that a program calls."""
    code = (one for function in program.functions for one in function.code)
    return {one.imm for one in code if one and one.opcode == CALL and one.src == CALL_HELPER}


@cache
def types() -> KernelTypes:
    """Return the structs of the interface, as the model has them."""
    return KernelTypes(resources.files(__package__).joinpath("interface.btf").read_bytes())


def _plain(spec: MapSpec) -> MapSpec:
    return replace(spec, type=_PLAIN.get(spec.type, spec.type))


def _table(loaded: BpfObject) -> tuple[str, dict[str, str]]:
    """Return the object's table of functions: its struct, and the programs by hook.

    Raises:
        ProgramError: It has none, several, or one of another interface.

    """
    tables = list(_tables(loaded))
    if not tables:
        raise _error(loaded.source, f'it has no struct {" or ".join(_TABLES)} in SEC(".struct_ops.link")')
    if len(tables) > 1:
        raise _error(loaded.source, f"it has {len(tables)} tables of functions, of which one can be attached")
    kind, members = tables[0]
    if kind not in _TABLES:
        raise _error(loaded.source, _OLDER.get(kind, f"its table of functions is a struct {kind}"))
    for hook in members:
        if hook not in _TABLES[kind]:
            raise _error(loaded.source, f"the interface has no hook {hook}")
    return kind, members


def _tables(loaded: BpfObject) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each table of functions: its struct, and the programs by member."""
    file = bpf_elf.read_elf(loaded.data, loaded.source)
    described = btf.parse(file.described(".BTF"), source=loaded.source)
    for section in described.types:
        number = file.named(section.name) if section.kind is btf.BtfKind.DATASEC else None
        if number is None or section.name not in _SECTIONS:
            continue
        programs = {at.offset: at.symbol.name for at in file.relocations.get(number, ())}
        for variable, start, _ in zip(section.words[::3], section.words[1::3], section.words[2::3], strict=True):
            table = described.resolved(described.type(variable).number)
            members = zip(table.words[::3], table.words[2::3], strict=True)
            named = {start + bits // 8: described.text(name) for name, bits in members}
            yield table.name, {named[at]: program for at, program in programs.items() if at in named}


def _verified(program: EbpfProgram, maps: Sequence[MapSpec], hook: Hook) -> Hooked:
    """Relocate a program to the model's types and verify it.

    Raises:
        ProgramError: It is rejected.

    """
    program = replace(program, functions=tuple(_relocated(function) for function in program.functions))
    safe = analyse(program, maps, hook)
    errors = [found for found in judged(safe.findings, "strict") if found.severity == "error"]
    if errors:
        raise refusal(program, errors)
    return Hooked(program, safe.facts.pointers, any(graph.loops for graph in safe.graphs))


def _relocated(function: EbpfFunction) -> EbpfFunction:
    if function.missing:
        raise _error(function.name, function.missing[0])
    code = list(function.code)
    for slot, field in function.kernel_fields:
        instruction = code[slot]
        code[slot] = instruction and adapted(instruction, types().answer(field))
    return replace(function, code=tuple(code))


def _error(name: str, why: str) -> ProgramError:
    return ProgramError(
        f"{name} is not a policy that can be tried here",
        why=why,
        fix="write it for gpu_ext's present interface: bpf/policies/ has examples",
        code="policy.other-interface",
    )

"""Attach points of CPU programs: from their sections, or from bindings on the line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError
from accel_magic.kernel.attach.function_bindings import RAW_TRACEPOINT
from accel_magic.probes.globs import near

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.program.object_model import EbpfProgram
    from accel_magic.gpu.program.program_source import GpuSource

_SYSCALL: Final = "__x64_sys_"
_FUNCTIONS: Final = ("kprobe", "kretprobe", "uprobe", "uretprobe", "usdt")
_SPELLINGS: Final = {
    **{kind: kind for kind in _FUNCTIONS},
    "ksyscall": "kprobe",
    "kretsyscall": "kretprobe",
    "tracepoint": "tracepoint",
    "tp": "tracepoint",
    "raw_tracepoint": "raw_tracepoint",
    "raw_tp": "raw_tracepoint",
}
"""Kinds of the probe language, by the first part of a section."""
_INSTEAD: Final = {
    "tp_btf": "raw_tp/EVENT",
    "fentry": "kprobe/FUNCTION",
    "fexit": "kretprobe/FUNCTION",
    "fmod_ret": "kprobe/FUNCTION",
    "perf_event": "uprobe/LIBRARY:FUNCTION or tracepoint/CATEGORY/EVENT",
    "iter": "tracepoint/CATEGORY/EVENT",
    "syscall": "ksyscall/NAME",
}
"""Unsupported kinds, and what to write instead."""
_EXAMPLE: Final = "uprobe:LIBRARY:FUNCTION"


def specs_of(program: EbpfProgram, bound: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a program's attach points, in the probe language.

    Args:
        program: A CPU program.
        bound: Places that the line binds it to; override its section.

    Raises:
        ProbeError: Its section names no place or an unsupported one, or it is bound to a place of another kind.

    """
    kind, rest = _kind(program)
    if bound:
        for spec in bound:
            _need_fit(program, kind, spec)
        return tuple(bound)
    if not rest:
        raise _error(
            program,
            "its section names no place",
            f"name one on the line: {program.name}={kind if kind in _FUNCTIONS else 'uprobe'}:LIBRARY:FUNCTION",
        )
    return (_spec(program, kind, rest),)


def check_bindings(bindings: Mapping[str, Sequence[str]], sources: Iterable[GpuSource]) -> None:
    """Check that bindings name CPU programs.

    Raises:
        ProbeError: There is no such program, or it runs on the GPU.

    """
    sources = tuple(sources)
    names = [program.name for source in sources for program in source.cpu]
    on_gpu = {each.program.functions[0].name: each.program.section for source in sources for each in source.gpu}
    for name, specs in bindings.items():
        if name in names:
            continue
        if name in on_gpu:
            raise ProbeError(
                f"{name}={specs[0]}: {name} runs inside kernels",
                why=f'its section names the place: SEC("{on_gpu[name]}")',
                fix="bind CPU programs only; select kernels with --kernel",
                code="gpu.binding-of-gpu-program",
            )
        close = near(name, names, 1)
        raise ProbeError(
            f"there is no CPU program {name}",
            why=f"there are {', '.join(names)}" if names else "none of the programs is for the CPU",
            fix=f"did you mean {close[0]}?" if close else f"name a function of your program: FUNCTION={_EXAMPLE}",
            code="gpu.no-cpu-program",
        )


def _kind(program: EbpfProgram) -> tuple[str, str]:
    """Split a section into its kind in the probe language and the rest."""
    first, _, rest = program.section.partition("/")
    spelled, *suffixes = first.split(".")
    if spelled in _INSTEAD:
        raise _error(program, f"programs of {spelled} are not supported", f'write SEC("{_INSTEAD[spelled]}")')
    if suffixes and suffixes != ["multi"]:
        raise _error(program, f"programs with .{suffixes[0]} are not supported", f'write SEC("{spelled}/...")')
    kind = _SPELLINGS[spelled]
    return kind, f"{_SYSCALL}{rest}" if spelled in ("ksyscall", "kretsyscall") and rest else rest


def _spec(program: EbpfProgram, kind: str, rest: str) -> str:
    if kind == "tracepoint":
        return f"{kind}:{rest.replace('/', ':')}"
    if kind == "raw_tracepoint":
        return f"{RAW_TRACEPOINT}{rest}"
    name, plus, offset = rest.partition("+")
    if plus and offset.strip("0x"):
        raise _error(program, f"the place is {offset} bytes into a function", "name the function without an offset")
    return f"{kind}:{name}"


def _need_fit(program: EbpfProgram, kind: str, spec: str) -> None:
    from accel_magic.probes.grammar import KINDS

    named = spec.partition(":")[0]
    requested = "raw_tracepoint" if spec.startswith(RAW_TRACEPOINT) else KINDS.get(named, "kprobe")
    if (requested in _FUNCTIONS) != (kind in _FUNCTIONS) or (kind not in _FUNCTIONS and kind != requested):
        what = {"tracepoint": "a tracepoint's record", "raw_tracepoint": "a raw tracepoint's arguments"}
        raise ProbeError(
            f'{program.name}={spec} does not fit SEC("{program.section}")',
            why=f"the program reads {what.get(kind, 'the registers of a function call')}; this place provides "
            f"{what.get(requested, 'the registers of a function call')}",
            fix="bind it to a place of the kind in its section",
            code="gpu.binding-does-not-fit",
        )


def _error(program: EbpfProgram, why: str, fix: str) -> ProbeError:
    return ProbeError(
        f'{program.name}: SEC("{program.section}") cannot be attached', why=why, fix=fix, code="gpu.bad-section"
    )

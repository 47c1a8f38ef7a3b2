"""What the name of a program's section asks for: a kind of place in GPU code, or an attachment on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.context import Operation, Space
from accel_magic.gpu.places import EVERY_OPERATION, EVERY_SPACE, Attach, Where
from accel_magic.probes.globs import matcher, near

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.gpu.model import Per, Program

DIRECTLY_RUN: Final = "__directly_run"
"""Kernel of programs in `kprobe/__directly_run`, which are no probes but run by themselves.

They attach to the entry of a kernel of this name. No framework has one: whoever wants such a program to run launches an
empty kernel called so, with the grid that the program is meant for.
"""
_MEMCAPTURE = "__memcapture"
_OURS = {
    "gpu/entry": Attach(Where.ENTRY),
    "gpu/exit": Attach(Where.EXIT),
    "gpu/memory": Attach(Where.MEMORY, operations=EVERY_OPERATION),
    "gpu/shared": Attach(Where.MEMORY, operations=EVERY_OPERATION, spaces=frozenset({Space.SHARED})),
    "gpu/unshared": Attach(Where.MEMORY, operations=EVERY_OPERATION, spaces=EVERY_SPACE - {Space.SHARED}),
    "gpu/load": Attach(Where.MEMORY, operations=frozenset({Operation.LOAD})),
    "gpu/store": Attach(Where.MEMORY, operations=frozenset({Operation.STORE})),
    "gpu/atomic": Attach(Where.MEMORY, operations=frozenset({Operation.ATOMIC})),
    "gpu/async": Attach(Where.MEMORY, operations=frozenset({Operation.ASYNC_COPY})),
    "gpu/barrier": Attach(Where.BARRIER),
    "gpu/branch": Attach(Where.BRANCH),
    "gpu/function": Attach(Where.FUNCTION),
    "gpu/function_exit": Attach(Where.FUNCTION_EXIT),
}
_PER: dict[str, Per | None] = {"gpu": None, "gpu.thread": "thread", "gpu.warp": "warp"}
_IN_FUNCTIONS = (Where.FUNCTION, Where.FUNCTION_EXIT)
_PROBES = {"kprobe": Where.ENTRY, "kretprobe": Where.EXIT}
# First parts of the sections that the kernel's loaders know for tracing; some have suffixes behind a dot.
_ON_CPU = frozenset(
    {
        *("kprobe", "kretprobe", "ksyscall", "kretsyscall", "uprobe", "uretprobe", "usdt"),
        *("tracepoint", "tp", "raw_tracepoint", "raw_tp", "tp_btf"),
        *("fentry", "fexit", "fmod_ret", "perf_event", "iter", "syscall"),
    }
)


def attach_of(program: Program, *, gpu_names: str = "") -> Attach | None:
    """Tell where a program's section wants it.

    Ours are `gpu/PLACE`, `gpu/PLACE/KERNEL_GLOB`, `gpu/function/NAME` and `gpu/function/NAME/KERNEL_GLOB`, with
    `gpu.warp/` or `gpu.thread/` in front instead where the program says how often it runs. Of `kprobe/NAME` and
    `kretprobe/NAME` those are for the GPU, at entries and exits of kernels, whose name is mangled C++ (`_Z...`), has
    `cuda_` in front (which does not belong to it), or matches `gpu_names`. `kprobe/__memcapture` is every memory
    operation of every kernel; for `kprobe/__directly_run` see `DIRECTLY_RUN`.

    Args:
        program: Any of an object.
        gpu_names: Glob of names that are GPU kernels though their section does not show it: `matmul_kernel`.

    Returns:
        None for a program that runs on the CPU.

    Raises:
        ProgramError: The section is none that is known, lacks a name, or asks for what there is not.

    """
    kind, _, rest = program.section.partition("/")
    if kind in _PER:
        return _ours(program, kind, rest)
    where = _PROBES.get(kind)
    if where and rest == _MEMCAPTURE:
        if where is Where.EXIT:
            raise _error(program, "memory operations have no return", f'write SEC("kprobe/{_MEMCAPTURE}")')
        return _OURS["gpu/memory"]
    if where and (name := _kernel_name(rest, gpu_names)):
        return Attach(where, name)
    if kind.partition(".")[0] in _ON_CPU:
        return None
    why = "it is neither a place in GPU code nor a kind of probe on the CPU"
    raise _error(program, _nearest(kind, [*_PER, *sorted(_ON_CPU)]) or why, _known())


def is_gpu(program: Program, *, gpu_names: str = "") -> bool:
    """Whether a program runs on the GPU; arguments and errors as of `attach_of`."""
    return attach_of(program, gpu_names=gpu_names) is not None


def _kernel_name(name: str, gpu_names: str) -> str:
    """Name of the GPU kernel that a kprobe's section names; '' for a function of the Linux kernel."""
    plain = name.removeprefix("cuda_")
    on_gpu = plain != name or name.startswith("_Z") or name == DIRECTLY_RUN
    return plain if on_gpu or (gpu_names and matcher(gpu_names)(name)) else ""


def _ours(program: Program, kind: str, rest: str) -> Attach:
    place, _, name = rest.partition("/")
    found = _OURS.get(f"gpu/{place}")
    if found is None:
        nearest = _nearest(place, [section.removeprefix("gpu/") for section in _OURS], f"{kind}/")
        raise _error(program, nearest or f"there is no place gpu/{place}", _known())
    found = replace(found, per=_PER[kind])
    if found.where not in _IN_FUNCTIONS:
        return replace(found, name=name or "*")
    function, _, kernels = name.partition("/")
    if not function:
        raise _error(program, "it does not name a device function", f'write SEC("{kind}/{place}/NAME"); * is every one')
    return replace(found, name=function, kernels=kernels or "*")


def _nearest(wanted: str, names: Iterable[str], prefix: str = "") -> str:
    return next((f"did you mean {prefix}{name}?" for name in near(wanted, names, 1)), "")


def _known() -> str:
    functions = [f"{section}/NAME" for section, attach in _OURS.items() if attach.where in _IN_FUNCTIONS]
    places = [section for section, attach in _OURS.items() if attach.where not in _IN_FUNCTIONS]
    return (
        f"for the GPU: {', '.join([*places, *functions])}, each with /KERNEL behind it for some kernels alone, "
        "or gpu.warp/... to run once for each warp, "
        "kprobe/_Z... and kretprobe/_Z...; for the CPU: kprobe, uprobe, tracepoint, fentry and their like"
    )


def _error(program: Program, why: str, fix: str) -> ProgramError:
    return ProgramError(
        f'{program.name}: SEC("{program.section}") cannot be attached', why=why, fix=fix, code="gpu.bad-section"
    )

"""Attach points in GPU code, and their names in sections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.program.context import BLOCK, PROBE, Operation, Space
from accel_magic.probes.globs import matcher, near

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.gpu.program.context import Struct
    from accel_magic.gpu.program.object_model import EbpfProgram, Per


EVERY_OPERATION = frozenset({Operation.LOAD, Operation.STORE, Operation.ATOMIC, Operation.ASYNC_COPY})
EVERY_SPACE = frozenset(Space)


class Where(Enum):
    """A kind of attach point in a kernel's PTX."""

    ENTRY = "kernel entry"
    EXIT = "every exit of a kernel"
    MEMORY = "before a memory operation"
    LOADED = "after a load"
    BARRIER = "before a barrier"
    FENCE = "before a memory fence"
    SYNC = "before another synchronizing instruction"
    BRANCH = "before a conditional branch"
    FUNCTION = "entry of a device function"
    FUNCTION_EXIT = "every return of a device function"
    BLOCK_ENTER = "start of each block"
    BLOCK_EXIT = "end of each block"
    STEAL = "workers without blocks"


@dataclass(frozen=True, slots=True)
class Attach:
    """The attach points that a program's section names.

    Attributes:
        where: The kind of attach point.
        name: Glob of kernels, mangled or demangled; of device functions if `where` is one of theirs.
        operations: For MEMORY and LOADED: the operations.
        spaces: For MEMORY and LOADED: the state spaces named by the instruction.
        kernels: For device functions: glob of kernels; functions in their modules are selected.
        per: Whether it runs in each thread, once per warp or once per block; None if the section does not say.

    """

    where: Where
    name: str = "*"
    operations: frozenset[Operation] = frozenset()
    kernels: str = "*"
    per: Per | None = None
    spaces: frozenset[Space] = EVERY_SPACE


DIRECTLY_RUN: Final = "__directly_run"
"""Kernel of programs in `kprobe/__directly_run`, which run on their own instead of as probes.

They attach to the entry of a kernel of this name. To run such a program, launch an empty kernel with this name and the
grid that the program needs.
"""
_MEMCAPTURE = "__memcapture"
_OURS = {
    "gpu/entry": Attach(Where.ENTRY),
    "gpu/exit": Attach(Where.EXIT),
    "gpu/memory": Attach(Where.MEMORY, operations=EVERY_OPERATION),
    "gpu/shared": Attach(Where.MEMORY, operations=EVERY_OPERATION, spaces=frozenset({Space.SHARED})),
    "gpu/unshared": Attach(Where.MEMORY, operations=EVERY_OPERATION, spaces=EVERY_SPACE - {Space.SHARED}),
    "gpu/load": Attach(Where.MEMORY, operations=frozenset({Operation.LOAD})),
    "gpu/loaded": Attach(Where.LOADED, operations=frozenset({Operation.LOAD})),
    "gpu/store": Attach(Where.MEMORY, operations=frozenset({Operation.STORE})),
    "gpu/atomic": Attach(Where.MEMORY, operations=frozenset({Operation.ATOMIC})),
    "gpu/async": Attach(Where.MEMORY, operations=frozenset({Operation.ASYNC_COPY})),
    "gpu/barrier": Attach(Where.BARRIER),
    "gpu/fence": Attach(Where.FENCE),
    "gpu/sync": Attach(Where.SYNC),
    "gpu/branch": Attach(Where.BRANCH),
    "gpu/function": Attach(Where.FUNCTION),
    "gpu/function_exit": Attach(Where.FUNCTION_EXIT),
    "gpu/block_enter": Attach(Where.BLOCK_ENTER, per="block"),
    "gpu/block_exit": Attach(Where.BLOCK_EXIT, per="block"),
    "gpu/should_try_steal": Attach(Where.STEAL, per="block"),
}
_PER: dict[str, Per | None] = {"gpu": None, "gpu.thread": "thread", "gpu.warp": "warp"}
_IN_FUNCTIONS = (Where.FUNCTION, Where.FUNCTION_EXIT)
OF_BLOCKS: Final = frozenset({Where.BLOCK_ENTER, Where.BLOCK_EXIT, Where.STEAL})
"""Attach points outside the kernel's code, only on the simulated device, which assigns blocks itself."""
_PROBES = {"kprobe": Where.ENTRY, "kretprobe": Where.EXIT}
# First parts of sections that kernel loaders use for tracing; some have suffixes after a dot.
_ON_CPU = frozenset(
    {
        *("kprobe", "kretprobe", "ksyscall", "kretsyscall", "uprobe", "uretprobe", "usdt"),
        *("tracepoint", "tp", "raw_tracepoint", "raw_tp", "tp_btf"),
        *("fentry", "fexit", "fmod_ret", "perf_event", "iter", "syscall"),
    }
)


def is_policy(program: EbpfProgram) -> bool:
    """Whether a program is a policy's: a hook in a table of functions of a driver (struct_ops)."""
    return program.section.partition("/")[0] in ("struct_ops", "struct_ops.s")


def attach_of(program: EbpfProgram, *, gpu_names: str = "") -> Attach | None:
    """Parse the attach points in a program's section.

    Sections of accel_magic are `gpu/PLACE`, `gpu/PLACE/KERNEL_GLOB`, `gpu/function/NAME` and
    `gpu/function/NAME/KERNEL_GLOB`; `gpu.warp/` or `gpu.thread/` instead of `gpu/` also sets how often the program
    runs, except at blocks. `kprobe/NAME` and `kretprobe/NAME` mean entries and exits of GPU kernels if the name is
    mangled C++ (`_Z...`), has the prefix `cuda_` (which is removed), or matches `gpu_names`. `kprobe/__memcapture` is
    every memory operation
    of every kernel; for `kprobe/__directly_run` see `DIRECTLY_RUN`.

    Args:
        program: Any program of an object.
        gpu_names: Glob of additional names of GPU kernels: `matmul_kernel`.

    Returns:
        None for a program that runs on the CPU.

    Raises:
        ProgramError: The section is unknown, lacks a name, or names something that does not exist.

    """
    kind, _, rest = program.section.partition("/")
    if kind in _PER:
        return _ours(program, kind, rest)
    where = _PROBES.get(kind)
    if where and rest == _MEMCAPTURE:
        if where is Where.EXIT:
            raise _error(program, "memory operations do not return", f'write SEC("kprobe/{_MEMCAPTURE}")')
        return _OURS["gpu/memory"]
    if where and (name := _kernel_name(rest, gpu_names)):
        return Attach(where, name)
    if kind.partition(".")[0] in _ON_CPU:
        return None
    why = "it is neither an attach point in GPU code nor a kind of probe on the CPU"
    raise _error(program, _nearest(kind, [*_PER, *sorted(_ON_CPU)]) or why, _known())


def is_gpu(program: EbpfProgram, *, gpu_names: str = "") -> bool:
    """Whether a program runs on the GPU; arguments and errors as in `attach_of`."""
    return attach_of(program, gpu_names=gpu_names) is not None


def context_of(program: EbpfProgram) -> Struct:
    """Return the struct that a program's first argument points to."""
    kind, _, rest = program.section.partition("/")
    found = _OURS.get(f"gpu/{rest.partition('/')[0]}") if kind in _PER else None
    return BLOCK if found is not None and found.where in OF_BLOCKS else PROBE


def _kernel_name(name: str, gpu_names: str) -> str:
    """Return the GPU kernel that a kprobe's section names; '' for a function of the Linux kernel."""
    plain = name.removeprefix("cuda_")
    on_gpu = plain != name or name.startswith("_Z") or name == DIRECTLY_RUN
    return plain if on_gpu or (gpu_names and matcher(gpu_names)(name)) else ""


def _ours(program: EbpfProgram, kind: str, rest: str) -> Attach:
    place, _, name = rest.partition("/")
    found = _OURS.get(f"gpu/{place}")
    if found is None:
        nearest = _nearest(place, [section.removeprefix("gpu/") for section in _OURS], f"{kind}/")
        raise _error(program, nearest or f"there is no attach point gpu/{place}", _known())
    if found.where in OF_BLOCKS and _PER[kind]:
        raise _error(program, "it runs once per block", f'write SEC("gpu/{rest}")')
    found = replace(found, per=found.per or _PER[kind])
    if found.where not in _IN_FUNCTIONS:
        return replace(found, name=name or "*")
    function, _, kernels = name.partition("/")
    if not function:
        raise _error(
            program, "it does not name a device function", f'write SEC("{kind}/{place}/NAME"); * means all functions'
        )
    return replace(found, name=function, kernels=kernels or "*")


def _nearest(requested: str, names: Iterable[str], prefix: str = "") -> str:
    return next((f"did you mean {prefix}{name}?" for name in near(requested, names, 1)), "")


def _known() -> str:
    functions = [f"{section}/NAME" for section, attach in _OURS.items() if attach.where in _IN_FUNCTIONS]
    places = [section for section, attach in _OURS.items() if attach.where not in _IN_FUNCTIONS]
    return (
        f"use one of these for the GPU: {', '.join([*places, *functions])}, each with /KERNEL for some kernels only, "
        "or with gpu.warp/... to run once per warp, or kprobe/_Z... and kretprobe/_Z...; "
        "or for the CPU kprobe, uprobe, tracepoint, fentry and similar sections"
    )


def _error(program: EbpfProgram, why: str, fix: str) -> ProgramError:
    return ProgramError(
        f'{program.name}: SEC("{program.section}") cannot be attached', why=why, fix=fix, code="gpu.bad-section"
    )

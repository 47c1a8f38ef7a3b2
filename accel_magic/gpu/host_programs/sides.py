"""Whose programs use which map: what both sides see is one memory, or it is refused with the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.helpers import ARRAYS, HASHES, PER_THREAD, MapType
from accel_magic.kernel import map_reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.model import MapSpec, Program

OWN_RING: Final = ".cpu"
"""Behind the name of a ring that both sides write to: each has one of its own, this is that of the CPU's programs."""
_SHARED_INSTEAD = "BPF_MAP_TYPE_SHARED_ARRAY, which both sides index"
_NOT_SERVED: Final = {
    map_reading.PROG_ARRAY: "tail calls need somebody who fills it",
    map_reading.PERF_EVENT_ARRAY: "its buffers, one per CPU, lose the order of records",
    map_reading.CGROUP_ARRAY: "cgroup tests need somebody who fills it",
}


@dataclass(frozen=True)
class Sides:
    """The maps of an object by who uses them.

    Attributes:
        device: Those that programs for the GPU see, and those that nobody uses, in the object's order.
        kernel: Those that are the kernel's alone; constants that both sides read are in both.
        refused: Programs for the CPU that cannot run beside those for the GPU, and why, by name.

    """

    device: tuple[MapSpec, ...]
    kernel: tuple[MapSpec, ...]
    refused: Mapping[str, ProgramError]


def used(programs: Sequence[Program]) -> frozenset[str]:
    """Names of the maps that programs refer to."""
    return frozenset(
        instruction.reference.map
        for program in programs
        for function in program.functions
        for instruction in function.code
        if instruction is not None and instruction.reference is not None
    )


def split(maps: Sequence[MapSpec], gpu: Sequence[Program], cpu: Sequence[Program]) -> Sides:
    """Tell whose each map is.

    Args:
        maps: Of the object.
        gpu: Its programs for the GPU.
        cpu: Its programs for the CPU.

    """
    on_gpu = used(gpu)
    refused = {}
    for program in cpu:
        own = used([program])
        problems = [found for spec in maps if spec.name in own and (found := _problem(spec, spec.name in on_gpu))]
        if problems:
            why, fix = problems[0]
            refused[program.name] = ProgramError(
                f"{program.name} ({program.section}) cannot run on the CPU",
                why=why,
                fix=fix,
                code="gpu.map.not-shareable",
            )
    on_cpu = used([program for program in cpu if program.name not in refused])
    of_refused = used([program for program in cpu if program.name in refused]) - on_cpu - on_gpu
    return Sides(
        device=tuple(
            replace(spec, used_by="both", rounded=True) if spec.name in on_cpu and _shareable(spec) else spec
            for spec in maps
            if spec.name in on_gpu or spec.name not in on_cpu | of_refused
        ),
        kernel=tuple(_of_kernel(spec, spec.name in on_gpu) for spec in maps if _kept_by_kernel(spec, on_gpu, on_cpu)),
        refused=refused,
    )


def _shareable(spec: MapSpec) -> bool:
    return spec.type in ARRAYS and not spec.read_only


def _kept_by_kernel(spec: MapSpec, on_gpu: frozenset[str], on_cpu: frozenset[str]) -> bool:
    return spec.name in on_cpu and (spec.name not in on_gpu or not _shareable(spec))


def _of_kernel(spec: MapSpec, on_gpu: bool) -> MapSpec:
    """Give a map the number by which the kernel knows its type, and a ring that both write to a name of its own."""
    kind = MapType.HASH if spec.type in HASHES else MapType.ARRAY if spec.type in ARRAYS else spec.type
    own = on_gpu and spec.type == MapType.RINGBUF
    name = f"{spec.name}{OWN_RING}" if own else spec.name
    return replace(spec, type=int(kind), used_by="cpu", rounded=True, name=name)


def _problem(spec: MapSpec, on_gpu: bool) -> tuple[str, str] | None:
    """Say why a program for the CPU cannot use a map, and what to use instead; None where it can."""
    if spec.type in PER_THREAD:
        return (
            f"it uses {spec.name}, which has values for each thread of a GPU's grid: no program of the kernel is one",
            f"pass what it needs through a {_SHARED_INSTEAD}; t.maps[{spec.name!r}] has all threads' values",
        )
    if spec.type == MapType.GPU_RINGBUF:
        return (
            f"it uses {spec.name}, a ring for each thread of a GPU's grid",
            "use BPF_MAP_TYPE_RINGBUF: the CPU's programs then get a ring of their own of that name",
        )
    if on_gpu and spec.type in HASHES:
        return (
            f"it uses {spec.name}, a hash that GPU programs use too: the kernel's have locks that no GPU can take",
            f"use a {_SHARED_INSTEAD}, or a hash for each side",
        )
    if spec.type in _NOT_SERVED:
        return f"it uses {spec.name}: {_NOT_SERVED[spec.type]}", "use hashes, arrays and BPF_MAP_TYPE_RINGBUF"
    return None

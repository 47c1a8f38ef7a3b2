"""The kernel's maps of one source, including arrays shared with a GPU: created before the cell, read after it."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps import host_maps
from accel_magic.gpu.maps.host_maps import RingReader
from accel_magic.gpu.maps.map_content import MapContent
from accel_magic.gpu.program.helpers import ARRAYS, HASHES, PER_THREAD, MapType
from accel_magic.kernel import bpf_syscalls
from accel_magic.kernel.load import bpf_maps
from accel_magic.kernel.load.bpf_links import Descriptors
from accel_magic.kernel.load.bpf_maps import power_of_two

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec


_KEY: Final = (0).to_bytes(4, "little")


@dataclass
class KernelMaps:
    """Maps in the kernel, open until `close`.

    Attributes:
        source: The tool or file that declares them.
        specs: The maps that only the kernel has.
        descriptors: By the names in the object; for a ring that both sides write to, that of the CPU programs.

    """

    source: str
    specs: tuple[MapSpec, ...]
    descriptors: dict[str, int] = field(default_factory=dict)
    _open: Descriptors = field(default_factory=Descriptors, repr=False)
    _rings: dict[str, RingReader] = field(default_factory=dict, repr=False)
    _unread: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def create(
        cls,
        source: str,
        specs: Sequence[MapSpec],
        shared: Sequence[MapSpec],
        filled: Mapping[str, Mapping[bytes, bytes]] = MappingProxyType({}),
    ) -> KernelMaps:
        """Create the maps and set their initial values.

        Args:
            source: The tool or file.
            specs: The maps that only the kernel has.
            shared: Arrays that GPU programs use too.
            filled: What maps hold at first, by map: key -> value.

        Raises:
            ProgramError: The kernel refuses to create one.

        """
        made = cls(source, tuple(specs))
        try:
            for spec in (*specs, *shared):
                made._create(spec, filled.get(spec.name, {}))
        except BaseException:
            made.close()
            raise
        return made

    def _create(self, spec: MapSpec, values: Mapping[bytes, bytes]) -> None:
        try:
            descriptor = self._open.add(_created(spec))
            self.descriptors[spec.name.removesuffix(OWN_RING)] = descriptor
            if spec.initial is not None:
                bpf_syscalls.map_update(descriptor, _KEY, spec.initial)
            for key, value in values.items():
                bpf_syscalls.map_update(descriptor, key, value)
            if spec.read_only:
                bpf_syscalls.map_freeze(descriptor)
            if spec.type == MapType.RINGBUF:
                self._rings[spec.name] = RingReader(descriptor, _ring_bytes(spec))
        except OSError as error:
            raise ProgramError(
                f"the kernel refuses to create the map {spec.name} (type {spec.type}, {spec.max_entries:,} entries)",
                why=os.strerror(error.errno or 0),
                fix="check its type, flags and sizes; see the kernel's Documentation/bpf/maps.rst",
                code="gpu.map.refused-by-kernel",
            ) from None

    @property
    def has_rings(self) -> bool:
        """Whether there is something to drain."""
        return bool(self._rings)

    def drain(self) -> None:
        """Read all complete records from the rings."""
        for ring in self._rings.values():
            ring.drain()

    def contents(self, known: Sequence[str] = ()) -> list[MapContent]:
        """Copy the kernel's own maps, except those named in `known`: constants that the device has too."""
        found = []
        for spec in self.specs:
            if spec.name in known:
                continue
            if not _readable(spec):
                self._unread[spec.name] = "maps of this type cannot be listed"
                continue
            try:
                found.append(MapContent(self.source, spec, self._raw(spec), 0))
            except OSError as error:
                self._unread[spec.name] = f"the kernel reports {os.strerror(error.errno or 0)}"
        return found

    def notes(self) -> list[str]:
        """List maps that were not read, or not to the end, and why."""
        unread = [f"the map {name} was not read: {why}" for name, why in self._unread.items()]
        stopped = [
            f"recording of {name} stopped at {ring.kept >> 20:,} MiB" for name, ring in self._rings.items() if ring.full
        ]
        return [*unread, *stopped]

    def _raw(self, spec: MapSpec) -> NDArray[np.uint8]:
        if spec.type == MapType.RINGBUF:
            return self._rings[spec.name].records()
        descriptor = self.descriptors[spec.name]
        if spec.read_only:
            return np.frombuffer((spec.initial or b"").ljust(spec.stride, b"\0"), np.uint8)
        if spec.type in ARRAYS:
            return _mapped(descriptor, spec.max_entries * spec.stride)
        described = bpf_maps.OpenMap(descriptor, spec.type, spec.max_entries, spec.key_size, spec.value_size)
        return host_maps.packed(bpf_maps.read(described))

    def close(self) -> None:
        """Release everything; may be called again."""
        for ring in self._rings.values():
            ring.close()
        self._rings.clear()
        self.descriptors.clear()
        self._open.close()


def _readable(spec: MapSpec) -> bool:
    return spec.type == MapType.RINGBUF or spec.type in bpf_maps.READABLE


def _created(spec: MapSpec) -> int:
    name = "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in spec.name)
    flags, entries, value = spec.flags, spec.max_entries, spec.value_size
    kind = int(MapType.ARRAY) if spec.type in ARRAYS else spec.type
    if spec.read_only:
        flags |= bpf_syscalls.F_RDONLY_PROG
    elif kind == MapType.ARRAY:
        flags |= bpf_syscalls.F_MMAPABLE
    if kind == MapType.RINGBUF:
        entries, value = _ring_bytes(spec), 0
    key = 0 if kind == MapType.RINGBUF else spec.key_size
    return bpf_syscalls.map_create(kind, key=key, value=value, entries=entries, flags=flags, name=name)


def _ring_bytes(spec: MapSpec) -> int:
    """Round the size up to a power of two of at least one page, as the kernel requires."""
    return power_of_two(max(spec.max_entries, mmap.PAGESIZE))


def _mapped(descriptor: int, size: int) -> NDArray[np.uint8]:
    """Copy an array that can be mapped: (size,) bytes."""
    with mmap.mmap(descriptor, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ) as area:
        return np.frombuffer(area[:size], np.uint8)


OWN_RING: Final = ".cpu"
"""Suffix of the CPU programs' own ring, if both sides write to a ring of one name."""
_SHARED_INSTEAD = "BPF_MAP_TYPE_SHARED_ARRAY, which both sides index"
_NOT_SERVED: Final = {
    bpf_maps.PROG_ARRAY: "tail calls need a user-space program that fills it",
    bpf_maps.PERF_EVENT_ARRAY: "its buffers, one per CPU, lose the order of records",
    bpf_maps.CGROUP_ARRAY: "cgroup tests need a user-space program that fills it",
}


@dataclass(frozen=True)
class Sides:
    """The maps of an object by the programs that use them.

    Attributes:
        device: Maps used by GPU programs or by no program, in the object's order.
        kernel: Maps that only the kernel has; constants that both sides read are in both.
        refused: Errors of CPU programs whose maps cannot be used, by the program's name.

    """

    device: tuple[MapSpec, ...]
    kernel: tuple[MapSpec, ...]
    refused: Mapping[str, ProgramError]


def used(programs: Sequence[EbpfProgram]) -> frozenset[str]:
    """Names of the maps that programs refer to."""
    return frozenset(
        instruction.reference.map
        for program in programs
        for function in program.functions
        for instruction in function.code
        if instruction is not None and instruction.reference is not None
    )


def split(maps: Sequence[MapSpec], gpu: Sequence[EbpfProgram], cpu: Sequence[EbpfProgram]) -> Sides:
    """Assign each map to the device, the kernel or both.

    Args:
        maps: Of the object.
        gpu: Its GPU programs.
        cpu: Its CPU programs.

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
    """Set the kernel's number of a map's type, and add the suffix to a ring that both sides write to."""
    kind = MapType.HASH if spec.type in HASHES else MapType.ARRAY if spec.type in ARRAYS else spec.type
    own = on_gpu and spec.type == MapType.RINGBUF
    name = f"{spec.name}{OWN_RING}" if own else spec.name
    return replace(spec, type=int(kind), used_by="cpu", rounded=True, name=name)


def _problem(spec: MapSpec, on_gpu: bool) -> tuple[str, str] | None:
    """Return why a CPU program cannot use a map, and the fix; None if it can."""
    if spec.type in PER_THREAD:
        return (
            f"it uses {spec.name}, which has values for each thread of a GPU's grid; CPU programs have no such thread",
            f"pass the values that it needs through a {_SHARED_INSTEAD}; t.maps[{spec.name!r}] has all threads' values",
        )
    if spec.type == MapType.GPU_RINGBUF:
        return (
            f"it uses {spec.name}, a ring for each thread of a GPU's grid",
            "use BPF_MAP_TYPE_RINGBUF: the CPU programs then get their own ring",
        )
    if on_gpu and spec.type in HASHES:
        return (
            f"it uses {spec.name}, a hash that GPU programs use too; GPUs cannot take the locks of the kernel's hashes",
            f"use a {_SHARED_INSTEAD}, or a separate hash for each side",
        )
    if spec.type in _NOT_SERVED:
        return f"it uses {spec.name}: {_NOT_SERVED[spec.type]}", "use hashes, arrays and BPF_MAP_TYPE_RINGBUF"
    return None

"""The kernel's maps of one source: made before the cell, those that a GPU sees too included, and read after it."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import ProgramError
from accel_magic.gpu.helpers import ARRAYS, MapType
from accel_magic.gpu.host_programs import tables
from accel_magic.gpu.host_programs.rings import RingReader
from accel_magic.gpu.host_programs.sides import OWN_RING
from accel_magic.gpu.recording import MapContent
from accel_magic.kernel import map_reading, syscalls
from accel_magic.kernel.linker import Descriptors
from accel_magic.kernel.maps import power_of_two

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.gpu.model import MapSpec

_KEY: Final = (0).to_bytes(4, "little")


@dataclass
class KernelMaps:
    """Maps in the kernel, open until `close`.

    Attributes:
        source: The tool or file that declares them.
        specs: Those that are the kernel's alone.
        descriptors: By the names in the object; of a ring that both sides write to that of the CPU's programs.

    """

    source: str
    specs: tuple[MapSpec, ...]
    descriptors: dict[str, int] = field(default_factory=dict)
    _open: Descriptors = field(default_factory=Descriptors, repr=False)
    _rings: dict[str, RingReader] = field(default_factory=dict, repr=False)
    _unread: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def create(cls, source: str, specs: Sequence[MapSpec], shared: Sequence[MapSpec]) -> KernelMaps:
        """Make the maps and fill in what they hold at the start.

        Args:
            source: The tool or file.
            specs: The kernel's own.
            shared: Arrays that programs for a GPU see too.

        Raises:
            ProgramError: The kernel refuses one.

        """
        made = cls(source, tuple(specs))
        try:
            for spec in (*specs, *shared):
                made._create(spec)
        except BaseException:
            made.close()
            raise
        return made

    def _create(self, spec: MapSpec) -> None:
        try:
            descriptor = self._open.add(_created(spec))
            self.descriptors[spec.name.removesuffix(OWN_RING)] = descriptor
            if spec.initial is not None:
                syscalls.map_update(descriptor, _KEY, spec.initial)
            if spec.read_only:
                syscalls.map_freeze(descriptor)
            if spec.type == MapType.RINGBUF:
                self._rings[spec.name] = RingReader(descriptor, _ring_bytes(spec))
        except OSError as error:
            raise ProgramError(
                f"the kernel refuses the map {spec.name} (type {spec.type}, {spec.max_entries:,} entries)",
                why=os.strerror(error.errno or 0),
                fix="check its type, flags and sizes: see the kernel's Documentation/bpf/maps.rst",
                code="gpu.map.refused-by-kernel",
            ) from None

    @property
    def has_rings(self) -> bool:
        """Whether there is something to drain."""
        return bool(self._rings)

    def drain(self) -> None:
        """Take out of the rings what is complete."""
        for ring in self._rings.values():
            ring.drain()

    def contents(self, known: Sequence[str] = ()) -> list[MapContent]:
        """Copy the kernel's own maps but those whose names are `known`: constants that the device has too."""
        found = []
        for spec in self.specs:
            if spec.name in known:
                continue
            if not _readable(spec):
                self._unread[spec.name] = "it is of a kind that has no table of elements"
                continue
            try:
                found.append(MapContent(self.source, spec, self._raw(spec), 0))
            except OSError as error:
                self._unread[spec.name] = f"the kernel says {os.strerror(error.errno or 0)}"
        return found

    def notes(self) -> list[str]:
        """What was not read, and why."""
        unread = [f"the map {name} is left out: {why}" for name, why in self._unread.items()]
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
        described = map_reading.Described(descriptor, spec.type, spec.max_entries, spec.key_size, spec.value_size)
        return tables.packed(map_reading.read(described))

    def close(self) -> None:
        """Give everything back; again is harmless."""
        for ring in self._rings.values():
            ring.close()
        self._rings.clear()
        self.descriptors.clear()
        self._open.close()


def _readable(spec: MapSpec) -> bool:
    return spec.type == MapType.RINGBUF or spec.type in map_reading.READABLE


def _created(spec: MapSpec) -> int:
    name = "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in spec.name)
    flags, entries, value = spec.flags, spec.max_entries, spec.value_size
    kind = int(MapType.ARRAY) if spec.type in ARRAYS else spec.type
    if spec.read_only:
        flags |= syscalls.F_RDONLY_PROG
    elif kind == MapType.ARRAY:
        flags |= syscalls.F_MMAPABLE
    if kind == MapType.RINGBUF:
        entries, value = _ring_bytes(spec), 0
    key = 0 if kind == MapType.RINGBUF else spec.key_size
    return syscalls.map_create(kind, key=key, value=value, entries=entries, flags=flags, name=name)


def _ring_bytes(spec: MapSpec) -> int:
    """Round up: the kernel's rings are powers of two and whole pages."""
    return power_of_two(max(spec.max_entries, mmap.PAGESIZE))


def _mapped(descriptor: int, size: int) -> NDArray[np.uint8]:
    """Copy an array that can be mapped: (size,) bytes."""
    with mmap.mmap(descriptor, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ) as area:
        return np.frombuffer(area[:size], np.uint8)

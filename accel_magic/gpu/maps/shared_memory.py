"""The memory that one source's programs share with the host while a trace runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.gpu.maps import map_access, map_layout
from accel_magic.gpu.program.helpers import HASHES, RINGS, MapType
from accel_magic.gpu.program.object_model import MapSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.devices.device import DeviceMemory
    from accel_magic.devices.device import MemoryKind as Kind
    from accel_magic.gpu.maps.map_layout import MemoryPlan, Placement, Region
    from accel_magic.gpu.program.program_source import GpuSource

LIMIT: Final = 2 << 30
"""Maximum bytes of one source's maps."""
PRINTS: Final = MapSpec("printed", MapType.RINGBUF, 0, 0, map_layout.PRINT_BYTES)
"""The ring of printed lines, declared like a map."""


@dataclass
class SharedMaps:
    """Maps, losses and print ring of one source, on a device until `free`.

    Attributes:
        unread: Why some of the memory could not be read at the end and is reported as zero; '' if all was read.

    """

    source: GpuSource
    plan: MemoryPlan
    memory: DeviceMemory
    placement: Placement
    _blocks: dict[str, int]
    unread: str = ""
    _salvaging: bool = False

    @classmethod
    def allocate(
        cls,
        source: GpuSource,
        memory: DeviceMemory,
        threads: int,
        pid_tgid: int,
        descriptors: Mapping[str, int] | None = None,
    ) -> SharedMaps:
        """Allocate the programs' memory on the device.

        Args:
            source: The programs.
            memory: The device.
            threads: Capacity of per-thread maps, in threads.
            pid_tgid: The result of `bpf_get_current_pid_tgid`.
            descriptors: The kernel's arrays that the device shares, by name.

        Raises:
            ProgramError: A map's declaration cannot be used, or the maps need more than LIMIT.
            MachineError: The device does not have enough memory, or cannot share it.

        """
        given = descriptors or {}
        plan = map_layout.plan_memory(source.object.maps, threads, limit=LIMIT, apart=given.keys())
        blocks: dict[str, int] = {}
        sizes: tuple[tuple[Kind, int], ...] = (("device", plan.device_bytes), ("host", plan.host_bytes))
        try:
            for kind, size in sizes:
                blocks[kind] = memory.allocate(_content(source, plan, kind, size), kind)
            for spec, region in zip(source.object.maps, plan.maps, strict=True):
                if spec.name in given:
                    blocks[region.memory] = memory.share(given[spec.name], region.bytes)
        except BaseException:
            for address in blocks.values():
                memory.free(address)
            raise
        placement = map_layout.placement(plan, blocks["device"], blocks["host"], pid_tgid, blocks)
        return cls(source, plan, memory, placement, blocks)

    def rings(self) -> list[tuple[MapSpec, Callable[[], NDArray[np.uint8]]]]:
        """Return each ring's declaration and a function that returns the live ring, (bytes,) uint8; print ring last.

        The function raises MachineError if the device's memory is gone.
        """
        found = [
            (spec, partial(self._live, region))
            for spec, region in zip(self.source.object.maps, self.plan.maps, strict=True)
            if spec.type in RINGS
        ]
        return [*found, (PRINTS, partial(self._live, self.plan.printk))]

    def read(self, number: int) -> NDArray[np.uint8]:
        """Copy the map with this number; may be called while kernels run: (bytes,) uint8."""
        return self._read(self.plan.maps[number])

    def read_running(self, number: int) -> NDArray[np.uint8]:
        """Copy the map with this number while kernels may be writing it, with complete entries only: (bytes,) uint8."""
        spec, first = self.source.object.maps[number], self.read(number)
        return map_access.steady(spec, first, self.read(number)) if spec.type in HASHES else first

    def losses(self) -> NDArray[np.uint64]:
        """Return how many calls failed so far because a map was full: one number per map, and last the print ring's."""
        return self._read(self.plan.losses).view(np.uint64)

    def salvage(self) -> None:
        """From now on report memory that a failed device no longer returns as zero, with the reason in `unread`."""
        self._salvaging = True

    def free(self) -> None:
        """Free the memory; may be called again."""
        for address in self._blocks.values():
            self.memory.free(address)
        self._blocks = {}

    def _read(self, region: Region) -> NDArray[np.uint8]:
        try:
            return self.memory.read(self._address(region), region.bytes)
        except MachineError as error:
            if not self._salvaging:
                raise
            self.unread = f"maps in the device's memory could not be read: {error.what} ({error.why})"
            return np.zeros(region.bytes, np.uint8)

    def _live(self, region: Region) -> NDArray[np.uint8]:
        return self.memory.view(self._address(region), region.bytes)

    def _address(self, region: Region) -> int:
        return self._blocks[region.memory] + region.offset


def _content(source: GpuSource, plan: MemoryPlan, kind: Kind, size: int) -> NDArray[np.uint8]:
    """Return the initial content of a block: (size,) uint8."""
    content = np.zeros(max(size, 1), np.uint8)
    for spec, region in zip(source.object.maps, plan.maps, strict=True):
        if region.memory == kind:
            content[region.offset :][: len(region.initial)] = np.frombuffer(region.initial, np.uint8)
            map_access.fill(spec, content[region.offset :][: region.bytes], source.filled.get(spec.name, {}))
    return content


def allocate_all(
    sources: Sequence[GpuSource],
    memory: DeviceMemory,
    threads: int,
    pid_tgid: int,
    descriptors: Callable[[GpuSource], Mapping[str, int]],
) -> list[SharedMaps]:
    """Allocate the memory of all sources, or of none if one fails. Raises the errors of `Shared.allocate`."""
    done: list[SharedMaps] = []
    try:
        for source in sources:  # each must be in `done` before the next may fail
            done.append(SharedMaps.allocate(source, memory, threads, pid_tgid, descriptors(source)))  # noqa: PERF401
    except BaseException:
        for each in done:
            each.free()
        raise
    return done

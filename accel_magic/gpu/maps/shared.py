"""The memory that one source's programs share with the host while a trace runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.gpu.maps import layout as maps
from accel_magic.gpu.maps import views as map_views
from accel_magic.gpu.program.helpers import HASHES, RINGS, MapType
from accel_magic.gpu.program.model import MapSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.devices.device import Memory
    from accel_magic.devices.device import MemoryKind as Kind
    from accel_magic.gpu.maps.layout import Placement, Plan, Region
    from accel_magic.gpu.program.source import Source

LIMIT: Final = 2 << 30
"""Bytes that the maps of all programs of a trace may take."""
PRINTS: Final = MapSpec("printed", MapType.RINGBUF, 0, 0, maps.PRINT_BYTES)
"""The ring of what programs print, declared as a map is."""


@dataclass
class Shared:
    """Maps, losses and print ring of one source, on a device until `free`.

    Attributes:
        unread: Why some of it could not be read at the end; it counts as zero.

    """

    source: Source
    plan: Plan
    memory: Memory
    placement: Placement
    _blocks: dict[str, int]
    unread: str = ""
    _salvaging: bool = False

    @classmethod
    def allocate(
        cls,
        source: Source,
        memory: Memory,
        threads: int,
        pid_tgid: int,
        descriptors: Mapping[str, int] | None = None,
    ) -> Shared:
        """Put what the programs need on the device.

        Args:
            source: The programs.
            memory: The device.
            threads: Threads that per-thread maps get room for.
            pid_tgid: What `bpf_get_current_pid_tgid` answers.
            descriptors: Arrays of the kernel that the device is to see, by name.

        Raises:
            ProgramError: A map's declaration cannot be used, or all need more than LIMIT.
            MachineError: The device has not as much memory, or cannot share it.

        """
        given = descriptors or {}
        plan = maps.plan_memory(source.object.maps, threads, limit=LIMIT, apart=given.keys())
        blocks: dict[str, int] = {}
        sizes: tuple[tuple[Kind, int], ...] = (("device", plan.device_bytes), ("host", plan.host_bytes))
        try:
            for kind, size in sizes:
                blocks[kind] = memory.allocate(_content(plan, kind, size), kind)
            for spec, region in zip(source.object.maps, plan.maps, strict=True):
                if spec.name in given:
                    blocks[region.memory] = memory.share(given[spec.name], region.bytes)
        except BaseException:
            for address in blocks.values():
                memory.free(address)
            raise
        placement = maps.placement(plan, blocks["device"], blocks["host"], pid_tgid, blocks)
        return cls(source, plan, memory, placement, blocks)

    def rings(self) -> list[tuple[MapSpec, Callable[[], NDArray[np.uint8]]]]:
        """Each ring's declaration and what gives the ring itself, (bytes,) uint8, live; last that of what is printed.

        It raises MachineError where the device's memory is gone.
        """
        found = [
            (spec, partial(self._live, region))
            for spec, region in zip(self.source.object.maps, self.plan.maps, strict=True)
            if spec.type in RINGS
        ]
        return [*found, (PRINTS, partial(self._live, self.plan.printk))]

    def read(self, number: int) -> NDArray[np.uint8]:
        """Copy the map of that number, also while kernels run: (bytes,) uint8."""
        return self._read(self.plan.maps[number])

    def read_running(self, number: int) -> NDArray[np.uint8]:
        """Copy the map of that number while kernels may be writing it, with whole entries only: (bytes,) uint8."""
        spec, first = self.source.object.maps[number], self.read(number)
        return map_views.steady(spec, first, self.read(number)) if spec.type in HASHES else first

    def losses(self) -> NDArray[np.uint64]:
        """Calls so far that failed for lack of room: one for each map, and the print ring's last."""
        return self._read(self.plan.losses).view(np.uint64)

    def salvage(self) -> None:
        """From now on take what a device that has failed does not give any more for zero; `unread` says so."""
        self._salvaging = True

    def free(self) -> None:
        """Give the memory back; again is harmless."""
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
        view = self.memory.view(self._address(region), region.bytes)
        assert view is not None  # noqa: S101 - rings are in host memory
        return view

    def _address(self, region: Region) -> int:
        return self._blocks[region.memory] + region.offset


def _content(plan: Plan, kind: Kind, size: int) -> NDArray[np.uint8]:
    """What a block holds at the start: (size,) bytes."""
    content = np.zeros(max(size, 1), np.uint8)
    for region in plan.maps:
        if region.memory == kind and region.initial:
            end = region.offset + len(region.initial)
            content[region.offset : end] = np.frombuffer(region.initial, np.uint8)
    return content


def allocate_all(
    sources: Sequence[Source],
    memory: Memory,
    threads: int,
    pid_tgid: int,
    descriptors: Callable[[Source], Mapping[str, int]],
) -> list[Shared]:
    """Allocate for each source; nothing stays allocated when one fails. Errors as of `Shared.allocate`."""
    done: list[Shared] = []
    try:
        for source in sources:  # each is in `done` before the next may fail
            done.append(Shared.allocate(source, memory, threads, pid_tgid, descriptors(source)))  # noqa: PERF401
    except BaseException:
        for each in done:
            each.free()
        raise
    return done

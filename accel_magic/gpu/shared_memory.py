"""The memory that one source's programs share with the host while a trace runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu import maps
from accel_magic.gpu.recording import MapContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.gpu.devices import Memory
    from accel_magic.gpu.maps import Memory as Kind
    from accel_magic.gpu.maps import Plan, Region
    from accel_magic.gpu.placement import Placement
    from accel_magic.gpu.programs import Source

LIMIT: Final = 2 << 30
"""Bytes that the maps of all programs of a trace may take."""


@dataclass
class Shared:
    """Maps, losses and print ring of one source, on a device until `free`."""

    source: Source
    plan: Plan
    memory: Memory
    placement: Placement
    _blocks: dict[Kind, int]

    @classmethod
    def allocate(cls, source: Source, memory: Memory, threads: int, pid_tgid: int) -> Shared:
        """Put what the programs need on the device.

        Raises:
            ProgramError: A map's declaration cannot be used, or all need more than LIMIT.
            MachineError: The device has not as much memory.

        """
        plan = maps.plan_memory(source.object.maps, threads, limit=LIMIT)
        blocks: dict[Kind, int] = {}
        sizes: tuple[tuple[Kind, int], ...] = (("device", plan.device_bytes), ("host", plan.host_bytes))
        for kind, size in sizes:
            content = np.zeros(max(size, 1), np.uint8)
            for region in plan.maps:
                if region.memory == kind and region.initial:
                    content[region.offset : region.offset + len(region.initial)] = np.frombuffer(
                        region.initial, np.uint8
                    )
            blocks[kind] = memory.allocate(content, kind)
        placement = maps.placement(plan, blocks["device"], blocks["host"], pid_tgid)
        return cls(source, plan, memory, placement, blocks)

    def contents(self) -> list[MapContent]:
        """Copy all maps."""
        losses = self.losses()
        return [
            MapContent(self.source.name, spec, self._read(region), int(lost))
            for spec, region, lost in zip(self.source.object.maps, self.plan.maps, losses, strict=False)
        ]

    def losses(self) -> NDArray[np.uint64]:
        """Calls so far that failed for lack of room: one for each map, and the print ring's last."""
        return self._read(self.plan.losses).view(np.uint64)

    def printed(self) -> NDArray[np.uint8]:
        """Copy the print ring."""
        return self._read(self.plan.printk)

    def free(self) -> None:
        """Give the memory back; again is harmless."""
        for address in self._blocks.values():
            self.memory.free(address)
        self._blocks = {}

    def _read(self, region: Region) -> NDArray[np.uint8]:
        return self.memory.read(self._blocks[region.memory] + region.offset, region.bytes)


def allocate_all(sources: Sequence[Source], memory: Memory, threads: int, pid_tgid: int) -> list[Shared]:
    """Allocate for each source; nothing stays allocated when one fails. Errors as of `Shared.allocate`."""
    done: list[Shared] = []
    try:
        for source in sources:  # each is in `done` before the next may fail
            done.append(Shared.allocate(source, memory, threads, pid_tgid))  # noqa: PERF401
    except BaseException:
        for each in done:
            each.free()
        raise
    return done

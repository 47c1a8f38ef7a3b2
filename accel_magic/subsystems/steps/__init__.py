"""Steps and collectives of many ranks: which rank is late, by how much, and what it did instead."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.subsystems.steps import marks, torch
from accel_magic.subsystems.subsystem import NodesTrace, Subsystem

if TYPE_CHECKING:
    from accel_magic.subsystems.steps.tables import StepTables


def _of_nodes(trace: NodesTrace) -> StepTables:
    from accel_magic.subsystems.steps.tables import StepTables

    return StepTables(trace)


SUBSYSTEM: Final = Subsystem(
    name="steps",
    presets=(marks.PRESET, torch.PRESET),
    of_nodes=_of_nodes,
    attributes=MappingProxyType({"steps": "steps", "collectives": "collectives", "stragglers": "stragglers"}),
)

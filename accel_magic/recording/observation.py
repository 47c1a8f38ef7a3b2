"""What a subsystem finds out in the traced process, besides the events of its points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.probes.plan import Plan


@dataclass(frozen=True)
class ObservedTable:
    """A table of texts. Each row has a value per column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Observation:
    """What a subsystem found when a live trace of its points ended.

    Attributes:
        machine: Entries for the description of the machine, such as a library's version.
        notes: Notes for the user.
        table: What the recording keeps under the subsystem's name; None for nothing.

    """

    machine: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    table: ObservedTable | None = None


Observe: TypeAlias = "Callable[[Plan], Mapping[str, Observation]]"
"""Called in the traced process at the end of a live trace, with what was traced; observations by subsystem."""

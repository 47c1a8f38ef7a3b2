"""What a subsystem finds out in the traced process, besides the events of its points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.probes.plan import Plan


@dataclass(frozen=True)
class ObservedTable:
    """A table of texts. Each row has a value per column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Observation:
    """What a subsystem found during a live trace.

    Attributes:
        machine: Entries for the description of the machine, such as a library's version.
        notes: Notes for the user.
        tables: What the recording keeps, by names that begin with the subsystem's, as `kettle.cups`.

    """

    machine: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tables: Mapping[str, ObservedTable] = field(default_factory=dict)


class Observer(Protocol):
    """Looks, in the traced process, at one live trace."""

    def begin(self) -> None:
        """Counting begins now."""

    def end(self) -> None:
        """Counting has ended, also because of an error; can be called repeatedly, and without `begin`."""

    def found(self, plan: Plan) -> Observation | None:
        """What was found until `end`, given what was traced, with the tasks that were seen; None for nothing."""


class Observers(Protocol):
    """The observers of one live trace together."""

    def begin(self) -> None:
        """Counting begins now."""

    def end(self) -> None:
        """Counting has ended; can be called repeatedly, and without `begin`."""

    def found(self, plan: Plan) -> Mapping[str, Observation]:
        """What was found until `end`, by subsystem."""

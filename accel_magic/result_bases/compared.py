"""What a subsystem adds to a comparison of two traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Compared:
    """What a subsystem says about two traces.

    Attributes:
        lines: What leads the comparison, in words.
        names: For the trace and for the baseline: names for comparing, by function. Others stay as they are.

    """

    lines: tuple[str, ...] = ()
    names: tuple[Mapping[str, str], Mapping[str, str]] = field(default_factory=lambda: ({}, {}))

    def with_more(self, other: Compared) -> Compared:
        """What two subsystems say together."""
        ours, theirs = (dict(one) | dict(more) for one, more in zip(self.names, other.names, strict=True))
        return Compared((*self.lines, *other.lines), (ours, theirs))

"""What subsystems recorded beside a trace or a profile: JSON values that only they read, by their names.

In a file they are entries of the description, beside its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True)
class CompanionSamples:
    """Samples that a subsystem took beside a flame trace.

    Attributes:
        name: Name of the subsystem.
        samples: Their number.
        hint: What they are and where to see them.

    """

    name: str
    samples: int
    hint: str


def joined(description: dict[str, Any], companions: Mapping[str, Any]) -> dict[str, Any]:
    """Add companions to a description. Raises ValueError if one has the name of an entry."""
    if taken := description.keys() & companions.keys():
        raise ValueError(f"subsystems cannot have the names of entries: {', '.join(sorted(taken))}")
    return {**description, **companions}


def among(description: Mapping[str, Any], entries: Collection[str]) -> dict[str, Any]:
    """The companions in a description whose own entries have these names; null is none."""
    return {name: value for name, value in description.items() if name not in entries and value is not None}

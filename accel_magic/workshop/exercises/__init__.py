"""The ten exercises, in order; each is loaded when it begins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from accel_magic.workshop.exercise import Exercise

NAMES: Final = (
    "jobs",
    "allocations",
    "messages",
    "causes",
    "layers",
    "speed",
    "waits",
    "coalescing",
    "divergence",
    "eviction",
)
"""Names in order; the class of each is `EXERCISE` of the module with that name."""


def find(which: str | int) -> type[Exercise]:
    """Return an exercise's class.

    Args:
        which: Its name, or its number from 1.

    Raises:
        ProbeError: There is no such exercise.

    """
    if which in NAMES:
        name = str(which)
    elif isinstance(which, int) and 1 <= which <= len(NAMES):
        name = NAMES[which - 1]
    else:
        known = ", ".join(f"{number} {name}" for number, name in enumerate(NAMES, start=1))
        raise ProbeError(f"unknown exercise {which!r}", fix=f"use one of: {known}", code="workshop.unknown-exercise")
    found: type[Exercise] = import_module(f"{__name__}.{name}").EXERCISE
    return found

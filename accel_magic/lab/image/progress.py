"""Progress reports of a build, which a command line or notebook shows as a bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One progress report.

    Attributes:
        step: "wait" (another build is running), "index" (package lists), "fetch" (packages), "unpack", "build" (the
            initramfs), "snapshot" or "note" (information for the user, reported once).
        done: Bytes done in this step.
        total: Total bytes of this step; 0 if unknown.
        text: Description of the current work, one line.

    """

    step: str
    done: int
    total: int
    text: str


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Ignore a report."""

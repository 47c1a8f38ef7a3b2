"""What a build tells while it works: small values that a command line or a notebook turns into a bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One report of a build.

    Attributes:
        step: "wait" (another build is at work), "index" (package lists), "fetch" (packages), "unpack", "build" (the
            initramfs) or "note" (something the user should know, told once).
        done: Bytes done in this step.
        total: Bytes to do in this step, 0 where nobody knows.
        text: What is being worked on, one line.

    """

    step: str
    done: int
    total: int
    text: str


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Take a report and do nothing with it."""

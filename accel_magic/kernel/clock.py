"""Offset between the kernel's CLOCK_MONOTONIC, which programs read, and this process's, shifted by a time namespace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_INITIAL_TIME_NAMESPACE = "time:[4026531834]"  # an inode number that the kernel reserves (include/linux/proc_ns.h)
_OFFSET = re.compile(r"^(?:monotonic|1)\s+(-?\d+)\s+(\d+)\s*$", re.MULTILINE)
_UNKNOWN = (
    "this process is in a time namespace whose offset cannot be read: time_ns of all events is off by the same "
    "unknown amount"
)


@dataclass(frozen=True)
class Shift:
    """How far this process's clock is ahead of the kernel's, in ns, and notes for the result."""

    ns: int = 0
    notes: tuple[str, ...] = ()


def shift(proc: Path = Path("/proc")) -> Shift:
    """Read the offset of this process's time namespace.

    Args:
        proc: Where /proc is.

    """
    own = _link(proc / "self/ns/time")
    if own in ("", _INITIAL_TIME_NAMESPACE):
        return Shift()
    # timens_offsets applies to the namespace that children start in.
    if own != _link(proc / "self/ns/time_for_children"):
        return Shift(notes=(_UNKNOWN,))
    try:
        found = _OFFSET.search((proc / "self/timens_offsets").read_text(encoding="ascii"))
    except OSError:
        found = None
    if found is None:
        return Shift(notes=(_UNKNOWN,))
    return Shift(int(found[1]) * 1_000_000_000 + int(found[2]))


def _link(path: Path) -> str:
    """Target of a symbolic link, '' if there is none."""
    try:
        return str(path.readlink())
    except OSError:
        return ""

"""The labs that run on this machine, of all users, as far as /proc shows them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_LABS: Final = "name=accel_magic.agent"
_SAVED: Final = re.compile(r"mem-path=.*/snapshots/([\d.]+)-\w+-\w+/ram")
_BOOTED: Final = re.compile(r".*/kernel-([\d.]+)-\w+/vmlinuz")
_SHARED: Final = re.compile(r"local,id=share(\d+),path=(.*),security_model=")
_PSS: Final = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class RunningLab:
    """One lab, by its QEMU. What other users run is what their command lines say.

    Attributes:
        pid: Process id of QEMU.
        uid: Whose it is.
        user: That user's name, or the id if it has none.
        kernel: Series of its kernel; "" if it is not known.
        restored: Whether it was restored from a snapshot.
        age_s: Seconds since it was started.
        cpu_s: CPU time that QEMU has used, s.
        memory_mib: Its memory, MiB, of which pages that several labs share count in part; None if it may not be read.
        folders: Folders that its guest may write to.

    """

    pid: int
    uid: int
    user: str
    kernel: str
    restored: bool
    age_s: float
    cpu_s: float
    memory_mib: float | None
    folders: tuple[str, ...]


def find(root: Path = Path("/")) -> list[RunningLab]:
    """Return the labs that run, oldest first.

    Args:
        root: Folder that contains `proc`.

    """
    return sorted(_found(root / "proc"), key=lambda lab: -lab.age_s)


def _found(proc: Path) -> Iterator[RunningLab]:
    for line in proc.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            words = line.read_bytes().decode(errors="replace").split("\0")
            if any(_OF_LABS in word for word in words):
                yield _lab(line.parent, words)


def _lab(process: Path, words: list[str]) -> RunningLab:
    saved = next(filter(None, map(_SAVED.search, words)), None)
    booted = next(filter(None, map(_BOOTED.fullmatch, words)), None)
    restored = saved is not None and "-incoming" in words
    kernel = saved or booted
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    uid = process.stat().st_uid
    shares = sorted((int(found[1]), found[2]) for found in map(_SHARED.match, words) if found)
    return RunningLab(
        pid=int(process.name),
        uid=uid,
        user=_name(uid),
        kernel=kernel[1] if kernel else "",
        restored=restored,
        age_s=max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / ticks),
        cpu_s=(int(fields[11]) + int(fields[12])) / ticks,
        memory_mib=_memory(process),
        folders=tuple(folder.replace(",,", ",") for number, folder in shares if number),
    )


def _name(uid: int) -> str:
    import pwd  # not on every system

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _memory(process: Path) -> float | None:
    try:
        found = _PSS.search((process / "smaps_rollup").read_text())
    except OSError:  # another user's
        return None
    return int(found[1]) / 1024 if found else None

"""Where a process has code in its memory, and which file each piece comes from."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import scope
from accel_magic.kernel.symbols.ranges import containing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_CODE: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S\Sx\S ([0-9a-f]+) \S+ \d+ *(.*)$", re.MULTILINE)
_USER: Final = re.compile(r"^Uid:\t\d+\t(\d+)", re.MULTILINE)
"""The effective user id, which is the second of four."""
DELETED: Final = " (deleted)"
_MAPPED_FILES: Final = "map_files"
OWN: Final = 0
"""Stands for this process, whose id BPF programs may see as another."""
_MOST_TEXT: Final = 1 << 25
"""Characters of a process's mappings that are read: 65,530 of them, the most by default, have some 7 million."""
_OFFSET: Final = 3
"""`read` has the columns of a mapping in this order: start, end, offset in the file."""


@dataclass(frozen=True)
class Mappings:
    """Executable mappings of one process, in order of address.

    Attributes:
        pid: Whose, as this process sees its id.
        owner: Id of the user that the process runs as.
        starts: (M,) uint64.
        ends: (M,) uint64.
        offsets: (M,) uint64, in the file.
        names: (M,), what the kernel calls each: the path of a file, `[vdso]`, `` where there is no file.

    """

    pid: int
    owner: int
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    offsets: NDArray[np.uint64]
    names: tuple[str, ...]

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Mapping of each address, (N,) int64; -1 where there is no code."""
        return containing(self.starts, self.ends, addresses)

    def file(self, mapping: int) -> Path | None:
        """Where the file of a mapping can be read from here; None where it has none."""
        name = self.names[mapping]
        if not name.startswith("/"):
            return None
        if name.endswith(DELETED):
            return Path(f"/proc/{self.pid}/{_MAPPED_FILES}/{int(self.starts[mapping]):x}-{int(self.ends[mapping]):x}")
        inside = Path(f"/proc/{self.pid}/root{name}")  # of a process in a container
        return Path(name) if self.pid == os.getpid() or not inside.exists() else inside


def is_link(path: Path) -> bool:
    """Whether a path is one of the kernel's links to mapped files. No other file that is mapped can be a link."""
    return path.parent.name == _MAPPED_FILES


def read(pid: int) -> Mappings | None:
    """Read the mappings of a process; None where it has gone, or may not be looked at."""
    try:
        with Path(f"/proc/{pid}/maps").open(errors="surrogateescape") as maps:
            text = maps.read(_MOST_TEXT).rpartition("\n")[0]
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    found, user = _CODE.findall(text), _USER.search(status)
    if not found or user is None:
        return None  # a process that has ended, and nobody waited for
    columns = np.array([[int(text, 16) for text in row[:_OFFSET]] for row in found], np.uint64)
    return Mappings(
        pid, int(user[1]), columns[:, 0], columns[:, 1], columns[:, 2], tuple(row[_OFFSET] for row in found)
    )


class Processes:
    """Mappings of the processes of a trace, kept for those that end before the trace does."""

    def __init__(self) -> None:
        self._known: dict[int, Mappings] = {}

    def learn(self, pids: Iterable[int]) -> None:
        """Read the mappings of processes, ids as BPF programs see them, `OWN` for this; those of ended ones stay."""
        translated = scope.in_initial_namespace()
        for pid in pids:
            visible = os.getpid() if pid == OWN else pid if translated else None
            found = read(visible) if visible is not None else None
            if found is not None:
                self._known[pid] = found

    def of(self, pid: int) -> Mappings | None:
        """Mappings of a process as they were last seen; None where it was never seen."""
        return self._known.get(pid)

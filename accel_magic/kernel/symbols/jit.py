"""Functions that were compiled while the program ran: the map that just-in-time compilers leave for perf.

It lies where everybody may write, under a name that everybody can guess.
"""

from __future__ import annotations

import io
import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import foreign_files
from accel_magic.kernel.symbols.ranges import containing
from accel_magic.probes.elf import name_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FOLDER: Final = Path("/tmp")  # noqa: S108 - the place is a convention
_MOST_BYTES: Final = 1 << 27
"""Of a larger map the end is read: the newest functions."""
_HIGHEST: Final = 2**64 - 1


@dataclass(frozen=True)
class Compiled:
    """F functions: `starts`, `ends` (F,) uint64 in order of address, `names` (F,) where each begins in `text`."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    names: NDArray[np.uint64]
    text: bytes

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Function of each address, (N,) int64; -1 where none is known."""
        return containing(self.starts, self.ends, addresses)

    def name(self, function: int) -> str:
        """Name of a function."""
        return name_at(self.text, int(self.names[function]), b"\n")


def functions(pid: int, owner: int, folder: Path = _FOLDER) -> Compiled:
    """Read `perf-PID.map` of a process: lines of start, size (hexadecimal) and name. What is damaged is left out.

    Of two functions at one address the later one counts: the first has been thrown away.

    Args:
        pid: The process.
        owner: Id of its user; a map that belongs neither to them nor to root is not read.
        folder: Where maps lie.

    """
    try:
        with foreign_files.opened(folder / f"perf-{pid}.map", follow=False, owners=(0, owner)) as file:
            size = os.fstat(file.fileno()).st_size
            start = max(size - _MOST_BYTES, 0)
            text = b"" if foreign_files.has_hole(file, 0, size) else os.pread(file.fileno(), _MOST_BYTES, start)
    except OSError:
        text = b""
    return _functions(text)


def _functions(text: bytes) -> Compiled:
    starts, ends, names = array("Q"), array("Q"), array("Q")
    behind = 0
    for line in io.BytesIO(text):
        behind += len(line)
        try:
            first, second, name = line.split(maxsplit=2)
            start, end = int(first, 16), int(first, 16) + int(second, 16)
        except ValueError:
            continue
        if 0 <= start <= end <= _HIGHEST:
            starts.append(start)
            ends.append(end)
            names.append(behind - len(name))
    columns = np.array([starts, ends, names], np.uint64)
    columns = columns[:, np.argsort(columns[0], kind="stable")]
    last = np.append(np.diff(columns[0]) > 0, True)[: columns.shape[1]]
    kept = columns[:, last]
    return Compiled(kept[0], kept[1], kept[2], text)

"""Functions that were compiled while the program ran: the map that just-in-time compilers leave for perf."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.symbols.ranges import containing

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FOLDER: Final = Path("/tmp")  # noqa: S108 - the place is a convention
_MOST_BYTES: Final = 1 << 28


@dataclass(frozen=True)
class Compiled:
    """F functions: `starts`, `ends` (F,) uint64 in order of address, and their names."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    names: tuple[str, ...]

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Function of each address, (N,) int64; -1 where none is known."""
        return containing(self.starts, self.ends, addresses)


def functions(pid: int, folder: Path = _FOLDER) -> Compiled:
    """Read `perf-PID.map` of a process: lines of start, size (hexadecimal) and name. What is damaged is left out.

    Of two functions at one address the later one counts: the first has been thrown away.
    """
    found: dict[int, tuple[int, str]] = {}
    try:
        with (folder / f"perf-{pid}.map").open(encoding="utf-8", errors="replace") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            start, size, name = line.split(maxsplit=2)
            found[int(start, 16)] = (int(size, 16), name)
        except ValueError:
            continue
    starts = np.array(sorted(found), np.uint64)
    sizes = np.array([found[start][0] for start in starts.tolist()], np.uint64)
    return Compiled(starts, starts + sizes, tuple(found[start][1] for start in starts.tolist()))

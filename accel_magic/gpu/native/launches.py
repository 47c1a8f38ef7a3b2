"""The memory through which a traced process reports its launches, and what it says of itself at any time."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu.native.wire import RECORDS, RING

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE: Final = -(-RING.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
"""Bytes of a ring's file."""
_COUNTERS: Final = [name for name in RING.names or () if name not in {"unused", "launches"}]


class Ring:
    """One process's ring; the process maps `descriptor`, which `opened` closes.

    Attributes:
        descriptor: The file, until `opened`.

    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("accel_magic launches", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, SIZE)
        whole = np.frombuffer(mmap.mmap(self.descriptor, SIZE), RING, count=1)
        self._counters: NDArray[np.void] = whole[_COUNTERS]
        self._launches: NDArray[np.void] = whole["launches"][0]

    def opened(self) -> None:
        """The process has it, or there is none."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def close(self) -> None:
        """Let the memory go; the counters stay as they are."""
        self.opened()
        self._counters, self._launches = self._counters.copy(), self._launches[:0].copy()

    def __getitem__(self, name: str) -> int:
        """Read a counter."""
        return int(self._counters[name][0])

    def __setitem__(self, name: str, value: int) -> None:
        """Write one."""
        self._counters[name][0] = value

    def take(self, until: int) -> NDArray[np.void]:
        """Take out launches, in their order: (n,) of `wire.LAUNCH`.

        Args:
            until: Those reserved before this one; at the first that is not complete it stops.

        """
        start = self["consumed"]
        places = np.arange(start, max(until, start))
        taken = self._launches[places % RECORDS]
        complete = taken["turn"] == places + 1
        count = len(places) if complete.all() else int(complete.argmin())
        self["consumed"] = start + count
        return taken[:count]

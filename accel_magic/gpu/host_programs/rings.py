"""A ring that CPU programs write to, emptied into a file in memory while a cell runs."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from accel_magic.traces.mapped import map_file
from accel_magic.traces.mixed_rings import MixedRing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_BYTES: Final = 1 << 30
"""Records that are kept of one ring; past it the ring stays full and the program's output fails."""


class RingReader:
    """One ring buffer of the kernel.

    Args:
        descriptor: Of the map.
        size: Its data area in bytes.

    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._ring: MixedRing | None = MixedRing(descriptor, size)
        self._file = os.memfd_create("accel_magic ring")
        self._lock = threading.Lock()
        self._failed = False

    @property
    def kept(self) -> int:
        """Bytes of the records so far."""
        return os.fstat(self._file).st_size

    @property
    def full(self) -> bool:
        """Whether no more are kept: there are many, or this machine has no memory for them."""
        return self._failed or self.kept >= MOST_BYTES

    def drain(self) -> None:
        """Take out what is complete; threads may do it at the same time."""
        with self._lock:
            if self._ring is not None and not self.full:
                try:
                    self._ring.drain(self._file)
                except OSError:
                    self._failed = True

    def records(self) -> NDArray[np.uint8]:
        """Take out what is complete, and copy all records so far: (bytes,) uint8, with the kernel's own headers."""
        self.drain()
        with self._lock:
            return map_file(self._file).copy()

    def close(self) -> None:
        """Give the ring and the records back; again is harmless."""
        with self._lock:
            if self._ring is not None:
                self._ring = None
                os.close(self._file)

"""Ring buffers read in bulk: records move from the kernel's memory to a file of this process by the megabyte."""

from __future__ import annotations

import mmap
import os

import numpy as np

_BUSY_BIT = np.uint32(1 << 31)
_STRETCH = 16384


class Ring:
    """One BPF ring buffer whose records all have the same size.

    Args:
        fd: Descriptor of the ring buffer map.
        size: Its data area in bytes.
        record: dtype of a whole record with the ring buffer's header (`Layout.record`).

    The consumer's and the producer's positions are counters of bytes that never wrap; the data area is mapped twice in
    a row, so that a stretch across its end is contiguous.
    """

    def __init__(self, fd: int, size: int, record: np.dtype[np.void]) -> None:
        self.record = record
        self.size = size
        page = mmap.PAGESIZE
        consumer = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        producer = mmap.mmap(fd, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        self._consumed = np.frombuffer(consumer, np.uint64, 1)
        self._produced = np.frombuffer(producer, np.uint64, 1)
        self._data = np.frombuffer(producer, np.uint8, 2 * size, offset=page)

    def drain(self, file: int) -> int:
        """Append all complete records to `file` (a descriptor) and give their room back; returns how many."""
        moved = 0
        produced = int(self._produced[0])
        while (count := self._drain_stretch(file, produced)) > 0:
            moved += count
        return moved

    def _drain_stretch(self, file: int, produced: int) -> int:
        """Move as many records as the processor's cache holds; 0 when none is complete."""
        consumed = int(self._consumed[0])
        stride = self.record.itemsize
        count = min((produced - consumed) // stride, _STRETCH)
        if count == 0:
            return 0
        start = consumed % self.size
        busy = self._data[start : start + count * stride].view(self.record)["header"]["length"] & _BUSY_BIT
        if busy.any():
            count = int(np.argmax(busy))
        written = 0
        while written < count * stride:
            written += os.write(file, self._data[start + written : start + count * stride].data)
        self._consumed[0] = consumed + count * stride
        return count

    @property
    def waiting(self) -> int:
        """Bytes produced and not yet consumed."""
        return int(self._produced[0]) - int(self._consumed[0])

"""Read ring buffers in bulk: records are copied from kernel memory to a file by the megabyte."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.kernel.attachment import RING_HEADER

if TYPE_CHECKING:
    from numpy.typing import NDArray


_BUSY_BIT = np.uint32(1 << 31)
_STRETCH = 16384


class RecordRing:
    """One BPF ring buffer whose records all have the same size.

    Args:
        fd: Descriptor of the ring buffer map.
        size: Its data area in bytes.
        record: dtype of a whole record with the ring buffer's header (`Layout.record`).

    The consumer's and producer's positions are byte counters that never wrap; the data area is mapped twice in a row,
    so that a range across its end is contiguous.
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
        """Append all complete records to `file` (a descriptor) and release their space; return their number."""
        moved = 0
        produced = int(self._produced[0])
        while (count := self._drain_stretch(file, produced)) > 0:
            moved += count
        return moved

    def _drain_stretch(self, file: int, produced: int) -> int:
        """Move as many records as fit in the CPU cache; 0 if none is complete."""
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


_BUSY, _DISCARD = 1 << 31, 1 << 30
_LENGTH = _DISCARD - 1
_LONG_RUN = 32
_WINDOW = 1024
_HOP_WORDS = 1 << 15


class MixedRing(RecordRing):
    """One ring buffer of a user's program; `drain` copies its records with the ring buffer's headers."""

    def __init__(self, fd: int, size: int) -> None:
        super().__init__(fd, size, RING_HEADER)

    def drain(self, file: int) -> int:
        """Append all complete records to `file` (a descriptor) and release their space; return their number."""
        consumed = int(self._consumed[0])
        start = consumed % self.size
        waiting = self._data[start : start + self.waiting]
        starts, end = record_starts(waiting)
        written = 0
        while written < end:
            written += os.write(file, waiting[written:end].data)
        self._consumed[0] = consumed + end
        return len(starts)


def record_starts(data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], int]:
    """Find the complete records at the start of a ring's data.

    Args:
        data: (bytes,) uint8, beginning with a record's header.

    Returns:
        Offsets of the records' headers, (records,) int64, and the end offset of the last record: the offset of the
        first record still being written, or the end of the data.

    """
    found: list[NDArray[np.int64]] = []
    position = 0
    heads = data.view("<u4")[::2]  # records are 8-aligned
    while position < len(data):
        starts, after = _run(heads, position // 8)
        if len(starts) < _LONG_RUN:
            starts, after = _hop(heads, position // 8)
        if not len(starts):
            break
        found.append(starts * 8)
        position = after * 8
    return (np.concatenate(found) if found else np.empty(0, np.int64)), position


def _words(length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Size of records in 8-byte words, with their headers."""
    return 1 + ((length & _LENGTH) + 7) // 8


def _run(heads: NDArray[np.uint32], first: int) -> tuple[NDArray[np.int64], int]:
    """Find a run of records of equal length, the common case. Positions are in words."""
    length = int(heads[first])
    if length & _BUSY:
        return np.empty(0, np.int64), first
    stride = 1 + ((length & _LENGTH) + 7) // 8
    count, window = 0, _WINDOW
    while True:
        begin = first + count * stride
        part = heads[begin : begin + window * stride : stride]
        differs = (part & ~np.uint32(_DISCARD)) != (length & ~_DISCARD)
        same = int(differs.argmax()) if differs.any() else len(part)
        count += same
        if same < window:
            break
        window *= 2
    return first + stride * np.arange(count, dtype=np.int64), first + stride * count


def _hop(heads: NDArray[np.uint32], first: int) -> tuple[NDArray[np.int64], int]:
    """Find records of varying lengths by pointer doubling, treating every word as a header. Positions are in words.

    Payload words jump anywhere, but no jump from a real header ever lands on one.
    """
    lengths = heads[first : first + _HOP_WORDS].astype(np.int64)
    count = len(lengths)
    after = np.arange(count) + _words(lengths)
    end = np.int64(count)  # represents every position beyond this range
    jump = np.append(np.where(lengths & _BUSY, end, np.minimum(after, end)), end)
    places = np.zeros(1, np.int64)
    while True:
        further = jump[places]
        further = further[further < end]
        if not len(further):
            break
        places = np.concatenate([places, further])
        jump = jump[jump]
    last = int(places[-1])
    if lengths[last] & _BUSY:
        return first + places[:-1], first + last
    return first + places, first + int(after[last])


def discarded(heads: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which headers belong to records that the program reserved and then discarded."""
    flags: NDArray[np.bool_] = (heads & np.uint32(_DISCARD)).astype(np.bool_)
    return flags


def sizes(heads: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Bytes of the records' data, without header and padding."""
    return heads & np.uint32(_LENGTH)

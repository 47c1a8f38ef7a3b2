"""Maps of CPU programs: ring buffers drained into a file in memory while a cell runs, and tables."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu.program.helpers import MapType
from accel_magic.kernel.mapped_memory import map_file
from accel_magic.kernel.records.c_layout import CField, CLayout, raw_layout
from accel_magic.kernel.records.map_frames import RAW, map_frame, records_frame
from accel_magic.kernel.records.rings import MixedRing

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import MapSpec
    from accel_magic.kernel.load.bpf_maps import MapElements


MOST_BYTES: Final = 1 << 30
"""Bytes of records kept of one ring; beyond this the ring stays full and the program's output fails."""


class RingReader:
    """One ring buffer of the kernel.

    Args:
        descriptor: The map's descriptor.
        size: Bytes of its data area.

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
        """Whether no more records are kept: the limit is reached, or this machine has no memory for them."""
        return self._failed or self.kept >= MOST_BYTES

    def drain(self) -> None:
        """Read all complete records; thread-safe."""
        with self._lock:
            if self._ring is not None and not self.full:
                try:
                    self._ring.drain(self._file)
                except OSError:
                    self._failed = True

    def records(self) -> NDArray[np.uint8]:
        """Read all complete records, and copy all so far: (bytes,) uint8, with the kernel's headers."""
        self.drain()
        with self._lock:
            return map_file(self._file).copy()

    def close(self) -> None:
        """Release the ring and the records; may be called again."""
        with self._lock:
            if self._ring is not None:
                self._ring = None
                os.close(self._file)


_HEAD = 16


def packed(content: MapElements) -> NDArray[np.uint8]:
    """Serialize a table: (bytes,) uint8: u64 rows, u64 CPUs, keys, values."""
    rows, cpus = content.values.shape[:2]
    head = np.array([rows, cpus], np.uint64).view(np.uint8)
    return np.concatenate([head, content.keys.ravel(), content.values.ravel()])


def frame(spec: MapSpec, raw: NDArray[np.uint8]) -> pd.DataFrame:
    """Decode a map that only the kernel has and that is not an array.

    Args:
        spec: Its declaration.
        raw: (bytes,) uint8, from `packed`, or from `RingReader.records` for a ring.

    Returns:
        One row per element in order of the keys; for a per-CPU map the sum, followed by `NAME_cpu0`, ... For a ring,
        one row per record, in the order of reservation, with `raw` for records that are not of the declared type.

    """
    if spec.type == MapType.RINGBUF:
        known = spec.value
        names = [field.name for field in known.fields] if known is not None else [RAW]
        return records_frame(raw, lambda size: known if known is not None and known.size == size else None, names)[0]
    rows, cpus = (int(number) for number in raw[:_HEAD].view(np.uint64))
    values_at = _HEAD + rows * spec.key_size
    keys = raw[_HEAD:values_at].reshape(rows, spec.key_size)
    values = raw[values_at:].reshape(rows, cpus, spec.value_size)
    key = spec.key if spec.key is not None else guessed(spec.key_size, "key")
    value = spec.value if spec.value is not None else guessed(spec.value_size, "value")
    return map_frame(key, value, keys, values)


_NUMBERS = frozenset({1, 2, 4, 8})


def guessed(size: int, name: str) -> CLayout:
    """Return columns for data without a declared type: an integer if the size is 1, 2, 4 or 8, else raw bytes."""
    if size in _NUMBERS:
        return CLayout((CField(name, "integer", f"u{size}", 0, size),), size)
    return raw_layout(size, name)

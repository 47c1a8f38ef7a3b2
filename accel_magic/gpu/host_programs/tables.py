"""The kernel's own tables and rings in a recording: their bytes, and frames of them.

A table is two u64, rows and CPUs (1 but for per-CPU maps), then all keys, then all values, CPU by CPU in each row. A
ring is its records with the ring buffer's own headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.gpu.helpers import MapType
from accel_magic.traces.maps_frames import RAW, map_frame, records_frame

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.gpu.model import MapSpec
    from accel_magic.kernel.map_reading import MapContent

_HEAD = 16


def packed(content: MapContent) -> NDArray[np.uint8]:
    """Put a table into one row of bytes."""
    rows, cpus = content.values.shape[:2]
    head = np.array([rows, cpus], np.uint64).view(np.uint8)
    return np.concatenate([head, content.keys.ravel(), content.values.ravel()])


def frame(spec: MapSpec, raw: NDArray[np.uint8]) -> pd.DataFrame:
    """Read a map that is the kernel's alone and no array.

    Args:
        spec: Its declaration.
        raw: (bytes,) uint8, as above.

    Returns:
        One row per element in order of the keys, of a per-CPU map the sum with `NAME_cpu0`, ... beside it; of a ring
        one row per record, in the order of reservation, `raw` where a record is not of the declared type.

    """
    from accel_magic.gpu.map_views import guessed

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

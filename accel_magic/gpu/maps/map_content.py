"""Recorded content of maps: at the end, and over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.gpu.program.object_model import MapSpec


@dataclass(frozen=True)
class MapContent:
    """The content of one map at the end of the trace.

    Attributes:
        source: The tool or file that declares it.
        spec: Its declaration.
        raw: (bytes,) uint8, the map's memory or a ring's records; decoded by `accel_magic.gpu.maps.map_access.frame`.
        lost: Number of calls that failed because the map was full, exact.
        pid: The process whose kernels wrote it; 0 in recordings without this information.

    """

    source: str
    spec: MapSpec
    raw: NDArray[np.uint8]
    lost: int
    pid: int = 0


@dataclass(frozen=True)
class MapHistory:
    """The content of one map at n readings; decoded by `accel_magic.gpu.maps.map_history.frame`.

    Attributes:
        source: The tool or file that declares it.
        spec: Its declaration.
        first: (bytes,) uint8, the content before the first reading.
        time_ns: (n,) int64, time of each reading, since the start of the trace.
        launch: (n,) int64, the launch before each reading, a row of `GpuRecording.launches`, or -1; None if maps were
            read by time.
        changed: (n,) int64, how many rows of the map changed since the previous reading.
        rows: (sum of `changed`,) int64, the positions of these rows in `map_views.rows_of`.
        cells: (sum of `changed`, bytes) uint8, the content of these rows at that reading.

    """

    source: str
    spec: MapSpec
    first: NDArray[np.uint8]
    time_ns: NDArray[np.int64]
    launch: NDArray[np.int64] | None
    changed: NDArray[np.int64]
    rows: NDArray[np.int64]
    cells: NDArray[np.uint8]


def names_of(declared: Sequence[tuple[str, str]]) -> list[str]:
    """Return unique names of maps, given as (source, name): `NAME`, or `SOURCE.NAME` if several have that name."""
    names = [name for _, name in declared]
    return [name if names.count(name) == 1 else f"{source}.{name}" for source, name in declared]

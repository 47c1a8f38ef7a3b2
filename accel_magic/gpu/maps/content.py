"""What maps held: at the end, and as it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.gpu.program.model import MapSpec


@dataclass(frozen=True)
class MapContent:
    """One map as it was when the trace ended.

    Attributes:
        source: The tool or file that declares it.
        spec: Its declaration.
        raw: (bytes,) uint8, as it lay there, of a ring all records: `accel_magic.gpu.maps.views.frame` reads it.
        lost: Calls that failed for lack of room, exact.
        pid: The process whose kernels wrote it; 0 in recordings that did not tell.

    """

    source: str
    spec: MapSpec
    raw: NDArray[np.uint8]
    lost: int
    pid: int = 0


@dataclass(frozen=True)
class MapHistory:
    """One map as it was at n readings; `accel_magic.gpu.maps.history.frame` reads it.

    Attributes:
        source: The tool or file that declares it.
        spec: Its declaration.
        first: (bytes,) uint8, as it was before the first reading.
        time_ns: (n,) int64, of each reading, since the start of the trace.
        launch: (n,) int64: the launch after which it was, a row of `GpuRecording.launches`, or -1; None where maps were
            read by time.
        changed: (n,) int64: how many rows of the map were not as at the reading before.
        rows: (sum of `changed`,) int64: their places in `map_views.rows_of`.
        cells: (sum of `changed`, bytes) uint8: these rows as they were then.

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
    """Name maps, given as (source, name), to tell them apart: `NAME`, or `SOURCE.NAME` where two have that name."""
    names = [name for _, name in declared]
    return [name if names.count(name) == 1 else f"{source}.{name}" for source, name in declared]

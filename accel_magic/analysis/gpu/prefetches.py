"""Prefetch requests of GPU programs: what `gpu_mem_prefetch` in bpf/gpu/accel_gpu.h recorded."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.gpu.tools.common import launch_of, ordered, with_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.tools.tool import Run

RING: Final = "prefetch_requests"
"""Name of the ring that GPU_PREFETCH_REQUESTS declares."""
COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "time_ns": "int64",
        "launch": "int64",
        "name": "str",
        "block": "uint64",
        "address": "uint64",
        "bytes": "uint64",
        "kernel": "int32",
        "site": "uint32",
        "program": "str",
    }
)
"""Columns of the table of requests and their types."""


def table(run: Run, maps: Mapping[str, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """One row per request, in the order in which they were recorded; columns as in `COLUMNS`.

    Args:
        run: The recording.
        maps: The maps of each tool or file, by their names in it.

    """
    rings = {source: frames[RING] for source, frames in maps.items() if RING in frames}
    found = [_rows(run, ring).assign(program=source) for source, ring in rings.items() if "address" in ring]
    if not found:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()})
    return ordered(pd.concat(found, ignore_index=True), *COLUMNS).astype(dict(COLUMNS))


def _rows(run: Run, ring: pd.DataFrame) -> pd.DataFrame:
    times = run.clock.to_host(ring["time_ns"].to_numpy(np.int64)) - run.start_ns
    named = with_names(ring[["block", "address", "bytes", "kernel", "site"]], run)
    return named.assign(time_ns=times, launch=launch_of(run, ring["launch"]))

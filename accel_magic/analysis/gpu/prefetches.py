"""Prefetch requests of GPU programs: what `gpu_mem_prefetch` in bpf/gpu/accel_gpu.h recorded."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pandas as pd

from accel_magic.gpu_tools.common import LANES, launch_of, ordered, with_names
from accel_magic.gpu_tools.pagetrace import accesses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu_tools.tool import Run

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
        "access": "Int64",
    }
)
"""Columns of the table of requests and their types."""


_WARP: Final = ["launch", "warp"]
_PAGES: Final = "pagetrace"
_STEPS: Final[tuple[tuple[Literal["backward", "forward"], int], ...]] = (("backward", 1), ("forward", 0))
"""Directions to search for an access, the better one last, and how many rows it is before the wanted row."""


def table(run: Run, maps: Mapping[str, Mapping[str, pd.DataFrame]], before: int = 0) -> pd.DataFrame:
    """One row per request, in the order in which they were recorded; columns as in `COLUMNS`.

    Args:
        run: The recording.
        maps: The maps of each tool or file, by their names in it.
        before: Added to the rows in `access`.

    """
    rings = {source: frames[RING] for source, frames in maps.items() if RING in frames}
    found = [(source, ring) for source, ring in rings.items() if "address" in ring]
    if not found:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()})
    requests = pd.concat([ring.assign(program=source) for source, ring in found], ignore_index=True)
    touched = _touched(maps)
    access = None if touched is None else _following(requests, touched) + before
    times = run.clock.to_host(requests["time_ns"].to_numpy(np.int64)) - run.start_ns
    named = with_names(requests[["block", "address", "bytes", "kernel", "site", "program"]], run)
    rows = named.assign(time_ns=times, launch=launch_of(run, requests["launch"]), access=access)
    return ordered(rows, *COLUMNS).astype(dict(COLUMNS))


def count(maps: Mapping[str, Mapping[str, pd.DataFrame]]) -> int:
    """Rows of the table of `pagetrace`; 0 if it did not run."""
    touched = _touched(maps)
    return 0 if touched is None else len(touched)


def _touched(maps: Mapping[str, Mapping[str, pd.DataFrame]]) -> pd.DataFrame | None:
    """Return the rows of `pagetrace` with their times; None if it did not run, or its records have no times."""
    touches = maps.get(_PAGES, {}).get("touches")
    return accesses(touches) if touches is not None and "time" in touches else None


def _following(requests: pd.DataFrame, touched: pd.DataFrame) -> pd.Series:
    """Return the row of the first access after each request, int64.

    Rows are in the order of the ring, which on the simulated device is not that of time. So it is the first later
    access of the same warp. A warp's last requests follow its last access; if it has none, the launch's accesses count,
    and if that has none, all.
    """
    requested = _moments(requests, "time_ns")
    made = _moments(touched.assign(row=np.arange(len(touched))), "time")
    found = pd.Series(len(touched), index=requested.index)
    for by in (None, ["launch"], _WARP):
        for direction, step in _STEPS:
            nearest = pd.merge_asof(
                requested, made, on="time", by=by, direction=direction, allow_exact_matches=direction == "forward"
            )
            rows = nearest.set_index(requested.index)["row"].dropna()
            found[rows.index] = rows.astype("int64") + step
    return found.sort_index()


def _moments(records: pd.DataFrame, time: str) -> pd.DataFrame:
    """Launch, warp and time of records, in the order of time."""
    moments = pd.DataFrame(
        {
            "launch": records["launch"].astype("int64"),
            "warp": records["thread"].astype("int64") // LANES,
            "time": records[time].astype("int64"),
        }
    )
    if "row" in records:
        moments["row"] = records["row"]
    return moments.sort_values("time", kind="stable")

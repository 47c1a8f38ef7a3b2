"""Two GPU traces side by side: kernels, the tables of the tools, the driver's calls."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.gpu.host import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.analysis.gpu.frames import ToolFrames

_LINE: Final = ("name", "file", "line")
_SUMS: Final[Mapping[str, tuple[Sequence[str], Mapping[str, tuple[str, str]]]]] = MappingProxyType(
    {
        "threadhist": (
            ("name",),
            {
                "threads": ("thread", "size"),
                "runs": ("runs", "sum"),
                "cycles": ("cycles", "sum"),
                "mean_cycles": ("cycles", "mean"),
                "longest_cycles": ("cycles", "max"),
            },
        ),
        "kernelretsnoop": (
            ("name",),
            {
                "exits": ("after_ns", "size"),
                "mean_after_ns": ("after_ns", "mean"),
                "last_after_ns": ("after_ns", "max"),
            },
        ),
        "launchlate": (
            ("name",),
            {
                "launches": ("launch", "size"),
                "mean_late_ns": ("late_ns", "mean"),
                "longest_late_ns": ("late_ns", "max"),
                "mean_device_ns": ("device_ns", "mean"),
            },
        ),
        "memtrace": (
            (*_LINE, "operation"),
            {name: (name, "sum") for name in ("requests", "sectors", "passes", "fewest", "total_bytes")},
        ),
        "pagetrace": (
            ("name",),
            {"accesses": ("page", "size"), "pages": ("page", "nunique"), "writes": ("write", "sum")},
        ),
        "blocktime": (
            ("name",),
            {"blocks": ("took_ns", "size"), "mean_ns": ("took_ns", "mean"), "longest_ns": ("took_ns", "max")},
        ),
        "warpmap": (("name",), {"warps": ("warp", "size"), "mean_lanes": ("lanes", "mean")}),
        "kernelcount": (("name",), {name: (name, "sum") for name in ("launches", "warps", "threads")}),
        "funclat": (("name",), {"calls": ("calls", "sum"), "cycles": ("cycles", "sum")}),
        "branchdiv": (_LINE, {name: (name, "sum") for name in ("warps", "split", "lanes", "taken")}),
    }
)
"""By tool: the columns that identify a row, and for each column of the comparison, its source column and aggregate."""


def kernels(ours: ToolFrames, baseline: ToolFrames) -> pd.DataFrame:
    """Compare the launches of each kernel: `GpuComparison.table`."""
    return _beside(_launched(ours), _launched(baseline))


def tools(ours: ToolFrames, baseline: ToolFrames) -> dict[str, pd.DataFrame]:
    """Compare the tables of the tools that ran in both traces: `GpuComparison.tools`."""
    return {
        name: _beside(_summed(name, table), _summed(name, baseline.tools[name]))
        for name, table in ours.tools.items()
        if name in _SUMS and name in baseline.tools
    }


def api(ours: ToolFrames, baseline: ToolFrames) -> pd.DataFrame:
    """Compare the calls of the driver: `GpuComparison.api`."""
    return _beside(*(summary(each.api).set_index("name") for each in (ours, baseline)))


def _launched(gpu: ToolFrames) -> pd.DataFrame:
    groups = gpu.launches.groupby("name")
    table = groups.agg(launches=("host_ns", "size"), host_ns=("host_ns", "mean"), device_ns=("device_ns", "mean"))
    return table.astype({"host_ns": "float64", "device_ns": "float64"})


def _summed(tool: str, table: pd.DataFrame) -> pd.DataFrame:
    keys, sums = _SUMS[tool]
    if tool == "blocktime":
        table = table.assign(took_ns=table["end_ns"] - table["start_ns"])
    return table.groupby(list(keys), observed=True).agg(**sums)


def _beside(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Join two tables with the same columns; rows in only one are NA in the other, counts stay integers."""
    names = [str(name) for name in ours.columns]
    counted = [name for name in names if pd.api.types.is_integer_dtype(ours[name])]
    ours, theirs = (table.astype(dict.fromkeys(counted, "Int64")) for table in (ours, theirs))
    both = ours.join(theirs.add_prefix("baseline_"), how="outer", sort=False)
    columns: dict[str, pd.Series] = {}
    for name in names:
        values, before = both[name], both[f"baseline_{name}"]
        columns |= {name: values, f"baseline_{name}": before}
        mine, other = (side.to_numpy(np.float64, na_value=np.nan) for side in (values, before))
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[f"{name.removesuffix('_ns').removesuffix('_bytes')}_ratio"] = pd.Series(mine / other, both.index)
    first = names[0]
    table = pd.DataFrame(columns)
    return table.sort_values([first, f"baseline_{first}"], ascending=False, kind="stable", na_position="last")

"""The main table of each tool, from the maps that its program filled."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.gpu.common import (
    launch_of,
    ordered,
    place_of,
    popcount,
    since_first,
    summed,
    with_names,
)
from accel_magic.analysis.gpu.frames import GpuFrames
from accel_magic.analysis.gpu.processes import together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd


SECTOR: Final = 32
"""Bytes that memory moves at once."""
_WIDEST: Final = 16
"""Bytes that a lane gets from shared memory at once; bulk copies are of one lane and of more."""
_FEW_ROWS: Final = r"^(?:@\S+ )?(?:ld|st)matrix\S*\.x[12]\."
"""Matrix operations that use the addresses of some lanes only."""


def threadhist(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per kernel and thread: `kernel`, `name`, `thread`, `block`, `warp` (of its block), `runs`, `cycles`.

    `thread` is row-major over the whole grid; `block` and `warp` are NA where a kernel's launches had several shapes.
    """
    table = maps["threads"].query("runs > 0").rename(columns={"key": "kernel"})
    place = place_of(result, table["kernel"], table["thread"])
    table = with_names(table, result).assign(block=place["block"], warp=place["warp"])
    return table[["kernel", "name", "thread", "block", "warp", "runs", "cycles"]].reset_index(drop=True)


def kernelretsnoop(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per thread and launch: `launch`, `kernel`, `name`, `thread`, `block`, `warp`, `lane`, `sm`, `after_ns`.

    `after_ns` is the time since the launch's first exit; a thread that left at several places has several rows.
    """
    exits = maps["exits"]
    place = place_of(result, exits["kernel"], exits["thread"])
    table = with_names(exits.drop(columns=["time", "launch", "thread"]), result).assign(
        launch=launch_of(result, exits["launch"]),
        thread=exits["thread"].astype("Int64"),
        block=place["block"],
        warp=place["warp"],
        after_ns=since_first(exits["time"], exits["launch"]),
    )
    names = ["launch", "kernel", "name", "thread", "block", "warp", "lane", "sm", "after_ns"]
    return table[names].sort_values(["launch", "after_ns", "thread"], ignore_index=True)


def launchlate(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per launch whose start was seen: `launch`, `kernel`, `name`, `time_ns`, `late_ns`, `device_ns`.

    `time_ns` is when the host asked (since the start of the trace), `late_ns` from then to the first instruction, exact
    to `GpuRecording.clock.error_ns`, `device_ns` how long the kernel took (NA where the device does not tell).
    """
    firsts = maps["launches"].query("claimed > 0")
    launch = launch_of(result, firsts["claimed"] - 1)
    firsts = firsts[(launch >= 0).to_numpy()]
    asked = result.launches.loc[launch[launch >= 0].to_numpy()].reset_index(drop=True)
    recording = result.recording
    began = recording.clock.to_host(firsts["time"].to_numpy(np.int64)) - recording.start_ns
    table = asked[["kernel", "name", "time_ns", "device_ns"]].assign(
        launch=launch[launch >= 0].to_numpy(), late_ns=began - asked["time_ns"].to_numpy()
    )
    return ordered(table, "launch").sort_values("launch", ignore_index=True)


def memtrace(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per memory operation of the code that ran, most sectors first.

    `name` (of the kernel), `file`, `line`, `operation`, `space`, `bytes` (of one lane), `requests` (warps that came
    by), `lanes` (all together), `sectors` (of 32 bytes, touched by the requests; 0 in shared memory), `passes` (of the
    banks of shared memory; 0 elsewhere, and where the lanes' bytes are not known), `per_request` (sectors or passes),
    `ratio` (of sectors or passes to `fewest`, which would do for the same bytes; NaN without either), `fewest`,
    `total_bytes`, `site`, `kernel`.
    """
    counts = summed(maps["accesses"], "site", "requests")
    table = counts.merge(result.sites, on="site", how="left")
    shared = table["space"] == "shared"
    total = table["lanes"].astype("int64") * table["bytes"].astype("int64")
    # Of one request the fewest sectors are those of its own lanes' bytes.
    least = np.maximum(np.ceil(total / SECTOR), table["requests"].astype("int64"))
    in_banks = table["bytes"].between(1, _WIDEST) & ~table["instruction"].str.contains(_FEW_ROWS, na=False)
    fewest = np.where(shared, table["fewest"].where(in_banks, 0), least).astype("int64")
    passes = table["passes"].where(shared & in_banks, 0).astype("int64")
    done = table["sectors"].astype("int64") + passes
    table = with_names(table, result).assign(
        total_bytes=total,
        passes=passes,
        fewest=fewest,
        per_request=(done / table["requests"]).where(fewest > 0),
        ratio=(done / np.maximum(fewest, 1)).where(fewest > 0),
    )
    names = ["name", "file", "line", "operation", "space", "bytes", "requests", "lanes", "sectors", "passes"]
    names += ["per_request", "ratio", "fewest", "total_bytes", "site", "kernel"]
    return table[names].sort_values(["sectors", "passes"], ascending=False, kind="stable", ignore_index=True)


def blocktime(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per block and launch: `launch`, `kernel`, `name`, `block`, `sm`, `start_ns`, `end_ns`.

    Times are since the start of the launch's first block.
    """
    spans = maps["spans"]
    first = spans["start"].astype("int64").groupby(spans["launch"]).transform("min")
    table = with_names(spans.drop(columns=["start", "end", "launch"]), result).assign(
        launch=launch_of(result, spans["launch"]),
        start_ns=spans["start"].astype("int64") - first,
        end_ns=spans["end"].astype("int64") - first,
    )
    names = ["launch", "kernel", "name", "block", "sm", "start_ns", "end_ns"]
    return table[names].sort_values(["launch", "start_ns", "block"], ignore_index=True)


def warpmap(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per warp and launch: `launch`, `kernel`, `name`, `block`, `warp`, `sm`, `slot`, `lanes`, `after_ns`.

    `warp` is its number in the block, `lanes` those in use, `after_ns` since the launch's first warp began.
    """
    placed = maps["warps"]
    table = with_names(placed.drop(columns=["time", "launch", "lanes"]), result).assign(
        launch=launch_of(result, placed["launch"]),
        lanes=popcount(placed["lanes"]),
        after_ns=since_first(placed["time"], placed["launch"]),
    )
    names = ["launch", "kernel", "name", "block", "warp", "sm", "slot", "lanes", "after_ns"]
    return table[names].sort_values(["launch", "block", "warp"], ignore_index=True)


def kernelcount(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per kernel that ran: `kernel`, `name`, `launches` (as the host counted them), `warps`, `threads`."""
    table = with_names(summed(maps["kernels"], "kernel", "warps").rename(columns={"lanes": "threads"}), result)
    launches = table["kernel"].map(result.launches["kernel"].value_counts()).fillna(0).astype("int64")
    table = table.assign(launches=launches)[["kernel", "name", "launches", "warps", "threads"]]
    return table.sort_values("warps", ascending=False, kind="stable", ignore_index=True)


def funclat(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per device function, the longest first: `name`, `calls`, `cycles` of all threads, `mean_cycles`."""
    found = maps["returns"].query("calls > 0").rename(columns={"key": "site"})
    names = result.sites.set_index("site")["function"]
    sums = found.assign(name=found["site"].map(names)).groupby("name")[["calls", "cycles"]].sum().reset_index()
    table = sums.assign(mean_cycles=sums["cycles"] / sums["calls"])
    return table.sort_values("cycles", ascending=False, ignore_index=True)


def branchdiv(result: GpuFrames, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per conditional branch that ran, most split first.

    `name` (of the kernel), `file`, `line`, `warps` (that reached it), `split` (lanes went both ways), `share` (of the
    warps that were split), `lanes`, `taken` (lanes), `site`, `kernel`.
    """
    counts = summed(maps["branches"], "site", "warps")
    table = with_names(counts.merge(result.sites, on="site", how="left"), result)
    table = table.assign(share=table["split"] / table["warps"])
    names = ["name", "file", "line", "warps", "split", "share", "lanes", "taken", "site", "kernel"]
    return table[names].sort_values(["split", "warps"], ascending=False, kind="stable", ignore_index=True)


TABLES: Final[Mapping[str, Callable[[GpuFrames, Mapping[str, pd.DataFrame]], pd.DataFrame]]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            threadhist,
            kernelretsnoop,
            launchlate,
            memtrace,
            blocktime,
            warpmap,
            kernelcount,
            funclat,
            branchdiv,
        )
    }
)
"""What makes each tool's table, by the tool's name."""


class ToolFrames(GpuFrames):
    """The same with a main table for each tool."""

    @cached_property
    def tools(self) -> dict[str, pd.DataFrame]:
        """As `GpuResult.tools`, in the order of the tools."""
        return {
            source: together({pid: TABLES[source](part, part.maps_of(source)) for pid, part in self.by_process.items()})
            for source in self.recording.sources
            if source in TABLES
        }

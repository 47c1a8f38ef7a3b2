"""kernelretsnoop: when each thread left its kernel, and how far apart the lanes of a warp leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import launch_of, place_of, since_first, with_names
from accel_magic.gpu_tools.figure import Points
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per thread and launch: `launch`, `kernel`, `name`, `thread`, `block`, `warp`, `lane`, `sm`, `after_ns`.

    `after_ns` is the time since the launch's first exit; a thread that exits at several places has several rows.
    """
    exits = maps["exits"]
    place = place_of(run, exits["kernel"], exits["thread"])
    table = with_names(exits.drop(columns=["time", "launch", "thread"]), run).assign(
        launch=launch_of(run, exits["launch"]),
        thread=exits["thread"].astype("Int64"),
        block=place["block"],
        warp=place["warp"],
        after_ns=since_first(exits["time"], exits["launch"]),
    )
    names = ["launch", "kernel", "name", "thread", "block", "warp", "lane", "sm", "after_ns"]
    return table[names].sort_values(["launch", "after_ns", "thread"], ignore_index=True)


def _diverge(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Kernels whose warps' lanes leave far apart, relative to the time in which the whole launch leaves."""
    warps = data.table.groupby(["name", "launch", "block", "warp"], observed=True, dropna=True)["after_ns"]
    spread = (warps.max() - warps.min()).rename("spread").reset_index()
    whole = data.table.groupby("launch")["after_ns"].max()
    spread["share"] = spread["spread"] / np.maximum(spread["launch"].map(whole), 1)
    for name, rows in spread.groupby("name", observed=True):
        share = float(rows["share"].median())
        if share >= rule.threshold:
            yield Evidence(
                {
                    "name": readable(str(name)),
                    "share": share,
                    "warps": len(rows),
                    "spread_ns": float(rows["spread"].median()),
                }
            )


def _figure(table: pd.DataFrame) -> Points:
    """Exit times by thread: a warp that diverges is a column of points."""
    return Points("Thread exits, after the launch's first", table, "thread", "after_ns")


TOOL = Tool(
    shows="when each thread left its kernel; divergence within warps",
    table=_table,
    figure=_figure,
    rules=(
        Rule(
            "gpu.exits-diverge",
            "warning",
            "{name}: the lanes of a warp leave over {share:share} of the launch's exit time",
            "A warp keeps its registers and its slot until its last lane leaves.",
            "Let the lanes of a warp exit together: test per warp or per block, or sort the work by length.",
            threshold=0.25,
            unit="of the time between a launch's first and last exit, median over its warps",
            source="below a quarter, other warps fill the gap",
            check=_diverge,
        ),
    ),
)

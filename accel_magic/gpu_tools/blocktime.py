"""blocktime: when each block ran and on which multiprocessor; load balance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import launch_of, with_names
from accel_magic.gpu_tools.figure import MOST_MARKS, Spans, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData

_MOST_LANES = 8
"""Blocks that share a multiprocessor are drawn beside each other, in at most this many lanes."""


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per block and launch: `launch`, `kernel`, `name`, `block`, `sm`, `start_ns`, `end_ns`.

    Times are since the start of the launch's first block.
    """
    spans = maps["spans"]
    first = spans["start"].astype("int64").groupby(spans["launch"]).transform("min")
    table = with_names(spans.drop(columns=["start", "end", "launch"]), run).assign(
        launch=launch_of(run, spans["launch"]),
        start_ns=spans["start"].astype("int64") - first,
        end_ns=spans["end"].astype("int64") - first,
    )
    names = ["launch", "kernel", "name", "block", "sm", "start_ns", "end_ns"]
    return table[names].sort_values(["launch", "start_ns", "block"], ignore_index=True)


def _imbalanced(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Kernels whose launches leave multiprocessors idle until the last block ends."""
    ends = data.table.groupby(["name", "launch", "sm"], observed=True)["end_ns"].max().rename("end").reset_index()
    whole = ends.groupby(["name", "launch"], observed=True)["end"].agg(["max", "sum", "size"]).reset_index()
    for name, rows in whole[whole["size"] > 1].groupby("name", observed=True):
        span = float((rows["max"] * rows["size"]).sum())
        share = 1 - float(rows["sum"].sum()) / span if span else 0.0
        if share >= rule.threshold:
            yield Evidence(
                {
                    "name": readable(str(name)),
                    "share": share,
                    "launches": len(rows),
                    "multiprocessors": int(rows["size"].max()),
                    "idle_ns": span - float(rows["sum"].sum()),
                }
            )


def _figure(table: pd.DataFrame) -> Spans:
    """Blocks over time, one row for each multiprocessor, of the launch that took longest."""
    longest = int(table["launch"].to_numpy()[table["end_ns"].to_numpy().argmax()])
    rows = table[table["launch"] == longest].head(MOST_MARKS)
    order = rows.groupby("sm").cumcount()
    lanes = int(min(order.max() + 1, _MOST_LANES))
    bottom = rows["sm"].to_numpy(np.float64) - 0.45 + (order.to_numpy() % lanes) * 0.9 / lanes
    return Spans(
        f"Blocks of launch {longest}",
        "multiprocessor",
        left=rows["start_ns"].to_numpy(np.float64),
        right=rows["end_ns"].to_numpy(np.float64),
        bottom=bottom,
        top=bottom + 0.85 / lanes,
        group=[int(block) for block in rows["block"]],
        tips=(
            Tip("block", list(rows["block"])),
            Tip("multiprocessor", list(rows["sm"])),
            Tip("took", list(rows["end_ns"] - rows["start_ns"]), "ns"),
        ),
        kernel=str(rows["name"].iloc[0]),
    )


TOOL = Tool(
    shows="when each block ran, and where; load balance",
    table=_table,
    figure=_figure,
    rules=(
        Rule(
            "gpu.blocks-imbalanced",
            "warning",
            "{name}: the multiprocessors are idle for {share:share} of the launch's time",
            "Blocks differ in length or do not divide evenly: some multiprocessors are done while others still work.",
            "Use more and smaller blocks, let blocks take work from a counter, or start the long ones first.",
            threshold=0.3,
            unit="of the multiprocessors' time between a launch's first and last block",
            source="two waves, the last one half full, leave a quarter idle",
            check=_imbalanced,
        ),
    ),
)

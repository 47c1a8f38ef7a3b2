"""branchdiv: divergent branches by place in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import by_place, summed, with_names
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData

_FEWEST_WARPS = 8


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per conditional branch that ran, most split first.

    `name` (of the kernel), `file`, `line`, `warps` (that reached it), `split` (warps whose lanes went both ways),
    `share` (of the warps that were split), `lanes`, `taken` (lanes), `site`, `kernel`.
    """
    counts = summed(_warps(maps["branches"]), "site", "warps")
    table = with_names(counts.merge(run.sites, on="site", how="left"), run)
    table = table.assign(share=table["split"] / table["warps"])
    names = ["name", "file", "line", "warps", "split", "share", "lanes", "taken", "site", "kernel"]
    return table[names].sort_values(["split", "warps"], ascending=False, kind="stable", ignore_index=True)


def _warps(branches: pd.DataFrame) -> pd.DataFrame:
    """Add the full warps that took a branch to the others; recordings of version 0.2 do not count them apart."""
    if "full" not in branches:
        return branches
    counts = branches.astype("int64")
    counts = counts.assign(
        warps=counts["full"] + counts["rest"], taken=counts["taken"] + counts["width"] * counts["full"]
    )
    return counts.drop(columns=["full", "rest"])


def _diverge(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Lines whose branches split many of the warps that reach them."""
    for row in by_place(data.table, [], ["warps", "split"]).to_dict("records"):
        share = float(row["split"]) / float(row["warps"])
        if share >= rule.threshold and row["warps"] >= _FEWEST_WARPS:
            yield Evidence(
                {
                    "name": readable(str(row["name"])),
                    "place": str(row["place"]),
                    "share": share,
                    "warps": int(row["warps"]),
                    "split": int(row["split"]),
                }
            )


def _figure(table: pd.DataFrame) -> Bars:
    rows = by_place(table, [], ["warps", "split"]).assign(share=lambda sums: 100 * sums["split"] / sums["warps"])
    rows = rows.sort_values("share", ascending=False, kind="stable").head(TOP_ROWS)
    return Bars(
        "Warps split by each branch, %",
        list(rows["place"]),
        rows["share"],
        (
            Tip("kernel", list(rows["name"]), "kernel"),
            Tip("warps that reach it", list(rows["warps"])),
            Tip("split", list(rows["split"])),
        ),
    )


TOOL = Tool(
    shows="divergent branches by place in the source",
    table=_table,
    figure=_figure,
    empty="the kernels that ran reached no conditional branch",
    rules=(
        Rule(
            "gpu.branches-diverge",
            "warning",
            "{name}: the branch at {place} splits {share:share} of the warps that reach it",
            "The lanes of a warp go both ways, so the warp runs both sides, one after the other.",
            "Branch on a value that is the same in the whole warp (the block, the warp's number), or compute both "
            "sides without a branch.",
            threshold=0.25,
            unit="of the warps that reach it, at least 8",
            source="an edge of the grid splits only one warp in many",
            check=_diverge,
        ),
    ),
)

"""warpmap: which multiprocessor and slot each warp had, and how many of its lanes were used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import LANES, launch_of, popcount, since_first, with_names
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per warp and launch: `launch`, `kernel`, `name`, `block`, `warp`, `sm`, `slot`, `lanes`, `after_ns`.

    `warp` is its number in the block, `lanes` counts those in use, `after_ns` is the time since the launch's first warp
    began.
    """
    placed = maps["warps"]
    table = with_names(placed.drop(columns=["time", "launch", "lanes"]), run).assign(
        launch=launch_of(run, placed["launch"]),
        lanes=popcount(placed["lanes"]),
        after_ns=since_first(placed["time"], placed["launch"]),
    )
    names = ["launch", "kernel", "name", "block", "warp", "sm", "slot", "lanes", "after_ns"]
    return table[names].sort_values(["launch", "block", "warp"], ignore_index=True)


def _lanes_unused(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Kernels whose warps have unused lanes."""
    for name, lanes in data.table.groupby("name", observed=True)["lanes"]:
        share = 1 - float(lanes.sum()) / (LANES * len(lanes))
        if share >= rule.threshold:
            yield Evidence(
                {"name": readable(str(name)), "share": share, "warps": len(lanes), "lanes": float(lanes.mean())}
            )


def _figure(table: pd.DataFrame) -> Bars:
    """Lanes of each multiprocessor's warps, and how many of them are in use."""
    counts = table.groupby("sm")["lanes"].agg(["size", "sum"]).reset_index().head(TOP_ROWS)
    return Bars(
        "Lanes per multiprocessor",
        [f"SM {int(sm)}" for sm in counts["sm"]],
        LANES * counts["size"],
        (Tip("warps", list(counts["size"])), Tip("lanes in use", list(counts["sum"]))),
        inner=counts["sum"],
        axis="light: in use",
    )


TOOL = Tool(
    shows="which multiprocessor and slot each warp had",
    table=_table,
    figure=_figure,
    rules=(
        Rule(
            "gpu.lanes-unused",
            "warning",
            "{name}: {share:share} of the lanes of its warps are unused",
            "A warp has 32 lanes, whether threads fill them or not.",
            "Make the block size a multiple of 32 threads.",
            threshold=0.25,
            unit="of all lanes",
            source="blocks of 96 or more threads that are not a multiple of 32 waste less",
            check=_lanes_unused,
        ),
    ),
)

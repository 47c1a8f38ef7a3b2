"""funclat: time in device functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu.program.program_source import LiveColumns
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per device function, the longest first: `name`, `calls`, `cycles` of all threads, `mean_cycles`."""
    found = maps["returns"].query("calls > 0").rename(columns={"key": "site"})
    names = run.sites.set_index("site")["function"]
    sums = found.assign(name=found["site"].map(names)).groupby("name")[["calls", "cycles"]].sum().reset_index()
    table = sums.assign(mean_cycles=sums["cycles"] / sums["calls"])
    return table.sort_values("cycles", ascending=False, ignore_index=True)


def _dominates(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Device functions that take most of the cycles."""
    total = float(data.table["cycles"].sum())
    for row in data.table.to_dict("records"):
        share = float(row["cycles"]) / total if total else 0.0
        if share >= rule.threshold and len(data.table) > 1:
            yield Evidence(
                {
                    "name": readable(str(row["name"])),
                    "share": share,
                    "calls": int(row["calls"]),
                    "mean_cycles": float(row["mean_cycles"]),
                }
            )


def _figure(table: pd.DataFrame) -> Bars:
    rows = table.head(TOP_ROWS)
    return Bars(
        "Cycles per device function",
        list(rows["name"]),
        rows["cycles"],
        (Tip("calls", list(rows["calls"])), Tip("cycles per call", list(rows["mean_cycles"]), "count")),
    )


TOOL = Tool(
    shows="time in device functions",
    table=_table,
    figure=_figure,
    empty="the kernels that ran called no device function that is not inlined",
    rules=(
        Rule(
            "gpu.function-dominates",
            "note",
            "{name} takes {share:share} of the threads' time",
            "Most of the time is spent in one device function.",
            "Look there first: its loop, its divisions, its memory accesses.",
            threshold=0.6,
            unit="of the cycles of all threads in device functions",
            source="above half, no other function can matter as much",
            check=_dominates,
        ),
    ),
    live=LiveColumns("returns", ("calls",)),
)

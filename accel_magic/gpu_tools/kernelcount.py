"""kernelcount: how many warps and threads ran each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu.program.program_source import LiveColumns
from accel_magic.gpu_tools.common import summed, with_names
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData

_FEWEST_LAUNCHES = 5


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per kernel that ran: `kernel`, `name`, `launches` (as the host counted them), `warps`, `threads`."""
    table = with_names(summed(maps["kernels"], "kernel", "warps").rename(columns={"lanes": "threads"}), run)
    launches = table["kernel"].map(run.launches["kernel"].value_counts()).fillna(0).astype("int64")
    table = table.assign(launches=launches)[["kernel", "name", "launches", "warps", "threads"]]
    return table.sort_values("warps", ascending=False, kind="stable", ignore_index=True)


def _tiny(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Kernels that are launched often and use little of the device each time."""
    capacity = rule.threshold * data.run.multiprocessors
    for row in data.table[data.table["launches"] >= _FEWEST_LAUNCHES].to_dict("records"):
        warps = float(row["warps"]) / float(row["launches"])
        if warps < capacity:
            yield Evidence(
                {
                    "name": readable(str(row["name"])),
                    "launches": int(row["launches"]),
                    "warps": warps,
                    "room_warps": capacity,
                }
            )


def _figure(table: pd.DataFrame) -> Bars:
    rows = table.head(TOP_ROWS)
    return Bars(
        "Warps per kernel",
        list(rows["name"]),
        rows["warps"],
        tuple(Tip(column, list(rows[column])) for column in ("launches", "warps", "threads")),
    )


TOOL = Tool(
    shows="how many warps and threads ran each kernel",
    table=_table,
    figure=_figure,
    rules=(
        Rule(
            "gpu.kernels-tiny",
            "note",
            "{name}: {launches:.0f} launches of {warps:.1f} warps on average",
            "Each launch uses only a small part of the device.",
            "Give each launch more work, or launch several on separate streams.",
            threshold=4.0,
            unit="warps per multiprocessor, over at least 5 launches",
            source="a multiprocessor has four schedulers",
            check=_tiny,
        ),
    ),
    live=LiveColumns("kernels", ("warps",)),
)

"""threadhist: how often each thread ran and for how many cycles, and whether the work is balanced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import place_of, with_names
from accel_magic.gpu_tools.figure import Distribution
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per kernel and thread: `kernel`, `name`, `thread`, `block`, `warp` (of its block), `runs`, `cycles`.

    `thread` is row-major over the whole grid; `block` and `warp` are NA if launches of the kernel differ in shape.
    """
    table = maps["threads"].query("runs > 0").rename(columns={"key": "kernel"})
    place = place_of(run, table["kernel"], table["thread"])
    table = with_names(table, run).assign(block=place["block"], warp=place["warp"])
    return table[["kernel", "name", "thread", "block", "warp", "runs", "cycles"]].reset_index(drop=True)


def _imbalanced(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Kernels with a thread whose cycles are far above the mean."""
    for name, rows in data.table.groupby("name", observed=True):
        cycles = rows["cycles"]
        mean = float(cycles.mean())
        if mean > 0 and cycles.max() >= rule.threshold * mean:
            yield Evidence(
                {
                    "name": readable(str(name)),
                    "ratio": float(cycles.max()) / mean,
                    "threads": len(cycles),
                    "mean_cycles": mean,
                    "longest_cycles": float(cycles.max()),
                    "longest_thread": int(rows["thread"].to_numpy()[cycles.to_numpy().argmax()]),
                }
            )


def _figure(table: pd.DataFrame) -> Distribution:
    return Distribution("Cycles per thread", table, "cycles", "threads")


TOOL = Tool(
    shows="work per thread: how often it ran, and for how many cycles; imbalance",
    table=_table,
    figure=_figure,
    rules=(
        Rule(
            "gpu.threads-imbalanced",
            "warning",
            "{name}: one thread works {ratio:.1f} times as long as the average thread",
            "A kernel ends when its last thread ends, and a warp when its slowest lane does: the others wait.",
            "Give each thread an equal share: use a grid-stride loop, or split long rows among the lanes of a warp.",
            threshold=2.0,
            unit="times the mean cycles of a thread",
            source="at twice the mean, lanes spend half of their time waiting",
            check=_imbalanced,
        ),
    ),
)

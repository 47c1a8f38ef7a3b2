"""pagetrace: the pages of memory that kernels access, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.gpu_tools.common import LANES, launch_of, popcount, with_names
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run

_BLOCK: Final = 512
"""Pages of 4 KiB in a block of 2 MiB, which drivers move at once."""


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per request of a warp and page of global memory, in the order in which they were recorded.

    `launch`, `name` (of the kernel), `page` (uint64, number of the page of 4 KiB), `write`, `kernel`, `site`. Atomic
    operations write. Accesses whose instruction does not name its space count, whatever they access.
    """
    rows = accesses(maps["touches"])
    table = with_names(rows[["kernel", "site"]], run).assign(
        launch=launch_of(run, rows["launch"]), page=rows["page"], write=rows["write"] != 0
    )
    return table[["launch", "name", "page", "write", "kernel", "site"]]


def accesses(touches: pd.DataFrame) -> pd.DataFrame:
    """Return the records of the ring `touches` that are rows of the table, with the page of each row."""
    kept = _once(touches) if "single" in touches else touches
    count = kept["more"].to_numpy(np.int64) + 1
    rows = kept.loc[kept.index.repeat(count)]
    behind = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return rows.assign(page=rows["page"].to_numpy(np.uint64) + behind.astype(np.uint64)).reset_index(drop=True)


def _once(touches: pd.DataFrame) -> pd.DataFrame:
    """Drop records of the same request and page, which earlier versions wrote for each lane of a scattered request."""
    request = ["launch", "warp", "site", "active"]
    scattered = touches[touches["single"] == 0].assign(warp=lambda rows: rows["thread"] // LANES)
    lanes = np.maximum(popcount(scattered["active"]), 1)
    scattered["request"] = scattered.groupby(request).cumcount() // lanes
    return touches.drop(index=scattered.index[scattered.duplicated([*request, "request", "page"])])


def _figure(table: pd.DataFrame) -> Bars:
    """Accesses by block of 2 MiB, the most accessed ones first."""
    block = (table["page"] // _BLOCK).rename("block")
    grouped = table.groupby(["name", block], observed=True)
    sums = grouped.agg(accesses=("page", "size"), pages=("page", "nunique"), writes=("write", "sum")).reset_index()
    rows = sums.sort_values("accesses", ascending=False, kind="stable").head(TOP_ROWS)
    return Bars(
        "Accesses by block of 2 MiB",
        [f"{row['name']} {row['block'] * _BLOCK << 12:#x}" for row in rows.to_dict("records")],
        rows["accesses"],
        (
            Tip("kernel", list(rows["name"]), "kernel"),
            Tip("accesses", list(rows["accesses"])),
            Tip("pages", list(rows["pages"])),
            Tip("writes", list(rows["writes"])),
        ),
        inner=rows["writes"],
        axis="accesses (light: writes)",
    )


TOOL = Tool(
    shows="pages that kernels access, in order: launch, page, read or write",
    table=_table,
    figure=_figure,
    empty="the kernels that ran did not access global memory",
    rules=(),
)

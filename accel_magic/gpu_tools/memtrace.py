"""memtrace: memory accesses by place in the source; coalescing, and bank conflicts of shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu.program.program_source import LiveColumns
from accel_magic.gpu_tools.common import by_place, summed, with_names
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData

_SECTOR: Final = 32
"""Bytes that memory moves at once."""
_WIDEST: Final = 16
"""Most bytes that one lane reads from shared memory at once; bulk copies are one lane's and longer."""
_FEW_ROWS: Final = r"^(?:@\S+ )?(?:ld|st)matrix\S*\.x[12]\."
"""Matrix operations that use the addresses of only some lanes."""
_IN_SECTORS: Final = ("global", "generic", "const")
_FEWEST_REQUESTS: Final = 8


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per memory operation that ran, most sectors first.

    `name` (of the kernel), `file`, `line`, `operation`, `space`, `bytes` (per lane), `requests` (by warps), `lanes`
    (over all requests), `sectors` (of 32 bytes, touched by the requests; 0 in shared memory and for copies by tensor
    maps), `passes` (over the banks of shared memory; 0 elsewhere, and if the lanes' bytes are not known),
    `per_request` (sectors or passes), `ratio`
    (of sectors or passes to `fewest`; NaN without either), `fewest` (that the same bytes need), `total_bytes`, `site`,
    `kernel`.
    """
    counts = summed(maps["accesses"], "site", "requests")
    table = counts.merge(run.sites, on="site", how="left")
    shared = table["space"] == "shared"
    total = table["lanes"].astype("int64") * table["bytes"].astype("int64")
    # A request needs at least the sectors that hold its own lanes' bytes.
    least = np.where(table["sectors"] > 0, np.maximum(np.ceil(total / _SECTOR), table["requests"]), 0)
    in_banks = table["bytes"].between(1, _WIDEST) & ~table["instruction"].str.contains(_FEW_ROWS, na=False)
    fewest = np.where(shared, table["fewest"].where(in_banks, 0), least).astype("int64")
    passes = table["passes"].where(shared & in_banks, 0).astype("int64")
    done = table["sectors"].astype("int64") + passes
    table = with_names(table, run).assign(
        total_bytes=total,
        passes=passes,
        fewest=fewest,
        per_request=(done / table["requests"]).where(fewest > 0),
        ratio=(done / np.maximum(fewest, 1)).where(fewest > 0),
    )
    names = ["name", "file", "line", "operation", "space", "bytes", "requests", "lanes", "sectors", "passes"]
    names += ["per_request", "ratio", "fewest", "total_bytes", "site", "kernel"]
    return table[names].sort_values(["sectors", "passes"], ascending=False, kind="stable", ignore_index=True)


def _scattered(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Lines whose requests touch many more sectors than their bytes need, outside shared memory."""
    sums = by_place(
        data.table[data.table["space"].isin(_IN_SECTORS)],
        ["operation"],
        ["sectors", "requests", "fewest", "total_bytes"],
    )
    for row in sums.to_dict("records"):
        ratio = float(row["sectors"]) / max(float(row["fewest"]), 1.0)
        if ratio >= rule.threshold and row["requests"] >= _FEWEST_REQUESTS:
            yield Evidence(
                {
                    "name": readable(str(row["name"])),
                    "operation": str(row["operation"]),
                    "place": str(row["place"]),
                    "ratio": ratio,
                    "requests": int(row["requests"]),
                    "per_request": float(row["sectors"]) / float(row["requests"]),
                    "moved_bytes": float(row["sectors"]) * _SECTOR,
                    "needed_bytes": float(row["total_bytes"]),
                }
            )


def _banks_conflict(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Lines whose requests need many more passes over the banks of shared memory than their bytes do."""
    sums = by_place(data.table[data.table["passes"] > 0], ["operation"], ["passes", "requests", "fewest"])
    for row in sums.to_dict("records"):
        ratio = float(row["passes"]) / float(row["fewest"])
        if ratio >= rule.threshold and row["requests"] >= _FEWEST_REQUESTS:
            yield Evidence(
                {
                    "name": readable(str(row["name"])),
                    "operation": str(row["operation"]),
                    "place": str(row["place"]),
                    "ratio": ratio,
                    "requests": int(row["requests"]),
                    "passes": int(row["passes"]),
                    "fewest_passes": int(row["fewest"]),
                }
            )


def _figure(table: pd.DataFrame) -> Bars:
    """Sectors, or passes over shared memory, per request beside the fewest possible, the costliest lines first."""
    shared = table["space"] == "shared"
    known = table.assign(done=table["sectors"] + table["passes"], unit=np.where(shared, "passes", "sectors"))
    counted = known[known["fewest"] > 0]
    sums = by_place(counted if len(counted) else known, ["operation", "unit"], ["done", "requests", "fewest"])
    rows = sums.head(TOP_ROWS)
    each, fewest = rows["done"] / rows["requests"], rows["fewest"] / rows["requests"]
    return Bars(
        "Cost per request",
        [f"{row['operation']} {row['place']} ({row['unit']})" for row in rows.to_dict("records")],
        each,
        (
            Tip("kernel", list(rows["name"]), "kernel"),
            Tip("unit", list(rows["unit"]), "text"),
            Tip("per request", list(each), "count"),
            Tip("fewest", list(fewest), "count"),
            Tip("requests", list(rows["requests"])),
        ),
        inner=fewest,
        axis="sectors or passes (light: fewest)",
    )


TOOL = Tool(
    shows="memory accesses by place: bytes, lanes, sectors per request; coalescing; shared-memory bank conflicts",
    table=_table,
    figure=_figure,
    empty="the kernels that ran did not access memory",
    rules=(
        Rule(
            "gpu.accesses-scattered",
            "warning",
            "{name}: {operation} at {place} moves {ratio:.1f} times the sectors that its bytes need",
            "The lanes of a warp touch addresses that are far apart, and memory moves whole sectors of 32 bytes.",
            "Let neighboring lanes touch neighboring addresses: change the loop order or the layout, or go through "
            "shared memory.",
            threshold=2.0,
            unit="times the fewest sectors that hold the bytes, over at least 8 requests",
            source="an offset within a sector costs less than a factor of two",
            check=_scattered,
        ),
        Rule(
            "gpu.banks-conflict",
            "warning",
            "{name}: {operation} at {place} takes {ratio:.1f} times the shared-memory passes that its bytes need",
            "Lanes request different words of the same shared-memory bank and wait for each other.",
            "Pad each row of the array with one unused element, `tile[32][33]`, or swizzle the index.",
            threshold=2.0,
            unit="times the fewest passes, over at least 8 requests",
            source="two words of one bank halve the bandwidth (CUDA C++ Programming Guide, shared memory)",
            check=_banks_conflict,
        ),
    ),
    live=LiveColumns("accesses", ("requests",)),
)

"""What each rule looks for in its tool's table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.gpu.common import LANES, by_place
from accel_magic.analysis.gpu.host_checks import HOST_CHECKS
from accel_magic.analysis.gpu.tables import SECTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pandas as pd

    from accel_magic.analysis.gpu.frames import GpuFrames
    from accel_magic.analysis.gpu.rules import Rule

Told = dict[str, str | float]
"""What a finding says: numbers are its evidence, texts only fill in its title."""

_FEWEST_LAUNCHES = 5
_FEWEST_REQUESTS = 8
_FEWEST_WARPS = 8
_IN_SECTORS = ("global", "generic", "const")
_MEMORY_SUMS = ["sectors", "requests", "fewest", "total_bytes"]


def threads_imbalanced(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Threads whose cycles are far above the mean of their kernel's."""
    for name, rows in table.groupby("name", observed=True):
        cycles = rows["cycles"]
        mean = float(cycles.mean())
        if mean > 0 and cycles.max() >= rule.threshold * mean:
            yield {
                "name": str(name),
                "ratio": float(cycles.max()) / mean,
                "threads": len(cycles),
                "mean_cycles": mean,
                "longest_cycles": float(cycles.max()),
                "longest_thread": int(rows["thread"].to_numpy()[cycles.to_numpy().argmax()]),
            }


def exits_diverge(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Warps whose lanes leave far apart, against the time in which the whole launch leaves."""
    warps = table.groupby(["name", "launch", "block", "warp"], observed=True, dropna=True)["after_ns"]
    spread = (warps.max() - warps.min()).rename("spread").reset_index()
    whole = table.groupby("launch")["after_ns"].max()
    spread["share"] = spread["spread"] / np.maximum(spread["launch"].map(whole), 1)
    for name, rows in spread.groupby("name", observed=True):
        share = float(rows["share"].median())
        if share >= rule.threshold:
            yield {
                "name": str(name),
                "share": share,
                "warps": len(rows),
                "spread_ns": float(rows["spread"].median()),
            }


def launches_dominate(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:
    """Launches that take longer to begin than their kernels to run, all together, by more than clocks may differ."""
    known = table.dropna(subset=["device_ns"])
    working = float(known["device_ns"].sum())
    if len(known) >= _FEWEST_LAUNCHES and working > 0:
        late = float((known["late_ns"] - result.recording.clock.error_ns).clip(lower=0).sum())
        if late >= rule.threshold * working:
            yield {"ratio": late / working, "launches": len(known), "late_ns": late, "working_ns": working}


def accesses_scattered(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Lines whose requests touch many more sectors than their bytes need; shared memory has banks instead."""
    sums = by_place(table[table["space"].isin(_IN_SECTORS)], ["operation"], _MEMORY_SUMS)
    for row in sums.to_dict("records"):
        ratio = float(row["sectors"]) / max(float(row["fewest"]), 1.0)
        if ratio >= rule.threshold and row["requests"] >= _FEWEST_REQUESTS:
            yield {
                "name": str(row["name"]),
                "operation": str(row["operation"]),
                "place": str(row["place"]),
                "ratio": ratio,
                "requests": int(row["requests"]),
                "per_request": float(row["sectors"]) / float(row["requests"]),
                "moved_bytes": float(row["sectors"]) * SECTOR,
                "needed_bytes": float(row["total_bytes"]),
            }


def banks_conflict(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Lines whose requests need many more passes of the banks of shared memory than their bytes."""
    sums = by_place(table[table["passes"] > 0], ["operation"], ["passes", "requests", "fewest"])
    for row in sums.to_dict("records"):
        ratio = float(row["passes"]) / float(row["fewest"])
        if ratio >= rule.threshold and row["requests"] >= _FEWEST_REQUESTS:
            yield {
                "name": str(row["name"]),
                "operation": str(row["operation"]),
                "place": str(row["place"]),
                "ratio": ratio,
                "requests": int(row["requests"]),
                "passes": int(row["passes"]),
                "fewest_passes": int(row["fewest"]),
            }


def blocks_imbalanced(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Launches in which multiprocessors that had work stand idle until the last block ends."""
    ends = table.groupby(["name", "launch", "sm"], observed=True)["end_ns"].max().rename("end").reset_index()
    whole = ends.groupby(["name", "launch"], observed=True)["end"].agg(["max", "sum", "size"]).reset_index()
    for name, rows in whole[whole["size"] > 1].groupby("name", observed=True):
        span = float((rows["max"] * rows["size"]).sum())
        share = 1 - float(rows["sum"].sum()) / span if span else 0.0
        if share >= rule.threshold:
            yield {
                "name": str(name),
                "share": share,
                "launches": len(rows),
                "multiprocessors": int(rows["size"].max()),
                "idle_ns": span - float(rows["sum"].sum()),
            }


def lanes_unused(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Kernels whose warps have empty lanes."""
    for name, lanes in table.groupby("name", observed=True)["lanes"]:
        share = 1 - float(lanes.sum()) / (LANES * len(lanes))
        if share >= rule.threshold:
            yield {"name": str(name), "share": share, "warps": len(lanes), "lanes": float(lanes.mean())}


def kernels_tiny(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:
    """Kernels that are launched often and fill little of the device each time."""
    room = rule.threshold * result.recording.multiprocessors
    for row in table[table["launches"] >= _FEWEST_LAUNCHES].to_dict("records"):
        warps = float(row["warps"]) / float(row["launches"])
        if warps < room:
            yield {"name": str(row["name"]), "launches": int(row["launches"]), "warps": warps, "room_warps": room}


def function_dominates(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Device functions that take most of the cycles."""
    total = float(table["cycles"].sum())
    for row in table.to_dict("records"):
        share = float(row["cycles"]) / total if total else 0.0
        if share >= rule.threshold and len(table) > 1:
            yield {
                "name": str(row["name"]),
                "share": share,
                "calls": int(row["calls"]),
                "mean_cycles": float(row["mean_cycles"]),
            }


def branches_diverge(table: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Lines whose branches split many of the warps that reach them."""
    for row in by_place(table, [], ["warps", "split"]).to_dict("records"):
        share = float(row["split"]) / float(row["warps"])
        if share >= rule.threshold and row["warps"] >= _FEWEST_WARPS:
            yield {
                "name": str(row["name"]),
                "place": str(row["place"]),
                "share": share,
                "warps": int(row["warps"]),
                "split": int(row["split"]),
            }


CHECKS: Final[Mapping[str, Callable[[pd.DataFrame, Rule, GpuFrames], Iterator[Told]]]] = MappingProxyType(
    {
        "threads-imbalanced": threads_imbalanced,
        "exits-diverge": exits_diverge,
        "launches-dominate": launches_dominate,
        "accesses-scattered": accesses_scattered,
        "banks-conflict": banks_conflict,
        "blocks-imbalanced": blocks_imbalanced,
        "lanes-unused": lanes_unused,
        "kernels-tiny": kernels_tiny,
        "function-dominates": function_dominates,
        "branches-diverge": branches_diverge,
        **HOST_CHECKS,
    }
)
"""What looks for each rule's evidence, by the rule's name."""

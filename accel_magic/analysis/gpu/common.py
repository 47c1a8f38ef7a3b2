"""What the tables of all GPU tools are made with: kernels' names, launches' shapes, lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.gpu.tools import STRIPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.gpu.frames import GpuFrames

LANES = 32


def with_names(table: pd.DataFrame, result: GpuFrames) -> pd.DataFrame:
    """Put the kernel's `name` behind its number, the column `kernel`."""
    kernels = result.kernels
    names = kernels[kernels["kernel"] >= 0].set_index("kernel")["name"]  # -1: kernels that were not instrumented
    kernel = table["kernel"].astype("int32")
    return table.drop(columns="kernel").assign(kernel=kernel, name=kernel.map(names).astype("str"))


def summed(entries: pd.DataFrame, number: str, warps: str) -> pd.DataFrame:
    """Add up counters that lie in `STRIPES` places each.

    Args:
        entries: Of an array: `key`, and the counters; `idle` counts lanes of full warps that were not there.
        number: What the key tells, as a column's name.
        warps: The counter of warps.

    Returns:
        One row per number with warps: it, the counters without `idle`, and `lanes`.

    """
    table = entries.assign(**{number: entries["key"] // STRIPES}).drop(columns="key").groupby(number).sum()
    table = table[table[warps] > 0].astype("int64").reset_index()
    return table.assign(lanes=LANES * table[warps] - table["idle"]).drop(columns="idle")


def ordered(table: pd.DataFrame, *first: str) -> pd.DataFrame:
    """Put some columns first, the others behind them in their order."""
    return table[[*first, *(name for name in table.columns if name not in first)]]


def place_of(result: GpuFrames, kernel: pd.Series, thread: pd.Series) -> pd.DataFrame:
    """Say where threads are that are numbered row-major over the whole grid, not block by block.

    Args:
        result: Has the shapes of launches.
        kernel: Kernel numbers.
        thread: Threads of their grids, of the same length.

    Returns:
        `block` (row-major over the grid) and `warp` (of the block), Int64; NA for kernels that were launched with
        several shapes.

    """
    sizes = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    shapes = result.launches[["kernel", *sizes]].copy()
    # Of grids of one dimension the width does not matter.
    flat = (shapes[["grid_y", "grid_z", "block_y", "block_z"]] == 1).all(axis=1)
    shapes.loc[flat, "grid_x"] = 0
    shapes = shapes.drop_duplicates().drop_duplicates("kernel", keep=False).set_index("kernel")
    of = {name: kernel.map(shapes[name]).astype("Int64") for name in sizes}
    rest = thread.astype("Int64")
    width = (of["grid_x"] * of["block_x"]).where(of["grid_x"] > 0, rest + 1)
    height = (of["grid_y"] * of["block_y"]).where(of["grid_x"] > 0, 1)
    at = {"x": rest % width, "y": rest // width % height, "z": rest // width // height}
    block, inside = ({axis: part(at[axis], of[f"block_{axis}"]) for axis in "xyz"} for part in (_quotient, _remainder))
    return pd.DataFrame(
        {
            "block": (block["z"] * of["grid_y"] + block["y"]) * of["grid_x"] + block["x"],
            "warp": ((inside["z"] * of["block_y"] + inside["y"]) * of["block_x"] + inside["x"]) // LANES,
        }
    )


def _quotient(number: pd.Series, by: pd.Series) -> pd.Series:
    return number // by


def _remainder(number: pd.Series, by: pd.Series) -> pd.Series:
    return number % by


def launch_of(result: GpuFrames, numbers: pd.Series) -> pd.Series:
    """Row of `result.launches` (int64, -1 for none) for the device's own numbers of launches.

    Where the host was not told the numbers, they are matched in order: they ascend from launch to launch of the kernels
    that programs were put into.
    """
    kernels = result.kernels
    launches = result.launches[result.launches["kernel"].isin(kernels.loc[kernels["instrumented"], "kernel"])]
    told = launches["device_launch"].dropna()
    if len(told):
        rows = pd.Series(told.index, index=told.astype("int64"))
    else:
        seen = np.sort(numbers.unique())
        rows = pd.Series(launches.index[: len(seen)], index=seen[: len(launches)])
    return numbers.astype("int64").map(rows).fillna(-1).astype("int64")


def since_first(times: pd.Series, groups: pd.Series) -> pd.Series:
    """Time since the first of its group, int64 ns."""
    return (times.astype("int64") - times.astype("int64").groupby(groups).transform("min")).astype("int64")


def popcount(masks: pd.Series) -> NDArray[np.int64]:
    """Bits set in 32-bit masks, int64."""
    octets = np.ascontiguousarray(masks.to_numpy(np.uint32)).view(np.uint8).reshape(-1, 4)
    bits: NDArray[np.int64] = np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int64)
    return bits


def by_place(table: pd.DataFrame, more: list[str], sums: list[str]) -> pd.DataFrame:
    """Add up what the compiler made of one line, the largest first."""
    file = table["file"].str.split("/").str[-1]
    line = file + ":" + table["line"].astype("str")
    place = line.where(table["file"] != "", "place " + table["site"].astype("str"))
    grouped = table.assign(place=place).groupby(["name", "place", *more], observed=True)[sums].sum().reset_index()
    return grouped.sort_values(sums[0], ascending=False, kind="stable")

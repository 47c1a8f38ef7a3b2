"""Shared by the tables of the GPU tools: names of kernels, shapes of launches, places in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.gpu_tools.tool import Run

LANES: Final = 32
"""Lanes of a warp."""
STRIPES: Final = 32
"""Copies of a counter that all warps update, one for each of so many multiprocessors: GPU_STRIPES in accel_gpu.h."""


def with_names(table: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Move the column `kernel` to the end, as int32, and add the kernel's `name`."""
    kernels = run.kernels
    names = kernels[kernels["kernel"] >= 0].set_index("kernel")["name"]  # -1: kernels that were not instrumented
    kernel = table["kernel"].astype("int32")
    return table.drop(columns="kernel").assign(kernel=kernel, name=kernel.map(names).astype("str"))


def summed(entries: pd.DataFrame, number: str, warps: str) -> pd.DataFrame:
    """Add up counters that have `STRIPES` copies each.

    Args:
        entries: An array's `key` and counters; `idle` counts the inactive lanes, `width` is the lanes of a full warp
            (32 where there is no such column: in recordings of version 0.2).
        number: Name of the column for the key without its stripe.
        warps: Name of the counter of warps.

    Returns:
        One row per number that any warp reached: `number`, the counters, and `lanes` (active ones) instead of `idle`
        and `width`.

    """
    table = entries.astype("int64")
    lanes = table.get("width", LANES) * table[warps] - table["idle"]
    table = table.assign(**{number: table["key"] // STRIPES}, lanes=lanes)
    table = table.drop(columns=["key", "idle", "width"], errors="ignore").groupby(number).sum()
    return table[table[warps] > 0].reset_index()


def ordered(table: pd.DataFrame, *first: str) -> pd.DataFrame:
    """Move columns to the front; the others keep their order."""
    return table[[*first, *(name for name in table.columns if name not in first)]]


def place_of(run: Run, kernel: pd.Series, thread: pd.Series) -> pd.DataFrame:
    """Locate threads that are numbered row-major over the whole grid, not block by block.

    Args:
        run: Its launches have the shapes.
        kernel: Kernel numbers.
        thread: Thread numbers, of the same length.

    Returns:
        `block` (row-major over the grid) and `warp` (within the block), Int64; NA for kernels whose launches differ in
        shape. OpenCL's drivers form the sub-groups of blocks that are not one-dimensional as they like: `warp` is NA.

    """
    sizes = [*(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"), "lanes"]
    shapes = run.launches[["kernel", *sizes]].copy()
    # The width of a one-dimensional grid does not matter.
    flat = (shapes[["grid_y", "grid_z", "block_y", "block_z"]] == 1).all(axis=1)
    shapes.loc[flat, "grid_x"] = 0
    shapes = shapes.drop_duplicates().drop_duplicates("kernel", keep=False).set_index("kernel")
    of = {name: kernel.map(shapes[name]).astype("Int64") for name in sizes}
    rest = thread.astype("Int64")
    width = (of["grid_x"] * of["block_x"]).where(of["grid_x"] > 0, rest + 1)
    height = (of["grid_y"] * of["block_y"]).where(of["grid_x"] > 0, 1)
    at = {"x": rest % width, "y": rest // width % height, "z": rest // width // height}
    block, inside = ({axis: part(at[axis], of[f"block_{axis}"]) for axis in "xyz"} for part in (_quotient, _remainder))
    number = (inside["z"] * of["block_y"] + inside["y"]) * of["block_x"] + inside["x"]
    return pd.DataFrame(
        {
            "block": (block["z"] * of["grid_y"] + block["y"]) * of["grid_x"] + block["x"],
            "warp": number // of["lanes"],
        }
    )


def _quotient(number: pd.Series, by: pd.Series) -> pd.Series:
    return number // by


def _remainder(number: pd.Series, by: pd.Series) -> pd.Series:
    return number % by


def launch_of(run: Run, numbers: pd.Series) -> pd.Series:
    """Row of `run.launches` for each of the device's launch numbers; int64, -1 for none.

    If the recording does not have the device's numbers, they are matched in order: they ascend over the launches of
    instrumented kernels.
    """
    kernels = run.kernels
    launches = run.launches[run.launches["kernel"].isin(kernels.loc[kernels["instrumented"], "kernel"])]
    known = launches["device_launch"].dropna()
    if len(known):
        rows = pd.Series(known.index, index=known.astype("int64"))
    else:
        seen = np.sort(numbers.unique())
        rows = pd.Series(launches.index[: len(seen)], index=seen[: len(launches)])
    return numbers.astype("int64").map(rows).fillna(-1).astype("int64")


def since_first(times: pd.Series, groups: pd.Series) -> pd.Series:
    """Time since the first event of the same group, int64 ns."""
    return (times.astype("int64") - times.astype("int64").groupby(groups).transform("min")).astype("int64")


def popcount(masks: pd.Series) -> NDArray[np.int64]:
    """Count the bits set in 32-bit masks; int64."""
    octets = np.ascontiguousarray(masks.to_numpy(np.uint32)).view(np.uint8).reshape(-1, 4)
    bits: NDArray[np.int64] = np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int64)
    return bits


def by_place(table: pd.DataFrame, more: list[str], sums: list[str]) -> pd.DataFrame:
    """Add up the instructions of each source line; the largest of `sums[0]` first."""
    file = table["file"].str.split("/").str[-1]
    line = file + ":" + table["line"].astype("str")
    place = line.where(table["file"] != "", "site " + table["site"].astype("str"))
    grouped = table.assign(place=place).groupby(["name", "place", *more], observed=True)[sums].sum().reset_index()
    return grouped.sort_values(sums[0], ascending=False, kind="stable")

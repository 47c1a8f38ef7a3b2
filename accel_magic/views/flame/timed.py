"""The weights of a flame graph's stacks over time, within the size limit of a page.

If everything fits, everything is kept. Otherwise times are coarser, and kept for the heavier frames only: rows of the
heatmap are merged, down to whole columns, and in a selected time range frames with less than a thousandth of every
column are counted as their callers. The rows are reduced and this share is doubled in turns until the rest fits. The
total of each remaining frame stays exact in every selection that the page allows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.views.flame.heatmap_cells import Grid, stretches_of
from accel_magic.views.flame.page_data import Timed, size, timed_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile
    from accel_magic.views.flame.flame_layout import Tree

LIGHT: Final = 0.001
"""A frame with less than this share of every column is light: below one pixel in a thousand in any second."""


def timed(tree: Tree, profile: Profile, grid: Grid, room: int, spare: int = 0) -> Timed:
    """Compute the weights of each stack over time.

    Args:
        tree: The tree of the profile.
        profile: The profile; all its samples have a time.
        grid: The heatmap's grid. The result's grid has the same columns, and the same rows or a divisor of them.
        room: Bytes available in the page, compressed.
        spare: Additional bytes available if nothing is left out.

    """
    found = _entries(tree.stacks, profile, grid)
    if _fits(found, room + spare):
        return found
    peaks = _peaks(tree, profile, grid)
    for rows, least in _choices(grid.rows):
        home = _home(tree, peaks < least)
        found = _entries(home[tree.stacks], profile, replace(grid, rows=rows))
        if _fits(found, room):
            break
    return replace(found, folded=int((home != np.arange(len(home))).sum()))


def _choices(rows: int) -> Iterator[tuple[int, float]]:
    """Pairs of rows and the share below which a frame is light, to be tried in order."""
    least = LIGHT
    while True:
        yield rows, least
        if rows > 1:
            rows = max(fewer for fewer in range(1, rows) if rows % fewer == 0)
            yield rows, least
        if least > 1:
            return
        least *= 2


def _fits(found: Timed, room: int) -> bool:
    return len(found.node) <= 2 * room and size(timed_data(found)) <= room  # more would never fit


def _entries(stacks: NDArray[np.int32], profile: Profile, grid: Grid) -> Timed:
    """Add up the samples of the same node, cell and state."""
    samples = profile.samples
    stretches = stretches_of(profile, grid)
    lasting = stretches.sample
    weight = np.append(samples.weight, stretches.tail)
    weight[lasting] = stretches.head
    begun = np.zeros(len(weight), np.int64)
    begun[lasting] = 1
    ended = (np.arange(len(weight)) >= len(samples)).astype(np.int64)
    cells = np.append(grid.cells(samples.time_ns), stretches.last)
    place = np.append(stacks, stacks[lasting]) * np.int64(grid.columns * grid.rows) + cells
    key = place * 4 + np.append(samples.state, samples.state[lasting])
    order = np.argsort(key)
    order = order[weight[order] > 0]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    keys = key[order][first]

    def summed(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.add.reduceat(values[order], first) if len(first) else values[:0]

    node, cell = np.divmod(keys // 4, grid.columns * grid.rows)
    return Timed(
        grid=grid,
        node=node.astype(np.int32),
        cell=cell.astype(np.int32),
        state=(keys % 4).astype(np.uint8),
        weight=summed(weight),
        begun=summed(begun).astype(np.int32),
        ended=summed(ended).astype(np.int32),
    )


def _peaks(tree: Tree, profile: Profile, grid: Grid) -> NDArray[np.float64]:
    """(N,) float64: the largest share of a column's weight that each node has, including its callees."""
    samples, columns = profile.samples, np.int64(grid.columns)
    column = samples.time_ns // grid.column_ns
    # A wait counts where it begins, with at most the length of a column.
    weight = np.minimum(samples.weight, grid.column_ns) if profile.unit == "ns" else samples.weight
    whole = np.maximum(np.bincount(column, weight, grid.columns), 1)
    own, which = np.unique(tree.stacks * columns + column, return_inverse=True)
    own_sums = np.bincount(which, weight, len(own))
    depths = tree.depths[own // columns]
    order = np.argsort(depths, kind="stable")
    levels = np.split(order, np.searchsorted(depths[order], np.arange(1, int(tree.depths.max()) + 1)))
    peaks = np.zeros(len(tree.depths))
    called = np.zeros(0, np.int64)
    called_sums: NDArray[Any] = np.zeros(0)
    for level in reversed(levels):
        keys, which = np.unique(np.append(called, own[level]), return_inverse=True)
        called_sums = np.bincount(which, np.append(called_sums, own_sums[level]), len(keys))
        nodes, at = np.divmod(keys, columns)
        np.maximum.at(peaks, nodes, called_sums / whole[at])
        called = tree.parents[nodes] * columns + at
    return peaks


def _home(tree: Tree, light: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(N,) int32: for each node the nearest one that is not light: itself or an ancestor."""
    home = np.where(light, tree.parents, np.arange(len(light), dtype=np.int32))
    home[0] = 0
    for node in np.flatnonzero(light[1:]) + 1:  # a parent's number is smaller than its children's
        home[node] = home[home[node]]
    return home

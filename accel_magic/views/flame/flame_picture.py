"""The frames of a flame graph as it is first shown, for a picture where scripts do not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.recording.profile import label
from accel_magic.views.figures.static_picture import Marks
from accel_magic.views.flame import colors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.views.flame.flame_layout import Entries, Tree

_LEAST: Final = 1 / 1000
"""The smallest share of a frame that is drawn."""
_SAME, _LESS, _MORE = np.array([0xE6, 0xE6, 0xE6]), np.array([0x3F, 0x83, 0xF0]), np.array([0xEE, 0x5A, 0x3C])


def marks(tree: Tree, rows: int) -> Marks:
    """Boxes of the frames of the first rows, from 0 to 1 across, a row of height 1 for each depth.

    Their colors are those of their kinds; with a baseline, those of the changes of their shares.
    """
    totals = _totals(tree, tree.entries)
    whole = max(totals[0], 1)
    left, cursors = np.zeros(len(totals)), np.zeros(int(tree.depths.max()) + 2)
    for node, (depth, total) in enumerate(zip(tree.depths.tolist(), (totals / whole).tolist(), strict=True)):
        # In preorder: a node is right of its siblings before it, and its first child begins where it does.
        left[node] = cursors[depth + 1] = cursors[depth]
        cursors[depth] += total
    drawn = np.flatnonzero((totals >= _LEAST * whole) & (tree.depths < rows))
    depth = tree.depths[drawn]
    # A hair's breadth between siblings tells them apart.
    right = left[drawn] + np.maximum(totals[drawn] / whole - _LEAST, _LEAST)
    frames = [tree.frames[frame] for frame in tree.node_frames[drawn].tolist()]
    if tree.baseline is None:
        chosen = [colors.CATEGORIES[colors.category(frame)].color for frame in frames]
    else:
        chosen = _by_change(totals[drawn] / whole, _shares(_totals(tree, tree.baseline))[drawn])
    return Marks(
        np.column_stack([left[drawn], right, depth + 0.04, depth + 0.96]).astype(np.float64),
        np.array(chosen, dtype=object),
        texts=[label(frame) for frame in frames],
    )


def _totals(tree: Tree, entries: Entries) -> NDArray[np.int64]:
    """(N,) the weight of each node and of all below it."""
    totals = np.zeros(len(tree.depths), np.int64)
    np.add.at(totals, entries.node, entries.weight)
    for depth in range(int(tree.depths.max()), 0, -1):
        nodes = np.flatnonzero(tree.depths == depth)
        np.add.at(totals, tree.parents[nodes], totals[nodes])
    return totals


def _shares(totals: NDArray[np.int64]) -> NDArray[np.float64]:
    return totals / max(int(totals[0]), 1)


def _by_change(now: NDArray[np.float64], before: NDArray[np.float64]) -> list[str]:
    """Red for larger shares than before, blue for smaller ones, the stronger the larger the change."""
    change = (now - before) / np.maximum(np.maximum(now, before), 1e-12)
    change[np.abs(now - before) < _LEAST / 2] = 0
    strength = (np.abs(change) ** 0.75)[:, None]
    mixed = np.where((change > 0)[:, None], _MORE, _LESS) * strength + _SAME * (1 - strength)
    return ["#{:02x}{:02x}{:02x}".format(*color) for color in np.rint(mixed).astype(int).tolist()]

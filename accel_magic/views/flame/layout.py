"""The tree that a flame graph draws: in preorder, the heaviest sibling first, with what each stack weighs.

Node 0 is all of the profile; every other node is a frame under its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.profiles.model import Frame, Kind
from accel_magic.views.flame.cells import stretches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.profiles.model import Profile
    from accel_magic.views.flame.cells import Grid

NODES: Final = 60_000
"""Most nodes of a tree: a page with so many stays about 1 MB."""
ALL: Final = Frame("all", Kind.PROCESS)
NO_CELL: Final = -1


@dataclass(frozen=True)
class Lasting:
    """Samples that last beyond the cell they begin in, see `cells.Stretches`.

    Attributes:
        node: (S,) int32, where their stacks end; `state` (S,) uint8; `weight` (S,) int64, all of it.
        first, last, head, tail: As of `cells.Stretches`.

    """

    node: NDArray[np.int32]
    state: NDArray[np.uint8]
    weight: NDArray[np.int64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    head: NDArray[np.int64]
    tail: NDArray[np.int64]


@dataclass(frozen=True)
class Entries:
    """Weights of E different (node, cell, state), in this order, and of what lasts longer than a cell.

    Attributes:
        node: (E,) int32, where the stacks end.
        cell: (E,) int32 of the heatmap; `NO_CELL` without one.
        state: (E,) uint8, of `State`.
        weight: (E,) int64, more than 0.
        lasting: Those that are in none of the above; None without a heatmap.

    """

    node: NDArray[np.int32]
    cell: NDArray[np.int32]
    state: NDArray[np.uint8]
    weight: NDArray[np.int64]
    lasting: Lasting | None = None

    @property
    def states(self) -> set[int]:
        """States that something has."""
        found = set(np.unique(self.state).tolist())
        return found if self.lasting is None else found | set(np.unique(self.lasting.state).tolist())

    @property
    def by_node(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Nodes and weights of everything; a node may be there several times."""
        if self.lasting is None:
            return self.node, self.weight
        return np.append(self.node, self.lasting.node), np.append(self.weight, self.lasting.weight)


@dataclass(frozen=True)
class Tree:
    """N nodes in preorder.

    Attributes:
        frames: Every frame once; the first is `ALL`.
        depths: (N,) int32; 0 of node 0 only.
        node_frames: (N,) int32, index into `frames`.
        entries: What the stacks of the profile weigh.
        baseline: What those of the profile that it is compared with weigh; None without one.
        folded: Nodes left out because there were too many: their weight is in the frame that called them.
        grid: Of the heatmap that the entries' cells belong to; None without one.

    """

    frames: tuple[Frame, ...]
    depths: NDArray[np.int32]
    node_frames: NDArray[np.int32]
    entries: Entries
    baseline: Entries | None = None
    folded: int = 0
    grid: Grid | None = None


@dataclass(frozen=True)
class _Nodes:
    """Nodes of one profile or of two together, node 0 being all; a parent's number is smaller than its children's."""

    frames: tuple[Frame, ...]
    parents: NDArray[np.int32]
    node_frames: NDArray[np.int32]
    depths: NDArray[np.int32]

    def levels(self) -> list[NDArray[np.intp]]:
        """Nodes of each depth, from 1 on."""
        order = np.argsort(self.depths, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depths))[:-1])[1:]


def tree(profile: Profile, baseline: Profile | None = None, grid: Grid | None = None) -> Tree:
    """Lay out the stacks of a profile.

    Args:
        profile: What to draw.
        baseline: What to compare it with; stacks that only it has are nodes as well.
        grid: Of the heatmap; None without one.

    """
    nodes, theirs = _union(profile, baseline)
    samples = profile.samples
    levels = nodes.levels()
    totals = [_totals(nodes, levels, samples.stack + 1, samples.weight)]
    if baseline is not None:
        totals.append(_totals(nodes, levels, theirs[baseline.samples.stack], baseline.samples.weight))
    # Profiles of different length are compared by shares; an ancestor's share is never smaller.
    shares = np.max([total / max(int(total[0]), 1) for total in totals], axis=0)
    kept = _kept(shares)
    home = _home(nodes, levels, kept)
    places = _preorder(nodes, levels, kept, shares)
    order = np.argsort(places[kept], kind="stable")
    used, node_frames = np.unique(nodes.node_frames[kept][order], return_inverse=True)
    home = places[home]
    return Tree(
        frames=tuple(nodes.frames[frame] for frame in used),
        depths=nodes.depths[kept][order],
        node_frames=node_frames.astype(np.int32),
        entries=_entries(home[samples.stack + 1], profile, grid),
        baseline=None if baseline is None else _entries(home[theirs[baseline.samples.stack]], baseline, None),
        folded=int(((shares > 0) & ~kept).sum()),
        grid=grid,
    )


def _union(profile: Profile, baseline: Profile | None) -> tuple[_Nodes, NDArray[np.int32]]:
    """Nodes of both profiles, those of `profile` at 1 + their number, and the number of each of the baseline's."""
    numbers = {ALL: 0}
    own = [numbers.setdefault(frame, len(numbers)) for frame in profile.frames]
    parents = [-1, *(profile.parents + 1).tolist()]
    node_frames = [0, *(own[frame] for frame in profile.node_frames.tolist())]
    theirs: list[int] = []
    if baseline is not None:
        other = [numbers.setdefault(frame, len(numbers)) for frame in baseline.frames]
        known = {pair: node for node, pair in enumerate(zip(parents, node_frames, strict=True))}
        for parent, frame in zip(baseline.parents.tolist(), baseline.node_frames.tolist(), strict=True):
            pair = (theirs[parent] if parent >= 0 else 0, other[frame])
            node = known.setdefault(pair, len(known))
            theirs.append(node)
            if node == len(parents):
                parents.append(pair[0])
                node_frames.append(pair[1])
    depths = [0] * len(parents)
    for node, parent in enumerate(parents[1:], 1):
        depths[node] = depths[parent] + 1
    return (
        _Nodes(tuple(numbers), *(np.array(column, np.int32) for column in (parents, node_frames, depths))),
        np.array(theirs, np.int32),
    )


def _totals(
    nodes: _Nodes, levels: list[NDArray[np.intp]], stacks: NDArray[np.int32], weights: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(N,) int64: weight of the samples that pass through each node."""
    totals = np.zeros(len(nodes.parents), np.int64)
    np.add.at(totals, stacks, weights)
    for level in reversed(levels):
        np.add.at(totals, nodes.parents[level], totals[level])
    return totals


def _kept(shares: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(N,) bool: the `NODES` heaviest of those that weigh anything, and node 0. A kept node's parent is kept."""
    kept = shares > 0
    if kept.sum() > NODES:
        # Stable: among equals a parent, which has the smaller number, is before its children.
        kept = np.zeros(len(shares), np.bool_)
        kept[np.argsort(-shares, kind="stable")[:NODES]] = True
    kept[0] = True
    return kept


def _home(nodes: _Nodes, levels: list[NDArray[np.intp]], kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(N,) int32: the nearest node upward that is kept."""
    home = np.where(kept, np.arange(len(kept)), -1).astype(np.int32)
    for level in levels:
        lost = level[~kept[level]]
        home[lost] = home[nodes.parents[lost]]
    return home


def _preorder(
    nodes: _Nodes, levels: list[NDArray[np.intp]], kept: NDArray[np.bool_], shares: NDArray[np.float64]
) -> NDArray[np.int32]:
    """(N,) int32: place of each kept node in preorder, heaviest sibling first."""
    sizes = kept.astype(np.int64)
    for level in reversed(levels):
        np.add.at(sizes, nodes.parents[level], sizes[level])
    places = np.zeros(len(kept), np.int64)
    for level in levels:
        rows = level[kept[level]]
        rows = rows[np.lexsort((rows, -shares[rows], places[nodes.parents[rows]]))]
        parents = nodes.parents[rows]
        before = np.cumsum(sizes[rows]) - sizes[rows]
        first = np.flatnonzero(np.diff(parents, prepend=-1))
        group = np.repeat(before[first], np.diff(np.append(first, len(rows))))
        places[rows] = places[parents] + 1 + before - group
    return places.astype(np.int32)


def _entries(nodes: NDArray[np.int32], profile: Profile, grid: Grid | None) -> Entries:
    samples = profile.samples
    cell = np.full(len(nodes), NO_CELL, np.int32) if grid is None else grid.cells(samples.time_ns)
    lasting, some = None, samples.weight > 0
    if grid is not None:
        stretches = stretches_of(profile, grid)
        rows = stretches.sample
        some[rows] = False
        lasting = Lasting(
            nodes[rows],
            samples.state[rows],
            samples.weight[rows],
            stretches.first,
            stretches.last,
            stretches.head,
            stretches.tail,
        )
    columns = np.stack([nodes, cell, samples.state.astype(np.int32)])[:, some]
    order = np.lexsort(columns[::-1])
    columns, weights = columns[:, order], samples.weight[some][order]
    first = np.flatnonzero(np.any(np.diff(columns, axis=1, prepend=-2), axis=0))
    return Entries(
        node=columns[0, first],
        cell=columns[1, first],
        state=columns[2, first].astype(np.uint8),
        weight=np.add.reduceat(weights, first) if len(first) else weights,
        lasting=lasting,
    )

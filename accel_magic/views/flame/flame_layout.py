"""The tree of a flame graph: in preorder, the heaviest sibling first, with the weight of each stack.

Node 0 is the whole profile; every other node is a frame under its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, FrameKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile, ProfileSamples

ALL: Final = Frame("all", FrameKind.PROCESS)


@dataclass(frozen=True)
class Entries:
    """Weights of E different (node, state), sorted in this order.

    Attributes:
        node: (E,) int32, where the stacks end.
        state: (E,) uint8, of `State`.
        weight: (E,) int64, more than 0.

    """

    node: NDArray[np.int32]
    state: NDArray[np.uint8]
    weight: NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """N nodes in preorder.

    Attributes:
        frames: Every frame once; the first is `ALL`.
        depths: (N,) int32; 0 for node 0 only.
        parents: (N,) int32; -1 for node 0 only.
        node_frames: (N,) int32, index into `frames`.
        stacks: (samples,) int32, the node in which the stack of each sample of the profile ends.
        entries: Weights of the profile's stacks.
        baseline: Weights of the baseline's stacks; None without one.
        folded: Nodes left out because there were too many: their weight is counted as their callers'.

    """

    frames: tuple[Frame, ...]
    depths: NDArray[np.int32]
    parents: NDArray[np.int32]
    node_frames: NDArray[np.int32]
    stacks: NDArray[np.int32]
    entries: Entries
    baseline: Entries | None = None
    folded: int = 0


@dataclass(frozen=True)
class _Nodes:
    """Nodes of one profile, or of two merged; node 0 is the root; a parent's number is smaller than its children's."""

    frames: tuple[Frame, ...]
    parents: NDArray[np.int32]
    node_frames: NDArray[np.int32]
    depths: NDArray[np.int32]

    def levels(self) -> list[NDArray[np.intp]]:
        """The nodes of each depth, from 1 on."""
        order = np.argsort(self.depths, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depths))[:-1])[1:]


def tree(profile: Profile, baseline: Profile | None = None, most: int = 2**31) -> Tree:
    """Lay out the stacks of a profile.

    Args:
        profile: What to draw.
        baseline: What to compare it with; stacks that only the baseline has become nodes too.
        most: Maximum number of nodes: the lightest are counted as their callers.

    """
    nodes, theirs = _union(profile, baseline)
    samples = profile.samples
    levels = nodes.levels()
    totals = [_totals(nodes, levels, samples.stack + 1, samples.weight)]
    if baseline is not None:
        totals.append(_totals(nodes, levels, theirs[baseline.samples.stack], baseline.samples.weight))
    # Profiles of different lengths are compared by shares; an ancestor's share is never smaller than its descendants'.
    shares = np.max([total / max(int(total[0]), 1) for total in totals], axis=0)
    kept = _kept(shares, most)
    home = _home(nodes, levels, kept)
    places = _preorder(nodes, levels, kept, shares)
    order = np.argsort(places[kept], kind="stable")
    used, node_frames = np.unique(nodes.node_frames[kept][order], return_inverse=True)
    parents = nodes.parents[kept][order]
    stacks = places[home[samples.stack + 1]]
    return Tree(
        frames=tuple(nodes.frames[frame] for frame in used),
        depths=nodes.depths[kept][order],
        parents=np.where(parents < 0, -1, places[parents]).astype(np.int32),
        node_frames=node_frames.astype(np.int32),
        stacks=stacks,
        entries=_entries(stacks, samples),
        baseline=None if baseline is None else _entries(places[home[theirs[baseline.samples.stack]]], baseline.samples),
        folded=int(((shares > 0) & ~kept).sum()),
    )


def _union(profile: Profile, baseline: Profile | None) -> tuple[_Nodes, NDArray[np.int32]]:
    """Nodes of both profiles, those of `profile` at 1 + their number; and the number of each baseline node."""
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


def _kept(shares: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
    """(N,) bool: the `most` heaviest nodes with weight, and node 0. The parent of a kept node is kept."""
    kept = shares > 0
    if kept.sum() > most:
        # A stable sort puts a parent, which has the smaller number, before children of equal weight.
        kept = np.zeros(len(shares), np.bool_)
        kept[np.argsort(-shares, kind="stable")[:most]] = True
    kept[0] = True
    return kept


def _home(nodes: _Nodes, levels: list[NDArray[np.intp]], kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(N,) int32: the nearest kept node: the node itself or an ancestor."""
    home = np.where(kept, np.arange(len(kept)), -1).astype(np.int32)
    for level in levels:
        lost = level[~kept[level]]
        home[lost] = home[nodes.parents[lost]]
    return home


def _preorder(
    nodes: _Nodes, levels: list[NDArray[np.intp]], kept: NDArray[np.bool_], shares: NDArray[np.float64]
) -> NDArray[np.int32]:
    """(N,) int32: position of each kept node in preorder, heaviest sibling first."""
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


def _entries(nodes: NDArray[np.int32], samples: ProfileSamples) -> Entries:
    some = samples.weight > 0
    keys, which = np.unique(nodes[some] * np.int64(4) + samples.state[some], return_inverse=True)
    weight = np.zeros(len(keys), np.int64)
    np.add.at(weight, which, samples.weight[some])
    return Entries((keys // 4).astype(np.int32), (keys % 4).astype(np.uint8), weight)

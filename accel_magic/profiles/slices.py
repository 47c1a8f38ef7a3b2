"""Samples as slices of time: what trace viewers draw, made of stacks that were seen now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.lanes import lanes
from accel_magic.profiles.model import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.profiles.model import Profile


@dataclass(frozen=True)
class Track:
    """Samples that follow each other without overlap: those of a thread, or a lane of what ran for it.

    Attributes:
        tid: Thread; 0 where not known.
        lane: -1 for what the thread itself did; else number of the lane of what an accelerator did for it.
        stack: (n,) int32, each sample's stack.
        begin: (n,) int64 ns, ascending.
        end: (n,) int64 ns, at most where the next begins.

    """

    tid: int
    lane: int
    stack: NDArray[np.int32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def tracks(profile: Profile) -> Iterator[Track]:
    """Lay the samples of a timed profile out in time.

    A weight in ns is the sample's length, cut off where the thread's next sample begins. A weight in another unit has
    no length: samples of one moment share the time until the next one, in proportion to their weights; the last ones
    last as long as it usually takes. What an accelerator did may overlap; it has lanes of its own.
    """
    samples = profile.samples
    remote = samples.state == State.ACCELERATOR
    for tid in np.unique(samples.tid).tolist():
        for lane, rows in ((-1, ~remote), (0, remote)):
            chosen = np.flatnonzero((samples.tid == tid) & rows)
            if not len(chosen):
                continue
            begin = samples.time_ns[chosen]
            if profile.unit == "ns" and lane == 0:
                yield from _in_lanes(tid, samples.stack[chosen], begin, begin + samples.weight[chosen])
                continue
            begin, end = _lengths(begin, samples.weight[chosen], exact=profile.unit == "ns")
            yield Track(tid, lane, samples.stack[chosen], begin, end)


def _in_lanes(tid: int, stack: NDArray[np.int32], begin: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[Track]:
    given = lanes(begin, end)
    for lane in np.unique(given).tolist():
        rows = np.flatnonzero(given == lane)
        yield Track(tid, lane, stack[rows], begin[rows], end[rows])


def _lengths(
    times: NDArray[np.int64], weights: NDArray[np.int64], *, exact: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each sample begins and ends."""
    moments, first, inverse = np.unique(times, return_index=True, return_inverse=True)
    gaps = np.diff(moments)
    usual = int(np.median(gaps)) if len(gaps) else 1_000_000
    room = np.append(gaps, np.iinfo(np.int64).max if exact else usual)[inverse]
    before = np.concatenate([[0], np.cumsum(weights)])
    offset = before[:-1] - before[first][inverse]  # weight of the same moment that came earlier
    if exact:
        begin = times + np.minimum(offset, room)
        return begin, np.minimum(times + np.minimum(offset + weights, room), np.iinfo(np.int64).max)
    of_moment = np.maximum(np.bincount(inverse, weights), 1)[inverse]
    begin = times + (room * (offset / of_moment)).astype(np.int64)
    return begin, times + (room * ((offset + weights) / of_moment)).astype(np.int64)


def edges(profile: Profile, track: Track) -> Iterator[tuple[bool, int, int]]:
    """Yield begins (True) and ends of a track's slices in order, each with its time in ns and its node.

    What neighbours have in common is one slice; a sample of no length is none.
    """
    paths: dict[int, list[int]] = {}
    under_way: list[int] = []
    ended = 0
    for stack, begin, end in zip(track.stack.tolist(), track.begin.tolist(), track.end.tolist(), strict=True):
        if end <= begin:
            continue
        if stack not in paths:
            paths[stack] = profile.nodes(stack)
        path = paths[stack]
        kept = _common(path, under_way) if ended == begin else 0
        yield from ((False, ended, node) for node in reversed(under_way[kept:]))
        yield from ((True, begin, node) for node in path[kept:])
        under_way, ended = path, end
    yield from ((False, ended, node) for node in reversed(under_way))


def _common(path: list[int], other: list[int]) -> int:
    """How many nodes from the root on are the same."""
    return next(
        (depth for depth, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other))
    )

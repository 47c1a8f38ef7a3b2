"""A stretch of an iaprof profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.profiles.iaprof.model import Intervals, Metrics, Runs, Stalls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.profiles.iaprof.model import IaprofProfile


def between(profile: IaprofProfile, start_ns: int, end_ns: int) -> IaprofProfile:
    """Keep the intervals that lie, if only in part, within two times on CLOCK_MONOTONIC, and what is in them."""
    ends = profile.intervals.end_ns
    kept = ends > start_ns
    kept[1:] &= ends[:-1] < end_ns
    runs = kept[profile.runs.interval]
    stalls = runs[profile.stalls.run]
    metrics = kept[profile.metrics.interval]
    kernels, kernel = by_appearance(profile.runs.kernel[runs], len(profile.kernels))
    texts, instruction = by_appearance(profile.stalls.instruction[stalls], len(profile.instructions))
    return replace(
        profile,
        intervals=Intervals(profile.intervals.number[kept], ends[kept]),
        kernels=tuple(profile.kernels[place] for place in kernels),
        instructions=tuple(profile.instructions[place] for place in texts),
        runs=Runs(_renumbered(kept)[profile.runs.interval[runs]], kernel),
        stalls=Stalls(
            _renumbered(runs)[profile.stalls.run[stalls]],
            profile.stalls.offset[stalls],
            instruction,
            profile.stalls.counts[stalls],
        ),
        metrics=Metrics(
            _renumbered(kept)[profile.metrics.interval[metrics]],
            profile.metrics.name[metrics],
            profile.metrics.value[metrics],
        ),
    )


def by_appearance(places: NDArray[np.int32], count: int) -> tuple[list[int], NDArray[np.int32]]:
    """Number what occurs in `places` (all below `count`) by its first occurrence: what has each number, the numbers."""
    used, first = np.unique(places, return_index=True)
    ordered = used[np.argsort(first, kind="stable")]
    numbers = np.zeros(max(count, 1), np.int32)
    numbers[ordered] = np.arange(len(ordered), dtype=np.int32)
    return ordered.tolist(), numbers[places]


def _renumbered(kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    return (np.cumsum(kept) - 1).astype(np.int32)

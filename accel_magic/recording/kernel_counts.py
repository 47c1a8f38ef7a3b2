"""What the kernel counts: hits, losses, sums and histograms, read from the maps of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.kernel import buckets
from accel_magic.recording.recording import Histograms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.patching.patched_functions import FunctionCounts
    from accel_magic.probes.plan import Plan


@dataclass(frozen=True)
class KernelCounts:
    """Counts by point: (points,) uint64."""

    hits: NDArray[np.uint64]
    lost: NDArray[np.uint64]
    unpaired: NDArray[np.uint64]
    totals: NDArray[np.uint64]
    histograms: Histograms


def none() -> KernelCounts:
    """Counts of a trace without kernel probes."""
    nothing = np.zeros(0, np.uint64)
    return KernelCounts(nothing, nothing, nothing, nothing, _histograms(None, 0))


def zero(plan: Plan) -> KernelCounts:
    """Counts of a trace that has not counted yet."""
    hits, lost, unpaired, totals = np.zeros((4, len(plan.points)), np.uint64)
    rows = len(plan.latency_points)
    nothing = np.zeros((rows, buckets.COUNT), np.uint64)
    return KernelCounts(
        hits, lost, unpaired, totals, Histograms(nothing, np.zeros(rows, np.uint64), np.zeros(rows, np.uint64))
    )


def of_maps(counters: NDArray[np.void], histograms: NDArray[np.void] | None, plan: Plan) -> KernelCounts:
    """Read the counts of the kernel's points.

    Args:
        counters: (1,), the counters map.
        histograms: (1,), the map of histograms; None without latency points.
        plan: What is traced.

    """
    points = len(plan.kernel_points)
    hits, lost, unpaired, totals = (
        counters[0][name].sum(axis=0)[:points] for name in ("hits", "lost", "unpaired", "totals")
    )
    rows = sum(point.latency for point in plan.kernel_points)
    return KernelCounts(hits, lost, unpaired, totals, _histograms(histograms, rows))


def with_functions(counts: KernelCounts, functions: FunctionCounts) -> KernelCounts:
    """Counts of the kernel's points, then of patched functions."""
    histograms = counts.histograms
    return KernelCounts(
        hits=np.concatenate([counts.hits, functions.hits]),
        lost=np.concatenate([counts.lost, functions.lost]),
        unpaired=np.concatenate([counts.unpaired, functions.unpaired]),
        totals=np.concatenate([counts.totals, functions.sums]),
        histograms=Histograms(
            np.concatenate([histograms.counts, functions.histograms]),
            np.concatenate([histograms.total_ns, functions.total_ns]),
            np.concatenate([histograms.max_ns, functions.longest_ns]),
        ),
    )


def all_events(plan: Plan, hits: NDArray[np.uint64], histograms: Histograms) -> NDArray[np.uint64]:
    """Number of events by point that are recorded or lost: one per hit, or per completed call if measured.

    Points that are only counted have none.
    """
    events = hits.copy()
    for row, point in enumerate(plan.latency_points):
        events[point.id] = histograms.counts[row].sum()
    events[[point.id for point in plan.points if point.counted]] = 0
    return events


def lost_events(
    plan: Plan, hits: NDArray[np.uint64], histograms: Histograms, recorded: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Number of events by point that are not among the recorded ones, if writing has failed."""
    every = all_events(plan, hits, histograms)
    return np.where(every > recorded, every - recorded, 0).astype(np.uint64)


def _histograms(mapped: NDArray[np.void] | None, rows: int) -> Histograms:
    if mapped is None:
        return Histograms(np.zeros((0, buckets.COUNT), np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    value = mapped[0]
    return Histograms(value["counts"][:rows].copy(), value["total"][:rows].copy(), value["max"][:rows].copy())

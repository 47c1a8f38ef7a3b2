"""Two traces side by side: hits, rates and latencies per function, and how they changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.traces import buckets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.traces.recording import Recording
    from accel_magic.traces.result import TraceResult

COLUMNS = ("hits", "rate", "p50", "p99")


@dataclass(frozen=True)
class Comparison:
    """A trace beside its baseline.

    Attributes:
        table: One row per (`probe`, `function`) of either trace, most hits first. `hits`, `baseline_hits` (Int64, NA
            where that trace had no such probe point), `rate` (hits/s), `p50`, `p99` (ns, NaN where not measured), each
            with its `baseline_…` and, but for hits, its `…_ratio`: this trace over the baseline, above 1 for more.
        duration_s: Length of the trace.
        baseline_duration_s: Length of the baseline.

    """

    table: pd.DataFrame
    duration_s: float
    baseline_duration_s: float

    def __repr__(self) -> str:
        """Plain-text table."""
        from accel_magic.views.text import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        """Show the same as an HTML table."""
        from accel_magic.views.static import comparison_html

        return comparison_html(self)


def compare(result: TraceResult, baseline: TraceResult) -> Comparison:
    """Set `result` beside `baseline`, matching probe points by probe and function.

    Points that share both (static functions of one name) are added up, their histograms too.
    """
    both = _per_function(result.recording).join(
        _per_function(baseline.recording).add_prefix("baseline_"), how="outer", sort=False
    )
    for name in COLUMNS[1:]:
        both[f"{name}_ratio"] = both[name] / both[f"baseline_{name}"]
    for name in ("hits", "baseline_hits"):
        both[name] = both[name].astype("Int64")
    order = [
        prefix + name + suffix for name in COLUMNS for prefix, suffix in (("", ""), ("baseline_", ""), ("", "_ratio"))
    ]
    order.remove("hits_ratio")
    table = both[order].sort_values(["hits", "baseline_hits"], ascending=False, kind="stable", na_position="last")
    return Comparison(table, result.duration_s, baseline.duration_s)


def _per_function(recording: Recording) -> pd.DataFrame:
    """Hits, rate, p50 and p99 indexed by (probe, function), each pair once."""
    hits: dict[tuple[str, str], int] = {}
    for point in recording.plan.points:
        key = (point.probe, point.function)
        hits[key] = hits.get(key, 0) + int(recording.hits[point.id])
    counts: dict[tuple[str, str], NDArray[np.uint64]] = {}
    largest: dict[tuple[str, str], int] = {}
    for row, point in enumerate(recording.plan.latency_points):
        key = (point.probe, point.function)
        counts[key] = counts.get(key, np.zeros(buckets.COUNT, np.uint64)) + recording.histograms.counts[row]
        largest[key] = max(largest.get(key, 0), int(recording.histograms.max_ns[row]))
    seconds = max(recording.duration_ns / 1e9, 1e-9)

    def quantile(key: tuple[str, str], q: float) -> float:
        # A quantile read from a bucket may lie above the longest call; NaN (nothing measured) passes through min.
        return min(buckets.quantile(counts[key], q), float(largest[key])) if key in counts else np.nan

    return pd.DataFrame(
        {
            "hits": list(hits.values()),
            "rate": [count / seconds for count in hits.values()],
            "p50": [quantile(key, 0.5) for key in hits],
            "p99": [quantile(key, 0.99) for key in hits],
        },
        index=pd.MultiIndex.from_tuples(list(hits), names=["probe", "function"]),
    )

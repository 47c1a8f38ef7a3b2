"""Two traces side by side: hits, rates and latencies per function and family, and which of the changes are sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.traces import buckets, intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.traces.recording import Recording

RATIOS = ("rate", "p50", "p99")
QUANTILES = {"p50": 0.5, "p99": 0.99}
_POINT = ("probe", "function")


def compare(recording: Recording, baseline: Recording) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Set a recording beside its baseline, matching probe points by probe and function.

    Points that share both (static functions of one name) are added up, their histograms too.

    Returns:
        By function and by family: `table` and `families` of `accel_magic.results.comparison.TraceComparison`.

    """
    recordings = (recording, baseline)
    traces = [_Side(each, [(point.probe, point.function) for point in each.plan.points]) for each in recordings]
    table = _side_by_side(traces, list(_POINT))
    for name, share in QUANTILES.items():
        _add_quantiles(table, traces, name, share)
    _add_confident(table, RATIOS)
    order = ["hits", "baseline_hits", "rate", "baseline_rate", *_of_ratio("rate")]
    for name in QUANTILES:
        order += [f"{name}_ns", f"baseline_{name}_ns", *_of_ratio(name)]
    return _most_hits_first(table[[*order, "confident"]]), _families(recordings)


def _of_ratio(name: str) -> list[str]:
    return [f"{name}_ratio", f"{name}_ratio_low", f"{name}_ratio_high", f"{name}_confident"]


class _Side:
    """One trace's numbers, added up by a key for each probe point; points whose key is None are left out."""

    def __init__(self, recording: Recording, keys: Sequence[tuple[str, ...] | None]) -> None:
        self.recording = recording
        self.keys = list(dict.fromkeys(key for key in keys if key is not None))
        place = {key: number for number, key in enumerate(self.keys)}
        self._column = np.array([-1 if key is None else place[key] for key in keys], np.intp)
        self.seconds = recording.duration_ns / 1e9 if recording.timed else 0.0
        self.hits = self.added(recording.hits[None, :])[0]

    def added(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """(rows, keys): sum of the columns of (rows, points) that share a key."""
        chosen = np.flatnonzero(self._column >= 0)
        total = np.zeros((len(self.keys), len(values)))
        np.add.at(total, self._column[chosen], values.T[chosen].astype(np.float64))
        return total.T

    @property
    def rate(self) -> NDArray[np.float64]:
        """(keys,) hits/s; NaN without times."""
        return self.hits / max(self.seconds, 1e-9) if self.recording.timed else np.full(len(self.keys), np.nan)

    def spread(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(keys,) how unevenly the hits came, and the degrees of freedom of that."""
        samples = self.recording.samples
        return intervals.dispersion(
            np.diff(self.added(samples.hits), axis=0), np.diff(samples.times_ns).astype(np.float64)
        )

    def histograms(self) -> dict[tuple[str, ...], tuple[NDArray[np.uint64], int]]:
        """Of each measured key: (buckets.COUNT,) calls, and the longest in ns."""
        found: dict[tuple[str, ...], tuple[NDArray[np.uint64], int]] = {}
        measured = self.recording.histograms
        for row, point in enumerate(self.recording.plan.latency_points):
            counts, longest = found.get((point.probe, point.function), (np.zeros(buckets.COUNT, np.uint64), 0))
            longest = max(longest, int(measured.max_ns[row]))
            found[point.probe, point.function] = counts + measured.counts[row], longest
        return found


def _side_by_side(traces: Sequence[_Side], names: list[str]) -> pd.DataFrame:
    """Hits and rates of both, and the interval of their ratio, indexed by the keys of either."""
    frames = [
        pd.DataFrame(
            {"hits": side.hits, "rate": side.rate, "spread": side.spread()[0], "freedom": side.spread()[1]},
            index=pd.MultiIndex.from_tuples(side.keys, names=names) if side.keys else None,
        )
        for side in traces
    ]
    both = frames[0].join(frames[1].add_prefix("baseline_"), how="outer", sort=False)
    both.index.names = names
    _add_rate_interval(both, (traces[0].seconds, traces[1].seconds))
    for name in ("hits", "baseline_hits"):
        both[name] = both[name].astype("Int64")
    return both.drop(columns=["spread", "freedom", "baseline_spread", "baseline_freedom"])


def _add_rate_interval(both: pd.DataFrame, seconds: tuple[float, float]) -> None:
    ours, theirs = (
        [both[f"{prefix}{name}"].to_numpy(np.float64) for name in ("hits", "spread", "freedom")]
        for prefix in ("", "baseline_")
    )
    low, high = intervals.rate_ratio(
        (np.nan_to_num(ours[0]), np.nan_to_num(theirs[0])),
        seconds,
        (ours[1], theirs[1]),
        (np.nan_to_num(ours[2], nan=1).astype(np.int64), np.nan_to_num(theirs[2], nan=1).astype(np.int64)),
    )
    # Nothing is known of a function that one of them did not trace; nor did anything change where neither hit it.
    known = np.isfinite(ours[0]) & np.isfinite(theirs[0]) & (ours[0] + theirs[0] > 0)
    both["rate_ratio"] = both["rate"] / both["baseline_rate"]
    _add_interval(both, "rate", np.where(known, low, np.nan), np.where(known, high, np.nan))


def _add_quantiles(table: pd.DataFrame, traces: Sequence[_Side], name: str, share: float) -> None:
    """Add a quantile of both, their ratio and its interval."""
    ours, theirs = (side.histograms() for side in traces)
    for prefix, found in (("", ours), ("baseline_", theirs)):
        # A quantile read from a bucket may lie above the longest call; NaN (nothing measured) passes through min.
        values = [
            min(buckets.quantile(found[key][0], share), float(found[key][1])) if key in found else np.nan
            for key in table.index
        ]
        table[f"{prefix}{name}_ns"] = np.array(values, np.float64)
    table[f"{name}_ratio"] = table[f"{name}_ns"] / table[f"baseline_{name}_ns"]
    limits = [
        intervals.quantile_ratio(ours[key][0], theirs[key][0], share)
        if key in ours and key in theirs and ours[key][0].any() and theirs[key][0].any()
        else (np.nan, np.nan)
        for key in table.index
    ]
    low, high = np.array(limits, np.float64).reshape(-1, 2).T
    _add_interval(table, name, low, high)


def _add_interval(table: pd.DataFrame, name: str, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    table[f"{name}_ratio_low"], table[f"{name}_ratio_high"] = low, high
    table[f"{name}_confident"] = intervals.excludes_one(low, high)


def _add_confident(table: pd.DataFrame, names: Sequence[str]) -> None:
    table["confident"] = table[[f"{name}_confident" for name in names]].any(axis=1)


def _most_hits_first(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["hits", "baseline_hits"], ascending=False, kind="stable", na_position="last")


def _families(recordings: tuple[Recording, Recording]) -> pd.DataFrame:
    """Compare the families of the NPU driver's functions."""
    from accel_magic.probes.presets.npu_families import OTHER, family_of

    traces = []
    for recording in recordings:
        names = [family_of(point.function) for point in recording.plan.points]
        traces.append(_Side(recording, [None if name == OTHER else (name,) for name in names]))
    table = _side_by_side(traces, ["family"])
    for prefix in ("", "baseline_"):
        total = table[f"{prefix}hits"].sum()
        table[f"{prefix}share"] = (table[f"{prefix}hits"] / total).astype(np.float64) if total else np.nan
    _add_confident(table, ["rate"])
    table.index = pd.Index([key[0] for key in table.index], name="family", dtype="str")
    order = ["hits", "baseline_hits", "share", "baseline_share", "rate", "baseline_rate"]
    return _most_hits_first(table[[*order, *_of_ratio("rate")[:-1], "confident"]])

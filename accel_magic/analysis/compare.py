"""Two traces side by side: hits, rates and latencies per function and family, and which changes are significant."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.kernel import buckets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from accel_magic.recording.recording import Recording

    Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


RATIOS = ("rate", "p50", "p99")
QUANTILES = {"p50": 0.5, "p99": 0.99}
_POINT = ("probe", "function")


def compare(
    recording: Recording, baseline: Recording, family_of: Callable[[str], str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare a recording with its baseline, matching probe points by probe and function.

    Points that share both (static functions with one name) are added up, including their histograms.

    Args:
        recording: The recording.
        baseline: What it is compared with.
        family_of: Returns the family of a function, `` if it has none.

    Returns:
        By function and by family: `table` and `families` of `accel_magic.result_bases.comparison.TraceComparison`.

    """
    recordings = (recording, baseline)
    traces = [_Side(each, [(point.probe, point.function) for point in each.plan.points]) for each in recordings]
    table = _side_by_side(traces, list(_POINT))
    for name, share in QUANTILES.items():
        _add_quantiles(table, traces, name, share)
    _add_significant(table, RATIOS)
    order = ["hits", "baseline_hits", "rate", "baseline_rate", *_of_ratio("rate")]
    for name in QUANTILES:
        order += [f"{name}_ns", f"baseline_{name}_ns", *_of_ratio(name)]
    return _most_hits_first(table[[*order, "significant"]]), _families(recordings, family_of)


def _of_ratio(name: str) -> list[str]:
    return [f"{name}_ratio", f"{name}_ratio_low", f"{name}_ratio_high", f"{name}_significant"]


class _Side:
    """One trace's numbers, added up by key; each probe point has a key, and points with key None are left out."""

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
        """(keys,) how unevenly the hits arrived, and the degrees of freedom of that estimate."""
        samples = self.recording.samples
        return dispersion(np.diff(self.added(samples.hits), axis=0), np.diff(samples.times_ns).astype(np.float64))

    def histograms(self) -> dict[tuple[str, ...], tuple[NDArray[np.uint64], int]]:
        """For each measured key: (buckets.COUNT,) calls, and the longest call in ns."""
        found: dict[tuple[str, ...], tuple[NDArray[np.uint64], int]] = {}
        measured = self.recording.histograms
        for row, point in enumerate(self.recording.plan.latency_points):
            counts, longest = found.get((point.probe, point.function), (np.zeros(buckets.COUNT, np.uint64), 0))
            longest = max(longest, int(measured.max_ns[row]))
            found[point.probe, point.function] = counts + measured.counts[row], longest
        return found


def _side_by_side(traces: Sequence[_Side], names: list[str]) -> pd.DataFrame:
    """Hits and rates of both, and the interval of their ratio, indexed by the union of their keys."""
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
    low, high = rate_ratio(
        (np.nan_to_num(ours[0]), np.nan_to_num(theirs[0])),
        seconds,
        (ours[1], theirs[1]),
        (np.nan_to_num(ours[2], nan=1).astype(np.int64), np.nan_to_num(theirs[2], nan=1).astype(np.int64)),
    )
    # Unknown if only one trace has the function; no change if neither hit it.
    known = np.isfinite(ours[0]) & np.isfinite(theirs[0]) & (ours[0] + theirs[0] > 0)
    both["rate_ratio"] = both["rate"] / both["baseline_rate"]
    _add_interval(both, "rate", np.where(known, low, np.nan), np.where(known, high, np.nan))


def _add_quantiles(table: pd.DataFrame, traces: Sequence[_Side], name: str, share: float) -> None:
    """Add a quantile of both, their ratio and the ratio's interval."""
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
        quantile_ratio(ours[key][0], theirs[key][0], share)
        if key in ours and key in theirs and ours[key][0].any() and theirs[key][0].any()
        else (np.nan, np.nan)
        for key in table.index
    ]
    low, high = np.array(limits, np.float64).reshape(-1, 2).T
    _add_interval(table, name, low, high)


def _add_interval(table: pd.DataFrame, name: str, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    table[f"{name}_ratio_low"], table[f"{name}_ratio_high"] = low, high
    table[f"{name}_significant"] = excludes_one(low, high)


def _add_significant(table: pd.DataFrame, names: Sequence[str]) -> None:
    table["significant"] = table[[f"{name}_significant" for name in names]].any(axis=1)


def _most_hits_first(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["hits", "baseline_hits"], ascending=False, kind="stable", na_position="last")


def _families(recordings: tuple[Recording, Recording], family_of: Callable[[str], str]) -> pd.DataFrame:
    """Compare the families of the functions."""
    traces = []
    for recording in recordings:
        names = [family_of(point.function) for point in recording.plan.points]
        traces.append(_Side(recording, [(name,) if name else None for name in names]))
    table = _side_by_side(traces, ["family"])
    for prefix in ("", "baseline_"):
        total = table[f"{prefix}hits"].sum()
        table[f"{prefix}share"] = (table[f"{prefix}hits"] / total).astype(np.float64) if total else np.nan
    _add_significant(table, ["rate"])
    table.index = pd.Index([key[0] for key in table.index], name="family", dtype="str")
    order = ["hits", "baseline_hits", "share", "baseline_share", "rate", "baseline_rate"]
    return _most_hits_first(table[[*order, *_of_ratio("rate")[:-1], "significant"]])


LEVEL: Final = 0.99
"""Level of each interval. A comparison has hundreds; at 0.95 any two identical runs would show false changes."""
_DRAWS: Final = 4000
_SEED: Final = 2026
_FEWEST_STEPS: Final = 5
_TAILS: Final = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


def dispersion(
    increments: NDArray[np.float64], width: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Estimate how much more unevenly hits arrived than independent ones would, at the time scale with the most.

    Args:
        increments: (steps, series) hits of each series in each step.
        width: (steps,) length of the steps, in any unit.

    Returns:
        (series,) variance of the hits per interval divided by their mean, at least 1, infinite with fewer than 5 steps;
        (series,) degrees of freedom of that estimate.

    """
    series = increments.shape[1]
    most, freedom = np.full(series, np.inf), np.ones(series, np.int64)
    total = increments.sum(axis=0)
    size = 1
    while len(width) // size >= _FEWEST_STEPS:
        starts = np.arange(len(width) // size) * size  # the last one takes the remainder
        counts, lengths = np.add.reduceat(increments, starts, axis=0), np.add.reduceat(width, starts)
        expected = np.outer(lengths / lengths.sum(), total)
        excess = np.divide((counts - expected) ** 2, expected, where=expected > 0, out=np.zeros_like(expected))
        found = np.maximum(excess.sum(axis=0) / (len(starts) - 1), 1.0)
        better = np.isinf(most) | (found > most)
        most, freedom = np.where(better, found, most), np.where(better, len(starts) - 1, freedom)
        size *= 2
    return most, freedom


def rate_ratio(
    hits: Pair, seconds: tuple[float, float], spread: Pair, freedom: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> Pair:
    """Interval of the ratio of two rates.

    Args:
        hits: (series,) of the trace and its baseline.
        seconds: Durations of both.
        spread: `dispersion` of both.
        freedom: Degrees of freedom of both.

    Returns:
        (series,) lower and upper limit; 0 and infinity if unknown. A series without hits counts as one with half a
        hit.

    """
    ours, theirs = (np.maximum(count, 0.5) for count in hits)
    with np.errstate(invalid="ignore"):
        error = np.sqrt(spread[0] / ours + spread[1] / theirs)
    middle = np.log(ours / seconds[0]) - np.log(theirs / seconds[1]) if min(seconds) > 0 else np.full(len(ours), np.nan)
    reach = error * _t_quantile(np.minimum(*freedom))
    with np.errstate(over="ignore"):
        low, high = np.exp(middle - reach), np.exp(middle + reach)
    return np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), np.inf, high)


def quantile_ratio(ours: NDArray[np.uint64], theirs: NDArray[np.uint64], q: float) -> tuple[float, float]:
    """Interval of the ratio of two quantiles that are only known from histograms.

    The number of n calls below the true quantile is binomial, so the call of that rank, read from its bucket's far
    edge, bounds it, for any distribution. If a histogram has too few calls, that bound is 0 or infinity.

    Args:
        ours: (buckets.COUNT,) calls.
        theirs: The same for the baseline.
        q: Share, between 0 and 1.

    """
    if not ours.any() or not theirs.any():
        return 0.0, np.inf
    random = np.random.default_rng(_SEED)
    (low, high), (their_low, their_high) = (_quantile_draws(counts, q, random) for counts in (ours, theirs))
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.divide(low, their_high)
        most = np.where(their_low > 0, np.divide(high, their_low), np.inf)
    tail, head = _TAILS
    return float(np.quantile(least, tail, method="lower")), float(np.quantile(most, head, method="higher"))


def excludes_one(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the interval of a ratio excludes 1, so that something changed."""
    return (low > 1) | (high < 1)


def _quantile_draws(counts: NDArray[np.uint64], q: float, random: np.random.Generator) -> Pair:
    """(draws,) bounds of the true quantile, ns, from the calls on either side of it."""
    cumulative = np.cumsum(counts, dtype=np.int64)
    total = int(cumulative[-1])
    below = random.binomial(total, q, _DRAWS)
    first = np.searchsorted(cumulative, np.maximum(below, 1), side="left")
    after = np.searchsorted(cumulative, np.minimum(below + 1, total), side="left")
    low = np.where(below == 0, 0.0, buckets.EDGES[first])
    high = np.where(below == total, np.inf, buckets.EDGES[after + 1])
    return low, high


def _t_quantile(freedom: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) upper limit of Student's t at `LEVEL`."""
    return np.array([_t_limit(int(df)) for df in freedom])


@cache
def _t_limit(freedom: int) -> float:
    """Draw the limit: numpy has random numbers of the distribution, but no quantiles."""
    random = np.random.default_rng(_SEED)
    return float(np.quantile(np.abs(random.standard_t(freedom, 40_000)), LEVEL))

"""How sure a ratio of two traces is: intervals of rates from sampled counters, of quantiles from histograms.

One trace each is all there is, so what a second run would give is judged from within: how unevenly the hits came, and
how many calls a quantile stands on. Draws are seeded: the same two traces always give the same intervals.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.traces import buckets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pair = tuple[NDArray[np.float64], NDArray[np.float64]]

LEVEL: Final = 0.99
"""Of each interval. A comparison has hundreds of them: at 0.95 every one of two equal runs would have false changes."""
_DRAWS: Final = 4000
_SEED: Final = 2026
_FEWEST_STEPS: Final = 5
_TAILS: Final = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


def dispersion(
    increments: NDArray[np.float64], width: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Estimate how much more unevenly hits came than independent ones would, at the time scale where it is most.

    Args:
        increments: (steps, series) hits of each series in each step.
        width: (steps,) length of the steps, any unit.

    Returns:
        (series,) variance of the hits of a stretch over their mean, 1 at least, infinite where there are fewer than 5
        steps; (series,) degrees of freedom that it stands on.

    """
    series = increments.shape[1]
    most, freedom = np.full(series, np.inf), np.ones(series, np.int64)
    total = increments.sum(axis=0)
    size = 1
    while len(width) // size >= _FEWEST_STEPS:
        starts = np.arange(len(width) // size) * size  # the last one takes what is left
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
        hits: (series,) of the trace and of its baseline.
        seconds: Lengths of both.
        spread: `dispersion` of both.
        freedom: The degrees of freedom of both.

    Returns:
        (series,) lower and upper limit; 0 and infinity where nothing can be said. A series without hits counts as one
        with half a hit.

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
    """Interval of the ratio of two quantiles that are known from histograms only.

    How many of n calls lie below the true quantile is binomial; so the call of that rank, read from its bucket's far
    edge, bounds it, whatever the distribution. Where a histogram has too few calls, that bound is 0 or infinity.

    Args:
        ours: (buckets.COUNT,) calls.
        theirs: The same, of the baseline.
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
    """Whether an interval of a ratio says that something changed."""
    return (low > 1) | (high < 1)


def _quantile_draws(counts: NDArray[np.uint64], q: float, random: np.random.Generator) -> Pair:
    """(draws,) bounds of the true quantile, ns, from the calls on both sides of it."""
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
    """Draw the limit: numpy has the distribution's random numbers and no quantiles."""
    random = np.random.default_rng(_SEED)
    return float(np.quantile(np.abs(random.standard_t(freedom, 40_000)), LEVEL))

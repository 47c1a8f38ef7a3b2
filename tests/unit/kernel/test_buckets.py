"""Latency buckets, compared with manual counting and numpy's percentiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accel_magic.kernel import buckets

LONGEST = 2**43 - 1
durations = st.one_of(st.integers(0, 64), st.integers(0, 10**6), st.integers(0, LONGEST))


def counted(values):
    return np.bincount(buckets.index_of(np.array(values, np.int64)), minlength=buckets.COUNT).astype(np.uint64)


def index_by_bits(value):
    """Bucket number from the value's binary digits: its exponent and the four bits after the leading one."""
    if value < 16:
        return value
    digits = f"{value:b}"
    return min((len(digits) - 4) * 16 + int(digits[1:5], 2), 639)


def test_there_are_640_buckets_and_one_more_edge():
    assert buckets.COUNT == 640
    assert buckets.EDGES.shape == (641,)
    assert buckets.EDGES[0] == 0
    assert buckets.EDGES[-1] == 2**43


def test_edges_increase_and_buckets_above_16_ns_are_at_most_a_sixteenth_of_their_start_wide():
    widths = np.diff(buckets.EDGES)
    assert (widths >= 1).all()
    assert (widths[16:] * 16 <= buckets.EDGES[16:-1]).all()


def test_known_durations_fall_into_known_buckets():
    known = {
        0: 0,
        1: 1,
        15: 15,
        16: 16,
        17: 17,
        31: 31,
        32: 32,
        33: 32,
        34: 33,
        1023: 111,
        1024: 112,
        1087: 112,
        1088: 113,
    }
    assert buckets.index_of(np.array(list(known))).tolist() == list(known.values())


def test_the_last_bucket_contains_all_longer_durations():
    values = np.array([LONGEST, LONGEST + 1, 2**62, 2**63 - 1])
    assert buckets.index_of(values).tolist() == [639] * 4


def test_the_index_keeps_the_shape_of_its_argument():
    assert buckets.index_of(np.arange(6, dtype=np.int64).reshape(2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]


@given(durations)
@example(2**43)
@example(2**42 - 1)
def test_every_duration_lies_between_the_edges_of_its_bucket(value):
    index = int(buckets.index_of(np.array([value], np.int64))[0])
    assert index == index_by_bits(value)
    if value <= LONGEST:
        assert buckets.EDGES[index] <= value < buckets.EDGES[index + 1]


@pytest.mark.parametrize("exponent", range(4, 43))
def test_both_sides_of_each_power_of_two_are_in_different_buckets(exponent):
    below, at = buckets.index_of(np.array([2**exponent - 1, 2**exponent]))
    assert at == below + 1
    assert at == 16 * (exponent - 3)


@given(st.lists(durations, min_size=1, max_size=60), st.sampled_from([0, 0.01, 0.25, 0.5, 0.9, 0.99, 1]))
@example([1024] * 1000 + [10**9], 0.99)  # interpolating within the bucket is 6 % off here
@example([500], 0)
def test_a_quantile_is_within_3_2_percent_of_numpy_on_the_raw_durations(values, q):
    truth = float(np.percentile(values, q * 100, method="inverted_cdf"))
    assert buckets.quantile(counted(values), q) == pytest.approx(truth, rel=0.032, abs=0)


@given(st.lists(st.integers(0, 31), min_size=1, max_size=40), st.sampled_from([0, 0.1, 0.5, 0.9, 1]))
def test_quantiles_of_durations_below_32_ns_are_exact(values, q):
    assert buckets.quantile(counted(values), q) == float(np.percentile(values, q * 100, method="inverted_cdf"))


def test_quantiles_of_many_calls_agree_with_numpy():
    values = np.random.default_rng(7).lognormal(10, 2, 200_000).astype(np.int64)
    counts = counted(values)
    for q in (0.001, 0.1, 0.5, 0.9, 0.99, 0.999):
        assert buckets.quantile(counts, q) == pytest.approx(np.percentile(values, q * 100), rel=0.032)


def test_quantiles_increase_with_q():
    counts = counted([5, 100, 100, 2000, 2_000_000])
    answers = [buckets.quantile(counts, q) for q in np.linspace(0, 1, 101)]
    assert answers == sorted(answers)
    assert answers[0] == 5


def test_counts_too_large_for_a_float_still_give_the_right_bucket():
    counts = np.zeros(buckets.COUNT, np.uint64)
    counts[3] = 2**60
    counts[600] = 2**60
    assert buckets.quantile(counts, 0.5) == 3
    assert buckets.quantile(counts, 0.51) > 2**40


def test_no_calls_have_no_quantile():
    assert math.isnan(buckets.quantile(np.zeros(buckets.COUNT, np.uint64), 0.5))

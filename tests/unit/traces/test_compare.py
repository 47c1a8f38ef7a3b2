"""Two traces side by side."""

import dataclasses

import pandas as pd
import pytest

from accel_magic.traces.result import TraceResult

F, G, H = "latency:kprobe:m:f", "kprobe:m:g", "kprobe:m:<b>h"


@pytest.fixture
def comparison(make_recording):
    result = TraceResult(make_recording([F, G], hits=[40, 10], durations={0: [2000] * 40}, duration_ns=10**9))
    baseline = TraceResult(make_recording([F, H], hits=[20, 5], durations={0: [1000] * 20}, duration_ns=2 * 10**9))
    return result.compare(baseline)


def test_functions_of_both_traces_are_matched_by_probe_and_function(comparison):
    row = comparison.table.loc[(F, "f")]

    assert (row["hits"], row["baseline_hits"]) == (40, 20)
    assert (row["rate"], row["baseline_rate"], row["rate_ratio"]) == pytest.approx((40.0, 10.0, 4.0))


def test_latency_ratios_are_this_trace_over_the_baseline(comparison):
    row = comparison.table.loc[(F, "f")]

    assert row["p50"] == pytest.approx(2000, rel=0.035)
    assert row["baseline_p99"] == pytest.approx(1000, rel=0.035)
    assert row["p50_ratio"] == pytest.approx(2.0, rel=0.07)
    assert row["p99_ratio"] == pytest.approx(2.0, rel=0.07)


def test_a_function_of_one_trace_only_is_missing_in_the_other_not_zero(comparison):
    only_here, only_there = comparison.table.loc[(G, "g")], comparison.table.loc[(H, "<b>h")]

    assert only_here["hits"] == 10
    assert pd.isna(only_here["baseline_hits"])
    assert pd.isna(only_here["rate_ratio"])
    assert only_there["baseline_hits"] == 5
    assert pd.isna(only_there["hits"])


def test_rows_come_most_hits_first(comparison):
    assert [function for _, function in comparison.table.index] == ["f", "g", "<b>h"]


def test_hits_where_the_baseline_had_none_are_infinitely_more(make_recording):
    result, baseline = (TraceResult(make_recording([G], hits=[hits])) for hits in (3, 0))

    assert result.compare(baseline).table["rate_ratio"].iloc[0] == float("inf")
    assert pd.isna(baseline.compare(baseline).table["rate_ratio"].iloc[0])


def test_functions_of_the_same_name_are_added_up_with_their_histograms(make_recording, make_point):
    twins = [make_point(i, "latency:kprobe:m:f*", function="f") for i in range(2)]
    result = TraceResult(make_recording(twins, hits=[30, 10], durations={0: [1000] * 30, 1: [8000] * 10}))

    [row] = result.compare(result).table.to_dict("records")

    assert row["hits"] == 40
    assert row["p50"] == pytest.approx(1000, rel=0.035)
    assert row["p99"] == pytest.approx(8000, rel=0.035)


def test_a_comparison_is_frozen(comparison):
    with pytest.raises(dataclasses.FrozenInstanceError):
        comparison.table = None


def test_the_text_names_both_lengths_and_the_changes(comparison):
    lines = repr(comparison).splitlines()

    assert lines[0].startswith("1 s beside a baseline of 2 s")
    [row] = [line.split() for line in lines if " f " in line]
    assert row[:5] == [F, "f", "40", "20", "4x"]


def test_the_html_escapes_names(comparison):
    html = comparison._repr_html_()

    assert "&lt;b&gt;h" in html
    assert "<b>" not in html
    assert "<td>4x</td>" in html

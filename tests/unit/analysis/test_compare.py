"""Two traces side by side."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from accel_magic.banners import Imported, Replayed
from accel_magic.results.trace_result import TraceResult

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

    assert row["p50_ns"] == pytest.approx(2000, rel=0.035)
    assert row["baseline_p99_ns"] == pytest.approx(1000, rel=0.035)
    assert row["p50_ratio"] == pytest.approx(2.0, rel=0.07)
    assert row["p99_ratio"] == pytest.approx(2.0, rel=0.07)


def test_a_function_in_one_trace_is_missing_in_the_other_not_zero(comparison):
    only_here, only_there = comparison.table.loc[(G, "g")], comparison.table.loc[(H, "<b>h")]

    assert only_here["hits"] == 10
    assert pd.isna(only_here["baseline_hits"])
    assert pd.isna(only_here["rate_ratio"])
    assert only_there["baseline_hits"] == 5
    assert pd.isna(only_there["hits"])


def test_rows_come_most_hits_first(comparison):
    assert [function for _, function in comparison.table.index] == ["f", "g", "<b>h"]


def test_hits_without_any_in_the_baseline_have_an_infinite_ratio(make_recording):
    result, baseline = (TraceResult(make_recording([G], hits=[hits])) for hits in (3, 0))

    assert result.compare(baseline).table["rate_ratio"].iloc[0] == float("inf")
    assert pd.isna(baseline.compare(baseline).table["rate_ratio"].iloc[0])


def test_functions_of_the_same_name_are_added_up_with_their_histograms(make_recording, make_point):
    twins = [make_point(i, "latency:kprobe:m:f*", function="f") for i in range(2)]
    result = TraceResult(make_recording(twins, hits=[30, 10], durations={0: [1000] * 30, 1: [8000] * 10}))

    [row] = result.compare(result).table.to_dict("records")

    assert row["hits"] == 40
    assert row["p50_ns"] == pytest.approx(1000, rel=0.035)
    assert row["p99_ns"] == pytest.approx(8000, rel=0.035)


def test_a_comparison_is_frozen(comparison):
    with pytest.raises(dataclasses.FrozenInstanceError):
        comparison.table = None


def test_the_text_names_both_lengths_and_the_changes(comparison):
    lines = repr(comparison).splitlines()

    assert lines[0].startswith("1 s compared with a baseline of 2 s")
    [row] = [line.split() for line in lines if " f " in line]
    assert row[:5] == [F, "f", "40", "20", "4x"]


def test_the_html_escapes_names(comparison):
    html = comparison._repr_mimebundle_()["text/html"]

    assert "&lt;b&gt;h" in html
    assert "<b>" not in html
    assert "<td>4x</td>" in html


# Confidence


def traced(make_recording, per_step, *, step_ns=50_000_000, durations=None, probe=F):
    """A trace whose counter is sampled every 50 ms; (steps,) hits in each."""
    hits = np.append(0, np.cumsum(per_step))
    times = np.arange(len(hits)) * step_ns
    recording = make_recording(
        [probe],
        hits=[hits[-1]],
        samples=(times, hits[:, None]),
        duration_ns=int(times[-1]),
        durations={0: [] if durations is None else durations},
        event_count=0,
    )
    return TraceResult(recording)


def many(make_recording, per_step, durations):
    """A trace of many functions: (steps, functions) hits in each 50 ms, (functions, calls) durations in ns."""
    steps, functions = per_step.shape
    hits = np.concatenate([np.zeros((1, functions), int), np.cumsum(per_step, axis=0)])
    recording = make_recording(
        [f"latency:kprobe:m:f{number}" for number in range(functions)],
        hits=hits[-1],
        samples=(np.arange(steps + 1) * 50_000_000, hits),
        duration_ns=steps * 50_000_000,
        durations=dict(enumerate(durations.astype(int).tolist())),
        event_count=0,
    )
    return TraceResult(recording)


def steady(random, count):
    return random.poisson(20, (60, count)), random.lognormal(8, 1, (count, 400))


def bursty(random, count):
    """Phases of about 400 ms with ten times the rate."""
    phases = np.repeat(random.random((12, count)) < 0.3, 8, axis=0)
    return random.poisson(np.where(phases, 100, 10)), np.full((count, 1), 1000)


def few(random, count):
    return random.poisson(0.2, (20, count)), random.lognormal(8, 2, (count, 12))


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("draw", [steady, bursty, few])
def test_two_runs_of_the_same_workload_rarely_show_a_confident_change(make_recording, draw):
    random = np.random.default_rng(7)
    ours, theirs = (many(make_recording, *draw(random, 1000)) for _ in range(2))

    table = ours.compare(theirs).table

    # Each interval is at 99 %: one in a hundred may be wrong, here with three standard errors to spare.
    for name in ("rate", "p50", "p99"):
        assert table[f"{name}_significant"].mean() <= 0.02
    assert table["significant"].mean() <= 0.045


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_intervals_of_quantiles_have_their_nominal_coverage_and_not_much_more(make_recording):
    random = np.random.default_rng(11)
    ours, theirs = (
        many(make_recording, np.full((20, 500), 20), random.lognormal(8, 0.5, (500, 400)) * factor)
        for factor in (1.3, 1.0)
    )

    table = ours.compare(theirs).table

    held = (table["p50_ratio_low"] <= 1.3) & (table["p50_ratio_high"] >= 1.3)
    assert held.mean() >= 0.985
    assert table["p50_significant"].mean() >= 0.95


def test_a_real_change_of_the_rate_is_confident_in_steady_traces_but_not_in_bursty_ones(make_recording):
    random = np.random.default_rng(3)
    slow, fast = (traced(make_recording, random.poisson(mean, 60)) for mean in (20, 30))
    row = fast.compare(slow).table.iloc[0]
    assert row["rate_significant"]
    assert row["rate_ratio_low"] < 1.5 < row["rate_ratio_high"]
    assert row["rate_ratio_low"] > 1.2

    once, twice = ([0] * 30 + [600] + [0] * 29, [0] * 30 + [900] + [0] * 29)
    assert not traced(make_recording, twice).compare(traced(make_recording, once)).table["significant"].any()


def test_the_interval_of_a_steady_rate_is_that_of_poisson_counts(make_recording):
    even = [40, 40] * 30  # never more uneven than chance: only the counts' own error remains
    row = traced(make_recording, even).compare(traced(make_recording, even)).table.iloc[0]

    error = np.sqrt(2 / 2400)
    assert np.log(row["rate_ratio_high"]) == pytest.approx(2.66 * error, rel=0.03)  # Student's t at 99 %, 59 degrees
    assert np.log(row["rate_ratio_low"]) == pytest.approx(-2.66 * error, rel=0.03)


def test_with_too_few_samples_a_rate_has_no_interval(make_recording):
    ours, theirs = traced(make_recording, [100] * 4), traced(make_recording, [10] * 4)
    row = ours.compare(theirs).table.iloc[0]

    assert (row["rate_ratio_low"], row["rate_ratio_high"]) == (0, np.inf)
    assert not row["rate_significant"]


def test_a_p99_of_few_calls_is_never_significant(make_recording):
    ours, theirs = (traced(make_recording, [50] * 20, durations=[lasts] * 50) for lasts in (100_000, 1000))
    row = ours.compare(theirs).table.iloc[0]

    assert row["p50_significant"]
    assert row["p99_ratio"] == pytest.approx(100, rel=0.07)
    assert not row["p99_significant"]


def test_neighboring_buckets_are_not_a_change(make_recording):
    edge = 1024
    ours, theirs = (traced(make_recording, [50] * 20, durations=[lasts] * 1000) for lasts in (edge, edge - 1))
    row = ours.compare(theirs).table.iloc[0]

    assert row["p50_ns"] != row["baseline_p50_ns"]
    assert not row["p50_significant"]


def test_a_function_missing_from_one_trace_is_not_reported_as_changed(comparison):
    assert not comparison.table.loc[(G, "g"), "significant"]
    assert pd.isna(comparison.table.loc[(G, "g"), "rate_ratio_low"])


def test_the_same_traces_always_give_the_same_intervals(make_recording):
    random = np.random.default_rng(1)
    ours, theirs = (many(make_recording, *steady(random, 5)) for _ in range(2))

    pd.testing.assert_frame_equal(ours.compare(theirs).table, ours.compare(theirs).table)


# Families


@pytest.fixture
def drivers(make_recording):
    """Two traces of the NPU driver: three times the messages with the same number of buffers."""
    names = ["ivpu_ipc_send", "ivpu_ipc_receive", "ivpu_bo_create_ioctl", "sys_enter_read"]
    steps = np.arange(61)
    return [
        TraceResult(
            make_recording(
                [f"kprobe:intel_vpu:{name}" for name in names],
                hits=[60 * each for each in per_step],
                samples=(steps * 50_000_000, np.outer(steps, per_step)),
                duration_ns=3_000_000_000,
                event_count=0,
            )
        )
        for per_step in ([30, 60, 10, 1], [10, 20, 10, 1])
    ]


def test_families_add_up_the_drivers_functions_and_leave_out_others(drivers):
    ours, theirs = drivers
    table = ours.compare(theirs).families

    assert list(table.index) == ["IPC", "buffer"]
    assert table.loc["IPC", ["hits", "baseline_hits"]].tolist() == [5400, 1800]
    assert table["share"].tolist() == [0.9, 0.1]
    assert table["baseline_share"].tolist() == [0.75, 0.25]
    assert table["rate"].tolist() == [1800.0, 200.0]
    assert table["rate_ratio"].tolist() == [3.0, 1.0]
    assert table["significant"].tolist() == [True, False]


def test_traces_without_the_driver_have_no_families(comparison):
    assert comparison.families.empty


def test_confident_changes_are_shown_first_and_named(drivers, make_recording):
    quiet, loud = (
        TraceResult(
            make_recording(
                ["kprobe:m:much", "latency:kprobe:m:little"],
                hits=[6000, 60],
                samples=(np.arange(61) * 50_000_000, np.outer(np.arange(61), [100, 1])),
                durations={1: [lasts] * 60},
                event_count=0,
            )
        )
        for lasts in (1000, 3000)
    )
    text = repr(loud.compare(quiet)).splitlines()

    assert text[0].endswith("; 1 of 2 functions changed significantly")
    [changed, same] = [line for line in text if "kprobe:m:" in line]
    assert changed.split()[1] == "little"
    assert changed.endswith("  p50")
    assert same.endswith("  -")
    assert "family" not in repr(loud.compare(quiet))

    ours, theirs = drivers
    lines = repr(ours.compare(theirs)).splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["family", "IPC", "buffer"]
    assert lines[3].split()[1:] == ["5,400", "1,800", "90", "%", "75", "%", "3x", "rate"]
    assert "<th>significant</th>" in ours.compare(theirs)._repr_mimebundle_()["text/html"]


def test_a_comparison_carries_the_banners_of_both_traces(make_recording):
    replayed = TraceResult(make_recording([G], hits=[3], replayed=Replayed("x", "Linux 7.2 <b>")))
    lab = TraceResult(make_recording([G], hits=[3], machine={"emulated": "an NPU"}))
    shown = lab.compare(replayed)

    assert [line[:7] for line in repr(shown).splitlines()[:2]] == ["NPU LAB", "REPLAY:"]
    assert "recorded on Linux 7.2 &lt;b&gt;</div>" in shown._repr_mimebundle_()["text/html"]


def test_traces_without_times_have_counts_and_no_confident_change(make_recording):
    listed = Imported("x", "bpftrace output", timed=False)
    ours, theirs = (
        TraceResult(make_recording([G], hits=[hits], duration_ns=0, imported=listed)) for hits in (3000, 10)
    )
    row = ours.compare(theirs).table.iloc[0]

    assert (row["hits"], row["baseline_hits"]) == (3000, 10)
    assert pd.isna(row["rate_ratio"])
    assert not row["significant"]

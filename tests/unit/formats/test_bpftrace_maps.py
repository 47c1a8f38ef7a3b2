"""Maps and histograms printed by bpftrace."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.errors import raises

BAR = "|@@@@      |"


def counts(result):
    return dict(zip(result.counts.index.get_level_values("function"), result.counts["hits"], strict=True))


def test_counts_per_probe_are_hits(imported):
    result = imported("\n\n@calls[kprobe:intel_vpu:ivpu_open]: 3\n@calls[kprobe:intel_vpu:ivpu_bo_pin]: 25\n")

    assert counts(result) == {"ivpu_bo_pin": 25, "ivpu_open": 3}
    assert result.counts.index[0] == ("kprobe:intel_vpu:ivpu_bo_pin", "ivpu_bo_pin")
    assert not result.plan.records_events
    assert not result.recording.timed


def test_the_unnamed_map_counts_too(imported):
    assert counts(imported("@[kprobe:vfs_read]: 7\n")) == {"vfs_read": 7}


def test_keys_with_several_parts_are_separate_points_of_one_function(imported):
    result = imported("@[kprobe:m:f, python3, 12]: 3\n@[kprobe:m:f, bash, 13]: 4\n@[kprobe:m:g, bash, 13]: 1\n")

    assert result.counts["hits"].to_dict() == {
        ("kprobe:m:f [python3, 12]", "f"): 3,
        ("kprobe:m:f [bash, 13]", "f"): 4,
        ("kprobe:m:g [bash, 13]", "g"): 1,
    }


def test_keys_without_a_probe_count_if_nothing_else_does(imported):
    result = imported("@reads[python3, 12]: 3\n@reads[bash, 13]: 4\n@opens: 5\n")

    assert result.counts["hits"].to_dict() == {
        ("@opens", "opens"): 5,
        ("@reads", "bash, 13"): 4,
        ("@reads", "python3, 12"): 3,
    }


def test_hits_are_not_counted_again_by_another_map(imported, notes):
    result = imported("kprobe:m:f\nkprobe:m:f\n@calls[kprobe:m:f]: 2\n@by[python3]: 2\n@start[12]: 23577301313243\n")

    assert (result.hits, result.recorded) == (2, 2)
    assert "@by, @start" in notes(result)


def test_a_map_counts_hits_whose_lines_were_lost(imported):
    result = imported("Lost 3 events\nkprobe:m:f\nkprobe:m:f\n@calls[kprobe:m:f]: 5\n")

    assert (result.hits, result.recorded, result.lost) == (5, 2, 3)


def test_a_map_that_disagrees_with_the_lines_is_ignored(imported, notes):
    result = imported("kprobe:m:f\nkprobe:m:f\n@most[kprobe:m:f]: 590\n")

    assert result.hits == 2
    assert "@most" in notes(result)


def test_of_several_maps_over_the_same_probes_the_one_named_like_a_count_is_used(imported, notes):
    result = imported("@bytes[kprobe:m:f]: 81920\n@x[kprobe:m:f]: 9\n@calls[kprobe:m:f]: 20\n")

    assert result.hits == 20
    assert "@bytes" in notes(result)
    assert "@x" in notes(result)


def test_a_running_total_is_not_summed(imported, notes):
    result = imported("@[kprobe:m:f]: 2\n\n@[kprobe:m:f]: 5\n\n@[kprobe:m:f]: 9\n")

    assert result.hits == 9
    assert "printed 3 times" in notes(result)


def test_a_map_that_starts_over_is_summed(imported):
    assert imported("@[kprobe:m:f]: 5\n\n@[kprobe:m:f]: 2\n\n@[kprobe:m:f]: 4\n").hits == 11


def test_stacks_as_keys_count_by_stack(imported):
    result = imported("@[\n    vfs_read+1\n    ksys_read+95\n]: 12\n@[\n    vfs_write+1\n, python3]: 4\n")

    assert counts(result) == {"vfs_read+1; ksys_read+95": 12, "vfs_write+1; python3": 4}


def test_a_histogram_of_durations_is_read_at_the_upper_bounds_of_its_buckets(imported, notes):
    result = imported(f"@ns[kprobe:m:f]: \n[512, 1K)  29 {BAR}\n[1K, 2K)  0 {BAR}\n[2K, 4K)  1 {BAR}\n")
    latency = result.latency.loc[("kprobe:m:f", "f")]

    assert (latency["count"], latency["max_ns"]) == (30, 4095)
    assert 1023 * 0.968 <= latency["p50_ns"] <= 1023 * 1.032
    assert latency["mean_ns"] == pytest.approx((29 * 1023 + 4095) / 30)
    assert result.hits == 30
    assert "up to twice too long, never too short" in notes(result)


@pytest.mark.parametrize(("name", "scale"), [("usecs", 1e3), ("lat_ms", 1e6), ("latency", 1), ("nsec", 1)])
def test_the_name_of_a_histogram_determines_its_unit(imported, name, scale):
    latency = imported(f"@{name}: \n[8, 16)  1 {BAR}\n").latency

    assert latency["max_ns"].item() == 16 * scale - 1


def test_a_linear_histogram_is_as_exact_as_its_steps(imported, notes):
    text = f"@ns: \n(..., 0)  2 {BAR}\n[0, 100)  3 {BAR}\n[100, 200)  4 {BAR}\n[200, ...)  1 {BAR}\n"
    result = imported(text)

    assert result.latency["count"].item() == 8
    assert result.latency["max_ns"].item() == 200
    assert "at most 100 ns too long" in notes(result)
    assert "1 are beyond the last bucket's bound" in notes(result)
    assert "negative values of @ns are left out" in notes(result)


def test_json_histograms_equal_printed_ones(imported):
    bars = [{"min": 512, "max": 1023, "count": 29}, {"min": 2048, "max": 4095, "count": 1}]
    by_key = json.dumps({"type": "hist", "data": {"@ns": {"kprobe:m:f": bars}}})
    printed = f"@ns[kprobe:m:f]: \n[512, 1K)  29 {BAR}\n[1K, 2K)  0 {BAR}\n[2K, 4K)  1 {BAR}\n"

    left, right = imported(by_key + "\n").recording, imported(printed).recording

    np.testing.assert_array_equal(left.histograms.counts, right.histograms.counts)
    assert left.plan.points == right.plan.points


def test_histograms_without_a_time_unit_are_left_out_and_named(imported, notes):
    result = imported(f"@bytes: \n[8, 16)  1 {BAR}\n@calls[kprobe:m:f]: 2\n")

    assert result.hits == 2
    assert len(result.latency) == 0
    assert "@bytes" in notes(result)


def test_calls_in_a_histogram_do_not_count_as_additional_hits(imported, sample):
    result = imported(sample("bpftrace.txt"))

    assert (result.hits, result.recorded) == (60, 60)
    assert result.latency["count"].tolist() == [30, 30]


def test_averages_and_texts_are_not_counts(imported, notes):
    text = "@calls[kprobe:m:f]: 2\n@st: count 5, average 547, total 2737\n@str: python3\n@avg_us[kprobe:m:f]: 504\n"
    result = imported(text)

    assert result.hits == 2
    for name in ("@st", "@str", "@avg_us"):
        assert name in notes(result)


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_a_map_with_more_keys_than_a_recording_can_have_is_rejected(imported):
    from accel_magic.errors import RecordingError

    text = "".join(f"@[{key}]: 1\n" for key in range((1 << 16) + 1))

    with raises("recording.too-many-probes", RecordingError, match="65,537"):
        imported(text)

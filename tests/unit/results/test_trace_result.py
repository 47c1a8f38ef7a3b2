"""TraceResult: tables and numbers."""

import numpy as np
import pytest

from accel_magic.results.trace_result import TraceResult


@pytest.fixture
def result(rich_recording):
    return TraceResult(rich_recording, value=42)


def test_counts_are_exact_sorted_and_include_probes_without_hits(result):
    assert list(result.counts.index.get_level_values("function")) == ["sys_enter_read", "malloc", "ivpu_ioctl"]
    assert list(result.counts["hits"]) == [40, 10, 0]
    assert list(result.counts["lost"]) == [0, 2, 0]
    assert list(result.counts["rate"]) == pytest.approx([40.0, 10.0, 0.0])


def test_hits_equal_recorded_plus_lost_events(result):
    assert (result.hits, result.recorded, result.lost) == (50, 48, 2)
    assert len(result.events) == 48


def test_latency_counts_all_calls_even_if_their_event_was_lost(result):
    [row] = result.latency.to_dict("records")

    assert row["count"] == 10
    assert row["mean_ns"] == pytest.approx(5500)
    assert row["max_ns"] == 10_000
    assert row["unfinished"] == 0
    assert row["p50_ns"] == pytest.approx(5000, rel=0.04)
    assert row["p99_ns"] == pytest.approx(10_000, rel=0.04)
    assert row["histogram"].sum() == 10


def test_quantiles_never_exceed_the_longest_call(make_recording):
    result = TraceResult(make_recording(["latency:kprobe:m:f"], hits=[1], durations={0: [1025]}))

    assert result.latency[["p50_ns", "p90_ns", "p99_ns"]].max(axis=None) <= 1025


def test_a_latency_probe_without_finished_calls_has_no_quantiles(make_recording):
    result = TraceResult(make_recording(["latency:kprobe:m:f"], hits=[3], durations={0: []}))

    [row] = result.latency.to_dict("records")

    assert (row["count"], row["unfinished"]) == (0, 3)
    assert np.isnan(row["p50_ns"])


def test_latency_is_empty_without_latency_probes(make_recording):
    assert len(TraceResult(make_recording()).latency) == 0


def test_tables_are_built_once(result):
    assert result.df is result.events
    assert result.events is result.events
    assert result.counts is result.counts


def test_value_plan_machine_and_duration_come_from_the_recording(result, rich_recording):
    assert result.value == 42
    assert result.plan is rich_recording.plan
    assert result.machine["kernel"] == "6.18.0-test"
    assert result.duration_s == 1.0


def test_rates_default_to_100_ms(result):
    frame = result.rates()

    assert frame.shape == (10, 3)
    assert frame["sys_enter_read"].mean() == pytest.approx(40)


def test_repr_is_the_text_summary(result):
    assert repr(result) == result.summary()
    assert "50 hits" in repr(result)


def test_text_and_html_are_in_one_bundle(result):
    bundle = result._repr_mimebundle_()

    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == result.summary()

"""Rates over time: from events, from samples, and invalid steps."""

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.rates import point_labels, rates
from accel_magic.errors import ProbeError
from tests.support.errors import raises

MS = 1_000_000


def test_recorded_hits_are_counted_in_their_own_step(make_recording):
    recording = make_recording(
        ["kprobe:m:f", "kprobe:m:g"], [(0, 0), (99 * MS, 0), (100 * MS, 0), (250 * MS, 1)], duration_ns=300 * MS
    )

    frame = rates(recording, "100ms")

    assert list(frame["f"]) == pytest.approx([20.0, 10.0, 0.0])
    assert list(frame["g"]) == pytest.approx([0.0, 0.0, 10.0])
    assert list(frame.index) == [pd.Timedelta(0), pd.Timedelta("100ms"), pd.Timedelta("200ms")]


def test_rows_cover_the_whole_duration_and_the_last_is_divided_by_its_own_width(make_recording):
    recording = make_recording(events=[(240 * MS, 0)], duration_ns=250 * MS)

    frame = rates(recording, "100ms")

    assert list(frame["sys_enter_read"]) == pytest.approx([0.0, 0.0, 20.0])


def test_a_step_longer_than_the_trace_gives_one_row(make_recording):
    frame = rates(make_recording(events=[(1, 0)] * 7, duration_ns=500 * MS), "1h")

    assert list(frame["sys_enter_read"]) == pytest.approx([14.0])


def test_samples_are_spread_evenly_when_events_were_lost(make_recording):
    recording = make_recording(
        events=[(1, 0)],
        hits=[100],
        lost=[99],
        samples=([0, 50 * MS, 100 * MS], [[0], [80], [100]]),
        duration_ns=100 * MS,
    )

    frame = rates(recording, "25ms")

    assert list(frame["sys_enter_read"] * 0.025) == pytest.approx([40, 40, 10, 10])


def test_counting_mode_never_decodes_events(make_recording):
    def refuse():
        raise AssertionError

    recording = make_recording(hits=[10], event_count=0, load_events=refuse, plan={"mode": "count"})

    assert rates(recording, "1s")["sys_enter_read"].iloc[0] == pytest.approx(10)


def test_samples_can_be_requested_even_if_every_hit_was_recorded(make_recording):
    recording = make_recording(events=[(0, 0)] * 10)

    assert rates(recording, "500ms")["sys_enter_read"].iloc[0] == pytest.approx(20)
    assert rates(recording, "500ms", "samples")["sys_enter_read"].iloc[0] == pytest.approx(10)


@pytest.mark.parametrize("steps", [1, 3, 7, 64])
def test_all_hits_are_counted_for_any_step(make_recording, steps):
    rng = np.random.default_rng(steps)
    duration = 987_654_321
    events = [(int(time), int(time) % 2) for time in rng.integers(0, duration, 500)]
    recording = make_recording(["kprobe:m:f", "kprobe:m:g"], events, duration_ns=duration)
    step = -(-duration // steps)

    for source in ("auto", "samples"):
        frame = rates(recording, f"{step}ns", source)
        widths = np.diff([*frame.index.to_numpy().astype("m8[ns]").astype(int), duration]) / 1e9
        assert frame.mul(widths, axis=0).sum().sum() == pytest.approx(500)


@pytest.mark.parametrize("freq", ["", "fast", "0s", "-1ms", "1ME", None, 5])
def test_an_invalid_time_step_is_an_error(make_recording, freq):
    with raises("rates.bad-step", ProbeError) as error:
        rates(make_recording(), freq)

    assert "10ms" in error.value.fix


def test_a_step_too_small_for_memory_is_an_error(make_recording):
    with raises("rates.too-many-steps", ProbeError, match="1,000,000,000 rows") as error:
        rates(make_recording(), "1ns")

    assert "longer step" in error.value.fix


def test_labels_add_the_probe_and_then_the_id_only_where_names_collide(make_recording, make_point):
    points = [
        make_point(0, "kprobe:m:f"),
        make_point(1, "kretprobe:m:f"),
        make_point(2, "kprobe:m:g"),
        make_point(3, "kprobe:m:h*", function="h"),
        make_point(4, "kprobe:m:h*", function="h"),
    ]

    assert point_labels(make_recording(points).plan) == (
        "f (kprobe:m:f)",
        "f (kretprobe:m:f)",
        "g",
        "h (kprobe:m:h*) #3",
        "h (kprobe:m:h*) #4",
    )

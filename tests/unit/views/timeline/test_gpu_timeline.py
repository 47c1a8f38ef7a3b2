"""Launches and events of other traces in one order of time; nothing here touches the kernel."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel_magic
from accel_magic.analysis.gpu.timeline import TIMELINE, launch_calls
from accel_magic.api.gpu_recording import frame_of
from accel_magic.errors import ResultError
from accel_magic.recording.flame_data import FlameFacts
from accel_magic.recording.gpu_data import KERNELS, LAUNCHES, MODULES, SITES, GpuRecording
from tests.unit.conftest import point, recording

START = 5_000_000_000
"""CLOCK_MONOTONIC at which the recordings of `tests.unit.conftest` begin."""


def launches(*rows):
    """Launches of (tid, time_ns, host_ns)."""
    usual = {name: {"str": "", "bool": False}.get(kind, 1) for name, kind in LAUNCHES.items()} | {
        "name": "k",
        "framework": "add-on",
    }
    made = [usual | {"tid": tid, "time_ns": time_ns, "host_ns": host_ns} for tid, time_ns, host_ns in rows]
    return frame_of(made, LAUNCHES)


@pytest.fixture
def gpu():
    """Three launches: two of thread 100, one of thread 101; and one of a thread that is not known."""

    def make(start_ns=START - 1_000):
        made = launches((100, 2_000, 500), (101, 2_100, 800), (100, 6_000, 50), (pd.NA, 2_000, 9_000))
        return accel_magic.GpuResult(
            GpuRecording(
                sources=("mine.bpf.c",), device="simulated device", multiprocessors=4,
                started="2026-11-21T12:00:00+00:00", start_ns=start_ns, duration_ns=10_000, threads=1,
                kernels=frame_of([], KERNELS), modules=frame_of([], MODULES), launches=made, sites=frame_of([], SITES),
                maps=(), printed=(), findings=(), outcome="ok", notes=(), machine={},
            )
        )  # fmt: skip

    return make


@pytest.fixture
def traced():
    """Hits of two functions, of the threads 100 and 101: times 1 us later on the base of the launches."""
    points = [point(0, "tracepoint:syscalls:sys_enter_read"), point(1, "latency:uprobe:/lib/x:f")]
    events = [(900, 0), (1_000, 0), (1_499, 0), (1_500, 0), (1_550, 1, 30), (5_000, 0)]
    return accel_magic.TraceResult(recording(points, events))


def test_rows_are_in_order_of_time_and_events_know_the_launch_of_their_thread(gpu, traced):
    frame = gpu().timeline(traced)

    assert frame.dtypes.astype("str").to_dict() == TIMELINE
    rows = frame[["time_ns", "trace", "name", "launch", "row"]].astype({"launch": "object"})
    assert [tuple(row) for row in rows.itertuples(index=False)] == [
        (1_900, "ktrace", "sys_enter_read", pd.NA, 0),
        (2_000, "gputrace", "k", 0, 0),
        (2_000, "gputrace", "k", 3, 3),
        (2_000, "ktrace", "sys_enter_read", 0, 1),
        (2_100, "gputrace", "k", 1, 1),
        (2_499, "ktrace", "sys_enter_read", 0, 2),
        (2_500, "ktrace", "sys_enter_read", pd.NA, 3),
        (2_550, "ktrace", "f", 1, 4),
        (6_000, "gputrace", "k", 2, 2),
        (6_000, "ktrace", "sys_enter_read", 2, 5),
    ]
    assert frame.loc[7, "duration_ns"] == 30
    assert frame.loc[[1, 2], "duration_ns"].tolist() == [500, 9_000]
    assert frame["duration_ns"].isna().sum() == 5
    assert frame["tid"].tolist()[:4] == [100, 100, pd.NA, 100]


def test_without_another_trace_it_has_the_launches_alone(gpu):
    frame = gpu().timeline()

    assert frame["row"].tolist() == [0, 3, 1, 2]
    assert set(frame["trace"]) == {"gputrace"}


def test_several_traces_and_a_flame_are_put_together(gpu, traced):
    flame = accel_magic.FlameResult(recording([point(0, "profile:hz:99")], [(1_200, 0)], flame=FlameFacts(99)))

    frame = gpu().timeline(traced, flame)

    assert frame["trace"].value_counts().to_dict() == {"ktrace": 6, "gputrace": 4, "flame": 1}
    (sample,) = frame[frame["trace"] == "flame"].itertuples()
    assert (sample.time_ns, sample.launch) == (2_200, 0)


def test_events_from_before_the_gpu_trace_have_negative_times(gpu, traced):
    frame = gpu(START + 1_200).timeline(traced)

    assert frame["time_ns"].iloc[0] == 900 - 1_200


def test_traces_of_different_times_and_results_without_events_are_refused(gpu, traced):
    later = accel_magic.TraceResult(replace(traced.recording, start_ns=START + 20_000))
    earlier = accel_magic.TraceResult(replace(traced.recording, start_ns=START - 2_000_000_000))
    for other, code in [(later, "result.not-together"), (earlier, "result.not-together"), (gpu(), "result.no-events")]:
        with pytest.raises(ResultError) as caught:
            gpu().timeline(other)
        assert caught.value.code == code
        assert caught.value.fix


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 60), st.integers(0, 9)), max_size=12),
    st.lists(st.tuples(st.integers(1, 4), st.integers(-5, 90)), max_size=20),
)
def test_the_launch_under_way_is_the_one_whose_call_holds_the_time(made, events):
    free, kept = {}, []
    for tid, pause, length in made:  # a thread launches one kernel after the other
        start = free.get(tid, 0) + pause
        free[tid] = start + length
        kept.append((tid, start, length))
    tids, times = (np.array([event[part] for event in events], np.int64) for part in (0, 1))

    found = launch_calls(launches(*kept), tids, times)

    for tid, time, row in zip(tids, times, found, strict=True):
        inside = [n for n, (own, start, length) in enumerate(kept) if own == tid and start <= time < start + length]
        assert [int(row)] == (inside or [-1])


def test_the_figure_has_a_row_for_each_thread_of_the_other_trace(gpu, traced):
    plot = gpu().figure("timeline", beside=traced)

    rows = list(plot.yaxis[0].major_label_overrides.values())
    assert rows == [
        "ktrace, thread 100",
        "ktrace, thread 101",
        "add-on, thread 100",
        "add-on, thread 101",
        "launches, add-on",
    ]
    (item,) = [item for item in plot.legend[0].items if item.label.value == "ktrace"]
    data = item.renderers[0].data_source.data
    assert sorted(data["left"]) == pytest.approx([0.0019, 0.002, 0.002499, 0.0025, 0.00255, 0.006])
    assert sorted(data["about"]) == ["", "", "during launch 0", "during launch 0", "during launch 1", "during launch 2"]
    with pytest.raises(ResultError):
        gpu().figure("kernelcount", beside=traced)


def test_of_very_many_events_the_figure_draws_some_and_says_how_many(gpu):
    many = accel_magic.TraceResult(recording(events=[(at, 0) for at in range(25_000)], duration_ns=30_000))

    plot = gpu().figure("timeline", beside=many)

    (item,) = [item for item in plot.legend[0].items if item.label.value == "ktrace"]
    assert len(item.renderers[0].data_source.data["left"]) == 8334
    assert "1 in 3 events" in plot.title.text

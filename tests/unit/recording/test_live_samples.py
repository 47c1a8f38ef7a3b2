"""Live samples have the points of the plan that the display knows, whatever became of them when they were attached."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest

from accel_magic import codec
from accel_magic.probes.plan import ProbePoint
from accel_magic.recording.live_samples import LiveFeed
from accel_magic.recording.reader.reader_messages import Sample
from accel_magic.views.live.trace_row import LiveHistory
from tests.support.plans import plan_of


def sent(traced, planned, **values):
    """What a display gets of one sample."""
    got, came = [], threading.Event()

    def show(samples):
        got.extend(samples)
        came.set()

    feed = LiveFeed(traced, show, planned=planned)
    feed.start()
    try:
        codec.send_packet(feed.theirs, Sample(**{"time_ns": 10**9, "sent_ns": 0, "recorded": 3, "lost": 1, **values}))
        assert came.wait(60)
    finally:
        feed.stop()
    return got[0]


@pytest.fixture
def planned():
    names = ("futex", "infer", "wait", "infer")
    places = [(number, f"uprobe:lib:{name}", "uprobe", "lib.so", name) for number, name in enumerate(names)]
    return plan_of([ProbePoint(*place, offset=place[0] // 3) for place in places])


def test_points_that_could_not_be_attached_have_no_hits(planned):
    first, _, third, fourth = planned.points
    traced = planned.with_points([replace(third, id=0, way="patched"), replace(first, id=1), replace(fourth, id=2)])
    sample = sent(traced, planned, hits=(30, 10, 40), totals=(3, 1, 4), latency=())
    assert sample.hits.tolist() == [10, 0, 30, 40]
    assert sample.totals.tolist() == [1, 0, 3, 4]


def test_the_row_of_the_plan_can_draw_them(planned):
    traced = planned.with_points(replace(one, id=at) for at, one in enumerate(planned.points[1:]))
    sample = sent(traced, planned, hits=(1, 2, 3), totals=(), latency=())
    history = LiveHistory(planned)
    history.add(sample)
    state = history.state(sample)
    assert state.rate == pytest.approx(6)
    assert sample.totals.tolist() == []


def test_latencies_have_the_names_of_what_is_traced(planned):
    measured = planned.with_points(replace(one, latency=True) for one in planned.points)
    traced = measured.with_points(replace(one, id=at) for at, one in enumerate(measured.points[2:]))
    sample = sent(traced, measured, hits=(1, 2), totals=(0, 0), latency=((5.0, 9.0), (math.nan, math.nan)))
    assert [one.label for one in sample.latency] == ["wait", "infer"]
    assert np.array_equal(sample.hits, [0, 0, 1, 2])

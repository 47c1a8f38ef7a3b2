"""The live row of a flame trace: samples, share of a processor, waits, losses."""

import re

import numpy as np
import pytest

from accel_magic.recording.live_samples import LiveSample
from accel_magic.views.live.flame_row import FlameRow, waiting_row


@pytest.fixture
def drawn(maker, make_point):
    """HTML of a row after these samples (time_ns, hits, lost), without its style."""

    def draw(*samples, banners=()):
        shown = []
        row = FlameRow(maker.make(make_point(2, "latency:kprobe:m:f")).plan, banners)
        row.draw = shown.append
        for time_ns, hits, lost in samples:
            row.update(LiveSample(time_ns, np.array(hits, np.uint64), recorded=sum(hits), lost=lost))
        return [html.rpartition("</style>")[2] for html in shown]

    return draw


def text(html):
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", html)).strip()


def test_it_shows_samples_busy_processors_waits_calls_and_losses(drawn):
    # At 100 Hz, 10 samples in 0.2 s are half a processor, and 40 in 0.4 s a whole one.
    first, second = map(text, drawn((200_000_000, [10, 3, 7], 0), (400_000_000, [40, 5, 9], 0)))

    assert first == "200 ms 10 samples 50 % on CPU 100/s each busy processor 3 waits 7 calls 0 lost " + STALLED
    assert second == "400 ms 40 samples 100 % on CPU 100/s each busy processor 5 waits 9 calls 0 lost " + STALLED


def test_losses_are_an_alarm_and_banners_come_first(drawn, maker):
    (html,) = drawn((200_000_000, [10, 0, 0], 5), banners=("REPLAY: recorded on x",))

    assert text(html).startswith("REPLAY: recorded on x")
    assert re.search(r'class="am-alarm">5 lost', html)


def test_the_thread_samplers_row_names_the_sampler():
    assert "a thread of this process" in waiting_row(())._first


STALLED = "stalled: the workload holds the GIL"

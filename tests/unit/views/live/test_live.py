"""The live row: rates from samples, the drawing, and its removal."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from accel_magic import demangle
from accel_magic.recording.live_samples import LiveLatency, LiveSample
from accel_magic.views.live.trace_row import STALLED, LiveHistory, LiveRow, LiveState, render, sparkline
from tests.every_step import lines_run

MS = 1_000_000
STATE = LiveState(
    elapsed_ns=12_300 * MS,
    rate=4.5e6,
    rates=(1.0, 2.0),
    probes=(("kprobe:m:f", 4e6), ("kprobe:m:g", 5e5)),
    more_probes=0,
    recorded=1_200_000,
    lost=0,
    latency=(LiveLatency("malloc", 900.0, 12_345.0),),
)


def sample(time_ms, *hits, **fields):
    counts = np.array(hits, np.uint64)
    return LiveSample(time_ms * MS, counts, **{"recorded": int(counts.sum()), "lost": 0, **fields})


def history_of(plan, *samples):
    history = LiveHistory(plan)
    for each in samples:
        history.add(each)
    return history.state(samples[-1])


def test_rates_between_samples_make_the_sparkline(make_recording):
    state = history_of(make_recording().plan, sample(100, 10), sample(200, 40), sample(400, 40))

    assert state.rates == pytest.approx((100, 300, 0))


def test_a_sample_right_after_another_adds_no_rate(make_recording):
    state = history_of(make_recording().plan, sample(1, 50), sample(100, 60), sample(119, 90), sample(200, 120))

    assert state.rates == pytest.approx((600, 600))


def test_the_rate_is_measured_over_the_last_half_second(make_recording):
    state = history_of(
        make_recording().plan, sample(1000, 9000), sample(1500, 9000), sample(1800, 9030), sample(2000, 9100)
    )

    assert state.rate == pytest.approx(100 / 0.5)


def test_hits_are_grouped_by_probe(make_recording, make_point):
    points = [make_point(i, "kprobe:m:f*", function=f"f{i}") for i in range(3)] + [make_point(3, "kprobe:x:g")]

    state = history_of(make_recording(points).plan, sample(500, 1, 2, 3, 10))

    assert dict(state.probes) == pytest.approx({"kprobe:m:f*": 12, "kprobe:x:g": 20})
    assert state.rate == pytest.approx(32)


def test_only_the_six_busiest_probes_are_shown(make_recording):
    plan = make_recording([f"kprobe:m:f{i}" for i in range(9)]).plan

    state = history_of(plan, sample(500, *range(9)))

    assert [probe for probe, _ in state.probes] == [f"kprobe:m:f{i}" for i in range(3, 9)]
    assert state.more_probes == 3


def test_only_the_last_60_rates_are_kept(make_recording):
    state = history_of(make_recording().plan, *(sample(100 * i, i) for i in range(1, 200)))

    assert len(state.rates) == 60


def test_a_repeated_or_older_sample_changes_nothing(make_recording):
    state = history_of(make_recording().plan, sample(500, 50), sample(500, 50), sample(400, 40), sample(1000, 100))

    assert state.rates == pytest.approx((100, 100))


def test_hits_at_time_zero_do_not_divide_by_zero(make_recording):
    state = history_of(make_recording().plan, sample(0, 0))

    assert (state.rate, state.rates) == (0, ())
    assert "0/s" in render(state)


def test_the_row_shows_elapsed_rate_probes_events_and_latency():
    html = render(STATE)

    for text in ("12.3 s", "4.5 M/s", "kprobe:m:f", "4 M/s", "500 k/s", "1.2 M", "0 lost", "900 ns", "12.3 us", "<svg"):
        assert text in html


def test_a_single_probe_is_not_listed_beside_the_total():
    assert "kprobe:m:f" not in render(replace(STATE, probes=STATE.probes[:1]))


def test_losses_are_marked_only_when_there_are_any():
    assert '<span class="am-alarm">7 lost' in render(replace(STATE, lost=7))
    assert 'class="am-alarm"' not in render(STATE)


def test_counting_mode_shows_neither_events_nor_losses(make_recording):
    state = history_of(make_recording(plan={"mode": "count"}).plan, sample(500, 1))

    assert state.recorded is None
    assert "lost" not in render(state)


def test_the_browser_itself_marks_the_row_as_stalled():
    html = render(STATE)

    assert f'<span class="am-stalled">{STALLED}</span>' in html
    assert "visibility:hidden;animation:am-stall 0s 1.5s forwards" in html


def test_a_late_sample_is_marked(make_recording):
    plan = make_recording().plan

    assert "shown 2.5 s late" in render(history_of(plan, sample(500, 1, behind_s=2.5)))
    assert " late:" not in render(history_of(plan, sample(500, 1, behind_s=0.9)))


def test_names_are_escaped():
    evil = "<script>'\""
    state = replace(
        STATE, probes=((evil, 1.0), ("b", 2.0)), latency=(LiveLatency(evil, 1, 1),), banners=(evil, "NPU LAB")
    )

    assert "<script" not in render(state)
    assert '<span class="am-banner">&lt;script&gt;' in render(state)


def test_names_are_read_before_the_trace_begins(make_recording, make_point, monkeypatch):
    symbol = "_ZN9live_view5namedEv"
    row = LiveRow(make_recording([make_point(0, f"latency:uprobe:/lib/x.so:{symbol}")]).plan)
    monkeypatch.setattr(demangle, "_ask", lambda symbols: pytest.fail("asked during the trace"))
    row.update()

    state = LiveState(0, 0.0, (), (), 0, None, 0, (LiveLatency(symbol, 1.0, 2.0),))
    assert "live_view::named()" in render(state)


def test_the_sparkline_ends_at_the_right_edge_and_reaches_its_top_at_the_highest_rate():
    points = sparkline((0.0, 50.0, 100.0)).split('points="')[1].split('"')[0].split()

    assert points == ["116,17.0", "118,9.5", "120,2.0"]


def test_drawing_time_does_not_grow_with_functions_or_trace_length(make_recording):
    def lines(functions):
        """Of Python for each drawing, in turn."""
        history = LiveHistory(make_recording([f"kprobe:m:f{i}" for i in range(functions)]).plan)

        def draw(i):
            each = sample(200 * i, *[i * 7] * functions, latency=(LiveLatency("f", 1e3, 1e6),) * 4)
            history.add(each)
            render(history.state(each))

        return [lines_run(lambda i=i: draw(i)) for i in range(1, 300)]

    few, many = lines(50), lines(5000)
    assert max(many) < max(few) + 50
    assert max(few[200:]) <= max(few[:200])


@pytest.fixture
def notebook(monkeypatch):
    """Mock of the front end: records what was displayed and updated."""
    seen = SimpleNamespace(widgets=[], changes=[])

    def display(widget, *, display_id):
        assert display_id
        seen.widgets.append(widget)
        return SimpleNamespace(update=lambda data, raw: seen.changes.append((data, raw)))

    monkeypatch.setattr("IPython.display.display", display)
    return seen


def test_one_widget_is_displayed_updated_and_removed_at_the_end(notebook, make_recording):
    row = LiveRow(make_recording().plan)
    row.open()
    [widget] = notebook.widgets
    row.update(sample(500, 50))

    assert type(widget).__name__ == "HTML"
    assert "100/s" in widget.value

    row.close()
    assert widget.comm is None
    assert notebook.changes == [({"text/plain": ""}, True)]


def test_a_banner_is_shown_before_the_first_sample(notebook, make_recording):
    row = LiveRow(make_recording().plan, ("REPLAY: <recorded>",))
    row.open()

    assert '<span class="am-banner">REPLAY: &lt;recorded&gt;</span>' in notebook.widgets[0].value


def test_late_samples_are_all_added_to_the_sparkline(notebook, make_recording):
    row = LiveRow(make_recording().plan)
    row.open()
    row.update(*(sample(100 * i, 10 * i * i) for i in range(1, 6)))

    assert notebook.widgets[0].value.split('points="')[1].split('"')[0].count(",") == 5


def test_updates_after_the_end_and_a_second_close_do_nothing(notebook, make_recording):
    row = LiveRow(make_recording().plan)
    row.update(sample(100, 1))
    row.open()
    row.close()
    row.update(sample(200, 2))
    row.close()

    assert len(notebook.changes) == 1
    assert "hits" not in notebook.widgets[0].value

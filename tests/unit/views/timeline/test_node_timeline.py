"""The timeline of many nodes: bars are where the events are, and margins are the clocks' errors."""

import pandas as pd
import pytest

from accel_magic.views.timeline import node_timeline
from tests.support.errors import raises

COLUMNS = ["time_ns", "duration_ns", "function", "node"]


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS).astype({"function": "category", "node": "category"})


@pytest.fixture
def events():
    return frame([(0, 50.0, "f", "a"), (100, float("nan"), "g", "b"), (120, 30.0, "f", "b"), (500, 5.0, "f", "c")])


def bars(plot, left="left", right="right"):
    """(row, begin, end) of every bar."""
    found = []
    for one in plot.renderers:
        if one.glyph.left == left:
            data = one.data_source.data
            rows = (data["top"] + data["bottom"]) / 2
            found += list(zip(rows, data[left], data[right], strict=True))
    return sorted(found)


def test_every_event_is_a_bar_in_its_nodes_row_with_the_error_around_it(events):
    plot = node_timeline.timeline(events, {"a": 0, "b": 20, "c": None})

    assert bars(plot) == [(0, 0, 50), (1, 100, 100), (1, 120, 150), (2, 500, 505)]
    assert bars(plot, "early", "late") == [(0, 0, 50), (1, 80, 120), (1, 100, 170), (2, 500, 505)]
    assert plot.yaxis[0].major_label_overrides == {0: "a", 1: "b", 2: "c"}
    (grey,) = [one for one in plot.center if type(one).__name__ == "BoxAnnotation"]
    assert (grey.bottom, grey.top) == (1.5, 2.5)
    began = {text for one in plot.renderers for text in one.data_source.data["began"]}
    assert began == {"0 ns", "100 ns ± 20 ns", "120 ns ± 20 ns", "500 ns, its clock's error is unknown"}


def test_of_too_many_events_the_longest_are_drawn_and_hits_evenly(monkeypatch):
    monkeypatch.setattr(node_timeline, "MOST_BARS", 10)
    rows = [(at, float("nan"), "hit", "a") for at in range(1000)] + [(at, 7.0, "call", "a") for at in range(4)]
    plot = node_timeline.timeline(frame(rows), {"a": 0})

    drawn = bars(plot)
    assert [(begin, end) for _, begin, end in drawn if end > begin] == [(at, at + 7) for at in range(4)]
    hits = [begin for _, begin, end in drawn if end == begin]
    assert len(hits) == 6
    assert (hits[0], hits[-1]) == (0, 999)
    assert "the 10 longest of 1,004 events" in plot.title.text


def test_functions_beyond_the_colors_are_drawn_together(events):
    rows = [(at, 100.0 - at, f"f{at}", "a") for at in range(12)]
    plot = node_timeline.timeline(frame(rows), {"a": 0})

    assert len(bars(plot)) == 12
    (legend,) = [one for one in plot.below if type(one).__name__ == "Legend"]
    assert [item.label.value for item in legend.items] == [*(f"f{at}" for at in range(7)), "others"]


def test_without_events_there_is_nothing_to_draw(events):
    with raises(code="result.empty-figure", match="nothing to draw"):
        node_timeline.timeline(events.iloc[:0], {"a": 0})

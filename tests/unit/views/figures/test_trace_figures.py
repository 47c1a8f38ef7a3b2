"""The Bokeh figures of a trace, read back from the models."""

import numpy as np
import pytest
from bokeh.models import Plot

from accel_magic.errors import ResultError
from accel_magic.results.trace_result import TraceResult
from accel_magic.views.figures import plotting, ticks, trace_figures
from accel_magic.views.figures.plotting import PALETTE
from tests.support.errors import raises


@pytest.fixture
def result(rich_recording):
    return TraceResult(rich_recording)


def sources(plot):
    return [renderer.data_source.data for renderer in plot.renderers]


def test_an_unknown_kind_is_rejected_with_the_known_kinds(result):
    with raises("result.no-figure", ResultError) as error:
        result.figure("pie")

    assert "hits, latency, rate" in error.value.fix


@pytest.mark.parametrize("kind", ["hits", "latency", "rate"])
def test_every_figure_is_transparent_responsive_and_without_a_logo(result, kind):
    plot = result.figure(kind)

    assert isinstance(plot, Plot)
    assert (plot.background_fill_alpha, plot.border_fill_alpha) == (0, 0)
    assert plot.sizing_mode == "stretch_width"
    assert plot.toolbar.logo is None
    assert plot.toolbar.tools[0].tooltips


@pytest.mark.parametrize("kind", ["hits", "latency", "rate"])
def test_an_empty_figure_is_an_error(make_recording, kind):
    result = TraceResult(make_recording(["latency:kprobe:m:f"]))

    with raises("result.empty-figure", ResultError):
        result.figure(kind)


def test_latency_without_a_latency_probe_says_how_to_get_one(make_recording):
    with raises("result.empty-figure", ResultError) as error:
        TraceResult(make_recording(events=[(1, 0)])).figure("latency")

    assert "latency:SPEC" in error.value.fix


def test_bars_are_the_exact_hits_of_the_20_busiest_functions(make_recording):
    hits = np.arange(30)
    result = TraceResult(make_recording([f"kprobe:m:f{i}" for i in range(30)], hits=hits, event_count=0))

    [bars] = sources(result.figure("hits"))

    assert bars["name"] == [f"f{i}" for i in range(29, 9, -1)]
    assert bars["hits"] == list(range(29, 9, -1))
    assert bars["exact"][0] == "29"


def test_a_function_never_hit_has_no_bar(result):
    [bars] = sources(result.figure("hits"))

    assert bars["name"] == ["sys_enter_read", "malloc"]


def test_the_histogram_distributes_all_calls_over_their_durations(make_recording):
    durations = [3, 100, 1000, 1000, 1_000_000]
    result = TraceResult(make_recording(["latency:kprobe:m:f"], hits=[5], durations={0: durations}))

    bars, _ = sources(result.figure("latency"))

    assert sum(bars["share"]) == pytest.approx(100)
    for duration, share in ((3, 20), (1000, 40), (1_000_000, 20)):
        [bucket] = np.flatnonzero((bars["left"] <= duration) & (duration < bars["right"]))
        assert bars["share"][bucket] == pytest.approx(share)
    assert list(bars["left"][1:]) == list(bars["right"][:-1])


def test_ticks_of_a_wide_histogram_are_powers_of_ten_with_units(make_recording):
    recording = make_recording(["latency:kprobe:m:f"], hits=[2], durations={0: [500, 50_000_000]})

    [axis] = TraceResult(recording).figure("latency").xaxis

    texts = [axis.major_label_overrides[int(tick)] for tick in axis.ticker.ticks]
    assert texts == ["1 us", "10 us", "100 us", "1 ms", "10 ms"]


@pytest.mark.parametrize("durations", [[700], [700, 750], [1], [0], [10**13]])
def test_a_narrow_histogram_still_has_a_tick(make_recording, durations):
    recording = make_recording(["latency:kprobe:m:f"], hits=[len(durations)], durations={0: durations})

    [axis] = TraceResult(recording).figure("latency").xaxis

    assert axis.ticker.ticks


def test_rate_lines_add_up_to_the_hits(result):
    lines = {data["name"][0]: data for data in sources(result.figure("rate"))}

    assert set(lines) == {"sys_enter_read", "malloc"}
    assert sum(lines["sys_enter_read"]["rate"]) * 0.01 == pytest.approx(40)
    assert sum(lines["malloc"]["rate"]) * 0.01 == pytest.approx(10)


def test_the_rate_of_many_events_is_computed_from_the_samples(make_recording, monkeypatch):
    def refuse():
        raise AssertionError

    monkeypatch.setattr(trace_figures, "EVENTS_TO_BIN", 10)
    recording = make_recording(hits=[100], event_count=100, load_events=refuse)

    [line] = sources(TraceResult(recording).figure("rate"))

    assert line["rate"] == pytest.approx(np.full(100, 100.0))


def test_at_most_eight_lines_are_drawn_in_different_colors(make_recording):
    points = [f"latency:kprobe:m:f{i}" for i in range(12)]
    result = TraceResult(make_recording(points, hits=range(1, 13), durations={i: [100] * (12 - i) for i in range(12)}))

    for kind in ("latency", "rate"):
        [legend] = result.figure(kind).legend
        colors = [item.renderers[0].glyph.line_color for item in legend.items]
        dashes = [str(item.renderers[0].glyph.line_dash) for item in legend.items]
        assert len(colors) == 8
        assert len(set(zip(colors, dashes, strict=True))) == 8
        assert set(colors) <= set(PALETTE)


def test_a_function_has_one_style_in_all_figures_and_no_other_has_it(make_recording):
    # Those with most calls have the fewest hits: sixteen functions have lines, and six only a bar.
    points = [f"latency:kprobe:m:f{i}" for i in range(22)]
    durations = {i: [100] * (i + 1) for i in range(22)}
    result = TraceResult(make_recording(points, hits=range(122, 100, -1), durations=durations))
    styles = {}
    for kind in ("latency", "rate"):
        plot = result.figure(kind)
        for item in plot.legend[0].items:
            line = item.renderers[0].glyph
            style = (line.line_color, "dashed" if line.line_dash else "solid")
            assert styles.setdefault(str(item.label.value), style) == style
    assert len(styles) == len(set(styles.values())) == 16

    [bars] = sources(result.figure("hits"))

    of_bars = dict(zip(bars["name"], zip(bars["color"], bars["hatch"], strict=True), strict=True))
    for name, (color, dash) in styles.items():
        if name in of_bars:  # the busiest twenty
            assert of_bars[name] == (color, " " if dash == "solid" else "right_diagonal_line")
    assert {of_bars[name] for name in of_bars.keys() - styles.keys()} == {(plotting.GREY, " ")}


def test_bars_that_a_linear_axis_would_hide_are_on_a_logarithmic_one(make_recording):
    points = [f"kprobe:m:f{i}" for i in range(3)]
    near, far = (
        TraceResult(make_recording(points, hits=hits, event_count=0)).figure("hits")
        for hits in ([120_000, 5000, 1300], [120_000, 5000, 1])
    )

    assert (type(near.x_scale).__name__, near.xaxis[0].axis_label) == ("LinearScale", "hits")
    assert (type(far.x_scale).__name__, far.xaxis[0].axis_label) == ("LogScale", "hits (logarithmic)")
    assert far.x_range.start < 1
    assert far.xaxis[0].ticker.ticks[0] == 1


def test_a_figure_displays_itself_only_in_a_notebook(result, monkeypatch):
    plot = result.figure("hits")
    assert set(plot._repr_mimebundle_()) == {"text/plain"}

    monkeypatch.setattr(plotting, "has_kernel", lambda: True)
    monkeypatch.setattr(plotting, "scripts", lambda: "<script>bokehjs</script>")
    html = plot._repr_mimebundle_()["text/html"]

    assert html.startswith("<script>bokehjs</script>")
    assert "data-accel-magic-figure" in html


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        (10, [0, 2, 4, 6, 8, 10]), (0.3, [0, 0.1, 0.2, 0.3]), (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (7, [0, 2, 4, 6]), (2_345_678, [0, 500_000, 1_000_000, 1_500_000, 2_000_000]), (0, [0]),
    ],
)  # fmt: skip
def test_linear_ticks_are_round_numbers_from_zero(highest, expected):
    assert ticks.linear_ticks(highest) == expected

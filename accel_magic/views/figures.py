"""Bokeh figures of a result: hits per function, latency histograms, rates over time.

They stand on the notebook's own background, light or dark: transparent, with mid-grey text and colours that
colour-blind readers tell apart (Okabe and Ito's, without the yellow that white paper swallows).
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HBar, HoverTool, Line, Quad
from bokeh.models.annotations import Legend, LegendItem
from bokeh.plotting import figure as bokeh_figure

from accel_magic.errors import ProbeError
from accel_magic.traces import buckets
from accel_magic.traces.rates import check_timed, point_labels, rates
from accel_magic.views.bokehjs import figure_html, has_kernel, scripts
from accel_magic.views.format import count_text, duration_text, exact_text, rate_text, shortened
from accel_magic.views.names import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bokeh.models import Plot
    from numpy.typing import NDArray

    from accel_magic.traces.result import TraceResult

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#8c6bb1")
GREY = "#808080"
WIDTH, HEIGHT, MAX_WIDTH = 380, 240, 640
TOP_BARS, TOP_LINES = 20, len(PALETTE)
LABEL_WIDTH = 26
LEGEND_WIDTHS = {2: 22, 3: 15}
"""Characters of a legend's entry by the number of columns, so that all of them fit into the figure."""
RATE_STEPS = 100
EVENTS_TO_BIN = 200_000
"""Above so many events the rate figure reads the samples: decoding events must not hold up the end of a cell."""


def figure(result: TraceResult, kind: str) -> Plot:
    """Draw one figure, about 380 x 240, as wide as its place allows.

    Args:
        result: What to draw.
        kind: `"hits"`: a bar per function, the 20 with most hits; `"latency"`: a histogram per measured function, the 8
            with most calls; `"rate"`: hits/s over time, the 8 functions with most hits; `"timeline"`: the layers of an
            NPU trace, as wide as its place, with tables below (`views.timeline`).

    Returns:
        A Bokeh figure, which also displays itself in a notebook.

    Raises:
        ProbeError: No such kind, or nothing of that kind was recorded.

    """
    if kind not in KINDS:
        raise ProbeError(f"no figure of kind {kind!r}", fix=f"choose one of {', '.join(sorted(KINDS))}")
    plot: Any = KINDS[kind](result)
    # Bokeh's own display needs output_notebook() and a network. An underscored attribute is no Bokeh property.
    plot._repr_mimebundle_ = partial(_mimebundle, plot)
    drawn: Plot = plot
    return drawn


def _mimebundle(plot: Any, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG001
    html = {"text/html": scripts() + figure_html(plot)} if has_kernel() else {}
    return {"text/plain": repr(plot), **html}


def _hits(result: TraceResult) -> Any:
    fired = [point for point in _by_hits(result) if result.recording.hits[point]]
    order = fired[:TOP_BARS]
    if not order:
        raise ProbeError("no hits to draw", why="none of the probes fired")
    labels = tuple(map(readable, point_labels(result.plan)))
    hits = [int(result.recording.hits[point]) for point in order]
    names = [labels[point] for point in order]
    rows = list(range(len(order)))
    data: dict[str, Any] = {
        "row": rows,
        "hits": hits,
        "color": [PALETTE[row % len(PALETTE)] for row in rows],
        "name": names,
        "exact": [exact_text(count) for count in hits],
        "rate": [rate_text(count / max(result.recording.duration_ns / 1e9, 1e-9)) for count in hits],
    }
    plot = _frame(
        "Hits per function" + (f", top {TOP_BARS} of {exact_text(len(fired))}" if len(fired) > TOP_BARS else ""),
        x_range=(0, max(hits) * 1.05),
        y_range=(max(len(order), 4) - 0.4, -0.6),
    )
    bars = plot.add_glyph(
        ColumnDataSource(data),
        HBar(y="row", right="hits", height=0.72, fill_color="color", fill_alpha=0.85, line_color=None),
    )
    tips = [("function", "@name"), ("hits", "@exact")]
    _hover(plot, [bars], [*tips, ("rate", "@rate")] if result.recording.timed else tips)
    _ticks(plot.xaxis, _linear_ticks(max(hits)), count_text)
    plot.yaxis.ticker = FixedTicker(ticks=rows, minor_ticks=[])
    plot.yaxis.major_label_overrides = {row: shortened(name, LABEL_WIDTH) for row, name in enumerate(names)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    if len(order) > TOP_BARS // 2:
        plot.yaxis.major_label_text_font_size = "8px"
    return plot


def _latency(result: TraceResult) -> Any:
    histograms = result.recording.histograms
    points = result.plan.latency_points
    calls = histograms.counts.sum(axis=1)
    order = [row for row in np.argsort(-calls.astype(np.int64), kind="stable") if calls[row]][:TOP_LINES]
    if not order:
        raise ProbeError(
            "no latencies to draw",
            why="no measured call ended" if points else "no probe measures a latency",
            fix="" if points else "trace with latency:SPEC",
        )
    labels = tuple(map(readable, point_labels(result.plan)))
    colors = _colors(result, [points[row].id for row in order])
    plot = _frame("Latency", x_axis_type="log")
    drawn, lows, highs, tallest = [], [], [], 0.0
    for row, color in zip(order, colors, strict=True):
        edges, counts = _coarse(histograms.counts[row])
        share = 100 * counts / calls[row]
        name = labels[points[row].id]
        source = ColumnDataSource(
            {
                "left": edges[:-1],
                "right": edges[1:],
                "share": share,
                "name": [name] * len(share),
                "calls": [exact_text(int(count)) for count in counts],
                "from": [duration_text(edge) for edge in edges[:-1]],
                "to": [duration_text(edge) for edge in edges[1:]],
            }
        )
        area = plot.add_glyph(
            source,
            Quad(left="left", right="right", bottom=0, top="share", fill_color=color, fill_alpha=0.13, line_color=None),
        )
        steps: dict[str, Any] = {"x": np.repeat(edges, 2), "y": np.concatenate([[0], np.repeat(share, 2), [0]])}
        outline = plot.add_glyph(ColumnDataSource(steps), Line(line_color=color, line_width=1.6))
        drawn.append((name, [outline, area]))
        lows.append(edges[0])
        highs.append(edges[-1])
        tallest = max(tallest, float(share.max()))
    _hover(
        plot,
        [area for _, (_, area) in drawn],
        [("function", "@name"), ("duration", "@from to @to"), ("calls", "@calls (@share{0.0} %)")],
    )
    low, high = min(lows), max(highs)
    plot.x_range.start, plot.x_range.end = low / 1.15, high * 1.15
    plot.y_range.start, plot.y_range.end = 0, tallest * 1.08
    _ticks(plot.xaxis, _log_ticks(low / 1.15, high * 1.15), duration_text)
    _ticks(plot.yaxis, _linear_ticks(tallest), "{:g}".format)
    plot.yaxis.axis_label = "% of calls"
    _legend(plot, [(name, renderers) for name, renderers in drawn])
    return plot


def _rate(result: TraceResult) -> Any:
    recording = result.recording
    order = [point for point in _by_hits(result) if recording.hits[point]][:TOP_LINES]
    if not order:
        raise ProbeError("no rates to draw", why="none of the probes fired")
    check_timed(recording, "rates")
    few = recording.event_count <= EVENTS_TO_BIN
    step = max(math.ceil(recording.duration_ns / RATE_STEPS), 1)
    frame = rates(recording, f"{step}ns", "auto" if few else "samples")
    times = np.append(frame.index.to_numpy().astype(np.int64), recording.duration_ns) / 1e9
    middles = (times[:-1] + times[1:]) / 2
    labels = tuple(map(readable, point_labels(result.plan)))
    tallest = float(frame.to_numpy()[:, order].max())
    plot = _frame("Rate", x_range=(0, max(result.duration_s, 1e-9)), y_range=(0, tallest * 1.08))
    drawn = []
    for point, color in zip(order, PALETTE, strict=False):
        rate = frame.iloc[:, point].to_numpy()
        source: dict[str, Any] = {
            "time": middles,
            "rate": rate,
            "name": [labels[point]] * len(rate),
            "at": [duration_text(time * 1e9) for time in middles],
            "text": [rate_text(value) for value in rate],
        }
        line = plot.add_glyph(ColumnDataSource(source), Line(x="time", y="rate", line_color=color, line_width=1.6))
        drawn.append((labels[point], [line]))
    _hover(
        plot,
        [line for _, (line,) in drawn],
        [("function", "@name"), ("time", "@at"), ("rate", "@text")],
        line_policy="nearest",
    )
    _ticks(plot.xaxis, _linear_ticks(result.duration_s), lambda seconds: duration_text(seconds * 1e9))
    _ticks(plot.yaxis, _linear_ticks(tallest), rate_text)
    _legend(plot, drawn)
    return plot


def _timeline(result: TraceResult) -> Any:
    from accel_magic.views.timeline import timeline  # which takes its colours from here

    return timeline(result.npu)


KINDS = {"hits": _hits, "latency": _latency, "rate": _rate, "timeline": _timeline}


def _frame(title: str, **options: Any) -> Any:
    """Make the empty figure that all kinds share."""
    plot: Any = bokeh_figure(
        title=title,
        width=WIDTH,
        height=HEIGHT,
        max_width=MAX_WIDTH,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_right=12,
        **options,
    )
    plot.toolbar.logo = None
    plot.title.text_color = GREY
    plot.title.text_font_size = "12px"
    plot.axis.axis_line_color = GREY
    plot.axis.axis_line_alpha = 0.5
    plot.axis.major_tick_line_color = GREY
    plot.axis.major_tick_in = 0
    plot.axis.major_tick_out = 4
    plot.axis.minor_tick_line_color = None
    plot.axis.major_label_text_color = GREY
    plot.axis.major_label_text_font_size = "10px"
    plot.axis.axis_label_text_color = GREY
    plot.axis.axis_label_text_font_size = "10px"
    plot.axis.axis_label_text_font_style = "normal"
    plot.grid.grid_line_color = GREY
    plot.grid.grid_line_alpha = 0.2
    return plot


def _hover(plot: Any, renderers: list[Any], tooltips: list[tuple[str, str]], **options: Any) -> None:
    plot.add_tools(HoverTool(renderers=renderers, tooltips=tooltips, **options))


def _ticks(axis: Any, ticks: Sequence[float], text: Any) -> None:
    """Put fixed ticks with texts made here: no code for the browser to evaluate, which some front ends refuse."""
    axis.ticker = FixedTicker(ticks=list(ticks), minor_ticks=[])
    # BokehJS looks a label up by the number's JavaScript text, in which 5.0 is "5".
    axis.major_label_overrides = {
        int(tick) if tick == int(tick) else tick: text(tick) if tick else "0" for tick in ticks
    }


def _legend(plot: Any, drawn: Sequence[tuple[str, list[Any]]]) -> None:
    """Name the lines under the plot; a single one in its title."""
    if len(drawn) == 1:
        plot.title.text += f": {shortened(drawn[0][0], 2 * LABEL_WIDTH)}"
        return
    legend: Any = Legend(
        orientation="horizontal",
        ncols=3 if len(drawn) > 4 else 2,
        location="left",
        label_text_color=GREY,
        label_text_font_size="9px",
        background_fill_alpha=0,
        border_line_color=None,
        glyph_height=8,
        glyph_width=12,
        label_height=8,
        label_standoff=4,
        spacing=3,
        margin=2,
        click_policy="hide",
    )
    legend.padding = 2
    width = LEGEND_WIDTHS[legend.ncols]
    legend.items = [LegendItem(label=shortened(name, width), renderers=renderers) for name, renderers in drawn]
    plot.add_layout(legend, "below")


def _by_hits(result: TraceResult) -> list[int]:
    """Ids of all probe points, most hits first."""
    return [int(point) for point in np.argsort(-result.recording.hits.astype(np.int64), kind="stable")]


def _colors(result: TraceResult, points: Sequence[int]) -> list[str]:
    """One colour each: a point keeps the colour of its bar as long as no other line has it."""
    rank = {point: row for row, point in enumerate(_by_hits(result))}
    chosen: list[str] = []
    for point in points:
        own = PALETTE[rank[point] % len(PALETTE)]
        chosen.append(own if own not in chosen else next(color for color in PALETTE if color not in chosen))
    return chosen


def _coarse(counts: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges (n + 1,) in ns and counts (n,) of the filled stretch, in buckets of a quarter of a power of two."""
    per = buckets.SUB // 4
    totals = counts.reshape(-1, per).sum(axis=1).astype(np.float64)
    filled = np.flatnonzero(totals)
    first, last = int(filled[0]), int(filled[-1]) + 1
    # 0 ns has no place on a log axis; no call takes so short.
    edges = np.maximum(buckets.EDGES[::per][first : last + 1], 0.5)
    return edges, totals[first:last]


def _linear_ticks(highest: float) -> list[float]:
    """From 0 up to `highest` in at most six steps of 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(highest / 5))
    step = next(power * factor for factor in (1, 2, 5, 10) if highest / (power * factor) <= 5)
    # Rounded to the step's last digit, for 3 * 0.1 is 0.30000000000000004.
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(step * count, digits) for count in range(int(highest / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between `low` and `high`, with their 2 and 5 fold where the stretch is short."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    span = math.log10(high / low)
    factors = (
        (1,) if span > 3 else (1, 3) if span > 1.5 else (1, 2, 5) if span > 0.6 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    )
    return [tick for decade in decades for factor in factors if low <= (tick := float(factor * 10**decade)) <= high]

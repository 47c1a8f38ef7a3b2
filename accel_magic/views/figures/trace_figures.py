"""Bokeh figures of a trace: hits per function, latency histograms, rates over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HBar, Line, Quad

from accel_magic.analysis.rates import check_timed, point_labels, rates
from accel_magic.demangle import distinct
from accel_magic.errors import ResultError
from accel_magic.kernel import buckets
from accel_magic.quantities import count_text, duration_text, exact_text, rate_text, shortened
from accel_magic.views.figures.plotting import GREY, LABEL_WIDTH, PALETTE, displayed, hover, label, legend, new_plot
from accel_magic.views.figures.ticks import linear_ticks, log_ticks

if TYPE_CHECKING:
    from bokeh.models import Plot
    from numpy.typing import NDArray

    from accel_magic.recording.recording import Recording

TOP_BARS, TOP_LINES = 20, len(PALETTE)
RATE_STEPS = 100
HIDDEN = 0.01
"""A bar of this part of the longest cannot be seen."""
_LOG_START = 0.7
"""Where bars begin on a logarithmic axis, so that a single hit has one."""
_NOTHING_FIRED: Final = {
    "why": "none of the probes fired",
    "fix": "trace code that calls what they trace; --scope all counts all processes",
}
EVENTS_TO_BIN = 200_000
"""With more events, the rate figure uses the counter samples: decoding events must not delay the end of a cell."""


@dataclass(frozen=True)
class _Style:
    """How a function is drawn: solid lines and bars, or dashed and hatched ones."""

    color: str
    solid: bool

    @property
    def dash(self) -> str:
        return "solid" if self.solid else "dashed"


_PLAIN: Final = _Style(GREY, solid=True)
"""Of functions with a bar only."""


def hits(recording: Recording) -> Plot:
    """Draw a bar for each of the 20 functions with most hits; 380 x 240 pixels, stretched to the available width.

    The axis is logarithmic where a linear one would hide bars.

    Raises:
        ResultError: No probe fired.

    """
    fired = [point for point in _by_hits(recording) if recording.hits[point]]
    order = fired[:TOP_BARS]
    if not order:
        raise ResultError("no hits to draw", **_NOTHING_FIRED, code="result.empty-figure")
    labels = tuple(distinct(point_labels(recording.plan)))
    counts = [int(recording.hits[point]) for point in order]
    names = [labels[point] for point in order]
    rows = list(range(len(order)))
    styles = _styles(recording)
    most, logarithmic = max(counts), min(counts) < HIDDEN * max(counts)
    data: dict[str, Any] = {
        "row": rows,
        "hits": counts,
        "color": [styles.get(point, _PLAIN).color for point in order],
        "hatch": [" " if styles.get(point, _PLAIN).solid else "right_diagonal_line" for point in order],
        "name": names,
        "exact": [exact_text(count) for count in counts],
        "rate": [rate_text(count / max(recording.duration_ns / 1e9, 1e-9)) for count in counts],
    }
    plot = new_plot(
        "Hits per function" + (f", top {TOP_BARS} of {exact_text(len(fired))}" if len(fired) > TOP_BARS else ""),
        x_range=(_LOG_START, most * 1.3) if logarithmic else (0, most * 1.05),
        y_range=(max(len(order), 4) - 0.4, -0.6),
        x_axis_type="log" if logarithmic else "linear",
    )
    bar = HBar(y="row", left=_LOG_START if logarithmic else 0, right="hits", height=0.72, fill_color="color")
    bar.update(fill_alpha=0.85, line_color=None, hatch_pattern="hatch", hatch_color="#ffffff", hatch_scale=6)
    bars = plot.add_glyph(ColumnDataSource(data), bar)
    tips = [("function", "@name"), ("hits", "@exact")]
    hover(plot, [bars], [*tips, ("rate", "@rate")] if recording.timed else tips)
    label(plot.xaxis, log_ticks(1, most * 1.3) if logarithmic else linear_ticks(most), count_text)
    plot.xaxis.axis_label = "hits (logarithmic)" if logarithmic else "hits"
    plot.yaxis.ticker = FixedTicker(ticks=rows, minor_ticks=[])
    plot.yaxis.major_label_overrides = {row: shortened(name, LABEL_WIDTH) for row, name in enumerate(names)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    if len(order) > TOP_BARS // 2:
        plot.yaxis.major_label_text_font_size = "8px"
    return displayed(plot)


def latency(recording: Recording) -> Plot:
    """Draw a histogram for each of the 8 measured functions with most calls.

    Raises:
        ResultError: No measured call ended.

    """
    histograms = recording.histograms
    points = recording.plan.latency_points
    calls = histograms.counts.sum(axis=1)
    order = _by_calls(recording)
    if not order:
        raise ResultError(
            "no latencies to draw",
            why="no measured call ended" if points else "no probe measures a latency",
            fix="trace until a measured call has returned" if points else "trace with latency:SPEC",
            code="result.empty-figure",
        )
    labels = tuple(distinct(point_labels(recording.plan)))
    styles = _styles(recording)
    plot = new_plot("Latency", x_axis_type="log")
    drawn, lows, highs, tallest = [], [], [], 0.0
    for row in order:
        color, dash = styles[points[row].id].color, styles[points[row].id].dash
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
        outline = plot.add_glyph(ColumnDataSource(steps), Line(line_color=color, line_dash=dash, line_width=1.6))
        drawn.append((name, [outline, area]))
        lows.append(edges[0])
        highs.append(edges[-1])
        tallest = max(tallest, float(share.max()))
    hover(
        plot,
        [area for _, (_, area) in drawn],
        [("function", "@name"), ("duration", "@from to @to"), ("calls", "@calls (@share{0.0} %)")],
    )
    low, high = min(lows), max(highs)
    plot.x_range.start, plot.x_range.end = low / 1.15, high * 1.15
    plot.y_range.start, plot.y_range.end = 0, tallest * 1.08
    label(plot.xaxis, log_ticks(low / 1.15, high * 1.15), duration_text)
    label(plot.yaxis, linear_ticks(tallest), "{:g}".format)
    plot.xaxis.axis_label, plot.yaxis.axis_label = "duration of a call", "% of calls"
    legend(plot, [(name, renderers) for name, renderers in drawn])
    return displayed(plot)


def rate(recording: Recording) -> Plot:
    """Draw hits/s over time for the 8 functions with most hits.

    Raises:
        ResultError: No probe fired, or the recording has no times.

    """
    order = [point for point in _by_hits(recording) if recording.hits[point]][:TOP_LINES]
    if not order:
        raise ResultError("no rates to draw", **_NOTHING_FIRED, code="result.empty-figure")
    check_timed(recording, "rates")
    few = recording.event_count <= EVENTS_TO_BIN
    step = max(math.ceil(recording.duration_ns / RATE_STEPS), 1)
    frame = rates(recording, f"{step}ns", "auto" if few else "samples")
    times = np.append(frame.index.to_numpy().astype(np.int64), recording.duration_ns) / 1e9
    duration_s = recording.duration_ns / 1e9
    middles = (times[:-1] + times[1:]) / 2
    labels = tuple(distinct(point_labels(recording.plan)))
    tallest = float(frame.to_numpy()[:, order].max())
    plot = new_plot("Rate", x_range=(0, max(duration_s, 1e-9)), y_range=(0, tallest * 1.08))
    drawn, styles = [], _styles(recording)
    for point in order:
        values = frame.iloc[:, point].to_numpy()
        source: dict[str, Any] = {
            "time": middles,
            "rate": values,
            "name": [labels[point]] * len(values),
            "at": [duration_text(time * 1e9) for time in middles],
            "text": [rate_text(value) for value in values],
        }
        color = styles[point].color
        line = plot.add_glyph(ColumnDataSource(source), Line(x="time", y="rate", line_color=color, line_width=1.6))
        drawn.append((labels[point], [line]))
    hover(
        plot,
        [line for _, (line,) in drawn],
        [("function", "@name"), ("time", "@at"), ("rate", "@text")],
        line_policy="nearest",
    )
    label(plot.xaxis, linear_ticks(duration_s), lambda seconds: duration_text(seconds * 1e9))
    label(plot.yaxis, linear_ticks(tallest), rate_text)
    plot.xaxis.axis_label, plot.yaxis.axis_label = "since the start of the trace", "hits"
    legend(plot, drawn)
    return displayed(plot)


def _by_hits(recording: Recording) -> list[int]:
    """Ids of all probe points, most hits first."""
    return [int(point) for point in np.argsort(-recording.hits.astype(np.int64), kind="stable")]


def _by_calls(recording: Recording) -> list[int]:
    """Rows of the histograms of the 8 functions with most measured calls."""
    calls = recording.histograms.counts.sum(axis=1).astype(np.int64)
    return [int(row) for row in np.argsort(-calls, kind="stable") if calls[row]][:TOP_LINES]


def _styles(recording: Recording) -> dict[int, _Style]:
    """The style of each function that has a line in one of the figures: the same in all of them, and in no other's."""
    most_hits = _by_hits(recording)[:TOP_LINES]
    points = recording.plan.latency_points
    others = [points[row].id for row in _by_calls(recording) if points[row].id not in most_hits]
    solid = {point: _Style(color, solid=True) for point, color in zip(most_hits, PALETTE, strict=False)}
    return solid | {point: _Style(color, solid=False) for point, color in zip(others, PALETTE, strict=False)}


def _coarse(counts: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges (n + 1,) in ns and counts (n,) of the range with calls, in four buckets per power of two."""
    per = buckets.SUB // 4
    totals = counts.reshape(-1, per).sum(axis=1).astype(np.float64)
    filled = np.flatnonzero(totals)
    first, last = int(filled[0]), int(filled[-1]) + 1
    # 0 ns cannot be on a log axis, and no call is that short.
    edges = np.maximum(buckets.EDGES[::per][first : last + 1], 0.5)
    return edges, totals[first:last]

"""Figures of stalls and of the load of an Intel GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.errors import ResultError
from accel_magic.quantities import count_text, duration_text, exact_text, share_text, shortened
from accel_magic.subsystems.iaprof.profile import REASONS
from accel_magic.subsystems.iaprof.summary import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from bokeh.model import Model
    from numpy.typing import NDArray

TOP_BARS: Final = 12
MOST_POINTS: Final = 1000
COLORS: Final = {
    "active": "#009e73",
    "control": "#cc79a7",
    "pipestall": "#999933",
    "send": "#e69f00",
    "dist_acc": "#56b4e9",
    "sbid": "#d55e00",
    "sync": "#8c6bb1",
    "inst_fetch": "#0072b2",
    "other": "#808080",
    "tdr": "#4d4d4d",
}


def stalls_figure(by_kernel: pd.DataFrame) -> Model:
    """Draw a bar per kernel, most samples first, divided by reason; it displays itself in a notebook.

    Args:
        by_kernel: As `StallTables.by_kernel`.

    Raises:
        ResultError: No execution unit was sampled.

    """
    from bokeh.models import ColumnDataSource, FixedTicker, HBar

    from accel_magic.views.figures.plotting import LABEL_WIDTH, displayed, hover, label, legend, new_plot
    from accel_magic.views.figures.ticks import linear_ticks

    table = by_kernel[by_kernel["samples"] > 0]
    shown = table.head(TOP_BARS)
    if not len(shown):
        raise ResultError(
            "no stalls to draw",
            why="no execution unit was sampled",
            fix="profile code that keeps the GPU busy for longer",
            code="result.empty-figure",
        )
    rows = np.arange(len(shown))
    highest = int(shown["samples"].iloc[0])
    names = [named(symbol) for symbol in shown["symbol"]]
    title = "Samples by kernel and reason"
    plot = new_plot(
        title + (f", top {TOP_BARS} of {exact_text(len(table))}" if len(table) > TOP_BARS else ""),
        x_range=(0, highest * 1.05),
        y_range=(max(len(shown), 4) - 0.4, -0.6),
    )
    left = np.zeros(len(shown), np.int64)
    drawn = []
    for reason in (name for name in REASONS if shown[name].any()):
        samples = shown[reason].to_numpy(np.int64)
        source = ColumnDataSource(
            {
                "row": rows,
                "left": left,
                "right": left + samples,
                "name": names,
                "samples": [exact_text(count) for count in samples.tolist()],
                "share": [share_text(share) for share in (samples / shown["samples"]).tolist()],
                "reason": [reason] * len(shown),
            }
        )
        bars = plot.add_glyph(
            source, HBar(y="row", left="left", right="right", height=0.72, fill_color=COLORS[reason], line_color=None)
        )
        drawn.append((reason, [bars]))
        left = left + samples
    tips = [("kernel", "@name"), ("reason", "@reason"), ("samples", "@samples (@share of the kernel)")]
    hover(plot, [bars for _, (bars,) in drawn], tips)
    label(plot.xaxis, linear_ticks(highest), count_text)
    plot.yaxis.ticker = FixedTicker(ticks=rows.tolist(), minor_ticks=[])
    plot.yaxis.major_label_overrides = {row: shortened(name, LABEL_WIDTH) for row, name in enumerate(names)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    legend(plot, drawn)
    return displayed(plot)


def utilisation_figure(intervals: pd.DataFrame, duration_ns: int) -> Model:
    """Draw busy share (left axis) and frequency (right axis) over time; it displays itself in a notebook.

    Args:
        intervals: As `IaprofResult.intervals`.
        duration_ns: Length of the profile.

    Raises:
        ResultError: The profile has no metric lines.

    """
    from bokeh.models import LinearAxis, Range1d

    from accel_magic.views.figures.plotting import GREY, displayed, label, legend, new_plot
    from accel_magic.views.figures.ticks import linear_ticks

    table = intervals.dropna(subset=["busy_percent", "frequency_MHz"], how="all")
    if not len(table):
        raise ResultError(
            "no utilization to draw",
            why="the profile has no metric lines",
            fix="record with an iaprof that writes metrics (frequency-MHz, busy-percent)",
            code="result.empty-figure",
        )
    end = max(duration_ns / 1e9, 1e-9)
    fastest = float(table["frequency_MHz"].max()) if table["frequency_MHz"].notna().any() else 1.0
    plot = new_plot("Busy share and frequency of the GPU", x_range=(0, end), y_range=(0, 105))
    plot.extra_y_ranges = {"frequency": Range1d(start=0, end=max(fastest, 1.0) * 1.2)}
    right = LinearAxis(
        y_range_name="frequency",
        axis_line_color=None,
        major_tick_line_color=GREY,
        major_tick_in=0,
        major_tick_out=4,
        minor_tick_line_color=None,
        major_label_text_color=GREY,
        major_label_text_font_size="10px",
        axis_label="MHz",
        axis_label_text_color=GREY,
        axis_label_text_font_size="10px",
        axis_label_text_font_style="normal",
    )
    plot.add_layout(right, "right")
    drawn = [
        (name, [_line(plot, table, column, color, **options)])
        for name, column, color, options in (
            ("busy", "busy_percent", COLORS["active"], {}),
            ("frequency", "frequency_MHz", COLORS["inst_fetch"], {"y_range_name": "frequency"}),
        )
        if table[column].notna().any()
    ]
    _line_tips(plot, drawn)
    label(plot.xaxis, linear_ticks(end), lambda seconds: duration_text(seconds * 1e9))
    label(plot.yaxis[0], linear_ticks(100), "{:g} %".format)
    label(right, linear_ticks(fastest), "{:g}".format)
    legend(plot, drawn)
    return displayed(plot)


def _line(plot: Any, table: pd.DataFrame, column: str, color: str, **options: Any) -> Any:
    from bokeh.models import ColumnDataSource, Step

    known = table.dropna(subset=[column])
    times, values = _thinned(known["time_ns"].to_numpy(np.float64) / 1e9, known[column].to_numpy(np.float64))
    source = ColumnDataSource(
        {
            "time": times,
            "value": values,
            "name": [column.replace("_percent", ", %").replace("_", ", ")] * len(times),
            "at": [duration_text(time * 1e9) for time in times.tolist()],
        }
    )
    return plot.add_glyph(source, Step(x="time", y="value", mode="after", line_color=color, line_width=1.6), **options)


def _line_tips(plot: Any, drawn: Sequence[tuple[str, list[Any]]]) -> None:
    from accel_magic.views.figures.plotting import hover

    tips = [("", "@name"), ("time", "@at"), ("value", "@value{0.[0]}")]
    hover(plot, [line for _, (line,) in drawn], tips, line_policy="nearest")


def _thinned(
    times: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reduce to at most `MOST_POINTS` points, the means of equally many neighbors."""
    each = -(-len(times) // MOST_POINTS)
    if each <= 1:
        return times, values
    starts = np.arange(0, len(times), each)
    counts = np.diff([*starts, len(times)])
    return times[starts], np.add.reduceat(values, starts) / counts

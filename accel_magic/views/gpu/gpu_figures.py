"""Draw the figures that GPU tools describe (`accel_magic.gpu_tools.figure`) with Bokeh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import BasicTicker, ColumnDataSource, FixedTicker, HBar, Quad, Scatter

from accel_magic.demangle import readable, short_names
from accel_magic.errors import ResultError
from accel_magic.gpu_tools import TOOLS
from accel_magic.gpu_tools.figure import MOST_MARKS, Bars, Distribution, Points, Spans
from accel_magic.quantities import count_text, duration_text, exact_text, shortened
from accel_magic.views.figures.plotting import LABEL_WIDTH, PALETTE, displayed, hover, label, legend, new_plot
from accel_magic.views.figures.ticks import linear_ticks
from accel_magic.views.timeline.gpu_timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd
    from bokeh.models import Plot

    from accel_magic.analysis.gpu import GpuAnalysis
    from accel_magic.analysis.gpu.timeline import Beside
    from accel_magic.gpu_tools.figure import Tip, Unit

_BINS: Final = 40
_TOP_KERNELS: Final = 6
_TEXTS: Final[Mapping[Unit, Callable[[Any], str]]] = {
    "count": lambda value: count_text(float(value)),
    "exact": lambda value: exact_text(int(value)),
    "ns": lambda value: duration_text(float(value)),
    "text": str,
    "kernel": lambda value: readable(str(value)),
}


def tool_figure(tool: str, table: pd.DataFrame, why_empty: str = "no instrumented kernel ran") -> Plot:
    """Draw the figure of a tool, about 380 x 240, or as wide as the page allows.

    Args:
        tool: One of `TOOLS`.
        table: The tool's table, from `GpuResult.tools`.
        why_empty: Why it has no rows, if it has none.

    Returns:
        A Bokeh figure, which also displays itself in a notebook.

    Raises:
        ResultError: The table is empty.

    """
    if not len(table):
        raise ResultError(
            f"{tool} has nothing to draw",
            why=why_empty,
            fix=f"trace kernels that have what it shows ({TOOLS[tool].shows}); result.kernels has those that ran",
            code="result.empty-figure",
        )
    described = TOOLS[tool].figure(table)
    return displayed(_DRAW[type(described)](described))


def timeline_figure(gpu: GpuAnalysis, beside: Beside | None = None) -> Plot:
    """Draw host calls, kernels and blocks over time.

    Raises:
        ResultError: There were no calls, launches or blocks to draw.

    """
    return displayed(timeline(gpu, beside))


def _bars(bars: Bars) -> Any:
    lengths = bars.lengths.to_numpy(np.float64)
    highest = max(float(lengths.max()), 1.0)
    plot = new_plot(bars.title, x_range=(0, highest * 1.05), y_range=(max(len(lengths), 4) - 0.4, -0.6))
    rows = list(range(len(lengths)))
    names, short = [readable(name) for name in bars.names], short_names(bars.names)
    data: dict[str, Any] = {
        "row": rows,
        "length": lengths,
        "color": [PALETTE[row % len(PALETTE)] for row in rows],
        "name": names,
        **_tip_texts(bars.tips),
    }
    drawn = plot.add_glyph(
        ColumnDataSource(data),
        HBar(y="row", right="length", height=0.72, fill_color="color", fill_alpha=0.85, line_color=None),
    )
    if bars.inner is not None:
        plot.add_glyph(
            ColumnDataSource({"row": rows, "length": bars.inner.to_numpy(np.float64)}),
            HBar(y="row", right="length", height=0.3, fill_color="white", fill_alpha=0.75, line_color=None),
        )
    hover(plot, [drawn], [("", "@name"), *_tip_lines(bars.tips)])
    label(plot.xaxis, linear_ticks(highest), count_text)
    plot.xaxis.axis_label = bars.axis or None
    plot.yaxis.ticker = FixedTicker(ticks=rows, minor_ticks=[])
    plot.yaxis.major_label_overrides = {row: shortened(short[name], LABEL_WIDTH) for row, name in enumerate(bars.names)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    return plot


def _distribution(shown: Distribution) -> Any:
    plot = new_plot(shown.title)
    highest = float(shown.table[shown.column].max())
    edges = np.linspace(0, max(highest, 1.0) * 1.001, _BINS + 1)
    drawn, tallest = [], 0.0
    for (name, rows), color in zip(_by_kernel(shown.table), PALETTE, strict=False):
        counts, _ = np.histogram(rows[shown.column].to_numpy(np.float64), edges)
        share = 100 * counts / len(rows)
        source = ColumnDataSource(
            {
                "left": edges[:-1],
                "right": edges[1:],
                "share": share,
                "count": [exact_text(int(count)) for count in counts],
                "from": [count_text(edge) for edge in edges[:-1]],
                "to": [count_text(edge) for edge in edges[1:]],
                "name": [readable(name)] * _BINS,
            }
        )
        bars = plot.add_glyph(
            source,
            Quad(left="left", right="right", bottom=0, top="share", fill_color=color, fill_alpha=0.6, line_color=color),
        )
        drawn.append((readable(name), [bars]))
        tallest = max(tallest, float(share.max()))
    hover(
        plot,
        [bars for _, (bars,) in drawn],
        [("kernel", "@name"), (shown.column, "@from to @to"), (shown.rows, "@count (@share{0.0} %)")],
    )
    _from_zero(plot.xaxis, plot.x_range, float(edges[-1]), count_text)
    _from_zero(plot.yaxis, plot.y_range, tallest, "{:g}".format)
    plot.yaxis.axis_label = f"% of {shown.rows}"
    legend(plot, drawn)
    return plot


def _points(shown: Points) -> Any:
    table = shown.table.head(MOST_MARKS)
    plot = new_plot(shown.title)
    drawn = []
    for (name, rows), color in zip(_by_kernel(table), PALETTE, strict=False):
        source = ColumnDataSource(
            {
                "x": rows[shown.x].to_numpy(np.int64),
                "y": rows[shown.y].to_numpy(),
                "text": [duration_text(value) for value in rows[shown.y]],
                "name": [readable(name)] * len(rows),
            }
        )
        marks = plot.add_glyph(source, Scatter(x="x", y="y", size=3, fill_color=color, line_color=None, fill_alpha=0.7))
        drawn.append((readable(name), [marks]))
    hover(plot, [marks for _, (marks,) in drawn], [("kernel", "@name"), (shown.x, "@x"), ("after", "@text")])
    _from_zero(plot.xaxis, plot.x_range, float(table[shown.x].max()), count_text)
    _from_zero(plot.yaxis, plot.y_range, float(table[shown.y].max()), duration_text)
    plot.xaxis.axis_label = shown.x
    legend(plot, drawn)
    return plot


def _spans(spans: Spans) -> Any:
    kernel = f", {shortened(readable(spans.kernel), LABEL_WIDTH)}" if spans.kernel else ""
    plot = new_plot(spans.title + kernel)
    groups = np.asarray(spans.group)
    named = list(dict.fromkeys(spans.group)) if groups.dtype.kind == "U" else []
    colors = [PALETTE[(named.index(group) if named else group) % len(PALETTE)] for group in groups.tolist()]
    data = {
        **{side: np.asarray(getattr(spans, side), np.float64) for side in ("left", "right", "bottom", "top")},
        "color": np.array(colors),
        **{name: np.array(texts) for name, texts in _tip_texts(spans.tips).items()},
    }
    drawn: list[tuple[str, list[Any]]] = []
    for name in named or [""]:
        chosen = groups == name if named else np.ones(len(groups), bool)
        bars = plot.add_glyph(
            ColumnDataSource({column: values[chosen] for column, values in data.items()}),
            Quad(left="left", right="right", bottom="bottom", top="top", fill_color="color", line_color=None),
        )
        drawn.append((str(name), [bars]))
    hover(plot, [bars for _, (bars,) in drawn], _tip_lines(spans.tips))
    _from_zero(plot.xaxis, plot.x_range, float(data["right"].max()), duration_text)
    plot.yaxis.axis_label = spans.rows
    plot.yaxis.ticker = BasicTicker(min_interval=1)
    if named:
        legend(plot, drawn)
    return plot


_DRAW: Final[Mapping[type, Callable[[Any], Any]]] = {
    Bars: _bars,
    Distribution: _distribution,
    Points: _points,
    Spans: _spans,
}


def _by_kernel(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Rows of the first few kernels, by number of rows, descending."""
    groups = [(str(name), rows) for name, rows in table.groupby("name", observed=True)]
    return sorted(groups, key=lambda group: -len(group[1]))[:_TOP_KERNELS]


def _tip_texts(tips: Sequence[Tip]) -> dict[str, list[str]]:
    return {f"tip{number}": [_TEXTS[tip.unit](value) for value in tip.values] for number, tip in enumerate(tips)}


def _tip_lines(tips: Sequence[Tip]) -> list[tuple[str, str]]:
    return [(tip.head, f"@tip{number}") for number, tip in enumerate(tips)]


def _from_zero(axis: Any, range_: Any, highest: float, text: Callable[[float], str]) -> None:
    range_.start, range_.end = 0, max(highest, 1e-9) * 1.05
    label(axis, linear_ticks(highest), text)

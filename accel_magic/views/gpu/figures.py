"""Bokeh figures of the GPU tools: each shows the problem that its tool is made to find."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import BasicTicker, ColumnDataSource, FixedTicker, HBar, Quad, Scatter

from accel_magic.analysis.gpu.common import LANES, by_place
from accel_magic.demangle import readable
from accel_magic.errors import ResultError
from accel_magic.views.figures.plotting import (
    LABEL_WIDTH,
    PALETTE,
    displayed,
    hover,
    label,
    legend,
    linear_ticks,
    new_plot,
)
from accel_magic.views.format import count_text, duration_text, exact_text, ratio_text, shortened
from accel_magic.views.timeline.gpu import timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd
    from bokeh.models import Plot
    from numpy.typing import NDArray

    from accel_magic.analysis.gpu import GpuAnalysis
    from accel_magic.analysis.gpu.timeline import Beside

BINS = 40
TOP_ROWS, TOP_KERNELS = 16, 6
MOST_MARKS = 20_000
"""Bars or points of a figure: a saved notebook holds each of them."""


def tool_figure(tool: str, table: pd.DataFrame) -> Plot:
    """Draw the figure of a tool, about 380 x 240, as wide as its place allows.

    Args:
        tool: One of `FIGURES`.
        table: What it saw, as `GpuResult.tools` has it.

    Returns:
        A Bokeh figure, which also displays itself in a notebook.

    Raises:
        ResultError: It saw nothing.

    """
    if not len(table):
        raise ResultError(f"{tool} saw nothing to draw", why="no instrumented kernel ran", code="result.empty-figure")
    return displayed(FIGURES[tool](table))


def timeline_figure(gpu: GpuAnalysis, beside: Beside | None = None) -> Plot:
    """Draw host calls, kernels and blocks over time.

    Raises:
        ResultError: Nothing was called, launched or run.

    """
    return displayed(timeline(gpu, beside))


def _threads(table: pd.DataFrame) -> Any:
    return _histograms(table, "cycles", "Cycles per thread", "% of threads", count_text)


def _exits(table: pd.DataFrame) -> Any:
    """Exit times along the threads: a warp that diverges is a column of marks."""
    shown = table.head(MOST_MARKS)
    plot = new_plot("Exits, after the launch's first")
    drawn = []
    for (name, rows), color in zip(_kernels(shown), PALETTE, strict=False):
        source = ColumnDataSource(
            {
                "thread": rows["thread"].to_numpy(np.int64),
                "after": rows["after_ns"].to_numpy(),
                "text": [duration_text(value) for value in rows["after_ns"]],
                "lane": rows["lane"].to_numpy(),
                "name": [readable(name)] * len(rows),
            }
        )
        marks = plot.add_glyph(
            source, Scatter(x="thread", y="after", size=3, fill_color=color, line_color=None, fill_alpha=0.7)
        )
        drawn.append((readable(name), [marks]))
    hover(plot, [marks for _, (marks,) in drawn], [("kernel", "@name"), ("thread", "@thread"), ("after", "@text")])
    _from_zero(plot.xaxis, plot.x_range, float(shown["thread"].max()), count_text)
    _from_zero(plot.yaxis, plot.y_range, float(shown["after_ns"].max()), duration_text)
    plot.xaxis.axis_label = "thread"
    legend(plot, drawn)
    return plot


def _launches(table: pd.DataFrame) -> Any:
    """Each launch: until its first instruction, and how long its kernel took."""
    rows = table.head(MOST_MARKS)
    plot = new_plot("Launches: until the first instruction, and running")
    parts = (
        ("until it begins", rows["late_ns"].clip(lower=0), PALETTE[1]),
        ("kernel", rows["device_ns"].fillna(0).astype("float64"), PALETTE[0]),
    )
    drawn, left = [], np.zeros(len(rows))
    for name, length, color in parts:
        right = left + length.to_numpy(np.float64)
        source = ColumnDataSource(
            {
                "left": left,
                "right": right,
                "bottom": rows["launch"] - 0.4,
                "top": rows["launch"] + 0.4,
                "what": [name] * len(rows),
                "text": [duration_text(value) for value in length],
                "kernel": [readable(str(value)) for value in rows["name"]],
            }
        )
        bars = plot.add_glyph(
            source,
            Quad(left="left", right="right", bottom="bottom", top="top", fill_color=color, line_color=None),
        )
        drawn.append((name, [bars]))
        left = right
    hover(plot, [bars for _, (bars,) in drawn], [("kernel", "@kernel"), ("@what", "@text")])
    _from_zero(plot.xaxis, plot.x_range, float(left.max()), duration_text)
    label(plot.yaxis, linear_ticks(float(rows["launch"].max())), count_text)
    plot.yaxis.axis_label = "launch"
    legend(plot, drawn)
    return plot


def _accesses(table: pd.DataFrame) -> Any:
    """Sectors, or passes of shared memory, per request beside the fewest that would do, the costliest lines first."""
    shared = table["space"] == "shared"
    known = table.assign(done=table["sectors"] + table["passes"], unit=np.where(shared, "passes", "sectors"))
    counted = known[known["fewest"] > 0]
    sums = by_place(counted if len(counted) else known, ["operation", "unit"], ["done", "requests", "fewest"])
    rows = sums.head(TOP_ROWS)
    tips = [
        ("kernel", [readable(str(name)) for name in rows["name"]]),
        ("of", list(rows["unit"])),
        ("per request", [ratio_text(value) for value in rows["done"] / rows["requests"]]),
        ("fewest", [ratio_text(value) for value in rows["fewest"] / rows["requests"]]),
        ("requests", [exact_text(int(value)) for value in rows["requests"]]),
    ]
    names = [f"{row['operation']} {row['place']} ({row['unit']})" for row in rows.to_dict("records")]
    lengths = (rows["done"] / rows["requests"]).to_numpy()
    plot = _bars("Sectors or passes per request (light: the fewest that would do)", names, lengths, tips)
    return _inner(plot, (rows["fewest"] / rows["requests"]).to_numpy())


def _blocks(table: pd.DataFrame) -> Any:
    """Blocks over time, a row for each multiprocessor; of several launches the longest one."""
    longest = int(table["launch"].to_numpy()[table["end_ns"].to_numpy().argmax()])
    rows = table[table["launch"] == longest].head(MOST_MARKS)
    kernel = readable(str(rows["name"].iloc[0]))
    plot = new_plot(f"Blocks of launch {longest}, {shortened(kernel, LABEL_WIDTH)}")
    # Blocks that share a multiprocessor share its row: each has a lane of it.
    order = rows.groupby("sm").cumcount()
    lanes = int(min(order.max() + 1, 8))
    bottom = rows["sm"] - 0.45 + (order % lanes) * 0.9 / lanes
    source = ColumnDataSource(
        {
            "left": rows["start_ns"],
            "right": rows["end_ns"],
            "bottom": bottom,
            "top": bottom + 0.85 / lanes,
            "color": [PALETTE[int(block) % len(PALETTE)] for block in rows["block"]],
            "block": rows["block"],
            "sm": rows["sm"],
            "text": [duration_text(value) for value in rows["end_ns"] - rows["start_ns"]],
        }
    )
    bars = plot.add_glyph(
        source, Quad(left="left", right="right", bottom="bottom", top="top", fill_color="color", line_color=None)
    )
    hover(plot, [bars], [("block", "@block"), ("multiprocessor", "@sm"), ("took", "@text")])
    _from_zero(plot.xaxis, plot.x_range, float(rows["end_ns"].max()), duration_text)
    plot.yaxis.axis_label = "multiprocessor"
    plot.yaxis.ticker = BasicTicker(min_interval=1)
    return plot


def _warps(table: pd.DataFrame) -> Any:
    """Lanes of each multiprocessor's warps, and which of them threads fill."""
    counts = table.groupby("sm")["lanes"].agg(["size", "sum"]).reset_index().head(TOP_ROWS)
    tips = [
        ("warps", [exact_text(int(value)) for value in counts["size"]]),
        ("lanes in use", [exact_text(int(value)) for value in counts["sum"]]),
    ]
    names = [f"SM {int(sm)}" for sm in counts["sm"]]
    plot = _bars("Lanes per multiprocessor (light: in use)", names, LANES * counts["size"].to_numpy(), tips)
    return _inner(plot, counts["sum"].to_numpy())


def _counts(table: pd.DataFrame) -> Any:
    rows = table.head(TOP_ROWS)
    tips = [
        ("launches", [exact_text(int(value)) for value in rows["launches"]]),
        ("warps", [exact_text(int(value)) for value in rows["warps"]]),
        ("threads", [exact_text(int(value)) for value in rows["threads"]]),
    ]
    return _bars("Warps per kernel", [readable(str(name)) for name in rows["name"]], rows["warps"].to_numpy(), tips)


def _functions(table: pd.DataFrame) -> Any:
    rows = table.head(TOP_ROWS)
    tips = [
        ("calls", [exact_text(int(value)) for value in rows["calls"]]),
        ("cycles of a call", [ratio_text(float(value)) for value in rows["mean_cycles"]]),
    ]
    names = [readable(str(name)) for name in rows["name"]]
    return _bars("Cycles per device function", names, rows["cycles"].to_numpy(), tips)


def _branches(table: pd.DataFrame) -> Any:
    rows = by_place(table, [], ["warps", "split"]).assign(share=lambda sums: 100 * sums["split"] / sums["warps"])
    rows = rows.sort_values("share", ascending=False, kind="stable").head(TOP_ROWS)
    tips = [
        ("warps that reach it", [exact_text(int(value)) for value in rows["warps"]]),
        ("split", [exact_text(int(value)) for value in rows["split"]]),
    ]
    names = [f"{shortened(readable(row['name']), 14)} {row['place']}" for row in rows.to_dict("records")]
    return _bars("Warps split by each branch, %", names, rows["share"].to_numpy(), tips)


FIGURES: Final[Mapping[str, Callable[[pd.DataFrame], Any]]] = MappingProxyType(
    {
        "threadhist": _threads,
        "kernelretsnoop": _exits,
        "launchlate": _launches,
        "memtrace": _accesses,
        "blocktime": _blocks,
        "warpmap": _warps,
        "kernelcount": _counts,
        "funclat": _functions,
        "branchdiv": _branches,
    }
)
"""What draws each tool's table, by the tool's name."""


def _kernels(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Rows by kernel, those with most rows first, the first few."""
    groups = [(str(name), rows) for name, rows in table.groupby("name", observed=True)]
    return sorted(groups, key=lambda group: -len(group[1]))[:TOP_KERNELS]


def _histograms(table: pd.DataFrame, column: str, title: str, axis: str, text: Callable[[float], str]) -> Any:
    """Draw the distribution of a column, one colour for each kernel."""
    plot = new_plot(title)
    highest = float(table[column].max())
    edges = np.linspace(0, max(highest, 1.0) * 1.001, BINS + 1)
    drawn, tallest = [], 0.0
    for (name, rows), color in zip(_kernels(table), PALETTE, strict=False):
        counts, _ = np.histogram(rows[column].to_numpy(np.float64), edges)
        share = 100 * counts / len(rows)
        source = ColumnDataSource(
            {
                "left": edges[:-1],
                "right": edges[1:],
                "share": share,
                "count": [exact_text(int(count)) for count in counts],
                "from": [text(edge) for edge in edges[:-1]],
                "to": [text(edge) for edge in edges[1:]],
                "name": [readable(name)] * BINS,
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
        [("kernel", "@name"), (column, "@from to @to"), ("threads", "@count (@share{0.0} %)")],
    )
    _from_zero(plot.xaxis, plot.x_range, float(edges[-1]), text)
    _from_zero(plot.yaxis, plot.y_range, tallest, "{:g}".format)
    plot.yaxis.axis_label = axis
    legend(plot, drawn)
    return plot


def _bars(title: str, names: Sequence[str], lengths: NDArray[Any], tips: Sequence[tuple[str, Sequence[str]]]) -> Any:
    """Draw a horizontal bar for each row, from the top."""
    highest = max(float(np.max(lengths)), 1.0)
    plot = new_plot(title, x_range=(0, highest * 1.05), y_range=(max(len(names), 4) - 0.4, -0.6))
    rows = list(range(len(names)))
    data: dict[str, Any] = {
        "row": rows,
        "length": lengths,
        "color": [PALETTE[row % len(PALETTE)] for row in rows],
        "name": list(names),
        **{f"tip{number}": list(texts) for number, (_, texts) in enumerate(tips)},
    }
    bars = plot.add_glyph(
        ColumnDataSource(data),
        HBar(y="row", right="length", height=0.72, fill_color="color", fill_alpha=0.85, line_color=None),
    )
    hover(plot, [bars], [("", "@name"), *((head, f"@tip{number}") for number, (head, _) in enumerate(tips))])
    label(plot.xaxis, linear_ticks(highest), count_text)
    plot.yaxis.ticker = FixedTicker(ticks=rows, minor_ticks=[])
    plot.yaxis.major_label_overrides = {row: shortened(name, LABEL_WIDTH) for row, name in enumerate(names)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    return plot


def _from_zero(axis: Any, range_: Any, highest: float, text: Callable[[float], str]) -> None:
    range_.start, range_.end = 0, max(highest, 1e-9) * 1.05
    label(axis, linear_ticks(highest), text)


def _inner(plot: Any, lengths: NDArray[Any]) -> Any:
    """Draw a light bar inside each bar."""
    plot.add_glyph(
        ColumnDataSource({"row": list(range(len(lengths))), "length": lengths}),
        HBar(y="row", right="length", height=0.3, fill_color="white", fill_alpha=0.75, line_color=None),
    )
    return plot

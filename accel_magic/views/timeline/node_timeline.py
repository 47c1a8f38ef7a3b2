"""What many nodes did, on one time axis, with the error of each node's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, PanTool, Quad, Range1d, WheelZoomTool
from bokeh.models.annotations import BoxAnnotation

from accel_magic.demangle import readable
from accel_magic.errors import ResultError
from accel_magic.quantities import duration_text, exact_text, shortened
from accel_magic.views.figures.plotting import (
    GREY,
    HEIGHT,
    LABEL_WIDTH,
    PALETTE,
    displayed,
    hover,
    label,
    legend,
    new_plot,
)
from accel_magic.views.figures.ticks import linear_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from bokeh.models import Plot

MOST_BARS: Final = 10_000
"""Events that are drawn."""
MOST_NODES: Final = 64
_ROW, _AROUND = 18, 110
"""Height of a row, and of everything else, pixels."""
_FUNCTIONS: Final = len(PALETTE) - 1
"""Functions with a color of their own: those with most time, or most hits if none was measured."""


def timeline(events: pd.DataFrame, errors: Mapping[str, int | None]) -> Plot:
    """A row for each node: a bar for each measured call, a tick for each other hit.

    A bar has a pale margin on both sides: its clock's error. Two bars of different nodes have a known order if one
    begins after the other's margin. A node whose clock's error is unknown is named so, and its row is grey.

    Args:
        events: As `ClusterResult.events`.
        errors: Error of each node's clock in ns by its name; None if it is unknown.

    Raises:
        ResultError: No event was recorded.

    """
    if not len(events):
        raise ResultError(
            "there is nothing to draw over time",
            why="no event was recorded",
            fix="trace with --mode events",
            code="result.empty-figure",
        )
    names = list(errors)[:MOST_NODES]
    durations = events["duration_ns"].fillna(0) if "duration_ns" in events else events["time_ns"] * 0.0
    bars = events[["time_ns", "function", "node"]].assign(took=durations)
    bars = bars[bars["node"].isin(names)]
    shown = bars.loc[_chosen(bars["took"].to_numpy())]
    plot = _plot(shown, names, f"; the {exact_text(MOST_BARS)} longest of {exact_text(len(bars))} events")
    place = {name: at for at, name in enumerate(names)}
    for name in names:
        if errors[name] is None:
            at = place[name]
            plot.add_layout(BoxAnnotation(top=at + 0.5, bottom=at - 0.5, fill_color=GREY, fill_alpha=0.15))
    kinds = bars.groupby("function", observed=True)["took"].agg(["sum", "size"]).sort_values(["sum", "size"])
    colored = list(kinds.index[::-1][:_FUNCTIONS])
    drawn = []
    for function in [*colored, None]:
        own = shown[~shown["function"].isin(colored)] if function is None else shown[shown["function"] == function]
        if len(own):
            color = GREY if function is None else PALETTE[colored.index(function)]
            title = "others" if function is None else readable(str(function))
            drawn.append((title, _bars(plot, own, place, errors, color)))
    hover(plot, [exact for _, (_, exact) in drawn], [("", "@what on @node"), ("began", "@began"), ("took", "@took")])
    legend(plot, drawn)
    return displayed(plot)


def _chosen(took: np.ndarray) -> np.ndarray:
    """Whether each event is drawn: the longest; among equally long ones, such as hits, evenly spread ones."""
    if len(took) <= MOST_BARS:
        return np.ones(len(took), np.bool_)
    limit = np.partition(took, -MOST_BARS)[-MOST_BARS]
    chosen: np.ndarray = took > limit
    same = np.flatnonzero(took == limit)
    left = MOST_BARS - int(chosen.sum())
    chosen[same[np.linspace(0, len(same) - 1, left).astype(np.intp)]] = True
    return chosen


def _plot(shown: pd.DataFrame, names: list[str], left_out: str) -> Any:
    end = max(float((shown["time_ns"] + shown["took"]).max()), 1.0)
    margin = 0.01 * end
    plot = new_plot(
        "Events of each node" + (left_out if len(shown) == MOST_BARS else ""),
        x_range=Range1d(start=-margin, end=end + margin, bounds=(-margin, end + margin)),
        y_range=(max(len(names), 4) - 0.4, -0.6),
        x_axis_label="time since the start of the trace (Ctrl and wheel: zoom)",
    )
    plot.height = max(HEIGHT, _ROW * len(names) + _AROUND)
    zoom = WheelZoomTool(dimensions="width", modifiers={"ctrl": True})
    plot.add_tools(PanTool(dimensions="width"), zoom)
    plot.toolbar.active_scroll = zoom
    label(plot.xaxis, linear_ticks(end), duration_text)
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(names))), minor_ticks=[])
    plot.yaxis.major_label_overrides = {at: shortened(name, LABEL_WIDTH) for at, name in enumerate(names)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    return plot


def _bars(
    plot: Any, own: pd.DataFrame, place: Mapping[str, int], errors: Mapping[str, int | None], color: str
) -> list[Any]:
    """The margins of the clock's error, then the bars themselves."""
    node = own["node"].astype("str")
    middle = node.map(place).to_numpy(np.float64)
    error = node.map({name: value or 0 for name, value in errors.items()}).to_numpy(np.float64)
    left, took = own["time_ns"].to_numpy(np.float64), own["took"].to_numpy(np.float64)
    about = {None: ", its clock's error is unknown", 0: ""}
    source = {
        "left": left,
        "right": left + took,
        "early": left - error,
        "late": left + took + error,
        "top": middle - 0.38,
        "bottom": middle + 0.38,
        "what": [readable(str(name)) for name in own["function"]],
        "node": list(node),
        "began": [
            duration_text(at) + about.get(errors[name], f" ± {duration_text(errors[name] or 0)}")
            for at, name in zip(left, node, strict=True)
        ],
        "took": [duration_text(value) for value in took],
    }
    margins = Quad(left="early", right="late", top="top", bottom="bottom", fill_color=color, fill_alpha=0.25)
    margins.line_color = None
    # The outline keeps bars narrower than a pixel visible.
    exact = Quad(left="left", right="right", top="top", bottom="bottom", fill_color=color, line_color=color)
    data = ColumnDataSource(source)
    return [plot.add_glyph(data, margins), plot.add_glyph(data, exact)]

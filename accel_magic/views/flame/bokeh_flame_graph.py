"""A flame graph in Bokeh: the width of a frame is its weight; with zoom, search and comparison.

It runs entirely in the browser, so it also works in a saved notebook: the page holds the whole tree and each stack's
weight by state and by heatmap cell, and draws the frames that are at least half a pixel wide.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from bokeh.models import Column, ColumnDataSource, CustomJS, CustomJSHover, HoverTool, Quad, Range1d, Text
from bokeh.models.dom import HTML
from bokeh.models.ui import Pane
from bokeh.plotting import figure as bokeh_figure

from accel_magic.errors import ProbeError, ResultError
from accel_magic.recording.profile import Profile, ThreadState
from accel_magic.views.figures.plotting import displayed
from accel_magic.views.figures.static_picture import with_marks
from accel_magic.views.flame import colors, flame_picture
from accel_magic.views.flame.flame_layout import Tree, tree
from accel_magic.views.flame.heatmap import heatmap
from accel_magic.views.flame.heatmap_cells import grid_of
from accel_magic.views.flame.page_data import KINDS, page_data, page_times, size
from accel_magic.views.flame.timed import timed
from accel_magic.views.scripts import page_script
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from bokeh.model import Model

COLORS: Final = ("kind", "module", "change")
STATES: Final = {ThreadState.CPU: "on CPU", ThreadState.OFF_CPU: "waiting", ThreadState.ACCELERATOR: "accelerator"}
CHANGES: Final = ("#3f83f0", "#e6e6e6", "#ee5a3c")
"""Smaller, the same, larger."""
SAME: Final = 0.0005
"""Shares that differ by less than this count as equal."""
FADED: Final = "#9d9d9d"
"""Frames that do not match the search, and callers of the zoomed frame, fade to this; dark text is readable on it."""
ROW: Final = 18
"""Height of a row in pixels."""
ROWS: Final = (4, 110)
"""Minimum and maximum rows of a plot; zoom in to see the rest of deeper stacks."""
ABOVE: Final = 30
"""Maximum number of callers drawn above a zoomed frame."""
BOX: Final = 640
"""Height in pixels beyond which the graph scrolls."""
LEAST: Final = 0.5
"""Width in pixels of the narrowest frame that is drawn."""
TYPICAL: Final = 1000
"""Assumed width in pixels when choosing the initial height."""
FONT: Final = "Helvetica, Arial, sans-serif"
FONT_SIZE: Final = "11px"
TABLE_ROWS: Final = 25
NODES: Final = 60_000
"""Maximum number of frames in a page."""
PAGE, LEAST_TIMED = 900_000, 150_000
"""Compressed bytes for all columns of a page, which keeps it below 1.5 MB; and the part reserved for times."""
_SCRIPT: Final = page_script(Path(__file__).with_name("flame.js"), "__accel_magic_flame")
_STYLE: Final = Path(__file__).with_name("flame.css").read_text(encoding="utf-8")


def flame_graph(
    profile: Profile,
    *,
    baseline: Profile | None = None,
    invert: bool = True,
    color: Literal["kind", "module", "change"] = "kind",
    title: str = "",
    with_banners: bool = True,
) -> Model:
    """Draw a flame graph, with the heatmap above it if the samples have times.

    A click zooms to a frame, a click on a caller back; the search highlights frames and shows their share of the
    weight; everything also works with the keyboard.

    Args:
        profile: What to draw.
        baseline: Compare with this profile: frames are red if their share is larger than in the baseline, blue if it
            is smaller. Frames that only the baseline has are listed below.
        invert: Root at the top (an icicle), next to the controls and the heatmap whatever the depth of the stacks;
            otherwise at the bottom. A switch on the page changes it.
        color: By kind of frame, by module, or (with a baseline, where it is the default) by change.
        title: Text above the graph.
        with_banners: Draw the banners of both profiles above; pass False if the page already shows them. A file made
            by `Save` always has them.

    Returns:
        A Bokeh layout, which also displays itself in a notebook.

    Raises:
        ProbeError: `color` is not known, or needs a baseline.
        ResultError: The profile is empty, or the profiles have different units.

    """
    _check(profile, baseline, color)
    grid = grid_of(profile) if profile.timed else None
    drawn, data = _fitting(profile, baseline)
    selection = ColumnDataSource({"cells": []})
    parts: list[Any] = []
    if grid is not None and grid.columns > 1:
        when = timed(drawn, profile, grid, room=PAGE - size(data), spare=size(data["entries"]))
        step = grid.rows // when.grid.rows
        parts.append(heatmap(replace(profile, banners=()), selection, step=step))
        data |= page_times(when, step)
    color = "change" if baseline is not None and color == "kind" else color
    banners = list(dict.fromkeys((*profile.banners, *(() if baseline is None else baseline.banners))))
    options = {**_options(drawn, profile, color, invert), "banners": banners, "title": title}
    parts += _graph(drawn, data, selection, options)
    if head := render("pane", banners=banners if with_banners else (), title=title):
        parts.insert(0, _pane(head))
    return displayed(Column(children=parts, sizing_mode="stretch_width"))


def _check(profile: Profile, baseline: Profile | None, color: str) -> None:
    if color not in COLORS:
        raise ProbeError(
            f"color={color!r} is not known", fix=f"use one of {', '.join(COLORS)}", code="figure.no-colors"
        )
    if color == "change" and baseline is None:
        raise ProbeError("color='change' needs a baseline", fix="give a baseline", code="figure.no-baseline")
    if profile.total == 0:
        raise ResultError(
            "nothing to draw",
            why=f"none of the profile's {len(profile.samples)} samples has a weight",
            code="result.empty-figure",
        )
    if baseline is not None and not baseline.weighs_like(profile):
        raise ResultError(
            "these profiles cannot be compared",
            why=f"one counts {profile.weighs}, the other {baseline.weighs}",
            code="result.different-units",
        )


def _fitting(profile: Profile, baseline: Profile | None) -> tuple[Tree, dict[str, Any]]:
    """Lay out the heaviest frames, as many as fit into a page."""
    most, room = NODES, PAGE - LEAST_TIMED
    while True:
        drawn = tree(profile, baseline, most)
        data = page_data(drawn)
        if (taken := size(data)) <= room or most == 1:
            return drawn, data
        most = max(int(0.97 * len(drawn.depths) * room / taken), 1)


def _graph(drawn: Tree, data: dict[str, Any], selection: ColumnDataSource, options: dict[str, Any]) -> list[Any]:
    plot = _plot(options["rows"], options["inverted"])
    with_marks(plot, partial(flame_picture.marks, drawn, options["rows"]))
    source, labels, outline = (ColumnDataSource(dict.fromkeys(columns, ())) for columns in (
        ("left", "right", "top", "bottom", "color", "node"), ("x", "y", "text"), ("left", "right", "top", "bottom")
    ))  # fmt: skip
    _glyphs(plot, source, labels, outline)
    _hover(plot, compared=drawn.baseline is not None)
    box = Column(
        children=[plot],
        sizing_mode="stretch_width",
        styles={"max-height": f"{BOX}px", "overflow-y": "auto", "overflow-x": "hidden"},
    )
    controls, table = _pane(), _pane()
    script = CustomJS(
        code=_SCRIPT,
        args={
            "data": data,
            "source": source,
            "labels": labels,
            "outline": outline,
            "plot": plot,
            "box": box,
            "controls": controls,
            "table": table,
            "selection": selection,
            "options": options,
        },
    )
    for click in ("tap", "doubletap"):  # the second of two quick clicks is a doubletap
        plot.js_on_event(click, script)
    plot.js_on_change("inner_width", script)
    selection.js_on_change("data", script)
    return [controls, box, table]


def _options(drawn: Tree, profile: Profile, color: str, invert: bool) -> dict[str, Any]:
    present = set(drawn.entries.state.tolist())
    return {
        "unit": profile.unit,
        "states": [text if state in present else "" for state, text in STATES.items()],
        "kinds": list(KINDS.values()),
        "categories": [list(category) for category in colors.CATEGORIES],
        "module_colors": list(colors.MODULE_COLORS),
        "no_module": colors.NO_MODULE,
        "rest": colors.REST,
        "changes": list(CHANGES),
        "same": SAME,
        "faded": FADED,
        "color": color,
        "inverted": invert,
        # Compare by function, because lines move when code is edited.
        "by_line": drawn.baseline is None,
        "rows": _rows(drawn),
        "row_px": ROW,
        "most_rows": ROWS[1],
        "most_above": ABOVE,
        "least_px": LEAST,
        "folded": drawn.folded,
        "ink": colors.INK,
        "font": FONT,
        "font_size": FONT_SIZE,
        "table_rows": TABLE_ROWS,
    }


def _rows(drawn: Tree) -> int:
    """Number of rows in the initial view; zooming may need more."""
    totals = np.zeros(len(drawn.depths), np.int64)
    for entries in filter(None, (drawn.entries, drawn.baseline)):
        np.add.at(totals, entries.node, entries.weight)
    # In preorder, a node's subtree ends before the next node with the same or a smaller depth.
    ends = _subtree_ends(drawn.depths)
    sums = np.concatenate([[0], np.cumsum(totals)])
    visible = sums[ends] - sums[:-1] >= sums[-1] * LEAST / TYPICAL
    return int(np.clip(drawn.depths[visible].max(initial=0) + 1, *ROWS))


def _subtree_ends(depths: Any) -> Any:
    """(N,) int64: for each node in preorder, one past the last node of its subtree."""
    ends = np.full(len(depths), len(depths), np.int64)
    open_: list[int] = []
    for node, depth in enumerate(depths.tolist()):
        while len(open_) > depth:
            ends[open_.pop()] = node
        open_.append(node)
    return ends


def _plot(rows: int, invert: bool) -> Any:
    plot: Any = bokeh_figure(
        tools="",
        toolbar_location=None,
        height=rows * ROW,
        sizing_mode="stretch_width",
        x_range=Range1d(start=0, end=1),
        y_range=Range1d(start=rows, end=0) if invert else Range1d(start=0, end=rows),
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border=0,
        lod_threshold=None,
        stylesheets=[":host { cursor: pointer }"],
    )
    plot.axis.visible = False
    plot.grid.visible = False
    return plot


def _glyphs(plot: Any, source: ColumnDataSource, labels: ColumnDataSource, outline: ColumnDataSource) -> None:
    edges: dict[str, Any] = {"left": "left", "right": "right", "top": "top", "bottom": "bottom"}
    plot.add_glyph(source, Quad(**edges, fill_color="color", line_color=None))
    plot.add_glyph(
        labels,
        Text(
            x="x",
            y="y",
            text="text",
            x_offset=4,
            text_color=colors.INK,
            text_font={"value": FONT},
            text_font_size=FONT_SIZE,
            text_baseline="middle",
        ),
    )
    plot.add_glyph(outline, Quad(**edges, fill_color=None, line_color="#ffffff", line_width=4))
    plot.add_glyph(outline, Quad(**edges, fill_color=None, line_color="#000000", line_width=2))


def _hover(plot: Any, *, compared: bool) -> None:
    """Add tooltips, with texts from the script."""
    describe = CustomJSHover(args={"plot": plot}, code="return plot.__accel_magic_flame.describe(value, format)")
    parts = {"at": "where", "kind": "kind", "total": "total", "own": "own"}
    if compared:
        parts["baseline"] = "before"
    tips = render("tooltip", parts=parts)
    plot.add_tools(HoverTool(renderers=plot.renderers[:1], tooltips=tips, formatters={"@node": describe}))


def _pane(html: str = "") -> Pane:
    return Pane(elements=[HTML(html=html)], stylesheets=[_STYLE], styles={"width": "100%"})

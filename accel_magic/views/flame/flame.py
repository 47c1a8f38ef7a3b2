"""A flame graph in Bokeh: frames as wide as what they weigh, to zoom into, to search, to compare.

Everything that it does happens in the browser, in a saved notebook too: the page holds the whole tree and what each
stack weighs by state and by cell of the heatmap, and draws of it what is at least half a pixel wide.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from bokeh.models import Column, ColumnDataSource, CustomJS, CustomJSHover, HoverTool, Quad, Range1d, Text
from bokeh.models.dom import HTML
from bokeh.models.ui import Pane
from bokeh.plotting import figure as bokeh_figure

from accel_magic.errors import ProbeError, ResultError
from accel_magic.recording.profile import Profile, State
from accel_magic.views.figures.plotting import displayed
from accel_magic.views.flame import colors
from accel_magic.views.flame.cells import grid_of
from accel_magic.views.flame.data import KINDS, page_data, page_times, size
from accel_magic.views.flame.heatmap import heatmap
from accel_magic.views.flame.layout import Tree, tree
from accel_magic.views.flame.timed import timed

if TYPE_CHECKING:
    from bokeh.model import Model

COLORS: Final = ("kind", "module", "change")
STATES: Final = {State.CPU: "on CPU", State.OFF_CPU: "waiting", State.ACCELERATOR: "accelerator"}
CHANGES: Final = ("#3f83f0", "#e6e6e6", "#ee5a3c")
"""Shrunk, the same, grown."""
SAME: Final = 0.0005
"""Shares that differ by less than this are the same."""
FADED: Final = "#9d9d9d"
"""Towards this go frames that were not found, and those above the zoomed one; dark text is readable on it."""
ROW: Final = 18
"""Pixels of a row."""
ROWS: Final = (4, 110)
"""Fewest and most rows of a plot; of deeper stacks the rest is seen when zoomed."""
ABOVE: Final = 30
"""Most callers that stay above a zoomed frame."""
BOX: Final = 640
"""Pixels of height above which the graph scrolls."""
LEAST: Final = 0.5
"""Pixels of the narrowest frame that is drawn."""
TYPICAL: Final = 1000
"""Pixels of width by which the first height is chosen."""
FONT: Final = "Helvetica, Arial, sans-serif"
FONT_SIZE: Final = "11px"
TABLE_ROWS: Final = 25
NODES: Final = 60_000
"""Most frames of a page."""
PAGE, LEAST_TIMED = 900_000, 150_000
"""Bytes for all columns of a page, compressed, so that it stays below 1.5 MB, and for those of the times at least."""
_PARTS: Final = ("tree", "words", "state", "colors", "drawing", "about", "moves", "save", "tables", "controls", "flame")
_BODY: Final = "\n".join(Path(__file__).with_name(f"{part}.js").read_text(encoding="utf-8") for part in _PARTS)
_SCRIPT: Final = f"""const flame = plot.__accel_magic_flame ??= (() => {{
{_BODY}
}})()
flame.hear(cb_obj)
"""
_TIP: Final = (
    '<div style="display: grid; grid-template-columns: auto 1fr; gap: 1px 8px; max-width: min(400px, 42vw);'
    ' overflow-wrap: anywhere"><b style="grid-column: 1 / -1; font-weight: 600">{}</b>{}</div>'
)
"""What a pointer is told; it wraps, so that it stays on the page however long a name is."""
_TIP_ROW: Final = '<span style="color: #1583b6; text-align: right">{}</span><span>{}</span>'
_STYLE: Final = Path(__file__).with_name("flame.css").read_text(encoding="utf-8")


def flame(
    profile: Profile,
    *,
    baseline: Profile | None = None,
    invert: bool = True,
    color: Literal["kind", "module", "change"] = "kind",
    title: str = "",
    with_banners: bool = True,
) -> Model:
    """Draw a flame graph, with the heatmap above it where the samples have times.

    A click zooms to a frame, one on its callers back; the search marks frames and says what share of the weight they
    have; all of it works by keys as well.

    Args:
        profile: What to draw.
        baseline: Compare with this profile: frames are red where they have a larger share than in it, blue where
            smaller. What only the baseline has is listed below.
        invert: Root at the top (an icicle): in a page that is read downwards the root is then beside the controls and
            the heatmap, whatever the depth of the stacks. Otherwise at the bottom. A switch on the page changes it.
        color: By what frames are, by their module, or (with a baseline, where it is the first choice) by their change.
        title: Text above.
        with_banners: Draw the banners of both profiles above; else the page has them already. A file that `Save` makes
            has them in any case.

    Returns:
        A Bokeh layout, which also displays itself in a notebook.

    Raises:
        ProbeError: No such colours, or no baseline for them.
        ResultError: Nothing to draw, or nothing to compare with.

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
    head = [f'<div class="banner">{escape(banner)}</div>' for banner in banners if with_banners]
    head += [f'<div class="title">{escape(title)}</div>'] if title else []
    if head:
        parts.insert(0, _pane("".join(head)))
    return displayed(Column(children=parts, sizing_mode="stretch_width"))


def _check(profile: Profile, baseline: Profile | None, color: str) -> None:
    if color not in COLORS:
        raise ProbeError(f"no colours by {color!r}", fix=f"choose one of {', '.join(COLORS)}", code="figure.no-colors")
    if color == "change" and baseline is None:
        raise ProbeError("no change to colour by", fix="give a baseline to compare with", code="figure.no-baseline")
    if profile.total == 0:
        raise ResultError(
            "nothing to draw a flame graph of",
            why=f"no sample of the profile weighs anything ({len(profile.samples)})",
            code="result.empty-figure",
        )
    if baseline is not None and baseline.unit != profile.unit:
        raise ResultError(
            "these profiles cannot be compared",
            why=f"one is in {profile.unit}, the other in {baseline.unit}",
            code="result.different-units",
        )


def _fitting(profile: Profile, baseline: Profile | None) -> tuple[Tree, dict[str, Any]]:
    """Lay out as many frames as a page has room for, the heaviest."""
    most, room = NODES, PAGE - LEAST_TIMED
    while True:
        drawn = tree(profile, baseline, most)
        data = page_data(drawn)
        if (taken := size(data)) <= room or most == 1:
            return drawn, data
        most = max(int(0.97 * len(drawn.depths) * room / taken), 1)


def _graph(drawn: Tree, data: dict[str, Any], selection: ColumnDataSource, options: dict[str, Any]) -> list[Any]:
    plot = _plot(options["rows"], options["inverted"])
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
    for click in ("tap", "doubletap"):  # the second of two quick clicks is the latter
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
        # Lines move when code is edited: functions are what two profiles have in common.
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
    """Rows that are filled at first; zooming may show more."""
    totals = np.zeros(len(drawn.depths), np.int64)
    for entries in filter(None, (drawn.entries, drawn.baseline)):
        np.add.at(totals, entries.node, entries.weight)
    # In preorder a node's subtree ends where the next node of its depth or less is.
    ends = _subtree_ends(drawn.depths)
    sums = np.concatenate([[0], np.cumsum(totals)])
    visible = sums[ends] - sums[:-1] >= sums[-1] * LEAST / TYPICAL
    return int(np.clip(drawn.depths[visible].max(initial=0) + 1, *ROWS))


def _subtree_ends(depths: Any) -> Any:
    """(N,) int64: of each node of a preorder, the number after the last in its subtree."""
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
    """Tell what is under the pointer, in the words of the script."""
    tell = CustomJSHover(args={"plot": plot}, code="return plot.__accel_magic_flame.tell(value, format)")
    parts = {"at": "where", "kind": "kind", "total": "total", "own": "own"}
    if compared:
        parts["baseline"] = "before"
    rows = "".join(_TIP_ROW.format(text, f"@node{{{part}}}") for text, part in parts.items())
    tips = _TIP.format("@node{name}", rows)
    plot.add_tools(HoverTool(renderers=plot.renderers[:1], tooltips=tips, formatters={"@node": tell}))


def _pane(html: str = "") -> Pane:
    return Pane(elements=[HTML(html=html)], stylesheets=[_STYLE], styles={"width": "100%"})

"""A Bokeh timeline of programs, driver, interrupts and NPU, with tables of the selected steps.

It runs entirely in the browser, so it also works in a saved notebook. Colors are those of `figures`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import (
    BasicTickFormatter,
    BoxSelectTool,
    BoxZoomTool,
    Column,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    HoverTool,
    LinearColorMapper,
    PanTool,
    Quad,
    Range1d,
    RangeTool,
    Rect,
    ResetTool,
    Scatter,
    Text,
    WheelZoomTool,
)
from bokeh.models.annotations import Arrow, BoxAnnotation, VeeHead
from bokeh.models.dom import HTML
from bokeh.models.ui import Pane
from bokeh.plotting import figure as bokeh_figure

from accel_magic.banners import banners_of
from accel_magic.errors import ResultError
from accel_magic.quantities import duration_text, exact_text
from accel_magic.subsystems.npu.families import LAYERS
from accel_magic.subsystems.npu.timeline_rows import DEVICE, JOBS, Drawing, TimelineRow, drawing
from accel_magic.views.figures.plotting import GREY, PALETTE, displayed, label
from accel_magic.views.scripts import page_script
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.subsystems.npu.tables import NpuTables

LAYER_NAMES: Final = (*LAYERS, "NPU")
COLORS: Final = tuple(PALETTE[place] for place in (6, 0, 1, 2, 3, 5, 4, 7))
"""A color for each layer: olive, blue, orange, green, pink, vermilion, sky, violet."""
TASKS: Final = tuple(PALETTE[place] for place in (0, 1, 2, 5, 4, 7, 3, 6))
"""A color for each domain of tasks in a trace with nothing but tasks."""
OLIVES: Final = ("#999933", "#c2c26b", "#6f6f1f", "#dcdca6", "#85852a", "#b0b04e", "#5a5a17", "#cfcf88")
"""The same beside other layers."""
WHITE_ON: Final = {"#0072b2", "#009e73", "#d55e00", "#8c6bb1", "#6f6f1f", "#5a5a17"}
HEIGHT: Final = 560
LANE: Final = (4.0, 20.0)
"""Minimum and maximum height of a lane in pixels."""
LABELED: Final = 10.0
"""Height in pixels that a lane needs for text in its bars."""
OVERVIEW: Final = 600
"""Bins of the overview strip."""
TABLE_ROWS: Final = 100
_SCRIPT: Final = page_script(Path(__file__).with_name("timeline.js"), "__accel_magic_timeline")
_STYLE: Final = Path(__file__).with_name("timeline.css").read_text(encoding="utf-8")


def timeline(npu: NpuTables, start_ns: int | None = None, end_ns: int | None = None) -> Model:
    """Draw the steps of `npu.calls` over time, a row per layer and process, and the jobs on the NPU.

    Dragging selects the steps that the tables below list; clicking selects all steps of the job under the pointer and
    draws arrows from its doorbell to the NPU, the interrupt and the wait that it ends; Ctrl + wheel and the strip below
    zoom. Arrow keys go from step to step, Enter selects the job.

    Args:
        npu: What to draw.
        start_ns: First moment to draw, ns since the start; with many steps, a shorter range shows each of them.
        end_ns: Last moment to draw.

    Returns:
        A Bokeh layout, which also displays itself in a notebook.

    Raises:
        ResultError: The trace has no times, or no NPU steps in that range.

    """
    if not npu.trace.timed:
        raise ResultError(
            "a timeline needs times",
            why="this trace was imported from a file without times",
            code="result.no-times",
        )
    steps, jobs = npu.calls, npu.jobs
    points = npu.recording.plan.points
    domains = {point.function: point.target for point in points if point.kind == "itt"}
    drawn = drawing(steps, jobs, start_ns, end_ns, domains=domains)
    if not len(drawn.bars):
        raise ResultError(
            "no steps to draw",
            why="no task and no NPU activity was recorded in this range",
            fix="trace with the preset npu or openvino, in a mode that records events",
            code="result.empty-figure",
        )
    recording = npu.recording
    return displayed(_layout(drawn, jobs, banners_of(recording)))


def _layout(drawn: Drawing, jobs: pd.DataFrame, shown: tuple[str, ...]) -> Any:
    lanes = max(sum(row.lanes for row in drawn.rows), 1)
    lane_px = min(max(HEIGHT / lanes, LANE[0]), LANE[1])
    plot = _plot(drawn, lanes * lane_px)
    _bands(plot, drawn, lane_px)
    source = _bars(plot, drawn, lane_px)
    labels = _labels(plot, _colors(drawn)) if lane_px >= LABELED else None
    arrows = _arrows(plot)
    pane = Pane(elements=[HTML(html="")], stylesheets=[_STYLE], styles={"width": "100%"})
    script = CustomJS(
        code=_SCRIPT,
        args={
            "source": source,
            "arrows": arrows,
            "labels": labels,
            "plot": plot,
            "range": plot.x_range,
            "pane": pane,
            "jobs": _job_columns(drawn, jobs),
            "links": {name: drawn.links[name].tolist() for name in drawn.links},
            "texts": _texts(drawn),
            "lane_px": lane_px,
            "table_rows": TABLE_ROWS,
        },
    )
    plot.js_on_event("tap", script)
    plot.js_on_change("inner_width", script)
    source.selected.js_on_change("indices", script)
    for edge in ("start", "end"):
        plot.x_range.js_on_change(edge, script)
    parts = [plot, _overview(drawn, plot), pane]
    if shown:
        text = render("pane", banners=shown, title="")
        parts.insert(0, Pane(elements=[HTML(html=text)], stylesheets=[_STYLE], styles={"width": "100%"}))
    return Column(children=parts, sizing_mode="stretch_width")


def _texts(drawn: Drawing) -> dict[str, list[str]]:
    return {
        "names": drawn.names,
        "chains": drawn.chains,
        "who": drawn.who,
        "kinds": drawn.kinds,
        "colors": list(_colors(drawn)),
    }


def _colors(drawn: Drawing) -> tuple[str, ...]:
    """The color of each kind."""
    alone = bool((drawn.bars["kind"] >= len(LAYER_NAMES)).all())
    return (*COLORS, *(TASKS if alone else OLIVES))[: len(drawn.kinds)]


def _title(drawn: Drawing) -> str:
    steps = int(drawn.bars["steps"].sum()) - int((drawn.bars["layer"] == DEVICE).sum())
    parts = [f"{exact_text(steps)} steps"]
    if drawn.merged:
        limit = duration_text(drawn.shorter_ns)
        parts.append(
            f"{exact_text(drawn.merged)} of them, shorter than {limit}, drawn as {exact_text(drawn.blocks)} blocks: "
            "timeline(start_ns=..., end_ns=...) draws every step of a range"
        )
    if drawn.jobs_left_out:
        parts.append(f"{exact_text(drawn.jobs_left_out)} jobs left out")
    return "; ".join(parts)


def _plot(drawn: Drawing, height: float) -> Any:
    first, last = drawn.start_ns / 1e6, drawn.end_ns / 1e6
    margin = (last - first) * 0.01
    plot = _frame(
        title=_title(drawn),
        height=round(height) + 60,
        x_range=Range1d(start=first - margin, end=last + margin, bounds=(first - margin, last + margin)),
        y_range=Range1d(start=height, end=0),
        x_axis_label="ms since the start of the trace",
    )
    select = BoxSelectTool()
    select.overlay.update(fill_color=GREY, fill_alpha=0.15, line_color=GREY)
    wheel = WheelZoomTool(dimensions="width", modifiers={"ctrl": True})
    plot.add_tools(select, PanTool(dimensions="width"), BoxZoomTool(dimensions="width"), wheel, ResetTool())
    plot.toolbar.active_drag, plot.toolbar.active_scroll = select, wheel
    plot.toolbar.logo = None
    return plot


def _frame(**options: Any) -> Any:
    plot: Any = bokeh_figure(
        tools="",
        sizing_mode="stretch_width",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_left=130,
        **options,
    )
    plot.title.update(text_color=GREY, text_font_size="12px")
    for axis in plot.axis:
        axis.update(
            axis_line_color=None,
            major_tick_line_color=None,
            minor_tick_line_color=None,
            major_label_text_color=GREY,
            major_label_text_font_size="10px",
            axis_label_text_color=GREY,
            axis_label_text_font_size="10px",
            axis_label_text_font_style="normal",
        )
    plot.grid.grid_line_color, plot.grid.grid_line_alpha = GREY, 0.2
    plot.ygrid.visible = False
    plot.xaxis.formatter = BasicTickFormatter(use_scientific=False)
    return plot


def _bands(plot: Any, drawn: Drawing, lane_px: float) -> None:
    """Label the rows and shade every other one."""
    middles = [(row.first + row.lanes / 2) * lane_px for row in drawn.rows]
    label(plot.yaxis, middles, dict(zip(middles, _not_overlapping(drawn.rows, middles), strict=True)).get)
    for row in drawn.rows[::2]:
        plot.add_layout(
            BoxAnnotation(
                top=row.first * lane_px,
                bottom=(row.first + row.lanes) * lane_px,
                fill_color=GREY,
                fill_alpha=0.08,
                line_color=None,
                level="underlay",
            )
        )


def _not_overlapping(rows: Sequence[TimelineRow], middles: Sequence[float]) -> list[str]:
    """The labels of rows, '' for those that would cover the one above."""
    texts, free = [], -LABELED
    for row, middle in zip(rows, middles, strict=True):
        shown = middle >= free
        texts.append(row.label if shown else "")
        free = middle + LABELED if shown else free
    return texts


def _bars(plot: Any, drawn: Drawing, lane_px: float) -> ColumnDataSource:
    """Draw the steps: bars, and marks for steps too narrow to see."""
    bars = drawn.bars
    narrow = (bars["right"] - bars["left"]) < (drawn.end_ns - drawn.start_ns) / 1e6 / 500
    data: dict[str, Any] = {
        "left": bars["left"].to_numpy(),
        "width": (bars["right"] - bars["left"]).to_numpy(),
        "x": ((bars["left"] + bars["right"]) / 2).to_numpy(),
        **{str(name): bars[name].to_numpy(np.int32) for name in bars if name not in ("left", "right")},
        "y": ((bars["lane"] + 0.5) * lane_px).to_numpy(np.float32),
        "mark": np.where(narrow, bars["left"], np.nan),
    }
    source = ColumnDataSource(data)
    color = _by_kind(_colors(drawn))
    height = max(lane_px * 0.82, 2.5)
    # Not HBar, which draws bars outside the visible range as lines at the edges.
    bar: dict[str, Any] = {"x": "x", "y": "y", "width": "width", "height": height}
    mark: dict[str, Any] = {
        "x": "mark",
        "y": "y",
        "marker": "dash",
        "angle": np.pi / 2,
        "size": height,
        "line_width": 1.5,
    }
    drawings = [
        plot.add_glyph(
            source,
            Rect(**bar, fill_color=color, fill_alpha=0.85, line_color=None),
            nonselection_glyph=Rect(**bar, fill_color=color, fill_alpha=0.15, line_color=None),
        ),
        plot.add_glyph(
            source,
            Scatter(**mark, line_color=color, line_alpha=0.9),
            nonselection_glyph=Scatter(**mark, line_color=color, line_alpha=0.12),
        ),
    ]
    _hover(plot, drawings, drawn)
    return source


def _by_kind(colors: Sequence[str]) -> Any:
    """Color a glyph by its kind."""
    return {"field": "kind", "transform": LinearColorMapper(palette=list(colors), low=-0.5, high=len(colors) - 0.5)}


def _hover(plot: Any, renderers: list[Any], drawn: Drawing) -> None:
    """Add tooltips; their texts are looked up in lists, because each is used many times."""
    texts = _texts(drawn)
    look_up = {
        name: CustomJSHover(args={"texts": texts[name]}, code="return texts[value] ?? ''")
        for name in ("kinds", "chains", "who")
    }
    short = "const [f, u] = value >= 1e3 ? [1e3, 's'] : value >= 1 ? [1, 'ms'] : [1e-3, 'us']; "
    time = CustomJSHover(code=f"{short} return Number((value / f).toPrecision(6)) + ' ' + u")
    length = CustomJSHover(
        code=f"if (!value) return '-'; {short} return Number((value / f).toPrecision(3)) + ' ' + u",
    )
    first = CustomJSHover(
        args={"texts": texts["names"], "source": renderers[0].data_source},
        code="const steps = source.data.steps[special_vars.index]; "
        "return (steps > 1 ? `${steps} steps, the first: ` : '') + texts[value]",
    )
    known = CustomJSHover(code="return value < 0 ? '-' : value.toString()")
    plot.add_tools(
        HoverTool(
            renderers=renderers,
            limit=1,
            tooltips=[
                ("step", "@name{first}"),
                ("layer", "@kind{kinds}"),
                ("start", "@left{time}"),
                ("duration", "@width{length}"),
                ("thread", "@who{who}"),
                ("job", "@job{known}"),
                ("caused by", "@chain{chains}"),
            ],
            formatters={
                "@name": first,
                "@kind": look_up["kinds"],
                "@chain": look_up["chains"],
                "@who": look_up["who"],
                "@left": time,
                "@width": length,
                "@job": known,
            },
        )
    )


def _labels(plot: Any, colors: Sequence[str]) -> ColumnDataSource:
    """Names in the bars; the script fills them in where a bar is wide enough at the current zoom."""
    source = ColumnDataSource({"x": [], "y": [], "text": [], "kind": []})
    color = _by_kind(["#ffffff" if color in WHITE_ON else "#000000" for color in colors])
    plot.add_glyph(
        source, Text(x="x", y="y", text="text", text_color=color, text_font_size="9px", text_baseline="middle")
    )
    return source


def _arrows(plot: Any) -> ColumnDataSource:
    """Arrows that follow the selected jobs."""
    source = ColumnDataSource({"x0": [], "y0": [], "x1": [], "y1": []})
    head = VeeHead(size=7, fill_color=GREY, line_color=GREY)
    arrow = Arrow(source=source, x_start="x0", y_start="y0", x_end="x1", y_end="y1", end=head)
    arrow.update(line_color=GREY, line_width=1.5)
    plot.add_layout(arrow)
    return source


def _overview(drawn: Drawing, plot: Any) -> Any:
    """A strip of the whole range: activity over time, with a window to drag."""
    first, last = drawn.start_ns / 1e6, drawn.end_ns / 1e6
    counts, edges = np.histogram(drawn.bars["left"], OVERVIEW, (first, last), weights=drawn.bars["calls"])
    strip = _frame(
        title="",
        height=54,
        x_range=Range1d(start=plot.x_range.start, end=plot.x_range.end),
        y_range=Range1d(start=0, end=float(np.sqrt(counts.max(initial=1)))),
        toolbar_location=None,
    )
    strip.title.visible = strip.yaxis.visible = False
    filled = np.flatnonzero(counts)
    strip.add_glyph(
        ColumnDataSource({"left": edges[filled], "right": edges[filled + 1], "top": np.sqrt(counts[filled])}),
        Quad(left="left", right="right", top="top", bottom=0, fill_color=GREY, fill_alpha=0.6, line_color=None),
    )
    window = RangeTool(x_range=plot.x_range)
    window.overlay.update(fill_color=PALETTE[0], fill_alpha=0.15)
    strip.add_tools(window)
    return strip


def _job_columns(drawn: Drawing, jobs: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns of the job table: times in ms, NaN if not known."""
    submitted = _ms(jobs, "submitted_ns")
    seen = np.nan_to_num(submitted + np.nan_to_num(_ms(jobs, "latency_ns")), nan=np.inf)
    early = np.nan_to_num(submitted) > drawn.end_ns / 1e6
    rows = np.flatnonzero(~early & (seen >= drawn.start_ns / 1e6))[:JOBS]
    listed = jobs.iloc[rows]
    return {
        "job": rows.tolist(),
        "status": listed["status"].astype("str").tolist(),
        "submitted": submitted[rows].tolist(),
        "latency": _ms(listed, "latency_ns").tolist(),
        "wait": _ms(listed, "wait_ns").tolist(),
        "thread": [
            f"{comm} {pid}" + (f", thread {tid}" if tid != pid else "") if known else ""
            for comm, pid, tid, known in zip(
                listed["comm"].astype("str"), listed["pid"], listed["tid"], listed["pid"].notna(), strict=True
            )
        ],
    }


def _ms(jobs: pd.DataFrame, column: str) -> Any:
    return jobs[column].to_numpy(np.float64, na_value=np.nan) / 1e6

"""A subsecond-offset heatmap: a profile's samples over time, as an image in which time can be selected.

Columns are seconds, rows the time within a second (from the bottom), and a cell's color is its weight, as in FlameScope
(https://github.com/Netflix/flamescope). It runs entirely in the browser, so it also works in a saved notebook.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import (
    Column,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    FixedTicker,
    HoverTool,
    Image,
    Line,
    LinearColorMapper,
    Range1d,
)
from bokeh.models.annotations import BoxAnnotation, ColorBar
from bokeh.models.dom import HTML
from bokeh.models.ui import Pane

from accel_magic.errors import ResultError
from accel_magic.quantities import BYTES, DURATIONS, bytes_text, count_text, duration_text
from accel_magic.recording.profile import NO_TIME, Profile, ThreadState, Unit
from accel_magic.views.figures.plotting import GREY, PALETTE, displayed, label, new_plot
from accel_magic.views.figures.ticks import linear_ticks, log_ticks
from accel_magic.views.flame.heatmap_cells import ROWS, STEPS, Grid, Sums, cells_of, grid_of, sums
from accel_magic.views.scripts import page_script
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from bokeh.model import Model
    from numpy.typing import NDArray

__all__ = ["cells_of", "heatmap"]

SHADES: Final = 40
_FAINT, _FULL = (0xE6, 0x9F, 0x00, 0.22), (0xC8, 0x3E, 0x00, 1.0)
SHADE_COLORS: Final = tuple(
    "#{:02x}{:02x}{:02x}{:02x}".format(
        *(round(a + (b - a) * step / (SHADES - 1)) for a, b in zip(_FAINT[:3], _FULL[:3], strict=True)),
        round(255 * (_FAINT[3] + (_FULL[3] - _FAINT[3]) * step / (SHADES - 1))),
    )
    for step in range(SHADES)
)
"""From transparent orange to full vermilion: small weights are close to the page's color, whether white or black."""
BEYOND: Final = "#8e44c9"
"""Violet: heavier than the last shade."""
OUTLIERS: Final = 0.99
"""The shades end at this quantile of the nonempty cells' weights if the heaviest cell has more than twice as much."""
LINEAR: Final = 0.5
"""Below this power, the ticks of the color bar are at 1, 2, 5, 10 and so on."""
CURSOR: Final = "#56b4e9"
BAR: Final = 1000
"""Length of the color bar's axis; `BEYOND` takes as much of it as three shades."""
CELL_PX: Final = 10
HEIGHTS: Final = (60, 200)
"""Minimum and maximum height of a column in pixels."""
TICKS: Final = 8
LABEL_PX: Final = 16
"""Height of a color bar label in pixels."""
_SCRIPT: Final = page_script(Path(__file__).with_name("heatmap.js"), "__accel_magic_heatmap")
_STYLE: Final = Path(__file__).with_name("flame.css").read_text(encoding="utf-8")
WHAT: Final = {
    ThreadState.CPU: "time on CPUs",
    ThreadState.OFF_CPU: "waits",
    ThreadState.ACCELERATOR: "accelerator time",
}
"""The name of each state's weight in a profile in ns."""


@dataclass(frozen=True)
class Scale:
    """A color scale of weights.

    Attributes:
        limits: (SHADES,) float64 ascending, or one more if some cells are beyond: a weight has the last color whose
            limit it reaches, and none below the first limit.
        ticks: Positions in the color bar, 0 to `BAR`.
        labels: The weights at these positions.
        heaviest: The heaviest cell's weight if it is beyond the shades, else 0.

    """

    limits: NDArray[np.float64]
    ticks: tuple[int, ...]
    labels: tuple[str, ...]
    heaviest: int

    @property
    def colors(self) -> tuple[str, ...]:
        """Palette of the color bar."""
        return SHADE_COLORS + (BEYOND,) * 3 * (self.heaviest > 0)


def heatmap(profile: Profile, selection: ColumnDataSource, rows: int = ROWS, step: int = 1) -> Model:
    """Draw the samples over time.

    Dragging selects the time range from the first cell to the last, through all columns in between; with Shift, a
    block of cells. Arrow keys move a cursor, with Shift they select; Esc or a double click selects everything.

    Args:
        profile: What to draw; samples without a time are omitted, and counted in the line below.
        selection: Its column `cells` gets the numbers of the selected cells (`cells_of`), empty for everything; the
            heatmap follows changes by others. Its `tags`, which others set, are the states to show (codes of `State`),
            empty for all.
        rows: The maximum number of rows of a column; see `cells.grid_of`.
        step: The number of cells that are selected together; a divisor of the grid's rows.

    Returns:
        A Bokeh layout, which also displays itself in a notebook.

    Raises:
        ResultError: No sample has a time.

    """
    grid = grid_of(profile, rows)
    summed = sums(profile, grid)
    if not summed.states:
        raise ResultError(
            "a heatmap needs times",
            why=f"no sample of this profile has a time ({profile.origin or 'origin unknown'})",
            code="result.no-times",
        )
    scales = {states: _scale(_shown(summed, states), profile.unit, _height(grid)) for states in _choices(summed.states)}
    first = scales[summed.states]
    plot = _plot(grid, _title(grid, summed.states, profile.unit, first))
    bar = _color_bar(plot, first)
    shades = _shades(_shown(summed, summed.states), first, grid)
    every, chosen = (_image(plot, grid, image) for image in (shades, np.zeros_like(shades)))
    outline, cursor = _line(plot, PALETTE[0], 2), _line(plot, CURSOR, 2)
    pane = Pane(elements=[HTML(html="")], stylesheets=[_STYLE], styles={"width": "100%"})
    script = CustomJS(
        code=_SCRIPT,
        args={
            "plot": plot,
            "bar": bar,
            "pane": pane,
            "every": every,
            "chosen": chosen,
            "outline": outline,
            "cursor": cursor,
            "selection": selection,
            "step": step,
            **_page_data(profile, summed, scales),
        },
    )
    for event in ("panstart", "pan", "panend", "press", "mousemove", "pressup", "tap", "doubletap"):
        plot.js_on_event(event, script)
    plot.js_on_change("inner_width", script)
    for changed in ("data", "tags"):
        selection.js_on_change(changed, script)
    _hover(plot, every, profile.unit)
    return displayed(Column(children=[*_banners(profile), plot, pane], sizing_mode="stretch_width"))


def _page_data(profile: Profile, summed: Sums, scales: dict[tuple[ThreadState, ...], Scale]) -> dict[str, Any]:
    """The script's data: the cells' weights by state, and titles and scales for each combination of states."""
    grid = summed.grid
    return {
        "grid": {"column": grid.column_ns / 1e9, "rows": grid.rows, "columns": grid.columns},
        "weights": [_small(weight) for weight in summed.weight],
        "samples": [_small(samples) for samples in summed.samples],
        "states": [int(state) for state in summed.states],
        "scales": {
            str(sum(1 << state for state in states)): {
                "title": _title(grid, states, profile.unit, scale),
                "limits": scale.limits,
                "colors": scale.colors,
                "ticks": scale.ticks,
                "labels": scale.labels,
            }
            for states, scale in scales.items()
        },
        "unit": profile.unit,
        "units": {"weight": {"ns": DURATIONS, "bytes": BYTES}.get(profile.unit), "time": DURATIONS},
        "untimed": int((profile.samples.time_ns == NO_TIME).sum()),
    }


def _banners(profile: Profile) -> list[Any]:
    html = render("pane", banners=profile.banners, title="")
    return [Pane(elements=[HTML(html=html)], stylesheets=[_STYLE], styles={"width": "100%"})] if html else []


def _choices(states: tuple[ThreadState, ...]) -> list[tuple[ThreadState, ...]]:
    """Every nonempty combination of the states."""
    return [chosen for count in range(1, len(states) + 1) for chosen in combinations(states, count)]


def _shown(summed: Sums, states: tuple[ThreadState, ...]) -> NDArray[np.int64]:
    """Weight of each cell in these states, (cells,)."""
    weight: NDArray[np.int64] = summed.weight[[state in states for state in summed.states]].sum(axis=0)
    return weight


def _scale(weights: NDArray[np.int64], unit: Unit, height: float) -> Scale:
    """Choose a scale on which cells can be told apart even if some are far heavier than the others.

    The shades go from 0 to the heaviest cell, or to the 99th percentile of the nonempty cells if the heaviest has more
    than twice that; cells beyond it have their own color. The median cell has at least the middle shade: if it would
    have less, the scale is not linear but a power (less than 1) of the weight.
    """
    filled = weights[weights > 0]
    if not len(filled):
        filled = np.ones(1, np.int64)
    high, heaviest = int(np.quantile(filled, OUTLIERS, method="inverted_cdf")), int(filled.max())
    beyond = heaviest > 2 * high
    high = high if beyond else heaviest
    median = min(float(np.median(filled)), high / 2)
    power = math.log(0.5) / math.log(median / high)
    limits = high * (np.arange(SHADES) / SHADES) ** (1 / power)
    limits[0] = min(1, limits[1])  # 0 has no color, the smallest weight a faint one
    least = max(high * 0.1 ** (1 / power), float(filled.min()))
    values = _linear(high, unit) if power > LINEAR or least == high else [0, *log_ticks(least, high)]
    text = _text(unit)
    ticks = {(value / high) ** power: text(value) if value else "0" for value in values}
    if beyond:
        limits = np.append(limits, high + 1)
        ticks[1 + 1.5 / SHADES] = f"> {text(high)}"
    length = 1 + 3 * beyond / SHADES
    places = _apart([place / length for place in ticks], LABEL_PX / height)
    names = tuple(name for place, name in ticks.items() if place / length in places)
    return Scale(limits, tuple(round(BAR * place) for place in places), names, heaviest if beyond else 0)


def _apart(places: list[float], least: float) -> list[float]:
    """Drop places (ascending) that are closer than `least` to the next one kept; the last one is kept."""
    kept: list[float] = []
    for place in reversed(places):
        if not kept or kept[0] - place >= least:
            kept.insert(0, place)
    return kept


def _linear(high: float, unit: Unit) -> list[float]:
    """Whole numbers from 0 to `high`; for bytes, round numbers of KiB, MiB and so on."""
    base = max((size for size, _ in BYTES if size <= high), default=1.0) if unit == "bytes" else 1.0
    return [tick * base for tick in linear_ticks(high / base) if base > 1 or tick == int(tick)]


def _shades(weights: NDArray[np.int64], scale: Scale, grid: Grid) -> NDArray[np.uint8]:
    """The colors as an image, (rows, columns): 0 for none, 1 to `SHADES`, or one more for cells beyond them."""
    shades = np.searchsorted(scale.limits, weights, side="right").astype(np.uint8)
    return np.ascontiguousarray(shades.reshape(grid.columns, grid.rows).T)


def _plot(grid: Grid, title: str) -> Any:
    width, height = grid.columns * grid.column_ns / 1e9, grid.column_ns / 1e9
    plot = new_plot(title, x_range=Range1d(start=0, end=width), y_range=Range1d(start=0, end=height))
    plot.update(height=_height(grid) + 58, max_width=None)
    plot.grid.visible = False
    plot.add_layout(
        BoxAnnotation(left=0, right=width, bottom=0, top=height, fill_color=GREY, fill_alpha=0.07, line_color=None)
    )
    label(plot.xaxis, _time_ticks(width, TICKS), lambda seconds: duration_text(seconds * 1e9))
    few = min(max(plot.height // 50, 2), 5)
    label(plot.yaxis, _time_ticks(height, few) if grid.rows > 1 else [], lambda seconds: duration_text(seconds * 1e9))
    return plot


def _height(grid: Grid) -> int:
    """Height of a column in pixels."""
    least, most = HEIGHTS
    return min(max(grid.rows * CELL_PX, least), most)


def _time_ticks(end: float, most: int) -> list[float]:
    """At most `most` ticks from 0 to `end`, s, in round steps of time."""
    step = next((step for step in STEPS if end * 1e9 / step <= most), end * 1e9 / most)
    return [count * step / 1e9 for count in range(int(end * 1e9 / step + 1e-9) + 1)]


def _color_bar(plot: Any, scale: Scale) -> Any:
    mapper = LinearColorMapper(palette=list(scale.colors), low=0, high=BAR)
    bar: Any = ColorBar(
        color_mapper=mapper,
        ticker=FixedTicker(ticks=list(scale.ticks), minor_ticks=[]),
        major_label_overrides=dict(zip(scale.ticks, scale.labels, strict=True)),
        width=10,
        height="auto",
        padding=4,
        major_label_text_color=GREY,
        major_label_text_font_size="10px",
        major_tick_line_color=GREY,
        background_fill_alpha=0,
        bar_line_color=None,
    )
    plot.add_layout(bar, "right")
    return bar


def _image(plot: Any, grid: Grid, image: NDArray[np.uint8]) -> Any:
    """Draw cells by their color numbers."""
    palette = [*SHADE_COLORS, BEYOND]
    mapper = LinearColorMapper(palette=palette, low=0.5, high=len(palette) + 0.5, low_color="#00000000")
    width, height = grid.columns * grid.column_ns / 1e9, grid.column_ns / 1e9
    return plot.add_glyph(
        ColumnDataSource({"image": [image]}),
        Image(image="image", x=0, y=0, dw=width, dh=height, color_mapper=mapper),
    )


def _line(plot: Any, color: str, width: float) -> ColumnDataSource:
    source = ColumnDataSource({"x": [], "y": []})
    plot.add_glyph(source, Line(x="x", y="y", line_color=color, line_width=width))
    return source


def _hover(plot: Any, cells: Any, unit: Unit) -> None:
    """Add tooltips of cells, from the script, which knows the shown states."""
    fields: dict[str, Any] = {
        key: CustomJSHover(
            args={"plot": plot},
            code=f"return plot.__accel_magic_heatmap?.describe(special_vars.x, special_vars.y)[{at}] ?? ''",
        )
        for at, key in enumerate(("$x", "$y", "@image"))
    }
    samples = [] if unit == "samples" else [("samples", "@image{custom}")]
    tips = [("when", "$x{custom}"), ("time" if unit == "ns" else unit, "$y{custom}"), *samples]
    plot.add_tools(HoverTool(renderers=[cells], tooltips=tips, formatters=fields))


def _title(grid: Grid, states: tuple[ThreadState, ...], unit: Unit, scale: Scale) -> str:
    what = " and ".join(WHAT[state] for state in states) if unit == "ns" else unit
    cell = f", {duration_text(grid.cell_ns)} per cell" if grid.rows > 1 else ""
    heaviest = f"; heaviest cell: {_text(unit)(scale.heaviest)}" if scale.heaviest else ""
    return f"When: {what}; {duration_text(grid.column_ns)} per column{cell}{heaviest}"


def _small(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Numbers in the narrowest type; above 32 bits float64, because int64 arrays hold no JavaScript numbers."""
    highest = int(numbers.max(initial=0))
    fitting = next((kind for kind in (np.uint8, np.uint16, np.uint32) if highest <= np.iinfo(kind).max), np.float64)
    return numbers.astype(fitting)


def _text(unit: Unit) -> Callable[[float], str]:
    return {"ns": duration_text, "bytes": bytes_text}.get(unit, count_text)

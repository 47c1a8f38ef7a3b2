"""A picture of a Bokeh figure as SVG, for where scripts do not run: notebooks that are not trusted, viewers of files.

It has the marks, axes, ticks, title and legend of the figure as it is first shown, and nothing that reacts. It knows
the glyphs that this package uses; a figure whose marks a script makes gives them itself (`with_marks`).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.quantities import shortened
from accel_magic.views.figures.ticks import linear_ticks
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

WIDTH: Final = 640
_PLOT_HEIGHT: Final = (60, 420)
_CHARACTER, _LINE, _NAME = 5.6, 14, 11
"""Pixels of a character of a label, on average, of a line of text, and of a row with a name."""
_LEGEND_COLUMNS: Final = 3
_WIDE: Final = 6.2
"""Pixels of a character in a box, so that nearly all texts stay in it."""
_SHORTEST: Final = 5
"""Characters for which a box must have room, to have a text."""
_HATCHED: Final = "80"
"""Opacity that stands for a pattern."""
_TITLE: Final = 90
"""Most characters of a title."""


@dataclass(frozen=True)
class Marks:
    """Marks of one glyph in data coordinates, and their color.

    Attributes:
        boxes: (n, 4) float64: left, right, bottom, top; of a line: points (n, 2).
        colors: (n,) of the marks, `#rrggbb` or with two more digits for the opacity; of a line one.
        opacity: 0 to 1.
        line: Whether it is a line through points.
        dashed: Whether that is dashed.
        texts: (n,) texts in the boxes, as far as there is room; () for none.

    """

    boxes: NDArray[np.float64]
    colors: NDArray[np.object_]
    opacity: float = 1.0
    line: bool = False
    dashed: bool = False
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class _Axis:
    """Where values are: maps data to pixels.

    Attributes:
        low: The value at the first pixel.
        high: The value at the last pixel.
        first: The first pixel.
        last: The last pixel.
        log: Whether it is logarithmic.

    """

    low: float
    high: float
    first: float
    last: float
    log: bool

    def pixels(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Pixels of values, limited to the axis."""
        low, high = self.low, self.high
        if self.log:
            low, high, values = np.log(low), np.log(high), np.log(np.maximum(values, min(low, high)))
        place = (values - low) / ((high - low) or 1.0)
        return self.first + np.clip(place, 0, 1) * (self.last - self.first)


def with_marks(plot: Any, make: Callable[[], Marks]) -> None:
    """Tell the marks of a plot that a script draws in the browser."""
    plot._accel_magic_marks = make  # noqa: SLF001 - the underscore keeps it from being a Bokeh property


def data_url(model: Any) -> str:
    """Address that contains the picture of a figure, or of figures below each other; '' if there is nothing to draw."""
    source = picture(model)
    return f"data:image/svg+xml;base64,{base64.b64encode(source.encode()).decode()}" if source else ""


def picture(model: Any) -> str:
    """Draw all plots of a model below each other; '' if there are none.

    Args:
        model: A Bokeh model: a plot, or a layout with plots.

    """
    from bokeh.models import Plot

    parts, height = [], 0
    for plot in _visible(model, Plot):
        drawn = _plot(plot)
        parts.append({"top": height, **drawn})
        height += drawn["height"]
    return render("picture", width=WIDTH, height=height, plots=parts) if parts else ""


def _visible(model: Any, kind: type) -> Iterator[Any]:
    """Plots of a layout from top to bottom."""
    if not model.visible:
        return
    if isinstance(model, kind):
        yield model
        return
    for child in getattr(model, "children", ()):
        yield from _visible(child[0] if isinstance(child, tuple) else child, kind)


def _plot(plot: Any) -> dict[str, Any]:
    """Values for the template: one plot."""
    from bokeh.models import LogScale

    made = getattr(plot, "_accel_magic_marks", None)
    marks = [each for renderer in plot.renderers if renderer.visible for each in _marks(renderer)]
    marks += [made()] if made else []
    log_x, log_y = isinstance(plot.x_scale, LogScale), isinstance(plot.y_scale, LogScale)
    x_range, y_range = _range(plot.x_range, marks, 0, log=log_x), _range(plot.y_range, marks, 2, log=log_y)
    names, values = _labels(plot.yaxis, y_range), _labels(plot.xaxis, x_range)
    inner = max(min(max(int(plot.height or 240) - 60, _PLOT_HEIGHT[0]), _PLOT_HEIGHT[1]), _NAME * len(names))
    left = 12 + max((len(text) for _, text in names), default=0) * _CHARACTER + _LINE * _has_title(plot.yaxis)
    title = shortened(str(plot.title.text or ""), _TITLE) if plot.title and plot.title.visible else ""
    top = _LINE + 4 if title else 4
    across = _Axis(*x_range, left, WIDTH - 12, log_x)
    down = _Axis(*y_range, top + inner, top, log_y)
    below = top + inner + (_LINE if values else 0) + _LINE * _has_title(plot.xaxis)
    legend = _legend(plot, below)
    rows = -(-len(legend) // _LEGEND_COLUMNS)
    return {
        "title": title,
        "height": round(below + rows * _LINE + 10),
        "area": {"left": left, "top": top, "right": WIDTH - 12, "bottom": top + inner},
        "bands": [_band(each, down) for each in plot.center if _is_band(each)],
        "paths": [path for each in marks for path in _paths(each, across, down)],
        "texts": [text for each in marks for text in _texts(each, across, down)],
        "ticks": [{"at": float(across.pixels(np.array([at]))[0]), "text": text} for at, text in values],
        "names": [{"at": float(down.pixels(np.array([at]))[0]), "text": text} for at, text in names],
        "axes": bool(names or values),
        "across": _axis_title(plot.xaxis),
        "down": _axis_title(plot.yaxis),
        "legend": legend,
    }


def _has_title(axes: Sequence[Any]) -> bool:
    return bool(_axis_title(axes))


def _axis_title(axes: Sequence[Any]) -> str:
    return str(axes[0].axis_label or "") if axes and axes[0].visible else ""


def _labels(axes: Sequence[Any], shown: tuple[float, float]) -> list[tuple[float, str]]:
    """Ticks with their labels: those that the figure fixes, else round numbers."""
    if not axes or not axes[0].visible:
        return []
    low, high = sorted(shown)
    ticks = getattr(axes[0].ticker, "ticks", None)
    if ticks is None:
        step = [*linear_ticks(high - low), 1.0][1]
        ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    ticks = [tick for tick in ticks if low <= tick <= high]
    texts = axes[0].major_label_overrides
    return [(float(tick), str(texts.get(tick, f"{tick:g}"))) for tick in ticks]


def _range(given: Any, marks: Sequence[Marks], column: int, *, log: bool) -> tuple[float, float]:
    """Start and end of an axis; from the data if the figure leaves them open."""
    start, end = (getattr(given, name, None) for name in ("start", "end"))
    if isinstance(start, int | float) and isinstance(end, int | float) and np.isfinite([start, end]).all():
        return float(start), float(end)
    values = [
        (each.boxes[:, column // 2] if each.line else each.boxes[:, column : column + 2]).ravel() for each in marks
    ]
    found = np.concatenate([*values, np.zeros(0)])
    found = found[np.isfinite(found) & ((found > 0) | (not log))]
    return (float(found.min()), float(found.max())) if len(found) else (1.0, 10.0)


def _marks(renderer: Any) -> Iterator[Marks]:
    """The marks of a glyph; nothing for kinds that have none in Python (texts that a script fills in)."""
    glyph, data = renderer.glyph, renderer.data_source.data
    shape = _SHAPES.get(type(glyph).__name__)
    if shape is None:
        return
    boxes, line = shape(glyph, data)
    kind = "line" if line or getattr(glyph, "fill_color", None) is None else "fill"
    if type(glyph).__name__ == "Image":
        colors: NDArray[np.object_] = _mapped(np.asarray(data["image"][0]).ravel(), glyph.color_mapper)
        yield Marks(boxes[colors != ""], colors[colors != ""], 1.0)  # cells without a color are empty
        return
    colors = _colors(getattr(glyph, f"{kind}_color"), data, 1 if line else len(boxes))
    opacity = getattr(glyph, f"{kind}_alpha")
    if isinstance(hatch := getattr(glyph, "hatch_pattern", None), str) and hatch in data:
        colors = np.where(np.asarray(data[hatch]) == " ", colors, colors + _HATCHED)
    known = np.isfinite(boxes).all(axis=1)
    chosen = colors if line else colors[known]
    dashed = line and bool(glyph.line_dash)
    yield Marks(boxes[known], chosen, opacity if isinstance(opacity, float) else 1.0, line, dashed)


def _column(given: Any, data: Any, count: int) -> NDArray[np.float64]:
    """Values of a property: a column, or the same value for all."""
    value = getattr(given, "field", given)
    if isinstance(value, str):
        return np.asarray(data[value], np.float64)
    return np.full(count, float(value))


def _count(data: Any) -> int:
    return max((len(column) for column in data.values()), default=0)


def _hbars(glyph: Any, data: Any) -> tuple[NDArray[np.float64], bool]:
    count = _count(data)
    left, right, y, height = (_column(getattr(glyph, name), data, count) for name in ("left", "right", "y", "height"))
    return np.column_stack([left, right, y - height / 2, y + height / 2]), False


def _quads(glyph: Any, data: Any) -> tuple[NDArray[np.float64], bool]:
    count = _count(data)
    return np.column_stack(
        [_column(getattr(glyph, side), data, count) for side in ("left", "right", "bottom", "top")]
    ), False


def _rects(glyph: Any, data: Any) -> tuple[NDArray[np.float64], bool]:
    count = _count(data)
    x, y, width, height = (_column(getattr(glyph, name), data, count) for name in ("x", "y", "width", "height"))
    return np.column_stack([x - width / 2, x + width / 2, y - height / 2, y + height / 2]), False


def _points(glyph: Any, data: Any) -> tuple[NDArray[np.float64], bool]:
    """Points have no size in data; they are drawn with at least two pixels."""
    count = _count(data)
    x, y = (_column(getattr(glyph, name), data, count) for name in ("x", "y"))
    return np.column_stack([x, x, y, y]), False


def _line(glyph: Any, data: Any) -> tuple[NDArray[np.float64], bool]:
    count = _count(data)
    x, y = (_column(getattr(glyph, name), data, count) for name in ("x", "y"))
    if type(glyph).__name__ == "Step":
        x, y = (
            (np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1])
            if glyph.mode == "after"
            else (np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:])
        )
    return np.column_stack([x, y]), True


def _cells(glyph: Any, data: Any) -> tuple[NDArray[np.float64], bool]:
    """The cells of an image, row by row."""
    rows, columns = np.asarray(data[glyph.image if isinstance(glyph.image, str) else glyph.image.field][0]).shape
    x, y, width, height = (_column(getattr(glyph, name), data, 1)[0] for name in ("x", "y", "dw", "dh"))
    left, bottom = (np.arange(count) for count in (columns, rows))
    lefts, bottoms = np.tile(left, rows), np.repeat(bottom, columns)
    across, up = width / columns, height / rows
    edges = [x + lefts * across, x + (lefts + 1) * across, y + bottoms * up, y + (bottoms + 1) * up]
    return np.column_stack(edges).astype(np.float64), False


_SHAPES: Final = {
    "HBar": _hbars,
    "Quad": _quads,
    "Rect": _rects,
    "Scatter": _points,
    "Line": _line,
    "Step": _line,
    "Image": _cells,
}


def _colors(given: Any, data: Any, count: int) -> NDArray[np.object_]:
    """A color for each mark; '' for none."""
    field = getattr(given, "field", given)
    if not isinstance(field, str) or field not in data:
        return np.full(count, field if isinstance(field, str) else "", dtype=object)
    values = np.asarray(data[field])
    mapper = getattr(given, "transform", None)
    return values.astype(object) if mapper is None else _mapped(values, mapper)


def _mapped(values: NDArray[Any], mapper: Any) -> NDArray[np.object_]:
    """Colors of a linear color mapper; '' where it has a transparent one."""
    palette = np.array([*mapper.palette], dtype=object)
    numbers = values.astype(np.float64)
    low = np.nanmin(numbers) if mapper.low is None else mapper.low
    high = np.nanmax(numbers) if mapper.high is None else mapper.high
    place = np.clip((numbers - low) / ((high - low) or 1) * len(palette), 0, len(palette) - 1)
    colors = palette[np.nan_to_num(place).astype(np.int64)]
    if mapper.low_color is not None:
        colors[numbers < low] = mapper.low_color if isinstance(mapper.low_color, str) else ""
    colors[~np.isfinite(numbers)] = ""
    return colors


def _paths(marks: Marks, across: _Axis, down: _Axis) -> Iterator[dict[str, Any]]:
    """One path per color, which is a third of the size of one element per mark."""
    if marks.line:
        x, y = across.pixels(marks.boxes[:, 0]), down.pixels(marks.boxes[:, 1])
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        yield {
            "path": f"M{points}",
            "color": marks.colors[0],
            "line": True,
            "dashed": marks.dashed,
            "opacity": marks.opacity,
        }
        return
    edges = [across.pixels(marks.boxes[:, side]) for side in (0, 1)] + [
        down.pixels(marks.boxes[:, side]) for side in (2, 3)
    ]
    left, right, one, other = (np.rint(2 * edge) / 2 for edge in edges)
    top = np.minimum(one, other)
    # Marks narrower than a pixel would be invisible.
    boxes = np.column_stack([top, np.maximum(np.abs(other - one), 2.0), left, np.maximum(right, left + 1.0)])
    for color in dict.fromkeys(marks.colors.tolist()):
        joined = _joined(boxes[marks.colors == color])
        path = "".join(f"M{x:g},{y:g}h{end - x:g}v{height:g}h{x - end:g}z" for y, height, x, end in joined)
        yield {"path": path, "color": color, "line": False, "dashed": False, "opacity": marks.opacity}


def _texts(marks: Marks, across: _Axis, down: _Axis) -> Iterator[dict[str, Any]]:
    """Texts at the left of their boxes."""
    if not len(marks.texts):
        return
    left, right = (across.pixels(marks.boxes[:, side]) for side in (0, 1))
    middle = down.pixels(marks.boxes[:, 2:].mean(axis=1))
    room = ((right - left - 4) / _WIDE).astype(np.int64)
    for box in np.flatnonzero(room >= _SHORTEST).tolist():
        yield {"x": left[box] + 3, "y": middle[box] + 3.5, "text": shortened(marks.texts[box], int(room[box]))}


def _joined(boxes: NDArray[np.float64]) -> Iterator[list[float]]:
    """Boxes (top, height, left, right), those of one row and height that touch as one: thousands share a pixel."""
    ordered = boxes[np.lexsort(boxes.T[::-1])].tolist()
    whole = ordered[0]
    for box in ordered[1:]:
        if box[:2] == whole[:2] and box[2] <= whole[3]:
            whole[3] = max(whole[3], box[3])
        else:
            yield whole
            whole = box
    yield whole


def _is_band(each: Any) -> bool:
    return type(each).__name__ == "BoxAnnotation" and isinstance(each.top, int | float) and each.visible


def _band(box: Any, down: _Axis) -> dict[str, Any]:
    top, bottom = sorted(down.pixels(np.array([box.top, box.bottom], np.float64)).tolist())
    return {"top": top, "height": bottom - top, "color": box.fill_color, "opacity": box.fill_alpha}


def _legend(plot: Any, top: float) -> list[dict[str, Any]]:
    """Entries of the legends, in columns."""
    entries = []
    for legend in plot.legend:
        for item in legend.items if legend.visible else ():
            text = str(getattr(item.label, "value", item.label))
            color = next((color for renderer in item.renderers if (color := _first_color(renderer))), "")
            entries.append((text, color))
    step = (WIDTH - 24) / _LEGEND_COLUMNS
    return [
        {
            "x": 12 + number % _LEGEND_COLUMNS * step,
            "y": top + 6 + number // _LEGEND_COLUMNS * _LINE,
            "text": shortened(text, int(step / _CHARACTER) - 4),
            "color": color,
        }
        for number, (text, color) in enumerate(entries)
    ]


def _first_color(renderer: Any) -> str:
    return next((str(each.colors[0]) for each in _marks(renderer) if len(each.colors)), "")

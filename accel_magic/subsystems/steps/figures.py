"""Figure of how late each rank is at each step or collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from bokeh.models import FixedTicker, LinearColorMapper
from bokeh.models.annotations import ColorBar

from accel_magic.quantities import duration_text, exact_text, shortened
from accel_magic.views.figures.plotting import GREY, displayed, hover, label, new_plot
from accel_magic.views.figures.ticks import linear_ticks

if TYPE_CHECKING:
    from bokeh.models import Plot

    from accel_magic.subsystems.steps.lateness import Lateness

MOST_COLUMNS: Final = 400
MOST_RANKS: Final = 64
_ROW_PIXELS: Final = 14
_COLORS: Final = ("#e8e8e8", "#fdd49e", "#fdbb84", "#fc8d59", "#ef6548", "#d7301f", "#990000")
_LABEL: Final = 16


def lateness(shown: Lateness) -> Plot:
    """Draw ranks as rows and steps or collectives as columns, in time order; the darker, the later.

    If there are more than `MOST_COLUMNS` steps, each column is the latest of several. The `MOST_RANKS` ranks with the
    most late time are drawn, the first at the top.
    """
    what = shown.matched.by
    ranks = shown.table.head(MOST_RANKS)
    row_of = {pair: at for at, pair in enumerate(zip(ranks["node"].astype("str"), ranks["pid"], strict=True))}
    rows = shown.rows[shown.rows["late_ns"].notna()]
    pairs = zip(rows["node"].astype("str"), rows["pid"], strict=True)
    row = np.array([row_of.get(pair, -1) for pair in pairs], np.int64)
    key = ["step", "repeat"] if what == "step" else ["group", "number"]
    place = rows.groupby(key, sort=False)["time_ns"].transform("min").to_numpy(np.int64)
    different, number = np.unique(place, return_inverse=True)
    each = -(-max(len(different), 1) // MOST_COLUMNS)
    column = number // each
    late = np.maximum(rows["late_ns"].to_numpy(np.int64), 0)
    cells = np.full((len(ranks), int(column.max()) + 1 if len(column) else 1), -1, np.int64)
    drawn = row >= 0
    np.maximum.at(cells, (row[drawn], column[drawn]), late[drawn])
    y, x = np.nonzero(cells >= 0)
    values = cells[y, x]
    title = f"how late each rank is at each {what}"
    if each > 1:
        title += f" (the latest of {exact_text(each)})"
    plot = new_plot(title)
    plot.height = 90 + _ROW_PIXELS * max(len(ranks), 4)
    highest = max(int(values.max()) if len(values) else 0, shown.late_ns)
    colors = LinearColorMapper(palette=list(_COLORS), low=0, high=highest)
    names = [shortened(name, _LABEL) for name in ranks["node"].astype("str")]
    source = {
        "x": (x * each + each / 2).tolist(),
        "y": y.tolist(),
        "late": values.tolist(),
        "text": [duration_text(value) for value in values.tolist()],
        "name": [names[at] for at in y.tolist()],
    }
    tiles = plot.rect(
        "x", "y", each, 0.9, source=source, fill_color={"field": "late", "transform": colors}, line_color=None
    )
    hover(plot, [tiles], [("rank", "@name"), ("late by", "@text")])
    ticks = linear_ticks(highest)
    bar = ColorBar(
        color_mapper=colors,
        ticker=FixedTicker(ticks=ticks),
        major_label_overrides={int(tick): duration_text(tick) if tick else "0" for tick in ticks},
        major_label_text_color=GREY,
        major_label_text_font_size="9px",
        background_fill_alpha=0,
        width=8,
        padding=2,
    )
    plot.add_layout(bar, "right")
    plot.x_range.start, plot.x_range.end = 0, max(len(different), 1)
    plot.y_range.start, plot.y_range.end = len(ranks) - 0.5, -0.5
    label(plot.xaxis, linear_ticks(max(len(different), 1)), lambda tick: exact_text(int(tick)))
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(ranks))), minor_ticks=[])
    plot.yaxis.major_label_overrides = dict(enumerate(names))
    return displayed(plot)

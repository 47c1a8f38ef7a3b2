"""Shared parts of all Bokeh figures.

Figures suit light and dark notebooks: transparent, with mid-gray text and colors that color-blind readers can
distinguish (Okabe and Ito's, without the yellow, which is hard to see on white).

Bokeh, whose import takes a second, is imported by the functions: views that only make a text import this module too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from accel_magic.quantities import shortened
from accel_magic.views.figures.bokehjs import figure_html, has_kernel, scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bokeh.models import Plot

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#8c6bb1")
GREY = "#808080"
WIDTH, HEIGHT, MAX_WIDTH = 380, 240, 640
LABEL_WIDTH = 26
LEGEND_WIDTHS = {2: 22, 3: 15}
"""Characters of a legend entry, by the number of columns, so that all columns fit into the figure."""


def displayed(plot: Any) -> Plot:
    """Let a figure display itself in a notebook: Bokeh's own mechanism needs output_notebook() and a network."""
    plot._repr_mimebundle_ = partial(_mimebundle, plot)  # the underscore keeps it from being a Bokeh property
    drawn: Plot = plot
    return drawn


def _mimebundle(plot: Any, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG001
    html = {"text/html": f"{scripts()}{figure_html(plot)}"} if has_kernel() else {}
    return {"text/plain": repr(plot), **html}


def new_plot(title: str, **options: Any) -> Any:
    """Make an empty figure in the common style."""
    from bokeh.plotting import figure as bokeh_figure

    plot: Any = bokeh_figure(
        title=title,
        width=WIDTH,
        height=HEIGHT,
        max_width=MAX_WIDTH,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_right=12,
        **options,
    )
    plot.toolbar.logo = None
    plot.title.text_color = GREY
    plot.title.text_font_size = "12px"
    plot.axis.axis_line_color = GREY
    plot.axis.axis_line_alpha = 0.5
    plot.axis.major_tick_line_color = GREY
    plot.axis.major_tick_in = 0
    plot.axis.major_tick_out = 4
    plot.axis.minor_tick_line_color = None
    plot.axis.major_label_text_color = GREY
    plot.axis.major_label_text_font_size = "10px"
    plot.axis.axis_label_text_color = GREY
    plot.axis.axis_label_text_font_size = "10px"
    plot.axis.axis_label_text_font_style = "normal"
    plot.grid.grid_line_color = GREY
    plot.grid.grid_line_alpha = 0.2
    return plot


def hover(plot: Any, renderers: list[Any], tooltips: list[tuple[str, str]], **options: Any) -> None:
    """Show these fields of the glyph under the pointer."""
    from bokeh.models import HoverTool

    plot.add_tools(HoverTool(renderers=renderers, tooltips=tooltips, **options))


def label(axis: Any, ticks: Sequence[float], text: Any) -> None:
    """Set fixed ticks with precomputed labels: some front ends refuse to evaluate code for them."""
    from bokeh.models import FixedTicker

    axis.ticker = FixedTicker(ticks=list(ticks), minor_ticks=[])
    # BokehJS looks a label up by the number's JavaScript text, in which 5.0 is "5".
    axis.major_label_overrides = {
        int(tick) if tick == int(tick) else tick: text(tick) if tick else "0" for tick in ticks
    }


def legend(plot: Any, drawn: Sequence[tuple[str, list[Any]]]) -> None:
    """Add a legend below the plot; the name of a single line goes into the title."""
    from bokeh.models.annotations import Legend, LegendItem

    if len(drawn) == 1:
        plot.title.text += f": {shortened(drawn[0][0], 2 * LABEL_WIDTH)}"
        return
    legend: Any = Legend(
        orientation="horizontal",
        ncols=3 if len(drawn) > 4 else 2,
        location="left",
        label_text_color=GREY,
        label_text_font_size="9px",
        background_fill_alpha=0,
        border_line_color=None,
        glyph_height=8,
        glyph_width=12,
        label_height=8,
        label_standoff=4,
        spacing=3,
        margin=2,
        click_policy="hide",
    )
    legend.padding = 2
    width = LEGEND_WIDTHS[legend.ncols]
    legend.items = [LegendItem(label=shortened(name, width), renderers=renderers) for name, renderers in drawn]
    plot.add_layout(legend, "below")

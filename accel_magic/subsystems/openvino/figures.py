"""Figure of generations: when each of their tokens was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from bokeh.models import FixedTicker

from accel_magic.errors import ResultError
from accel_magic.quantities import duration_text, exact_text
from accel_magic.subsystems.openvino.generations import DECODE, PREFILL
from accel_magic.views.figures.plotting import PALETTE, displayed, hover, label, legend, new_plot
from accel_magic.views.figures.ticks import linear_ticks

if TYPE_CHECKING:
    import pandas as pd
    from bokeh.models import Plot

MOST_TOKENS: Final = 4000
"""Tokens that are drawn; what a browser shows without delay."""
MOST_ROWS: Final = 40
_ROW_PIXELS: Final = 18


def tokens(generations: pd.DataFrame, made: pd.DataFrame) -> Plot:
    """Generations over time, a row each: the call (thin), and the inferences that made its tokens.

    The first `MOST_ROWS` generations and the first `MOST_TOKENS` tokens of them are drawn.

    Args:
        generations: As `GenerationsFound.generations`.
        made: As `GenerationsFound.tokens`.

    Raises:
        ResultError: No generation was traced.

    """
    if not len(generations):
        raise ResultError(
            "no generation was traced",
            why="the trace has no call of a pipeline's `generate`, and no model with attention after a tokenizer",
            fix="trace a cell that generates: %%ktrace openvino",
            code="result.empty-figure",
        )
    shown = generations.iloc[:MOST_ROWS]
    drawn = made[made["generation"] < len(shown)]
    few = drawn.iloc[:MOST_TOKENS]
    title = "tokens of each generation"
    if len(shown) < len(generations) or len(few) < len(drawn):
        title += f"; the first {exact_text(len(few))} of {exact_text(len(made))}"
    plot = new_plot(title)
    plot.height = 90 + _ROW_PIXELS * max(len(shown), 3)
    begin = int(shown["start_ns"].min())
    ends = (shown["start_ns"] + shown["duration_ns"]).to_numpy(np.int64)
    calls = plot.hbar(
        "row",
        0.15,
        "end",
        "start",
        source={
            "row": list(range(len(shown))),
            "start": (shown["start_ns"] - begin).tolist(),
            "end": (ends - begin).tolist(),
            "whole": [*map(duration_text, shown["duration_ns"])],
            "count": [*map(exact_text, shown["generated_tokens"])],
            "model": shown["model"].tolist(),
        },
        color=PALETTE[0],
        alpha=0.4,
    )
    hover(plot, [calls], [("generation", "@row of @model"), ("took", "@whole"), ("tokens", "@count")])
    bars = [("the call", [calls])]
    for name, color, text in ((PREFILL, PALETTE[1], "first token"), (DECODE, PALETTE[2], "later tokens")):
        own = few[few["phase"] == name]
        source = {
            "row": own["generation"].tolist(),
            "start": (own["start_ns"] - begin).tolist(),
            "end": (own["end_ns"] - begin).tolist(),
            "token": [exact_text(token + 1) for token in own["token"].tolist()],
            "interval": [*map(duration_text, own["interval_ns"])],
            "ran": [*map(duration_text, own["end_ns"] - own["start_ns"])],
        }
        inferences = plot.hbar(
            "row", 0.7, "end", "start", source=source, color=color, line_color="white", line_width=0.4
        )
        since = "since the call" if name == PREFILL else "since the one before"
        hover(plot, [inferences], [("token", "@token"), (since, "@interval"), ("inference", "@ran")])
        bars.append((text, [inferences]))
    legend(plot, bars)
    plot.x_range.start, plot.x_range.end = 0, int(ends.max()) - begin
    plot.y_range.start, plot.y_range.end = len(shown) - 0.5, -0.5
    label(plot.xaxis, linear_ticks(int(ends.max()) - begin), duration_text)
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(shown))), minor_ticks=[])
    return displayed(plot)

"""Figure of the DRM scheduler's jobs: what waited and what ran on each ring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from bokeh.models import FixedTicker

from accel_magic.analysis.nesting import lanes
from accel_magic.errors import ResultError
from accel_magic.quantities import duration_text, exact_text
from accel_magic.views.figures.plotting import PALETTE, displayed, hover, label, legend, new_plot
from accel_magic.views.figures.ticks import linear_ticks

if TYPE_CHECKING:
    import pandas as pd
    from bokeh.models import Plot

MOST_JOBS: Final = 3000
"""Jobs that are drawn; what a browser shows without delay."""
_ROW_PIXELS: Final = 16
_MOST_ROWS: Final = 60


def rings(jobs: pd.DataFrame) -> Plot:
    """Jobs over time: a thin bar while one waits in the queue, a thick one while it runs, in its client's color.

    Each ring has as many rows as jobs are there at once; the first `MOST_JOBS` jobs are drawn.

    Args:
        jobs: As `accel_magic.subsystems.drm.jobs.jobs`.

    Raises:
        ResultError: No job was seen from its submission to its end.

    """
    whole = jobs.dropna(subset=["queued_ns", "started_ns", "done_ns"]).sort_values("queued_ns", kind="stable")
    if not len(whole):
        raise ResultError(
            "no job was seen from its submission to its end",
            why="the trace has no job of the DRM scheduler with all of its steps",
            fix="trace a cell that uses the GPU: %%ktrace drm",
            code="result.empty-figure",
        )
    shown = whole.iloc[:MOST_JOBS]
    row, names = _rows(shown)
    times = {name: shown[name].to_numpy(np.int64) for name in ("queued_ns", "started_ns", "done_ns")}
    title = "jobs of each ring: waiting (thin), running"
    if len(whole) > len(shown):
        title += f"; the first {exact_text(len(shown))} of {exact_text(len(whole))}"
    plot = new_plot(title)
    plot.height = 90 + _ROW_PIXELS * min(len(names), _MOST_ROWS)
    drawn = []
    client = shown["client"].astype("Int64").fillna(-1).to_numpy(np.int64)
    for number, one in enumerate(dict.fromkeys(client.tolist())):
        chosen = client == one
        color = PALETTE[number % len(PALETTE)]
        source = {
            "row": row[chosen].tolist(),
            **{name: column[chosen].tolist() for name, column in times.items()},
            "job": [f"{a}:{b}" for a, b in zip(*(shown.loc[chosen, c] for c in ("context", "seqno")), strict=True)],
            "waited": [duration_text(value) for value in (times["started_ns"] - times["queued_ns"])[chosen]],
            "ran": [duration_text(value) for value in (times["done_ns"] - times["started_ns"])[chosen]],
            "status": shown.loc[chosen, "status"].astype("str").tolist(),
            "comm": shown.loc[chosen, "comm"].astype("str").tolist(),
        }
        bars = [
            plot.hbar("row", 0.25, "started_ns", "queued_ns", source=dict(source), color=color, alpha=0.6),
            plot.hbar("row", 0.8, "done_ns", "started_ns", source=dict(source), color=color),
        ]
        reported = [("job", "@job of @comm"), ("waited", "@waited"), ("ran", "@ran"), ("status", "@status")]
        hover(plot, bars, reported)
        drawn.append((f"client {one}" if one >= 0 else "unknown client", bars))
    legend(plot, drawn)
    end = int(times["done_ns"].max())
    plot.x_range.start, plot.x_range.end = 0, end
    plot.y_range.start, plot.y_range.end = len(names), -1  # the first ring at the top
    label(plot.xaxis, linear_ticks(end), duration_text)
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(names))), minor_ticks=[])
    plot.yaxis.major_label_overrides = dict(enumerate(names))
    return displayed(plot)


def _rows(jobs: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Row of each job, and the label of each row: the ring's name at its first."""
    row, names = np.zeros(len(jobs), np.int64), list[str]()
    ring = jobs["device"].astype("str") + " " + jobs["ring"].astype("str")
    single = len(set(jobs["device"])) == 1
    for name in dict.fromkeys(ring):
        places = np.flatnonzero((ring == name).to_numpy())
        begin, end = (jobs[column].to_numpy(np.int64)[places] for column in ("queued_ns", "done_ns"))
        lane = lanes(begin, end)
        row[places] = len(names) + lane
        names += [name.partition(" ")[2] if single else name, *[""] * int(lane.max())]
    return row, names

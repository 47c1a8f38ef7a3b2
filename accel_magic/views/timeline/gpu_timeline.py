"""Host calls of each thread, kernels and blocks on one time axis."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FixedTicker, PanTool, Quad, Range1d, WheelZoomTool

from accel_magic.analysis.gpu.host import block_spans, kernel_spans, unseen_launches
from accel_magic.analysis.gpu.timeline import timeline as together
from accel_magic.demangle import readable
from accel_magic.errors import ResultError
from accel_magic.quantities import bytes_text, duration_text, exact_text, shortened
from accel_magic.views.figures.plotting import GREY, HEIGHT, LABEL_WIDTH, PALETTE, hover, legend, new_plot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.analysis.gpu import GpuAnalysis
    from accel_magic.analysis.gpu.timeline import Beside

MOST_BARS: Final = 20_000
MOST_THREADS, MOST_MULTIPROCESSORS = 8, 8
"""Most rows of threads that called the driver, and of threads in another trace; most rows of multiprocessors."""
_ROW, _AROUND = 22, 110
"""Height of a row, and of everything else, pixels."""
_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "launch": PALETTE[0],
        "copy": PALETTE[1],
        "sync": PALETTE[5],
        "memory": PALETTE[3],
        "module": PALETTE[4],
        "event": PALETTE[6],
        "kernel": PALETTE[2],
        "block": PALETTE[7],
        "ktrace": GREY,
        "flame": GREY,
    }
)
"""Colors of bars by kind, in the legend's order."""
_SAME: Final = MappingProxyType(
    {"memset": "copy", "alloc": "memory", "free": "memory", "poll": "event", "context": "module"}
)
_COLUMNS: Final = ("row", "kind", "left", "right", "what", "about")


def timeline(gpu: GpuAnalysis, beside: Beside | None = None) -> Any:
    """Draw the figure: rows for each thread that called the driver, for launches, kernels and multiprocessors.

    Args:
        gpu: The trace to draw.
        beside: A simultaneous trace: adds a row for each of its threads.

    Raises:
        ResultError: Nothing was called, launched or run; or the other trace did not run at the same time.

    """
    others, thinned = (pd.DataFrame(columns=_COLUMNS), "") if beside is None else _beside(gpu, beside)
    parts = (others, _calls(gpu), _launches(gpu), _kernels(gpu), _blocks(gpu))
    bars = pd.concat([part for part in parts if len(part)] or [others], ignore_index=True)
    if not len(bars):
        raise ResultError(
            "there is nothing to draw over time",
            why="no kernel was launched, and no host call recorded",
            fix="trace a cell that launches a kernel",
            code="result.empty-figure",
        )
    rows = list(dict.fromkeys(bars["row"]))
    left_out = len(bars) - MOST_BARS
    if left_out > 0:
        length = bars["right"] - bars["left"]
        bars = bars.loc[np.sort(length.argsort(kind="stable").to_numpy()[-MOST_BARS:])]
    start, end = min(float(bars["left"].min()), 0.0), float(bars["right"].max())
    margin = 0.01 * (end - start)
    title = f"Timeline, {gpu.recording.device}"
    plot = new_plot(
        title + thinned + (f" (without the {exact_text(left_out)} shortest bars)" if left_out > 0 else ""),
        x_range=Range1d(start=start - margin, end=end + margin, bounds=(start - margin, end + margin)),
        y_range=(max(len(rows), 4) - 0.4, -0.6),
        x_axis_label="ms since the start of the trace (Ctrl and wheel: zoom)",
    )
    plot.height = max(HEIGHT, _ROW * len(rows) + _AROUND)
    _draw(plot, bars, rows)
    zoom = WheelZoomTool(dimensions="width", modifiers={"ctrl": True})
    plot.add_tools(PanTool(dimensions="width"), zoom)
    plot.toolbar.active_scroll = zoom
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(rows))), minor_ticks=[])
    plot.yaxis.major_label_overrides = {at: shortened(name, LABEL_WIDTH) for at, name in enumerate(rows)}
    plot.yaxis.major_tick_line_color = None
    plot.ygrid.visible = False
    return plot


def _draw(plot: Any, bars: pd.DataFrame, rows: list[str]) -> None:
    place = bars["row"].map({name: at for at, name in enumerate(rows)})
    drawn = []
    for kind, color in _KINDS.items():
        own = bars[bars["kind"] == kind]
        if not len(own):
            continue
        middle = place[own.index]
        source = ColumnDataSource(
            {
                "left": own["left"],
                "right": own["right"],
                "top": middle - 0.38,
                "bottom": middle + 0.38,
                "what": list(own["what"]),
                "about": list(own["about"]),
                "took": [duration_text(value) for value in (own["right"] - own["left"]) * 1e6],
            }
        )
        # The outline keeps bars narrower than a pixel visible.
        glyph = Quad(left="left", right="right", top="top", bottom="bottom", fill_color=color, line_color=color)
        drawn.append((kind, [plot.add_glyph(source, glyph)]))
    hover(plot, [bars for _, (bars,) in drawn], [("", "@what"), ("took", "@took"), ("", "@about")])
    legend(plot, drawn)


def _bars(left: Any, right: Any, **columns: Any) -> pd.DataFrame:
    """Bars from times in ns; `columns` are row, kind, what and about."""
    times = {"left": np.asarray(left, np.float64) / 1e6, "right": np.asarray(right, np.float64) / 1e6}
    return pd.DataFrame({**times, **columns})[list(_COLUMNS)]


def _beside(gpu: GpuAnalysis, other: Beside) -> tuple[pd.DataFrame, str]:
    """Draw each thread of another trace, the busiest in separate rows; also returns a text about what is left out."""
    whole = together(gpu, other)
    events = whole[whole["trace"] != "gputrace"]
    step = max(-(-len(events) // (MOST_BARS // 2)), 1)  # a hit has no length by which some could be left out
    threads = events["tid"].value_counts().index[:MOST_THREADS]
    events = events.iloc[::step]
    rows = {tid: f"{trace}, thread {tid}" for tid, trace in zip(events["tid"], events["trace"], strict=True)}
    bars = _bars(
        events["time_ns"],
        events["time_ns"] + events["duration_ns"].fillna(0),
        row=[rows[tid] if tid in threads else "other threads" for tid in events["tid"]],
        kind=list(events["trace"]),
        what=[readable(str(name)) for name in events["name"]],
        about=["" if launch is pd.NA else f"during launch {launch}" for launch in events["launch"]],
    )
    return bars, f" (1 in {step} events of the other trace)" if step > 1 else ""


def _calls(gpu: GpuAnalysis) -> pd.DataFrame:
    api = gpu.api
    threads = api.groupby(["pid", "tid"], sort=False)["duration_ns"].sum().nlargest(MOST_THREADS).index
    processes = len(api["pid"].unique())
    rows = {(pid, tid): (f"process {pid}, " if processes > 1 else "host, ") + f"thread {tid}" for pid, tid in threads}
    return _bars(
        api["time_ns"],
        api["time_ns"] + api["duration_ns"],
        row=[rows.get(pair, "other threads") for pair in zip(api["pid"], api["tid"], strict=True)],
        kind=[_SAME.get(kind, kind) for kind in api["kind"]],
        what=list(api["name"]),
        about=[_about(*call) for call in api[["kernel", "direction", "bytes", "result"]].itertuples(index=False)],
    )


def _about(kernel: str, direction: str, size: Any, code: str) -> str:
    parts = [readable(kernel), direction, "" if size is pd.NA else bytes_text(float(size))]
    return " ".join(filter(None, [*parts, "" if code == "CUDA_SUCCESS" else code]))


def _launches(gpu: GpuAnalysis) -> pd.DataFrame:
    """Draw launches recorded by an adapter without a driver call, as on the simulated device.

    Launches of several threads overlap, so the threads with the most launches have separate rows.
    """
    own = unseen_launches(gpu)
    busiest = own["tid"].value_counts().index[:MOST_THREADS]
    threads = set(busiest) if len(busiest) > 1 else set()
    return _bars(
        own["time_ns"],
        own["time_ns"] + own["host_ns"],
        row=[
            f"{name}, thread {tid}" if tid in threads else f"launches, {name}"
            for name, tid in zip(own["framework"], own["tid"], strict=True)
        ],
        kind="launch",
        what=[readable(name) for name in own["name"]],
        about=[f"launch {number}" for number in own.index],
    )


def _kernels(gpu: GpuAnalysis) -> pd.DataFrame:
    spans = kernel_spans(gpu)
    ends = spans["end_ns"].notna()
    return _bars(
        spans["start_ns"],
        spans["end_ns"].fillna(spans["start_ns"]),
        row="kernels",
        kind="kernel",
        what=[readable(name) for name in spans["name"]],
        about=[
            f"launch {at}" + ("" if known else "; only its start is known")
            for at, known in zip(spans["launch"], ends, strict=True)
        ],
    )


def _blocks(gpu: GpuAnalysis) -> pd.DataFrame:
    spans = block_spans(gpu)
    spans = spans[spans["sm"] < MOST_MULTIPROCESSORS].sort_values("sm", kind="stable")
    return _bars(
        spans["start_ns"],
        spans["end_ns"],
        row=[f"SM {int(number)}" for number in spans["sm"]],
        kind="block",
        what=[f"block {int(number)}" for number in spans["block"]],
        about=[f"{readable(name)}, launch {at}" for name, at in zip(spans["name"], spans["launch"], strict=True)],
    )

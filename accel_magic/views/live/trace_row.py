"""The live row of a running cell: a plain ipywidgets.HTML, redrawn as a whole, removed when the cell ends.

Drawing takes the GIL from the workload, so a redraw only formats a few dozen numbers, in f-strings: the same row takes
a third more time from a template (`views/templates`). All text that is not ours is escaped by hand.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.demangle import learn, readable
from accel_magic.quantities import count_text, duration_text, exact_text, rate_text, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live_samples import LiveLatency, LiveSample
    from accel_magic.views.live.device_counters import LiveItems, LiveNumber


class TraceRow:
    """The widget and its view. Open and close it in the main thread; draw from one thread.

    Args:
        first: HTML shown until the first drawing.

    """

    def __init__(self, first: str) -> None:
        self._first = first
        self._widget: Any = None
        self._display: Any = None

    def open(self) -> None:
        """Display the widget below the cell being run."""
        from IPython.display import display
        from ipywidgets import HTML

        self._widget = HTML(value=self._first)
        self._display = display(self._widget, display_id=True)  # type: ignore[no-untyped-call]

    def draw(self, html: str) -> None:
        """Replace the HTML."""
        widget = self._widget  # close() may run between the test and the use
        if widget is not None:
            widget.value = html

    def close(self) -> None:
        """Remove the widget, its view, and its output in a saved notebook. May be called twice."""
        widget, shown = self._widget, self._display
        self._widget = self._display = None
        if widget is not None:
            widget.close()
        if shown is not None:
            shown.update({"text/plain": ""}, raw=True)


SPARKLINE = 60
TOP_PROBES, TOP_LATENCIES = 6, 4
RATE_WINDOW_NS = 500_000_000
LATE_S = 1.0
SHORTEST_STEP_NS = 20_000_000
"""A rate over a shorter time, e.g. up to the sample sent at the very start, is mostly noise and spoils the scale."""
STALLED = "stalled: the workload holds the GIL"

# The kernel cannot send anything while the workload holds the GIL. So the browser shows it: each redraw replaces the
# element and restarts its animation; after 1.5 s without a redraw the mark appears.
STYLE = """<style>
.am-live{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-ui-font-color1,inherit);
display:flex;flex-wrap:wrap;align-items:center;gap:2px 16px;font-variant-numeric:tabular-nums;padding:2px 0}
.am-live b{font-weight:600}.am-live i{font-style:normal;opacity:.65}
.am-live .am-num{display:inline-block;min-width:5.2em;text-align:right}
.am-live .am-alarm{color:var(--jp-error-color1,#d32f2f);font-weight:600}
.am-live .am-banner{background:#e69f00;color:#000;font-weight:600;padding:0 8px;border-radius:3px;flex-basis:100%}
.am-live .am-device{flex-basis:100%;display:flex;flex-wrap:wrap;gap:2px 16px}
.am-live .am-late{color:#b36b00;font-weight:600}
.am-live .am-stalled{color:#b36b00;font-weight:600;visibility:hidden;animation:am-stall 0s 1.5s forwards}
@keyframes am-stall{to{visibility:visible}}
</style>"""


@dataclass(frozen=True)
class LiveState:
    """The contents of one drawing of the row.

    Attributes:
        elapsed_ns: Time since the start of the trace.
        rate: Hits/s over the last half second.
        rates: Up to 60 rates between consecutive samples, hits/s, oldest first.
        probes: (probe, hits/s) of the busiest probes.
        more_probes: Number of other probes.
        recorded: Events recorded, None if only counts are kept.
        lost: Events lost.
        latency: The measured functions to show.
        late_s: Delay between the sample and its display, seconds; 0 if it is small.
        banners: Shown above everything else.
        devices: For each device with a line of its own, its label and numbers.

    """

    elapsed_ns: int
    rate: float
    rates: tuple[float, ...]
    probes: tuple[tuple[str, float], ...]
    more_probes: int
    recorded: int | None
    lost: int
    latency: tuple[LiveLatency, ...]
    late_s: float = 0.0
    banners: tuple[str, ...] = ()
    devices: tuple[tuple[str, tuple[LiveNumber, ...]], ...] = ()


class LiveHistory:
    """The latest samples, as many as the row needs; arguments as of `LiveRow`."""

    def __init__(self, plan: Plan, banners: tuple[str, ...] = (), devices: tuple[LiveItems, ...] = ()) -> None:
        self._records_events = plan.records_events
        self._banners = banners
        self._probes = tuple(dict.fromkeys(point.probe for point in plan.points))
        row = {probe: number for number, probe in enumerate(self._probes)}
        self._probe_of_point = np.array([row[point.probe] for point in plan.points], dtype=np.intp)
        self._devices = devices
        learn(point.function for point in plan.latency_points)  # reading names during the trace would be traced
        # (time_ns, hits per probe): the start counts as a sample, so that the first real sample has a rate.
        self._samples: deque[tuple[int, NDArray[np.float64]]] = deque([(0, np.zeros(len(self._probes)))], SPARKLINE + 1)

    def add(self, sample: LiveSample) -> None:
        """Add a sample; ignore one that follows the last too closely or comes before it."""
        if sample.time_ns - self._samples[-1][0] >= SHORTEST_STEP_NS:
            hits = np.bincount(self._probe_of_point, sample.hits.astype(np.float64), minlength=len(self._probes))
            self._samples.append((sample.time_ns, hits.astype(np.float64, copy=False)))
            for device in self._devices:
                device.add(sample)

    def state(self, sample: LiveSample) -> LiveState:
        """What to show after the newest sample."""
        totals = [(time, float(hits.sum())) for time, hits in self._samples]
        steps = pairwise(totals)
        rates = tuple((after - before) / (end - start) * 1e9 for (start, before), (end, after) in steps)
        per_probe = self._recent_rates()
        busiest = np.argsort(-per_probe, kind="stable")[:TOP_PROBES]
        return LiveState(
            elapsed_ns=sample.time_ns,
            rate=float(per_probe.sum()),
            rates=rates,
            probes=tuple((self._probes[row], float(per_probe[row])) for row in sorted(busiest)),
            more_probes=len(self._probes) - len(busiest),
            recorded=sample.recorded if self._records_events else None,
            lost=sample.lost,
            latency=_to_show(sample.latency),
            late_s=sample.behind_s if sample.behind_s > LATE_S else 0.0,
            banners=self._banners,
            devices=tuple((device.label, device.items(sample)) for device in self._devices),
        )

    def _recent_rates(self) -> NDArray[np.float64]:
        """Hits/s per probe over the last half second, or since the start if that is shorter."""
        now, hits = self._samples[-1]
        older = [sample for sample in self._samples if sample[0] < now]
        if not older:
            return np.zeros(len(self._probes))
        then, before = next((sample for sample in reversed(older) if now - sample[0] >= RATE_WINDOW_NS), older[0])
        return (hits - before) / (now - then) * 1e9


class LiveRow(TraceRow):
    """The row. Open and close it in the main thread; update it from one thread.

    Args:
        plan: What is traced.
        banners: Shown above everything else, as returned by `accel_magic.banners.banners_of`.
        devices: Lines of devices, as returned by `accel_magic.subsystems.live_items`.

    """

    def __init__(self, plan: Plan, banners: tuple[str, ...] = (), devices: tuple[LiveItems, ...] = ()) -> None:
        super().__init__(f'{STYLE}<div class="am-live">{banners_html(banners)}<i>tracing…</i></div>')
        self._history = LiveHistory(plan, banners, devices)

    def update(self, *samples: LiveSample) -> None:
        """Show the last of `samples`; earlier late ones fill in the sparkline. Called at most 5 times a second."""
        for sample in samples:
            self._history.add(sample)
        if samples:
            self.draw(render(self._history.state(samples[-1])))


def _to_show(latencies: tuple[LiveLatency, ...]) -> tuple[LiveLatency, ...]:
    """The first few functions; if there are many, only functions that were called."""
    if len(latencies) > TOP_LATENCIES:
        latencies = tuple(latency for latency in latencies if not math.isnan(latency.p50_ns))
    return latencies[:TOP_LATENCIES]


def render(state: LiveState) -> str:
    """Draw the row as self-contained HTML, the widget's value."""
    parts = [
        banners_html(state.banners),
        f"<span><b>{duration_text(state.elapsed_ns)}</b></span>",
        f'<span><b class="am-num">{rate_text(state.rate)}</b> <i>hits</i> {sparkline(state.rates)}</span>',
    ]
    if len(state.probes) > 1:
        parts += [
            f"<span title={_quoted(probe)}><i>{escape(shortened(probe, 36))}</i> {rate_text(rate)}</span>"
            for probe, rate in state.probes
        ]
        if state.more_probes:
            parts.append(f"<span><i>and {state.more_probes} more</i></span>")
    if state.recorded is not None:
        alarm = ' class="am-alarm"' if state.lost else ""
        parts.append(f"<span>{count_text(state.recorded)} <i>events</i></span>")
        parts.append(f"<span{alarm}>{exact_text(state.lost)} lost</span>")
    parts += [
        f"<span title={_quoted(readable(latency.label))}><i>{escape(shortened(readable(latency.label), 28))}</i> "
        f"<i>p50</i> {duration_text(latency.p50_ns)} <i>p99</i> {duration_text(latency.p99_ns)}</span>"
        for latency in state.latency
    ]
    if state.late_s:
        late = duration_text(state.late_s * 1e9)
        parts.append(f'<span class="am-late">shown {late} late: the workload held the GIL</span>')
    parts.append(f'<span class="am-stalled">{STALLED}</span>')
    for device, items in state.devices:
        if items:
            shown = "".join(
                f"<span title={_quoted(item.hint)}><i>{escape(item.label)}</i> {escape(item.text)}</span>"
                for item in items
            )
            parts.append(f'<span class="am-device"><b>{escape(device)}</b>{shown}</span>')
    return f'{STYLE}<div class="am-live">{"".join(parts)}</div>'


def banners_html(banners: tuple[str, ...]) -> str:
    """Draw the banners of a row."""
    return "".join(f'<span class="am-banner">{escape(banner)}</span>' for banner in banners)


def sparkline(rates: tuple[float, ...]) -> str:
    """Draw rates as an SVG line, the newest at the right edge, scaled from 0 to the highest."""
    width, height = 2 * SPARKLINE, 18
    finite = [rate if math.isfinite(rate) and rate > 0 else 0.0 for rate in rates]
    top = max(finite, default=0.0) or 1.0
    left = width - 2 * (len(finite) - 1)
    line = " ".join(f"{left + 2 * x},{height - 1 - rate / top * (height - 3):.1f}" for x, rate in enumerate(finite))
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="vertical-align:middle">'
        f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="1.5"/></svg>'
    )


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'

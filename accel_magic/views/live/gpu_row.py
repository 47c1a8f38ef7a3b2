"""The live row of a running GPU trace: launches, kernels, records, losses; removed when the cell ends."""

from __future__ import annotations

from collections import deque
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from accel_magic.quantities import count_text, duration_text, exact_text, rate_text
from accel_magic.views.live.trace_row import (
    SHORTEST_STEP_NS,
    SPARKLINE,
    STALLED,
    STYLE,
    TraceRow,
    banners_html,
    sparkline,
)

if TYPE_CHECKING:
    from accel_magic.gpu.gpu_samples import GpuSample

TOP: Final = 4
"""The maximum number of rings, and of maps with losses, in the row."""
RATE_STEPS: Final = 5
"""Updates over which the rates of rings are averaged: one second."""


class GpuRow(TraceRow):
    """The row. Open it in the main thread; update it from one thread; close it in the main thread.

    Args:
        banners: Shown above everything else.

    """

    def __init__(self, banners: tuple[str, ...]) -> None:
        super().__init__(f'{STYLE}<div class="am-live">{banners_html(banners)}<i>tracing…</i></div>')
        self._banners = banners
        self._launches: deque[tuple[int, int]] = deque([(0, 0)], SPARKLINE + 1)
        self._records: deque[tuple[int, dict[str, int]]] = deque([(0, {})], RATE_STEPS + 1)

    def update(self, *samples: GpuSample) -> None:
        """Show the last of `samples`."""
        for sample in samples:
            if sample.time_ns - self._launches[-1][0] >= SHORTEST_STEP_NS:
                self._launches.append((sample.time_ns, sample.launches))
                self._records.append((sample.time_ns, dict(sample.records)))
        if samples:
            self.draw(render(samples[-1], self._rates(), self._record_rates(), self._banners))

    def _rates(self) -> tuple[float, ...]:
        return tuple(
            (after - before) / (end - start) * 1e9 for (start, before), (end, after) in pairwise(self._launches)
        )

    def _record_rates(self) -> dict[str, float]:
        (start, before), (end, after) = self._records[0], self._records[-1]
        return {name: (count - before.get(name, 0)) / max(end - start, 1) * 1e9 for name, count in after.items()}


def render(
    sample: GpuSample, rates: tuple[float, ...], record_rates: dict[str, float], banners: tuple[str, ...]
) -> str:
    """Draw the row as self-contained HTML.

    Args:
        sample: The newest sample.
        rates: Launches/s between the last samples, oldest first.
        record_rates: Records/s of the rings, by name.
        banners: Shown above everything else.

    """
    rate = rates[-1] if rates else 0.0
    kernels = f"{exact_text(sample.instrumented)} <i>of</i> {exact_text(sample.kernels)}"
    parts = [
        banners_html(banners),
        f"<span><b>{duration_text(sample.time_ns)}</b></span>",
        f'<span><b class="am-num">{rate_text(rate)}</b> <i>launches</i> {sparkline(rates)}</span>',
        f"<span>{count_text(sample.launches)} <i>launches</i></span>",
        f"<span>{kernels} <i>kernels instrumented</i></span>",
        *([f"<span><i>on</i> {escape(sample.device)}</span>"] if sample.device else []),
        *(f"<span>{count_text(count)} <i>{escape(what)}</i></span>" for what, count in sample.counted),
        *(
            f"<span>{count_text(count)} <i>{escape(name)}</i> {rate_text(record_rates.get(name, 0.0))}</span>"
            for name, count in sample.records[:TOP]
        ),
        _more(len(sample.records) - TOP, "rings"),
        _losses(sample),
        f'<span class="am-stalled">{STALLED}</span>',
    ]
    return f'{STYLE}<div class="am-live">{"".join(parts)}</div>'


def _losses(sample: GpuSample) -> str:
    if not sample.lost:
        return f"<span>{exact_text(0)} lost</span>"
    most = sorted(sample.lost_by, key=lambda loss: -loss[1])
    by = ", ".join(f"{escape(name)} {count_text(count)}" for name, count in most[:TOP])
    more = f" and {len(most) - TOP} more" if len(most) > TOP else ""
    return f'<span class="am-alarm">{exact_text(sample.lost)} lost</span>' + (
        f"<span><i>{by}{more}</i></span>" if by else ""
    )


def _more(count: int, what: str) -> str:
    return f"<span><i>and {count} more {what}</i></span>" if count > 0 else ""

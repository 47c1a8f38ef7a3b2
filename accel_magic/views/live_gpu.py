"""The live row of a running GPU trace: launches, kernels, losses; gone when the cell ends."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING

from accel_magic.views.format import count_text, duration_text, exact_text, rate_text
from accel_magic.views.live import SHORTEST_STEP_NS, SPARKLINE, STALLED, STYLE, banners_html, sparkline
from accel_magic.views.row import Row

if TYPE_CHECKING:
    from accel_magic.gpu.live import GpuSample


class GpuRow(Row):
    """The row. Open it in the main thread; update it from one thread; close it in the main thread.

    Args:
        banners: What the row carries above everything else.

    """

    def __init__(self, banners: tuple[str, ...]) -> None:
        super().__init__(f'{STYLE}<div class="am-live">{banners_html(banners)}<i>tracing…</i></div>')
        self._banners = banners
        self._samples: deque[tuple[int, int]] = deque([(0, 0)], SPARKLINE + 1)

    def update(self, *samples: GpuSample) -> None:
        """Show the last of `samples`."""
        for sample in samples:
            if sample.time_ns - self._samples[-1][0] >= SHORTEST_STEP_NS:
                self._samples.append((sample.time_ns, sample.launches))
        if samples:
            self.draw(render(samples[-1], self._rates(), self._banners))

    def _rates(self) -> tuple[float, ...]:
        return tuple(
            (after - before) / (end - start) * 1e9 for (start, before), (end, after) in pairwise(self._samples)
        )


def render(sample: GpuSample, rates: tuple[float, ...], banners: tuple[str, ...]) -> str:
    """Draw the row: HTML with everything it needs."""
    alarm = ' class="am-alarm"' if sample.lost else ""
    rate = rates[-1] if rates else 0.0
    kernels = f"{exact_text(sample.instrumented)} <i>of</i> {exact_text(sample.kernels)}"
    parts = [
        banners_html(banners),
        f"<span><b>{duration_text(sample.time_ns)}</b></span>",
        f'<span><b class="am-num">{rate_text(rate)}</b> <i>launches</i> {sparkline(rates)}</span>',
        f"<span>{count_text(sample.launches)} <i>launches</i></span>",
        f"<span>{kernels} <i>kernels instrumented</i></span>",
        f"<span{alarm}>{exact_text(sample.lost)} lost</span>",
        f'<span class="am-stalled">{STALLED}</span>',
    ]
    return f'{STYLE}<div class="am-live">{"".join(parts)}</div>'

"""The live row of a running flame trace: samples, their rate, losses, busy processors; removed when the cell ends."""

from __future__ import annotations

from collections import deque
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from accel_magic.quantities import count_text, duration_text, exact_text, rate_text, share_text
from accel_magic.views.live.trace_row import (
    LATE_S,
    SHORTEST_STEP_NS,
    SPARKLINE,
    STALLED,
    STYLE,
    TraceRow,
    banners_html,
    sparkline,
)

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live_samples import LiveSample

_STEPS = 5
"""Updates over which the share of busy processors is averaged: one second."""


class FlameRow(TraceRow):
    """The row. Open it in the main thread; update it from one thread; close it in the main thread.

    Args:
        plan: What is traced.
        banners: Shown above everything else.

    """

    def __init__(self, plan: Plan, banners: tuple[str, ...] = ()) -> None:
        super().__init__(f'{STYLE}<div class="am-live">{banners_html(banners)}<i>sampling…</i></div>')
        self._banners = banners
        self._clocks = [point.id for point in plan.points if point.kind == "profile"]
        self._waits = [point.id for point in plan.points if point.kind == "offcpu"]
        self._rate = next((point.rate_hz for point in plan.points if point.kind == "profile"), 0)
        self._others = [point.id for point in plan.points if point.kind not in ("profile", "offcpu")]
        self._samples: deque[tuple[int, int]] = deque([(0, 0)], SPARKLINE + 1)

    def update(self, *samples: LiveSample) -> None:
        """Show the last of `samples`; earlier ones, which arrived late with it, fill in the sparkline."""
        for sample in samples:
            if sample.time_ns - self._samples[-1][0] >= SHORTEST_STEP_NS:
                self._samples.append((sample.time_ns, int(sample.hits[self._clocks].sum())))
        if samples:
            self.draw(self.render(samples[-1]))

    def render(self, sample: LiveSample) -> str:
        """Draw the row as self-contained HTML."""
        rates = tuple(
            (after - before) / (end - start) * 1e9 for (start, before), (end, after) in pairwise(self._samples)
        )
        taken = f'<b class="am-num">{exact_text(int(sample.hits[self._clocks].sum()))}</b> <i>samples</i>'
        alarm = ' class="am-alarm"' if sample.lost else ""
        busy = f"{share_text(self.busy())} <i>on CPU</i>"
        parts = [
            banners_html(self._banners),
            f"<span><b>{duration_text(sample.time_ns)}</b></span>",
            f"<span>{taken} {sparkline(rates)}</span>",
            f'<span title="share of one processor over the last second">{busy}</span>',
            f"<span>{rate_text(self._rate)} <i>each busy processor</i></span>",
            *self._counted(sample, self._waits, "waits"),
            *self._counted(sample, self._others, "calls"),
            f"<span{alarm}>{exact_text(sample.lost)} lost</span>",
        ]
        if sample.behind_s > LATE_S:
            late = escape(duration_text(sample.behind_s * 1e9))
            parts.append(f'<span class="am-late">shown {late} late: the workload held the GIL</span>')
        parts.append(f'<span class="am-stalled">{STALLED}</span>')
        return f'{STYLE}<div class="am-live">{"".join(parts)}</div>'

    def busy(self) -> float:
        """Number of processors busy with the cell over the last second; NaN until there are two samples."""
        recent = list(self._samples)[-_STEPS - 1 :]
        (start, before), (end, after) = recent[0], recent[-1]
        return (after - before) / self._rate / ((end - start) / 1e9) if end > start and self._rate else float("nan")

    def _counted(self, sample: LiveSample, points: list[int], what: str) -> list[str]:
        return [f"<span>{count_text(int(sample.hits[points].sum()))} <i>{what}</i></span>"] if points else []


def waiting_row(banners: tuple[str, ...]) -> TraceRow:
    """Make the row of the thread sampler, which reports nothing before the end."""
    text = "sampling from a thread of this process…"
    return TraceRow(f'{STYLE}<div class="am-live">{banners_html(banners)}<i>{text}</i></div>')

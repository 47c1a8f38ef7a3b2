"""The GPU's line of the live row: jobs of the DRM scheduler, from its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.quantities import exact_text, rate_text
from accel_magic.subsystems.drm.presets.drm import DONE, QUEUED, SCHEDULER, STARTED, TIMEOUT
from accel_magic.views.live.device_counters import Counters, LiveNumber

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live_samples import LiveSample

_TIMEOUTS = (TIMEOUT,)


class DrmHistory:
    """The scheduler's counters over the last half second; make one with `of`."""

    label = "GPU"

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    @classmethod
    def of(cls, plan: Plan) -> DrmHistory | None:
        """Make the history for a plan that traces jobs of the DRM scheduler; None for other plans."""
        ids = {point.function: point.id for point in plan.points if point.target == SCHEDULER}
        ids |= {point.function: point.id for point in plan.points if point.function == TIMEOUT}
        counters = Counters(ids, (QUEUED, STARTED, DONE, _TIMEOUTS))
        return cls(counters) if len(counters) else None

    def add(self, sample: LiveSample) -> None:
        """Add a sample."""
        self._counters.add(sample)

    def items(self, _: LiveSample) -> tuple[LiveNumber, ...]:
        """The numbers to show after the newest sample; those whose functions are not traced are omitted."""
        counters, items = self._counters, []
        if DONE in counters:
            items.append(LiveNumber("jobs", rate_text(counters.rate(DONE)), "jobs of the DRM scheduler that ended"))
        for label, first, then, hint in (
            ("queued", QUEUED, STARTED, "jobs queued in this trace that were not handed to the device yet"),
            ("running", STARTED, DONE, "jobs handed to the device in this trace that have not ended"),
        ):
            if first in counters and then in counters:
                items.append(LiveNumber(label, exact_text(max(counters.total(first) - counters.total(then), 0)), hint))
        if _TIMEOUTS in counters:
            items.append(
                LiveNumber("timed out", exact_text(counters.total(_TIMEOUTS)), "jobs that the scheduler gave up on")
            )
        return tuple(items)

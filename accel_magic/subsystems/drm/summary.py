"""A trace of the DRM scheduler at a glance: lines for the result of a traced cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.quantities import duration_text, exact_text
from accel_magic.views.findings import brief_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.analysis.findings import Findings
    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.drm.tables import DrmTables

EVENTS_AT_ONCE: Final = 300_000
"""A number of events that is analyzed in well under a second."""


def brief(recording: Recording, analyze: Callable[[], DrmTables], diagnose: Callable[[], Findings]) -> list[str]:
    """Lines for the result of a traced cell: its jobs, and what the diagnosis found.

    Args:
        recording: What was traced.
        analyze: Makes its `DrmTables`.
        diagnose: Makes its findings.

    Returns:
        The lines; empty if the analysis would delay the cell's end.

    """
    if not 0 < recording.event_count <= EVENTS_AT_ONCE:
        return []
    drm = analyze()
    return [line for line in (_jobs(drm), brief_text(diagnose())) if line]


def _jobs(drm: DrmTables) -> str:
    jobs = drm.jobs
    if not len(jobs):
        return ""
    rings = len(drm.rings)
    line = f"{exact_text(len(jobs))} job{'s' * (len(jobs) != 1)} on {rings} ring{'s' * (rings != 1)}"
    for name, column in (("in the queue", "queue_ns"), ("on the device", "run_ns")):
        known = jobs[column].dropna()
        if len(known):
            p50, p99 = np.quantile(known.to_numpy(np.int64), (0.5, 0.99))
            line += f", {name} p50 {duration_text(p50)}, p99 {duration_text(p99)}"
    return line

"""The kernel's DRM scheduler, which GPU and NPU drivers share: jobs, rings, clients, waits for fences."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from accel_magic.probes.presets import is_of
from accel_magic.subsystems.drm.drivers import DRIVERS
from accel_magic.subsystems.drm.presets import PRESETS
from accel_magic.subsystems.drm.presets.drm import NAME, SCHEDULER
from accel_magic.subsystems.subsystem import Subsystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.findings import Rule
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.drm.tables import DrmTables
    from accel_magic.views.live.device_counters import LiveItems


def _claims(point: ProbePoint) -> bool:
    """Whether it is a tracepoint of the scheduler, or of any part of the preset."""
    return point.target == SCHEDULER or is_of(point.probe, NAME)


def _tables(recording: Recording, events: pd.DataFrame) -> DrmTables:
    from accel_magic.subsystems.drm.tables import DrmTables

    return DrmTables(recording, events)


def _rules() -> Sequence[Rule[Any]]:
    from accel_magic.subsystems.drm.rules import RULES

    return RULES


def _summary(recording: Recording, tables: Callable[[], DrmTables], findings: Callable[[], Findings]) -> list[str]:
    if not any(map(_claims, recording.plan.points)):
        return []
    from accel_magic.subsystems.drm.summary import brief

    return brief(recording, tables, findings)


def _live(plan: Plan) -> LiveItems | None:
    from accel_magic.subsystems.drm.live_item import DrmHistory

    return DrmHistory.of(plan)


def _rings(tables: DrmTables) -> Model:
    from accel_magic.subsystems.drm.figures import rings

    return rings(tables.jobs)


def _tracks(recording: Recording, tables: Callable[[], DrmTables]) -> Iterable[bytes]:
    if not any(map(_claims, recording.plan.points)) or not len(tables().jobs):
        return ()
    from accel_magic.subsystems.drm.perfetto import jobs

    return jobs(tables().jobs)


SUBSYSTEM: Final = Subsystem(
    name="drm",
    presets=PRESETS,
    drivers=DRIVERS,
    claims=_claims,
    tables=_tables,
    rules=_rules,
    summary=_summary,
    live=_live,
    figures=MappingProxyType({"rings": _rings}),
    tracks=_tracks,
    attributes=MappingProxyType({"gpu_jobs": "jobs"}),
)

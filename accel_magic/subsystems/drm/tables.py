"""Analysis of a trace of the kernel's DRM scheduler: jobs, rings, clients, waits for fences."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.driver_trace import DriverTrace
from accel_magic.analysis.findings import diagnose
from accel_magic.subsystems.drm.calls import DriverCallNames
from accel_magic.subsystems.drm.printed import as_recorded
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.recording.recording import Recording


class DrmTables:
    """Tables of a trace of the DRM scheduler, each computed on first use. What was not traced is missing."""

    def __init__(self, recording: Recording, events: pd.DataFrame) -> None:
        """`events` is the DataFrame of the recording's events, as in `TraceResult.events`."""
        self.recording = recording
        self.trace = DriverTrace.of(recording, events if recording.imported is None else as_recorded(events))
        self._calls = DriverCallNames.of(recording)

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """One row per job; see `accel_magic.subsystems.drm.jobs`."""
        from accel_magic.subsystems.drm.jobs import jobs

        return jobs(self.trace, self._calls)

    @cached_property
    def dependencies(self) -> pd.DataFrame:
        """One row per dependency that was added, or that held up a job."""
        from accel_magic.subsystems.drm.jobs import dependencies

        return dependencies(self.trace, self.jobs)

    @cached_property
    def timeouts(self) -> pd.DataFrame:
        """One row per time-out."""
        from accel_magic.subsystems.drm.jobs import timeouts

        return timeouts(self.trace, self.jobs)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """One row per wait of a thread for a fence."""
        from accel_magic.subsystems.drm.waits import waits

        return waits(self.trace, self._calls, self.jobs)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Exact counts of all steps, and how many of them were recorded."""
        from accel_magic.subsystems.drm.statistics import steps

        return steps(self.trace)

    @cached_property
    def rings(self) -> pd.DataFrame:
        """Jobs, latencies and load of each ring."""
        from accel_magic.subsystems.drm.statistics import rings

        return rings(self.jobs, self.recording.duration_ns)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Jobs, latencies and load of each client."""
        from accel_magic.subsystems.drm.statistics import clients

        return clients(self.jobs, self.recording.duration_ns)

    @cached_property
    def findings(self) -> Diagnosis:
        """Problems and notes, with evidence; see `TraceResult.diagnose`."""
        from accel_magic.subsystems.drm.rules import RULES

        return Diagnosis.of(diagnose(RULES, self, self.recording))

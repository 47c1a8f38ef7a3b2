"""FlameResult and SampledResult: a profiled cell with all its recordings."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from accel_magic import subsystems
from accel_magic.analysis.flame import tables
from accel_magic.analysis.flame.merge import facts_of, merged
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.companions import WithCompanions
from accel_magic.results.trace_result import TraceResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from accel_magic.analysis.flame.merge import Merged
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.flame_data import FlameFacts
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.profile_store import StoredProfile
    from accel_magic.recording.recording import Recording
    from accel_magic.views.diagnosis import Diagnosis
    from accel_magic.views.flame.flame_summary import FlameTables


class SampledResult(WithCompanions):
    """Result of `%%flame` with the thread sampler, which records no kernel events."""

    KIND = "a profile of the thread sampler"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **ProfileResult.LACKS,
            "plan": (
                "the thread sampler reads this process's own threads and attaches no probes",
                "profile with BPF; to see what it needs, run `python -m accel_magic doctor`",
            ),
        }
    )

    def __init__(self, profile: Profile, value: object = None, companions: Mapping[str, Any] | None = None) -> None:
        super().__init__(profile, value)
        self._stored_companions = companions or {}

    def _recorded_beside(self) -> Mapping[str, Any]:
        return self._stored_companions

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread, busiest first.

        Columns: `tid`, `samples`, `cpu_ns`, `off_cpu_ns`, `wall_ns` (their sum), `accelerator_ns`.
        """
        return tables.sampled_threads(self.profile)

    def _stored(self) -> StoredProfile:
        from accel_magic.recording.profile_store import SAMPLER, StoredProfile

        return StoredProfile(self.profile, SAMPLER, self._stored_companions)

    def _tables(self) -> FlameTables:
        """Tables shown in the text and the HTML."""
        from accel_magic.views.flame.flame_summary import FlameTables

        return FlameTables(self.profile, self.frames, self.threads, companions=self._tables_of_companions())

    def summary(self) -> str:
        """Return plain text: headline, frames with most weight, threads."""
        from accel_magic.views.flame.flame_summary import flame_text

        return flame_text(self._tables())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame.flame_summary import bundle

        return bundle(self._tables())


class FlameResult(WithCompanions):
    """Result of a cell or block profiled with `%%flame`; tables are built on first use and cached.

    Args:
        recording: Samples, waits, measured calls and launches.
        value: The value of the profiled cell's last expression.

    """

    KIND = "a flame trace"

    def __init__(self, recording: Recording, value: object = None) -> None:
        self._merged = _merged(recording)
        super().__init__(self._merged.profile, value)
        self.recording = recording

    def _recorded_beside(self) -> Mapping[str, Any]:
        return self.recording.companions

    @property
    def facts(self) -> FlameFacts:
        """Options, thread names, launches, and the tracer's own cost."""
        return facts_of(self.recording)

    @property
    def plan(self) -> Plan:
        """The probe points of the trace."""
        return self.recording.plan

    @cached_property
    def trace(self) -> TraceResult:
        """The same recording as a result of `%%ktrace`: counts, latencies, events, tables of subsystems."""
        return TraceResult(self.recording, self.value)

    @property
    def events(self) -> pd.DataFrame:
        """One row per sample, wait and measured call, as in `TraceResult.events`."""
        return self.trace.events

    @property
    def counts(self) -> pd.DataFrame:
        """Exact counts from the kernel, one row per probe point, as in `TraceResult.counts`."""
        return self.trace.counts

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread, busiest first.

        Columns: `tid`, `name`, `pid`, `samples`, `cpu_ns`, `off_cpu_ns`, `wall_ns` (their sum), `accelerator_ns`; then
        the waiting time by reason, one column each, named after the reason, such as `lock_ns`.
        """
        return tables.threads(self.recording, self._merged)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """One row per reason for waiting and place in the code, most time first.

        Columns: `reason`, `where` (the innermost line of the user's own code, else the innermost frame), `waits`,
        `total_ns`, `mean_ns`, `max_ns`, `threads` (their number). All kinds of results use these columns.
        """
        return tables.waits(self.recording, self._merged)

    @cached_property
    def spans(self) -> pd.DataFrame:
        """One row per measured function, most time first.

        Columns: `probe`, `function`, `calls`, `total_ns`, `mean_ns`, `max_ns`; and the time inside the function on a
        CPU (`cpu_ns`, from samples) and waiting (`off_cpu_ns`).
        """
        return tables.spans(self.recording, self._merged)

    def by(self, *, threads: bool = False, all_frames: bool = False) -> Profile:
        """Merge the recording again: with a root per thread, or with all of the notebook's frames below the cell."""
        return _merged(self.recording, threads=threads, all_frames=all_frames).profile

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.recording.recording_store import save

        return save(self.recording, path)

    def diagnose(self) -> Diagnosis:
        """Findings in what subsystems (`accel_magic.subsystems`) recorded meanwhile, else in the trace, worst first.

        Raises:
            ResultError: Neither was recorded.

        """
        if not self.companions and subsystems.of_plan(self.plan):
            return self.trace.diagnose()
        return super().diagnose()

    def _tables(self) -> FlameTables:
        """Tables shown in the text and the HTML."""
        from accel_magic.views.flame.flame_summary import FlameTables

        return FlameTables(
            self.profile,
            self.frames,
            self.threads,
            self.waits,
            self.spans,
            recording=self.recording,
            facts=self.facts,
            companions=self._tables_of_companions(),
        )

    def summary(self) -> str:
        """Return plain text: headline, frames with most weight, waits, measured calls, threads."""
        from accel_magic.views.flame.flame_summary import flame_text

        return flame_text(self._tables())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame.flame_summary import bundle

        return bundle(self._tables())


def _merged(recording: Recording, *, threads: bool | None = None, all_frames: bool | None = None) -> Merged:
    """Merge a recording, with the accelerators of all subsystems."""
    accelerators = [subsystem.accelerator for subsystem in subsystems.registered().values()]
    return merged(recording, threads=threads, all_frames=all_frames, accelerators=accelerators)

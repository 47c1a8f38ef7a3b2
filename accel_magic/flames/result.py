"""FlameResult: a profiled cell, with everything that was recorded of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.flames import tables
from accel_magic.flames.merge import facts_of, merged, profile_of
from accel_magic.profiles.result import ProfileResult

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from accel_magic.flames.facts import FlameFacts
    from accel_magic.probes.plan import Plan
    from accel_magic.profiles.iaprof.model import IaprofProfile
    from accel_magic.profiles.iaprof.result import IaprofResult
    from accel_magic.profiles.model import Profile
    from accel_magic.profiles.store import Stored
    from accel_magic.traces.recording import Recording
    from accel_magic.traces.result import TraceResult


class SampledResult(ProfileResult):
    """What `%%flame` returns where the thread sampler made the profile: there are no events of the kernel's."""

    def __init__(self, profile: Profile, value: object = None, iaprof: IaprofProfile | None = None) -> None:
        super().__init__(profile, value)
        self._iaprof = iaprof

    @cached_property
    def xe(self) -> IaprofResult | None:
        """What iaprof recorded meanwhile, with `--xe`."""
        return _result_of_iaprof(self, self._iaprof)

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread, the busiest first.

        Columns: `tid`, `samples`, `cpu_ns`, `off_cpu_ns`, `wall_ns` (their sum), `accelerator_ns`.
        """
        return tables.sampled_threads(self.profile)

    def _stored(self) -> Stored:
        from accel_magic.profiles.store import Stored

        return Stored(self.profile, "thread sampler", self._iaprof)

    def summary(self) -> str:
        """Plain-text result: headline, frames with most weight, threads."""
        from accel_magic.views.flame_page import flame_text

        return flame_text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame_page import bundle

        return bundle(self)


class FlameResult(ProfileResult):
    """What a cell or block profiled with `%%flame` returns; frames are built on first use and kept.

    Args:
        recording: Samples, waits, measured calls and launches.
        value: The profiled cell's own last value.

    """

    def __init__(self, recording: Recording, value: object = None) -> None:
        self._merged = merged(recording)
        super().__init__(self._merged.profile, value)
        self.recording = recording

    @cached_property
    def xe(self) -> IaprofResult | None:
        """What iaprof recorded meanwhile, with `--xe`."""
        return _result_of_iaprof(self, self.recording.iaprof)

    @property
    def facts(self) -> FlameFacts:
        """What was asked for, names of threads, launches, the tracer's own cost."""
        return facts_of(self.recording)

    @property
    def plan(self) -> Plan:
        """The probe points that were in force."""
        return self.recording.plan

    @cached_property
    def trace(self) -> TraceResult:
        """The same recording as `%%ktrace` shows it: counts, latencies, events, `npu`."""
        from accel_magic.traces.result import TraceResult

        return TraceResult(self.recording, self.value)

    @property
    def events(self) -> pd.DataFrame:
        """One row per sample, wait and measured call, as `TraceResult.events` has it."""
        return self.trace.events

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread, the busiest first.

        Columns: `tid`, `name`, `pid`, `samples`, `cpu_ns`, `off_cpu_ns`, `wall_ns` (their sum), `accelerator_ns`; then
        how long it waited for each reason, ns, one column named by the reason each.
        """
        return tables.threads(self.recording, self._merged)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """One row per reason of waiting and place in the code, most time first.

        Columns: `reason`, `where` (innermost line of the user's own code; without one, the innermost frame), `waits`
        (how many), `total_ns`, `mean_ns`, `max_ns`, `threads` (how many).
        """
        return tables.waits(self.recording, self._merged)

    @cached_property
    def spans(self) -> pd.DataFrame:
        """One row per measured function, most time first.

        Columns: `probe`, `function`, `calls`, `total_ns`, `mean_ns`, `max_ns`; and of the time inside it, `cpu_ns` on
        a processor by the samples, and `off_cpu_ns` waiting.
        """
        return tables.spans(self.recording, self._merged)

    def by(self, *, threads: bool = False, all_frames: bool = False) -> Profile:
        """Merge the recording anew: with a root for each thread, or with all frames of the notebook below the cell."""
        return profile_of(self.recording, threads=threads, all_frames=all_frames)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.traces.store import save

        return save(self.recording, path)

    def summary(self) -> str:
        """Plain-text result: headline, frames with most weight, waits, measured calls, threads."""
        from accel_magic.views.flame_page import flame_text

        return flame_text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame_page import bundle

        return bundle(self)


def _result_of_iaprof(result: FlameResult | SampledResult, iaprof: IaprofProfile | None) -> IaprofResult | None:
    if iaprof is None:
        return None
    from accel_magic.profiles.iaprof.result import IaprofResult

    return IaprofResult(iaprof, result.value, result.profile.banners)

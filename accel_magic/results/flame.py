"""FlameResult and SampledResult: a profiled cell, with everything that was recorded of it."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from accel_magic.analysis.flame import tables
from accel_magic.analysis.flame.accelerator import NPU_DRIVER
from accel_magic.analysis.flame.merge import facts_of, merged, profile_of
from accel_magic.results.iaprof import IaprofResult
from accel_magic.results.profile import ProfileResult
from accel_magic.results.trace import TraceResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.flame import FlameFacts
    from accel_magic.recording.iaprof import IaprofProfile
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.profile_store import Stored
    from accel_magic.recording.recording import Recording
    from accel_magic.results.taken_apart import Diagnosis
    from accel_magic.views.flame.result import FlameTables


class SampledResult(ProfileResult):
    """What `%%flame` returns if the thread sampler made the profile: there are no events of the kernel's."""

    KIND = "a profile of the thread sampler"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **ProfileResult.LACKS,
            "plan": (
                "the thread sampler reads this process's own threads and attaches no probes",
                "profile where BPF is allowed: run `python -m accel_magic doctor`",
            ),
        }
    )

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
        from accel_magic.recording.profile_store import Stored

        return Stored(self.profile, "thread sampler", self._iaprof)

    def diagnose(self) -> Diagnosis:
        """What iaprof's samples show, worst first.

        Raises:
            ResultError: There are no samples of iaprof.

        """
        return self.xe.diagnose() if self.xe is not None else super().diagnose()

    def _tables(self) -> FlameTables:
        """What the text and the HTML show."""
        from accel_magic.views.flame.result import FlameTables

        return FlameTables(self.profile, self.frames, self.threads, xe_samples=_samples_of(self.xe))

    def summary(self) -> str:
        """Plain-text result: headline, frames with most weight, threads."""
        from accel_magic.views.flame.result import flame_text

        return flame_text(self._tables())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame.result import bundle

        return bundle(self._tables())


class FlameResult(ProfileResult):
    """What a cell or block profiled with `%%flame` returns; frames are built on first use and kept.

    Args:
        recording: Samples, waits, measured calls and launches.
        value: The profiled cell's own last value.

    """

    KIND = "a flame trace"

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
        return TraceResult(self.recording, self.value)

    @property
    def events(self) -> pd.DataFrame:
        """One row per sample, wait and measured call, as `TraceResult.events` has it."""
        return self.trace.events

    @property
    def counts(self) -> pd.DataFrame:
        """Exact counts from the kernel, one row per probe point, as `TraceResult.counts` has them."""
        return self.trace.counts

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread, the busiest first.

        Columns: `tid`, `name`, `pid`, `samples`, `cpu_ns`, `off_cpu_ns`, `wall_ns` (their sum), `accelerator_ns`; then
        how long it waited for each reason, one column each, named by the reason: `lock_ns`.
        """
        return tables.threads(self.recording, self._merged)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """One row per reason of waiting and place in the code, most time first.

        Columns: `reason`, `where` (the innermost line of the user's own code, else the innermost frame), `waits`,
        `total_ns`, `mean_ns`, `max_ns`, `threads` (how many). Every kind of result has these columns.
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
        from accel_magic.recording.store import save

        return save(self.recording, path)

    def diagnose(self) -> Diagnosis:
        """What is wrong or worth knowing, worst first: of iaprof's samples, else of the NPU driver that was traced.

        Raises:
            ResultError: Neither was recorded.

        """
        if self.xe is not None:
            return self.xe.diagnose()
        if any(point.target == NPU_DRIVER for point in self.plan.points):
            return self.trace.diagnose()
        return super().diagnose()

    def _tables(self) -> FlameTables:
        """What the text and the HTML show."""
        from accel_magic.views.flame.result import FlameTables

        return FlameTables(
            self.profile,
            self.frames,
            self.threads,
            self.waits,
            self.spans,
            recording=self.recording,
            facts=self.facts,
            xe_samples=_samples_of(self.xe),
        )

    def summary(self) -> str:
        """Plain-text result: headline, frames with most weight, waits, measured calls, threads."""
        from accel_magic.views.flame.result import flame_text

        return flame_text(self._tables())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame.result import bundle

        return bundle(self._tables())


def _result_of_iaprof(result: FlameResult | SampledResult, iaprof: IaprofProfile | None) -> IaprofResult | None:
    return None if iaprof is None else IaprofResult(iaprof, result.value, result.profile.banners)


def _samples_of(xe: IaprofResult | None) -> int | None:
    return None if xe is None else xe.total

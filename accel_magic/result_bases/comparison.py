"""Comparisons of two results of the same kind, as returned by `compare`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.banners import banners_of
from accel_magic.errors import ResultError
from accel_magic.result_bases.compared import Compared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.analysis.gpu import GpuAnalysis
    from accel_magic.analysis.policies import PolicyTables
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Recording


class Comparison(ABC):
    """A result compared with its baseline; ratios are result over baseline, above 1 for an increase."""

    @abstractmethod
    def summary(self) -> str:
        """Return the tables as plain text."""

    @abstractmethod
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Text and static HTML in one bundle."""

    def __repr__(self) -> str:
        return self.summary()

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        return {}

    def figure(self, kind: str = "") -> Model:
        """Build a Bokeh figure of the changes; '' for the default kind.

        Raises:
            ResultError: There is no such kind, or nothing to draw.

        """
        drawn = self._figures()
        if not drawn:
            raise ResultError(
                "this comparison has no figure",
                why="only comparisons of profiles have figures",
                fix="use its tables, or draw both results: result.figure()",
                code="result.no-figure",
            )
        if kind and kind not in drawn:
            raise ResultError(
                f"no figure of kind {kind!r}", fix=f"choose one of {', '.join(drawn)}", code="result.no-figure"
            )
        return drawn[kind or next(iter(drawn))]()

    def to_html(self, path: str | Path) -> Path:
        """Write the notebook view as one interactive HTML file, which needs no network.

        Raises:
            RecordingError: The file cannot be written.

        """
        from accel_magic.views.html_file import save

        return save(lambda: self._repr_mimebundle_()["text/html"], path, "comparison", self._machine())

    @abstractmethod
    def _machine(self) -> Mapping[str, str]:
        """Where the result was recorded."""


@dataclass(frozen=True, repr=False)
class TraceComparison(Comparison):
    """A trace compared with its baseline.

    Attributes:
        table: One row per (`probe`, `function`) of either trace, most hits first. `hits`, `baseline_hits` (Int64, NA if
            that trace had no such probe point), `rate` (hits/s), `p50_ns`, `p99_ns` (NaN if not measured), each with
            its `baseline_…`; `rate_ratio`, `p50_ratio` and `p99_ratio`. For each ratio, `…_ratio_low` and
            `…_ratio_high` are the 99 % limits for repeated runs, and `…_significant` tells whether they exclude 1.
            `significant`: whether that is true for any ratio of the row; never for a function that was not measured or
            that one of the traces lacks.
        families: Hits and rates likewise, and `share` of all hits, per family of a driver's functions, indexed by
            `family`, most hits first; empty if neither trace has any.
        duration_s: Length of the trace.
        baseline_duration_s: Length of the baseline.
        recordings: Both, the trace first.
        lines: What the subsystems of the trace say about both, in words.

    """

    table: pd.DataFrame
    families: pd.DataFrame
    duration_s: float
    baseline_duration_s: float
    recordings: tuple[Recording, Recording]
    lines: tuple[str, ...]

    @property
    def banners(self) -> tuple[str, ...]:
        """Banners of both traces, without duplicates."""
        return tuple(dict.fromkeys(banner for recording in self.recordings for banner in banners_of(recording)))

    def _machine(self) -> Mapping[str, str]:
        return self.recordings[0].machine

    def summary(self) -> str:
        """Return the durations of both traces, then the tables of changes."""
        from accel_magic.views.trace_text import comparison_text

        lengths = (self.duration_s, self.baseline_duration_s)
        return comparison_text(self.table, self.families, lengths, self.banners, self.lines)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from accel_magic.views.trace_html import comparison_html

        lengths = (self.duration_s, self.baseline_duration_s)
        html = comparison_html(self.table, self.families, lengths, self.banners, self.lines)
        return {"text/plain": self.summary(), "text/html": html}


@dataclass(frozen=True, repr=False)
class ClusterComparison(TraceComparison):
    """A trace of many nodes compared with its baseline: all together, and each node with its counterpart.

    Attributes:
        nodes: One row per node of both and (`probe`, `function`): the columns `node`, `host`, `rank` (Int64), `probe`,
            `function`, then those of `table`; empty, without columns, if no node has a counterpart.

    """

    nodes: pd.DataFrame

    def summary(self) -> str:
        """Return the comparison of all nodes together, then of each."""
        from accel_magic.views.cluster_view import comparison_text

        return comparison_text(self.nodes, super().summary())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from accel_magic.views.cluster_view import comparison_html

        whole = super()._repr_mimebundle_(include, exclude)
        return {"text/plain": self.summary(), "text/html": comparison_html(self.nodes, whole["text/html"])}


def compare_traces(
    recording: Recording,
    baseline: Recording,
    family_of: Callable[[str], str],
    compared: Compared | None = None,
) -> TraceComparison:
    """Compare a recording with its baseline.

    Args:
        recording: The recording.
        baseline: What it is compared with.
        family_of: Returns the family of a function, `` if it has none.
        compared: What subsystems say about both.

    """
    from accel_magic.analysis.compare import compare

    compared = compared or Compared()
    named = [_named(each, names) for each, names in zip((recording, baseline), compared.names, strict=True)]
    table, families = compare(named[0], named[1], family_of)
    ours, theirs = (each.duration_ns / 1e9 if each.timed else np.nan for each in (recording, baseline))
    return TraceComparison(table, families, ours, theirs, (recording, baseline), compared.lines)


def _named(recording: Recording, names: Mapping[str, str]) -> Recording:
    """The recording with other names of functions."""
    if not names:
        return recording
    points = recording.plan.points
    changed = tuple(replace(point, function=names.get(point.function, point.function)) for point in points)
    return replace(recording, plan=recording.plan.with_points(changed))


@dataclass(frozen=True, repr=False)
class ProfileComparison(Comparison):
    """A profile compared with its baseline.

    Attributes:
        frames: One row per function of either, largest change of own weight first. `name`, `kind`, `module`;
            `own_UNIT` and `total_UNIT` (int64), named after the profile's unit, and `baseline_own_UNIT`,
            `baseline_total_UNIT`, after the baseline's; each as a share of all weights: `own_share`, `total_share`,
            `baseline_own_share`, `baseline_total_share`; `own_change_UNIT` and `total_change_UNIT`: this share minus
            the baseline's, times this profile's total (float64, in its unit).
        stacks: The same per stack, with `frames` (tuple, root first) and `text` instead of the name: `weight_UNIT`,
            `baseline_weight_UNIT`, `weight_share`, `baseline_weight_share`, `weight_change_UNIT`.
        profile: This profile, with the frames and stacks of both.
        baseline: The baseline, with the frames and stacks of both.

    Functions are compared rather than lines, because sampled lines differ between any two runs. Thread and process ids
    are ignored for the same reason.
    """

    frames: pd.DataFrame
    stacks: pd.DataFrame
    profile: Profile
    baseline: Profile

    @property
    def table(self) -> pd.DataFrame:
        """Same as `frames`."""
        return self.frames

    @property
    def scale(self) -> float:
        """Factor that scales the baseline's weights to this profile's total; NaN if the baseline is empty."""
        return self.profile.total / self.baseline.total if self.baseline.total else np.nan

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """Differential graphs, `flame` and `icicle`: widths of this profile, red for growth."""
        from accel_magic.views.flame import profile_view

        return {
            "flame": lambda: profile_view.comparison_figure(self.profile, self.baseline),
            "icicle": lambda: profile_view.comparison_figure(self.profile, self.baseline, invert=True),
        }

    def _machine(self) -> Mapping[str, str]:
        return self.profile.machine

    def summary(self) -> str:
        """Return a description of both profiles, and the functions that changed most."""
        from accel_magic.views.flame.profile_view import comparison_text

        return comparison_text(self.frames, self.profile, self.baseline)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from accel_magic.views.flame.profile_view import comparison_bundle

        return comparison_bundle(self.frames, self.profile, self.baseline)


def compare_profiles(profile: Profile, baseline: Profile) -> ProfileComparison:
    """Compare a profile with its baseline."""
    from accel_magic.analysis.compare_profiles import aligned, frames, stacks

    ours, theirs = aligned(profile, baseline)
    return ProfileComparison(frames(ours, theirs), stacks(ours, theirs), ours, theirs)


@dataclass(frozen=True, repr=False)
class GpuComparison(Comparison):
    """A GPU trace compared with its baseline.

    Attributes:
        table: One row per kernel of either, by name, most launches first: `launches`, `host_ns` (mean time of the
            launching call), `device_ns` (mean time on the device; NaN if unknown), each with its `baseline_…` and
            `…_ratio`.
        tools: For each tool of both traces, its table summed by kernel, or by line if the tool has lines: every number
            with its `baseline_…` and `…_ratio`.
        api: The driver's calls by name: `calls`, `total_ns`, `mean_ns`, `longest_ns`, `bytes`, `failed`, each with its
            `baseline_…` and `…_ratio`; empty if neither trace recorded them.
        banners: Banners of both traces.
        devices: Descriptions of the devices.
        machine: Where the trace was recorded.

    """

    table: pd.DataFrame
    tools: dict[str, pd.DataFrame]
    api: pd.DataFrame
    banners: tuple[str, ...]
    devices: tuple[str, str]
    machine: Mapping[str, str]

    def _machine(self) -> Mapping[str, str]:
        return self.machine

    def _tables(self) -> dict[str, pd.DataFrame]:
        return {"kernels": self.table, **self.tools, **({"host calls": self.api} if len(self.api) else {})}

    def summary(self) -> str:
        """Return a description of both traces, and all tables."""
        from accel_magic.views.gpu.gpu_summary import comparison_text

        return comparison_text(self._tables(), self.devices, self.banners)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from accel_magic.views.gpu.gpu_summary import comparison_html

        html = comparison_html(self._tables(), self.devices, self.banners)
        return {"text/plain": self.summary(), "text/html": html}


def compare_gpu(ours: GpuAnalysis, baseline: GpuAnalysis) -> GpuComparison:
    """Compare a GPU trace with its baseline."""
    from accel_magic.analysis.gpu.compare import api, kernels, tools

    recordings = (ours.recording, baseline.recording)
    return GpuComparison(
        table=kernels(ours, baseline),
        tools=tools(ours, baseline),
        api=api(ours, baseline),
        banners=tuple(dict.fromkeys(banner for recording in recordings for banner in banners_of(recording))),
        devices=(ours.recording.device, baseline.recording.device),
        machine=ours.recording.machine,
    )


@dataclass(frozen=True, repr=False)
class PolicyComparison(Comparison):
    """A trial of policies compared with its baseline.

    Attributes:
        table: As `accel_magic.analysis.policies.compare`.
        trials: Both trials, this one first.
        machine: Where the trial ran.

    """

    table: pd.DataFrame
    trials: tuple[PolicyTables, PolicyTables]
    machine: Mapping[str, str]

    def _machine(self) -> Mapping[str, str]:
        return self.machine

    def summary(self) -> str:
        """Return a description of both trials, and the table."""
        from accel_magic.views.policy_view import comparison_text

        return comparison_text(self.table, self.trials)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from accel_magic.views.policy_view import comparison_html

        return {"text/plain": self.summary(), "text/html": comparison_html(self.table, self.trials)}


def compare_policies(ours: PolicyTables, baseline: PolicyTables, machine: Mapping[str, str]) -> PolicyComparison:
    """Compare a trial of policies with its baseline."""
    from accel_magic.analysis.policies import compare

    return PolicyComparison(compare(ours, baseline), (ours, baseline), machine)

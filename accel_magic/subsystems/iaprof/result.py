"""IaprofResult: a profile made by iaprof, with its stalls, intervals, metrics and kernels."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from accel_magic.result_bases.profile import ProfileResult
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.stalls import StallTables
from accel_magic.subsystems.iaprof.store import to_dict
from accel_magic.subsystems.iaprof.write import write
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.recording.profile_store import StoredProfile
    from accel_magic.subsystems.iaprof.parse import Errors
    from accel_magic.subsystems.iaprof.profile import IaprofProfile


NAME: Final = "iaprof"
"""Name of the subsystem, under which files have its data."""


class Stalls(StallTables):
    """Where and why execution units stalled: `IaprofResult.stalls`."""

    @cached_property
    def findings(self) -> Diagnosis:
        """Findings about the profile, worst first."""
        return Diagnosis.of(super().findings)

    def __repr__(self) -> str:
        """Plain text: reasons, kernels and instructions with most samples."""
        from accel_magic.subsystems.iaprof.summary import tables_text

        return tables_text(self)

    def _repr_html_(self) -> str:
        """Return the same as HTML."""
        from accel_magic.subsystems.iaprof.summary import tables_html

        return tables_html(self)


class IaprofResult(ProfileResult):
    """Result of opening an iaprof profile with `accel_magic.open`, or of `%%flame --xe`.

    Args:
        iaprof: The profile.
        value: The value of the profiled cell's last expression.
        banners: Lines to show above every view.

    """

    KIND = "an iaprof profile"

    def __init__(self, iaprof: IaprofProfile, value: object = None, banners: tuple[str, ...] = ()) -> None:
        super().__init__(replace(iaprof.profile(), banners=banners), value)
        self.iaprof = iaprof

    @cached_property
    def stalls(self) -> Stalls:
        """Where and why execution units stalled: `by_reason`, `by_kernel`, `by_instruction`, `findings`."""
        return Stalls(self.iaprof)

    def diagnose(self) -> Diagnosis:
        """Findings about the stalls, worst first."""
        return self.stalls.findings

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """One row per interval.

        Columns: `interval`, `time_ns` and `length_ns` since the start, `end_ns` on CLOCK_MONOTONIC, `samples`,
        `active`, `stalled`, `frequency_MHz`, `busy_percent`.
        """
        return self.iaprof.interval_table

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per `metric` line: `interval`, `time_ns`, `name` (which ends in its unit), `value`."""
        return self.iaprof.metric_table

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel and launching stack, most samples first."""
        return self.iaprof.kernel_table

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """Those of every profile, and `stalls` (reasons by kernel) and `utilisation` (busy share and frequency)."""
        from accel_magic.subsystems.iaprof import figures

        return {
            **super()._figures(),
            "stalls": lambda: figures.stalls_figure(self.stalls.by_kernel),
            "utilisation": lambda: figures.utilisation_figure(self.intervals, self.profile.duration_ns),
        }

    def _stored(self) -> StoredProfile:
        from accel_magic.recording.profile_store import StoredProfile

        return StoredProfile(self.profile, NAME, {NAME: to_dict(self.iaprof)})

    def to_iaprof(self, path: str | Path) -> Path:
        """Write the profile in iaprof's own format and return the file's absolute path."""
        return write(self.iaprof, path)

    def summary(self) -> str:
        """Return plain text: headline, notes, frames, reasons and kernels with most samples, findings."""
        from accel_magic.subsystems.iaprof.summary import result_text

        return result_text(self.profile, self.frames, self.stalls)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.subsystems.iaprof.summary import bundle

        return bundle(self.profile, self.frames, self.stalls)


def open_profile(path: str | Path, errors: Errors = "strict") -> IaprofResult:
    """Read an iaprof profile as a result; arguments and errors as for `read`."""
    return IaprofResult(read(path, errors))

"""IaprofResult: a profile made by iaprof, with its stalls, intervals, metrics and kernels."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.profiles.iaprof.parse import read
from accel_magic.profiles.iaprof.write import write
from accel_magic.profiles.result import ProfileResult

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.analysis.stalls import StallTables
    from accel_magic.profiles.iaprof.model import IaprofProfile
    from accel_magic.profiles.iaprof.parse import Errors
    from accel_magic.profiles.store import Stored


class IaprofResult(ProfileResult):
    """What `accel_magic.open` gives for an iaprof profile, and what `%%flame --xe` records.

    Args:
        iaprof: What was recorded.
        value: The profiled cell's own last value.
        banners: What must stand above every view of it.

    """

    def __init__(self, iaprof: IaprofProfile, value: object = None, banners: tuple[str, ...] = ()) -> None:
        super().__init__(replace(iaprof.profile(), banners=banners), value)
        self.iaprof = iaprof

    @cached_property
    def stalls(self) -> StallTables:
        """Where execution units waited, and for what: `by_reason`, `by_kernel`, `by_instruction`, `findings`."""
        from accel_magic.analysis.stalls import StallTables

        return StallTables(self.iaprof)

    @property
    def findings(self) -> Findings:
        """What the profile shows, worst first."""
        return self.stalls.findings

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """One row per interval: `interval`, `time_s`, `length_s`, `end_s`, `samples`, `active`, `stalled`, metrics."""
        return self.iaprof.interval_table

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per `metric` line: `interval`, `time_s`, `name`, `value`."""
        return self.iaprof.metric_table

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel and launching stack, the most samples first."""
        return self.iaprof.kernel_table

    def figure(self, kind: str = "flame") -> Model:
        """Build a Bokeh figure.

        Args:
            kind: As for every profile, or `"stalls"`: reasons by kernel; `"utilisation"`: busy share and frequency.

        Raises:
            ProbeError: No such kind, or nothing of it was recorded.

        """
        from accel_magic.views import stalls

        return stalls.figure(self, kind) if kind in stalls.FIGURES else super().figure(kind)

    def _stored(self) -> Stored:
        from accel_magic.profiles.store import Stored

        return Stored(self.profile, "iaprof", self.iaprof)

    def to_iaprof(self, path: str | Path) -> Path:
        """Write the profile in iaprof's own format, and return the file's absolute path."""
        return write(self.iaprof, path)

    def summary(self) -> str:
        """Plain-text result: headline, notes, frames, reasons and kernels with most samples, findings."""
        from accel_magic.views.stalls import result_text

        return result_text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.stalls import bundle

        return bundle(self)


def open_profile(path: str | Path, errors: Errors = "strict") -> IaprofResult:
    """Read an iaprof profile as a result; arguments and errors as for `read`."""
    return IaprofResult(read(path, errors))

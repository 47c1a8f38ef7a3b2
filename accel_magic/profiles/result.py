"""ProfileResult: pandas views of a profile, and what can be asked of it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.profiles.labels import label

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.profiles.compare import ProfileComparison
    from accel_magic.profiles.model import Profile, Unit
    from accel_magic.profiles.store import Stored


class ProfileResult:
    """What `accel_magic.open` gives for a profile, and what results of profilers derive from.

    Everything is computed from one immutable `Profile`; frames are built on first use and kept.
    """

    def __init__(self, profile: Profile, value: object = None) -> None:
        self.profile = profile
        self.value = value
        """The profiled cell's own last value."""

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded; empty for other tools' profiles."""
        return self.profile.machine

    @property
    def duration_s(self) -> float:
        """Length of the profiled stretch in seconds; NaN where not known."""
        return self.profile.duration_ns / 1e9 if self.profile.duration_ns else math.nan

    @property
    def unit(self) -> Unit:
        """What weights are: `samples`, `ns`, `bytes` or `calls`."""
        return self.profile.unit

    @property
    def total(self) -> int:
        """Sum of all weights, exact."""
        return self.profile.total

    @property
    def lost(self) -> int:
        """Samples that are in no stack; `profile.lost` says why."""
        return sum(lost.count for lost in self.profile.lost)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per sample, in order of time.

        Columns: `time_ns` Int64 since the start (of a wait, when it began), `tid` Int32, `state` (`cpu`, `off-cpu` or
        `accelerator`), `weight` int64 in `unit`, `stack` int32 (as in `stacks`).
        """
        return self.profile.sample_table()

    @property
    def df(self) -> pd.DataFrame:
        """Same as `samples`."""
        return self.samples

    @cached_property
    def stacks(self) -> pd.DataFrame:
        """One row per different stack, the heaviest first.

        Columns: `stack` (number), `weight`, `samples`, `frames` (tuple of `Frame`, the root first) and `text` (their
        labels, `;` between).
        """
        table = self.profile.stack_table()
        return table.assign(text=[";".join(map(label, frames)) for frames in table["frames"]])

    @cached_property
    def frames(self) -> pd.DataFrame:
        """One row per frame, the most weight of its own first.

        Columns: `name`, `kind`, `module`, `line`, `own` and `total` int64 in `unit`, `own_share` and `total_share` of
        all weights. A sample counts once in a frame's total, however often the frame recurs in its stack.
        """
        return self.profile.frame_table()

    def top(self, n: int = 10) -> pd.DataFrame:
        """Give the `n` frames with most weight of their own."""
        return self.frames.head(n)

    def figure(self, kind: str = "flame") -> Model:
        """Build a Bokeh figure: `"flame"` (root below), `"icicle"` (root on top), `"heatmap"` (when it happened).

        Raises:
            ProbeError: No such kind, nothing was sampled, or a heatmap of samples without times was asked for.

        """
        from accel_magic.views.profile import figure

        return figure(self, kind)

    def compare(self, other: ProfileResult) -> ProfileComparison:
        """Set this profile beside `other` (the baseline): weights and shares per function and stack."""
        from accel_magic.profiles.compare import compare

        return compare(self.profile, other.profile)

    def to_folded(self, path: str | Path) -> Path:
        """Write folded stacks, one line each: for flame graph tools."""
        from accel_magic.profiles import folded

        return folded.write(self.profile, path)

    def to_speedscope(self, path: str | Path) -> Path:
        """Write speedscope's JSON, a profile per thread: for www.speedscope.app."""
        from accel_magic.profiles import speedscope

        return speedscope.write(self.profile, path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write Chrome/Perfetto trace JSON, the stacks as slices per thread: for ui.perfetto.dev.

        Raises:
            ProbeError: The samples have no times.

        """
        from accel_magic.profiles import chrome

        return chrome.write(self.profile, path)

    def to_html(self, path: str | Path) -> Path:
        """Write what a notebook shows as one interactive HTML file, which needs no network: to look at, to mail."""
        from accel_magic.views.page import save

        return save(self, self.profile, path)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this profile again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.profiles import store

        return store.save(self._stored(), path)

    def _stored(self) -> Stored:
        """What `to_parquet` writes; results that hold more than a profile add it here."""
        from accel_magic.profiles.store import Stored

        return Stored(self.profile)

    def summary(self) -> str:
        """Plain-text result: headline, notes, frames with most weight."""
        from accel_magic.views.profile import profile_text

        return profile_text(self)

    def __repr__(self) -> str:
        """Same text as a terminal shows."""
        return self.summary()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.profile import bundle

        return bundle(self)

"""ProfileResult: pandas views of a profile, with figures, comparison and export."""

from __future__ import annotations

import math
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from accel_magic.errors import ResultError
from accel_magic.result_bases.base import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.recording.profile import Lost, Profile, Unit
    from accel_magic.recording.profile_store import StoredProfile
    from accel_magic.result_bases.comparison import ProfileComparison


class ProfileResult(Result):
    """Result of opening a profile with `accel_magic.open`, and base class of profilers' results.

    Everything is computed from one immutable `Profile`; tables are built on first use and cached.
    """

    KIND = "a profile"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "plan": (
                "a profile contains stacks but not the probes that recorded them",
                "profile a cell with %%flame: its result has the plan",
            ),
            "diagnose": (
                "rules are about what drivers, GPU programs and other profilers record, not about stacks",
                "see result.frames, or compare two profiles: result.compare(baseline)",
            ),
        }
    )

    def __init__(self, profile: Profile, value: object = None) -> None:
        super().__init__(value)
        self.profile = profile

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded; empty for other tools' profiles."""
        return self.profile.machine

    @property
    def started(self) -> str:
        """Wall-clock start, ISO 8601; '' if unknown."""
        return self.profile.started

    @property
    def duration_s(self) -> float:
        """Length of the profiled time in seconds; NaN if unknown."""
        return self.profile.duration_ns / 1e9 if self.profile.duration_ns else math.nan

    @property
    def unit(self) -> Unit:
        """Unit of the weights: `samples`, `ns`, `bytes`, `calls` or `events` (of `event`)."""
        return self.profile.unit

    @property
    def event(self) -> str:
        """What was sampled, as its tool names it: `cycles:u`; '' if unknown."""
        return self.profile.event

    @cached_property
    def sampled_events(self) -> pd.DataFrame:
        """One row per sampled event, the one of this result first; their weights are never added.

        Columns: `event`, `samples`, `unit`, and for each unit `total_UNIT` Int64, missing for events of other units.
        `for_event` returns the result of another event.
        """
        every = (self.profile, *self.profile.others)
        units = [each.unit for each in every]
        totals = {
            f"total_{unit}": pd.array([each.total if each.unit == unit else None for each in every], "Int64")
            for unit in dict.fromkeys(units)
        }
        return pd.DataFrame(
            {
                "event": [each.event for each in every],
                "samples": [len(each.samples) for each in every],
                "unit": units,
                **totals,
            }
        )

    def for_event(self, event: str) -> ProfileResult:
        """Return the result of another event that was sampled at the same time.

        Args:
            event: As in `sampled_events`; modifiers such as `:u` can be omitted if the name is unique.

        Raises:
            ResultError: It was not sampled.

        """
        found = self.profile.of_event(event)
        if found is None:
            raise ResultError(
                f"no event {event!r} in this profile",
                why="it was not sampled, or its name is not unique without modifiers",
                fix=f"choose one of {', '.join(self.sampled_events['event']) or 'none: events have no names here'}",
                code="result.no-event",
            )
        return ProfileResult(found, self.value)

    @property
    def total(self) -> int:
        """Sum of all weights, exact."""
        return self.profile.total

    def _losses(self) -> tuple[Lost, ...]:
        return self.profile.lost

    @property
    def events(self) -> pd.DataFrame:
        """Same as `samples`."""
        return self.samples

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per sample, in order of time.

        Columns: `time_ns` Int64 since the start (for a wait, its start), `tid` Int32, `state` (`cpu`, `off-cpu` or
        `accelerator`), `weight_UNIT` int64, named after `unit` (`weight_ns`, `weight_samples`), `stack` int32 (as in
        `stacks`).
        """
        return self.profile.sample_table()

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Samples by state: index `state`, columns `hits` (samples) and `total_UNIT`."""
        weight = f"weight_{self.unit}"
        groups = self.profile.sample_table().groupby("state", observed=True)[weight]
        table = pd.DataFrame({"hits": groups.size(), f"total_{self.unit}": groups.sum()})
        return table.sort_values("hits", ascending=False, kind="stable")

    @cached_property
    def stacks(self) -> pd.DataFrame:
        """One row per distinct stack, heaviest first.

        Columns: `stack` (number), `hits` (samples), `share` of all weight, `total_ns`, `mean_ns`, `p50_ns`, `p99_ns`
        (NaN in profiles without times), `total_bytes` (in profiles of bytes), `where` (the innermost line of the user's
        own code), `text` (labels of the frames, joined by `;`), `frames` (tuple of `Frame`, root first). All kinds of
        results use these columns.
        """
        from accel_magic.analysis.by_stack import profile_stacks

        return profile_stacks(self.profile)

    @cached_property
    def frames(self) -> pd.DataFrame:
        """One row per frame, highest own weight first.

        Columns: `name`, `kind`, `module`, `line`, `own_UNIT` and `total_UNIT` int64, named after `unit` (`own_ns`,
        `own_samples`), `own_share` and `total_share` of all weights. A sample counts once in a frame's total, however
        often the frame recurs in its stack.
        """
        return self.profile.frame_table()

    def top(self, n: int = 10) -> pd.DataFrame:
        """Return the `n` frames with the highest own weight."""
        return self.frames.head(n)

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """`flame` (root at the bottom), `icicle` (root at the top), `heatmap` (samples over time)."""
        from accel_magic.views.flame import profile_view

        return {
            "flame": lambda: profile_view.flame_figure(self.profile),
            "icicle": lambda: profile_view.flame_figure(self.profile, invert=True),
            "heatmap": lambda: profile_view.heatmap_figure(self.profile),
        }

    def compare(self, other: Result) -> ProfileComparison:
        """Compare this profile with `other` (the baseline): weights and shares per function and stack.

        Raises:
            ResultError: `other` is not a profile.

        """
        from accel_magic.result_bases.comparison import compare_profiles

        return compare_profiles(self.profile, self._check_kind(other, ProfileResult).profile)

    def to_folded(self, path: str | Path) -> Path:
        """Write folded stacks, one per line, for flame graph tools."""
        from accel_magic.formats import folded

        return folded.write(self.profile, path)

    def to_speedscope(self, path: str | Path) -> Path:
        """Write speedscope JSON with one profile per thread, for www.speedscope.app."""
        from accel_magic.formats import speedscope

        return speedscope.write(self.profile, path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write Chrome/Perfetto trace JSON with stacks as slices per thread, for ui.perfetto.dev.

        Raises:
            ResultError: The samples have no times.

        """
        from accel_magic.formats import chrome

        return chrome.write(self.profile, path)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this profile again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.recording import profile_store

        return profile_store.save(self._stored(), path)

    def _stored(self) -> StoredProfile:
        """Data for `to_parquet`; subclasses add what they have besides the profile."""
        from accel_magic.recording.profile_store import StoredProfile

        return StoredProfile(self.profile)

    def _title(self) -> str:
        return self.profile.origin or "profile"

    def summary(self) -> str:
        """Return plain text: headline, notes, frames with most weight."""
        from accel_magic.views.flame.profile_view import profile_text

        return profile_text(self.profile, self.frames)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.flame.profile_view import bundle

        return bundle(self.profile, self.frames)

"""What an iaprof profile holds, as columns: kernels, their stall samples by instruction, and metrics, by interval.

The file repeats a kernel in each interval in which it was sampled; such a repetition with its rows is a *run* here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.recording.profile import Lost, Profile


REASONS: Final = (
    "active", "control", "pipestall", "send", "dist_acc", "sbid", "sync", "inst_fetch", "other", "tdr",
)  # fmt: skip
"""What an EU was doing when it was sampled, in the order of the file's columns; only the first is no stall."""
METRICS: Final = ("frequency-MHz", "busy-percent")
ORIGIN: Final = "iaprof"
FAILED_DECODE: Final = "[failed decode]"
"""What iaprof writes for an instruction that it cannot read."""


class Kernel(NamedTuple):
    """A GPU kernel and who launched it; texts are '' where iaprof knew none.

    Attributes:
        address: On the GPU.
        comm: Name of the process.
        pid: Its id.
        cpu_stack: Frames of the launching thread, the root first, with `;` between.
        file: Source file.
        symbol: Name of the kernel.

    """

    address: int
    comm: str = ""
    pid: int = 0
    cpu_stack: str = ""
    file: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Intervals:
    """I intervals, in order of time.

    Attributes:
        number: (I,) int64, as in the file.
        end_ns: (I,) int64, when the interval ended, on CLOCK_MONOTONIC.

    """

    number: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @cached_property
    def start_ns(self) -> NDArray[np.int64]:
        """(I,) int64 since the profile's start: where the interval before ended.

        How long the first one was is not in the file: it counts as long as the shortest of the others.
        """
        return np.cumsum(self.lengths_ns) - self.lengths_ns

    @property
    def duration_ns(self) -> int:
        """From the start of the first interval to the end of the last."""
        return int(self.lengths_ns.sum())

    @cached_property
    def lengths_ns(self) -> NDArray[np.int64]:
        """(I,) int64, how long each was."""
        gaps = np.diff(self.end_ns)
        return np.concatenate([[gaps.min()], gaps]) if len(gaps) else np.zeros(len(self.end_ns), np.int64)


@dataclass(frozen=True)
class Runs:
    """R `kernel` lines: `interval` and `kernel`, (R,) int32, rows of `Intervals` and of `IaprofProfile.kernels`."""

    interval: NDArray[np.int32]
    kernel: NDArray[np.int32]


@dataclass(frozen=True)
class Stalls:
    """N `eustall` lines.

    Attributes:
        run: (N,) int32, row of `Runs`.
        offset: (N,) uint64, of the instruction within its kernel, in bytes.
        instruction: (N,) int32, place in `IaprofProfile.instructions`.
        counts: (N, 10) int64, samples by reason, in the order of `REASONS`.

    """

    run: NDArray[np.int32]
    offset: NDArray[np.uint64]
    instruction: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        """Count the lines."""
        return len(self.run)


@dataclass(frozen=True)
class Metrics:
    """M `metric` lines: `interval` (M,) int32, `name` (M,) uint8 (place in `METRICS`), `value` (M,) int64."""

    interval: NDArray[np.int32]
    name: NDArray[np.uint8]
    value: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IaprofProfile:
    """An iaprof profile. Two are equal when their records are, however they were made and read.

    Attributes:
        intervals: When samples were taken.
        kernels: Every kernel once, in order of appearance.
        instructions: Every text of an instruction once, in order of appearance.
        runs: Kernels by interval.
        stalls: Samples.
        metrics: Frequency and load of the GPU.
        dropped: Lines that were left out when reading with `errors="skip"`, by reason.
        notes: What the user must know of it, a sentence each.
        lost: Samples that iaprof itself says it lost.
        subsample: iaprof kept one of so many samples; 0 where not known, since its file does not say.
        started: Wall-clock start, ISO 8601; '' where not known.
        machine: Where it was recorded, as of `Recording.machine`; empty where not known.

    """

    intervals: Intervals
    kernels: tuple[Kernel, ...]
    instructions: tuple[str, ...]
    runs: Runs
    stalls: Stalls
    metrics: Metrics
    dropped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    subsample: int = 0
    started: str = ""
    machine: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def total(self) -> int:
        """All samples of all reasons, exact."""
        return sum(self.by_reason)

    @cached_property
    def by_reason(self) -> tuple[int, ...]:
        """Samples of each reason, exact, in the order of `REASONS`."""
        return tuple(map(int, self.stalls.counts.sum(axis=0)))

    @property
    def samples(self) -> pd.DataFrame:
        """One row per `eustall` line; see `tables.samples`."""
        from accel_magic.formats.iaprof import convert as tables

        return tables.samples(self)

    @property
    def reasons(self) -> pd.DataFrame:
        """One row per `eustall` line and reason that it counts; see `tables.reasons`."""
        from accel_magic.formats.iaprof import convert as tables

        return tables.reasons(self)

    @property
    def interval_table(self) -> pd.DataFrame:
        """One row per interval; see `tables.intervals`."""
        from accel_magic.formats.iaprof import convert as tables

        return tables.intervals(self)

    @property
    def metric_table(self) -> pd.DataFrame:
        """One row per `metric` line; see `tables.metrics`."""
        from accel_magic.formats.iaprof import convert as tables

        return tables.metrics(self)

    @property
    def kernel_table(self) -> pd.DataFrame:
        """One row per kernel, the most samples first; see `tables.kernels`."""
        from accel_magic.formats.iaprof import convert as tables

        return tables.kernels(self)

    def profile(self) -> Profile:
        """Make the profile that figures and exports take; see `convert.to_profile`."""
        from accel_magic.formats.iaprof.convert import to_profile

        return to_profile(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IaprofProfile):
            return NotImplemented
        return (self.kernels, self.instructions) == (other.kernels, other.instructions) and all(
            np.array_equal(mine, theirs) for mine, theirs in zip(self._columns(), other._columns(), strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.kernels, self.instructions, self.total))

    def _columns(self) -> Iterator[NDArray[np.generic]]:
        for part in (self.intervals, self.runs, self.stalls, self.metrics):
            yield from (vars(part)[name] for name in part.__dataclass_fields__)


def between(profile: IaprofProfile, start_ns: int, end_ns: int) -> IaprofProfile:
    """Keep the intervals that lie, if only in part, within two times on CLOCK_MONOTONIC, and what is in them."""
    ends = profile.intervals.end_ns
    kept = ends > start_ns
    kept[1:] &= ends[:-1] < end_ns
    runs = kept[profile.runs.interval]
    stalls = runs[profile.stalls.run]
    metrics = kept[profile.metrics.interval]
    kernels, kernel = by_appearance(profile.runs.kernel[runs], len(profile.kernels))
    texts, instruction = by_appearance(profile.stalls.instruction[stalls], len(profile.instructions))
    return replace(
        profile,
        intervals=Intervals(profile.intervals.number[kept], ends[kept]),
        kernels=tuple(profile.kernels[place] for place in kernels),
        instructions=tuple(profile.instructions[place] for place in texts),
        runs=Runs(_renumbered(kept)[profile.runs.interval[runs]], kernel),
        stalls=Stalls(
            _renumbered(runs)[profile.stalls.run[stalls]],
            profile.stalls.offset[stalls],
            instruction,
            profile.stalls.counts[stalls],
        ),
        metrics=Metrics(
            _renumbered(kept)[profile.metrics.interval[metrics]],
            profile.metrics.name[metrics],
            profile.metrics.value[metrics],
        ),
    )


def by_appearance(places: NDArray[np.int32], count: int) -> tuple[list[int], NDArray[np.int32]]:
    """Number what occurs in `places` (all below `count`) by its first occurrence: what has each number, the numbers."""
    used, first = np.unique(places, return_index=True)
    ordered = used[np.argsort(first, kind="stable")]
    numbers = np.zeros(max(count, 1), np.int32)
    numbers[ordered] = np.arange(len(ordered), dtype=np.int32)
    return ordered.tolist(), numbers[places]


def _renumbered(kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    return (np.cumsum(kept) - 1).astype(np.int32)

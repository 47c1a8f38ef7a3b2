"""An iaprof profile as columns: kernels, their stall samples by instruction, and metrics, by interval.

The file repeats a kernel in each interval in which it was sampled; each repetition with its rows is called a *run*.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from accel_magic.kernel.stacks.frame_text import frame_of
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import Lost, Profile, ProfileBuilder, ProfileSamples, ThreadState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray


REASONS: Final = (
    "active", "control", "pipestall", "send", "dist_acc", "sbid", "sync", "inst_fetch", "other", "tdr",
)  # fmt: skip
"""State of an EU when it was sampled, in the order of the file's columns; all but the first are stalls."""
METRICS: Final = ("frequency-MHz", "busy-percent")
ORIGIN: Final = "iaprof"
FAILED_DECODE: Final = "[failed decode]"
"""Text that iaprof writes for an instruction that it cannot disassemble."""


class LaunchedKernel(NamedTuple):
    """A GPU kernel and the process that launched it; unknown texts are ''.

    Attributes:
        address: GPU address.
        comm: Process name.
        pid: Process id.
        cpu_stack: Frames of the launching thread, root first, separated by `;`.
        file: Source file.
        symbol: Kernel name.

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
        """(I,) int64, ns since the profile's start: the end of the previous interval.

        The file lacks the length of the first interval; the shortest of the others is used.
        """
        return np.cumsum(self.lengths_ns) - self.lengths_ns

    @property
    def duration_ns(self) -> int:
        """From the start of the first interval to the end of the last."""
        return int(self.lengths_ns.sum())

    @cached_property
    def lengths_ns(self) -> NDArray[np.int64]:
        """(I,) int64, length of each interval, ns."""
        gaps = np.diff(self.end_ns)
        return np.concatenate([[gaps.min()], gaps]) if len(gaps) else np.zeros(len(self.end_ns), np.int64)


@dataclass(frozen=True)
class Runs:
    """R `kernel` lines: `interval` and `kernel`, (R,) int32, rows of `Intervals` and of `IaprofProfile.kernels`."""

    interval: NDArray[np.int32]
    kernel: NDArray[np.int32]


@dataclass(frozen=True)
class StallLines:
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
class MetricLines:
    """M `metric` lines: `interval` (M,) int32, `name` (M,) uint8 (place in `METRICS`), `value` (M,) int64."""

    interval: NDArray[np.int32]
    name: NDArray[np.uint8]
    value: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IaprofProfile:
    """An iaprof profile. Two profiles are equal if their records are, regardless of their origin.

    Attributes:
        intervals: When samples were taken.
        kernels: Every kernel once, in order of appearance.
        instructions: Every instruction's text once, in order of appearance.
        runs: Kernels by interval.
        stalls: Samples.
        metrics: Frequency and load of the GPU.
        dropped: Lines dropped when reading with `errors="skip"`, by reason.
        notes: Notes for the user, a sentence each.
        lost: Samples that iaprof itself reported as lost.
        subsample: iaprof kept one of every `subsample` samples; 0 if unknown, because its file does not record it.
        started: Wall-clock start, ISO 8601; '' if unknown.
        machine: Machine that recorded it, as in `Recording.machine`; empty if unknown.

    """

    intervals: Intervals
    kernels: tuple[LaunchedKernel, ...]
    instructions: tuple[str, ...]
    runs: Runs
    stalls: StallLines
    metrics: MetricLines
    dropped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    subsample: int = 0
    started: str = ""
    machine: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def total(self) -> int:
        """Number of samples over all reasons, exact."""
        return sum(self.by_reason)

    @cached_property
    def by_reason(self) -> tuple[int, ...]:
        """Samples of each reason, exact, in the order of `REASONS`."""
        return tuple(map(int, self.stalls.counts.sum(axis=0)))

    @property
    def samples(self) -> pd.DataFrame:
        """One row per `eustall` line; see the function `samples`."""
        return samples(self)

    @property
    def reasons(self) -> pd.DataFrame:
        """One row per `eustall` line and reason that it counts; see the function `reasons`."""
        return reasons(self)

    @property
    def interval_table(self) -> pd.DataFrame:
        """One row per interval; see the function `intervals`."""
        return intervals(self)

    @property
    def metric_table(self) -> pd.DataFrame:
        """One row per `metric` line; see the function `metrics`."""
        return metrics(self)

    @property
    def kernel_table(self) -> pd.DataFrame:
        """One row per kernel, the most samples first; see the function `kernels`."""
        return kernels(self)

    def profile(self) -> Profile:
        """Convert to the profile that figures and exports use; see the function `to_profile`."""
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
    """Keep the intervals that overlap the range between two times on CLOCK_MONOTONIC, with their contents."""
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
        stalls=StallLines(
            _renumbered(runs)[profile.stalls.run[stalls]],
            profile.stalls.offset[stalls],
            instruction,
            profile.stalls.counts[stalls],
        ),
        metrics=MetricLines(
            _renumbered(kept)[profile.metrics.interval[metrics]],
            profile.metrics.name[metrics],
            profile.metrics.value[metrics],
        ),
    )


def by_appearance(places: NDArray[np.int32], count: int) -> tuple[list[int], NDArray[np.int32]]:
    """Renumber `places` (all below `count`) by first occurrence; returns old place by number, and new numbers."""
    used, first = np.unique(places, return_index=True)
    ordered = used[np.argsort(first, kind="stable")]
    numbers = np.zeros(max(count, 1), np.int32)
    numbers[ordered] = np.arange(len(ordered), dtype=np.int32)
    return ordered.tolist(), numbers[places]


def _renumbered(kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    return (np.cumsum(kept) - 1).astype(np.int32)


MOST: Final = 2**63 - 1
"""Largest count: iaprof counts to 2^64, which neither our columns nor the tools that read our exports support."""


MOST_PID: Final = 2**32 - 1


MOST_ADDRESS: Final = 2**64 - 1


MOST_NS: Final = 2**32 * 1_000_000_000
"""Latest time, 136 years after the start, so that sums and differences of times stay exact."""


UNKNOWN_SUBSAMPLE: Final = (
    "iaprof keeps one of every N samples that the GPU takes (--eu-stall-subsample, default 100), but its file does not "
    "record N: weights count the samples in the file"
)


SUBSAMPLE: Final = "iaprof kept one of every {:,} samples that the GPU took: weights count the samples it kept"


_PYTHON: Final = re.compile(r"py::(.+):([^:]*[/.<][^:]*)")


_TABLE: Final = 1 << 26


_SEPARATOR: Final = Frame("-", FrameKind.SEPARATOR)


_GPU: Final = frozenset({FrameKind.GPU_KERNEL, FrameKind.GPU_SOURCE, FrameKind.GPU_INSTRUCTION, FrameKind.STALL})


def to_profile(iaprof: IaprofProfile) -> Profile:
    """Convert to the profile that figures and exports use: unit samples, every sample on the accelerator.

    Stacks, root first: process, its id, the frames that launched the kernel, `-`, source file, kernel, instruction,
    stall reason, offset. A sample's time is the start of its interval. The kind of a CPU frame is derived from its
    text, as in folded stacks.
    """
    stalls = iaprof.stalls
    rows, reasons = np.nonzero(stalls.counts)
    builder = ProfileBuilder()
    builder.add_many(
        ProfileSamples(
            stack=_leaves(builder, iaprof, rows, reasons),
            weight=stalls.counts[rows, reasons],
            time_ns=iaprof.intervals.start_ns[iaprof.runs.interval[stalls.run[rows]]],
            tid=np.zeros(len(rows), np.int32),
            state=np.full(len(rows), ThreadState.ACCELERATOR, np.uint8),
        )
    )
    return builder.build(
        unit="samples",
        origin=ORIGIN,
        duration_ns=iaprof.intervals.duration_ns,
        started=iaprof.started,
        machine=dict(iaprof.machine),
        lost=[
            *(Lost(count, f"damaged lines dropped: {reason}") for reason, count in iaprof.dropped.items()),
            *iaprof.lost,
        ],
        notes=(SUBSAMPLE.format(iaprof.subsample) if iaprof.subsample else UNKNOWN_SUBSAMPLE, *iaprof.notes),
    )


def kernel_frames(kernel: LaunchedKernel) -> list[Frame]:
    """Frames of a kernel's launch and of the kernel, root first."""
    return [
        Frame(kernel.comm, FrameKind.PROCESS),
        Frame(str(kernel.pid), FrameKind.PROCESS),
        *(_cpu_frame(text) for text in kernel.cpu_stack.split(";") if text),
        _SEPARATOR,
        Frame(kernel.file, FrameKind.GPU_SOURCE),
        Frame(kernel.symbol, FrameKind.GPU_KERNEL, kernel.file),
    ]


def _cpu_frame(text: str) -> Frame:
    """Parse one frame of a CPU stack; CPython names its functions `py::NAME:FILE` for native profilers."""
    python = _PYTHON.fullmatch(text)
    return Frame(python[1], FrameKind.PYTHON, python[2]) if python else frame_of(text)


def _leaves(
    builder: ProfileBuilder, iaprof: IaprofProfile, rows: NDArray[np.intp], reasons: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Stacks of samples, (n,) int32; built level by level, so that each distinct stack is created once.

    Args:
        builder: Receives the stacks.
        iaprof: The profile.
        rows: (n,), the samples' `eustall` lines.
        reasons: (n,), their reasons.

    """
    stalls = iaprof.stalls
    if not len(rows):
        return np.zeros(0, np.int32)
    roots = [
        builder.stack(_numbers(builder, kernel_frames(kernel)))  # noqa: PD013 - no pandas
        for kernel in iaprof.kernels
    ]
    offsets, places = _offsets(iaprof)
    nodes = np.array(roots, np.int32)[iaprof.runs.kernel[stalls.run[rows]]]
    for frames, numbers in (
        ([Frame(text, FrameKind.GPU_INSTRUCTION) for text in iaprof.instructions], stalls.instruction[rows]),
        ([Frame(reason, FrameKind.STALL) for reason in REASONS], reasons),
        (offsets, places[rows]),
    ):
        nodes = _below(builder, nodes, _numbers(builder, frames), numbers)
    return nodes


def _offsets(iaprof: IaprofProfile) -> tuple[list[Frame], NDArray[np.intp]]:
    """Frames of the offsets, one per kernel and offset, and the index of the frame of each `eustall` line."""
    symbols = list(dict.fromkeys(kernel.symbol for kernel in iaprof.kernels))
    places = {symbol: place for place, symbol in enumerate(symbols)}
    of_kernel = np.array([places[kernel.symbol] for kernel in iaprof.kernels], np.int64)
    offsets, numbers = np.unique(iaprof.stalls.offset, return_inverse=True)
    kernels = of_kernel[iaprof.runs.kernel[iaprof.stalls.run]]
    pairs, inverse = _distinct(kernels * len(offsets) + numbers)
    texts = list(map(hex, offsets.tolist()))
    frames = [
        Frame(texts[pair % len(texts)], FrameKind.GPU_INSTRUCTION, symbols[pair // len(texts)])
        for pair in pairs.tolist()
    ]
    return frames, inverse


def _below(
    builder: ProfileBuilder, parents: NDArray[np.int32], frames: Sequence[int], numbers: NDArray[Any]
) -> NDArray[np.int32]:
    """Return the nodes of `frames[numbers]` under `parents`."""
    width = len(frames)
    pairs, inverse = _distinct(parents.astype(np.int64) * width + numbers)
    made = [builder.node(frames[pair % width], pair // width) for pair in pairs.tolist()]
    return np.array(made, np.int32)[inverse]


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Distinct keys in order, and the index of each key among them; uses a lookup table if it is not too large."""
    span = int(keys.max(initial=0)) + 1
    if span > _TABLE:
        return np.unique(keys, return_inverse=True)
    there = np.zeros(span, np.bool_)
    there[keys] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]


def _numbers(builder: ProfileBuilder, frames: Iterable[Frame]) -> list[int]:
    return [builder.frame(*frame) for frame in frames]


def samples(profile: IaprofProfile) -> pd.DataFrame:
    """One row per `eustall` line.

    Columns: `interval` (number), `time_ns` (its start, since the profile's start), `kernel` (symbol, category),
    `kernel_id` (row of `kernels` by number), `offset` uint64, `instruction` (category), the ten reasons int64, `total`.
    """
    return _lines(profile, np.arange(len(profile.stalls))).assign(
        **{reason: profile.stalls.counts[:, column] for column, reason in enumerate(REASONS)},
        total=profile.stalls.counts.sum(axis=1),
    )


def reasons(profile: IaprofProfile) -> pd.DataFrame:
    """One row per `eustall` line and reason with a sample.

    Columns: those of `samples` up to `instruction`, then `reason` (category of `REASONS`) and `samples` int64.
    """
    rows, columns = np.nonzero(profile.stalls.counts)
    return _lines(profile, rows).assign(
        reason=_category(REASONS, columns),
        samples=profile.stalls.counts[rows, columns],
    )


def intervals(profile: IaprofProfile) -> pd.DataFrame:
    """One row per interval.

    Columns: `interval`, `time_ns` and `length_ns` (since the profile's start), `end_ns` (on CLOCK_MONOTONIC),
    `samples`, `active` and `stalled` int64, `frequency_MHz` and `busy_percent` Int64, NA if the interval has no such
    line.
    """
    import pandas as pd

    found = profile.intervals
    by_reason = np.zeros((len(found.number), len(REASONS)), np.int64)
    np.add.at(by_reason, profile.runs.interval[profile.stalls.run], profile.stalls.counts)
    return pd.DataFrame(
        {
            "interval": found.number,
            "time_ns": found.start_ns,
            "length_ns": found.lengths_ns,
            "end_ns": found.end_ns,
            "samples": by_reason.sum(axis=1),
            "active": by_reason[:, 0],
            "stalled": by_reason[:, 1:].sum(axis=1),
            **{name.replace("-", "_"): _of_interval(profile, place) for place, name in enumerate(METRICS)},
        }
    )


def metrics(profile: IaprofProfile) -> pd.DataFrame:
    """One row per `metric` line: `interval`, `time_ns`, `name` (category), `value` int64."""
    import pandas as pd

    rows = profile.metrics.interval
    return pd.DataFrame(
        {
            "interval": profile.intervals.number[rows],
            "time_ns": profile.intervals.start_ns[rows],
            "name": _category(METRICS, profile.metrics.name),
            "value": profile.metrics.value,
        }
    )


def kernels(profile: IaprofProfile) -> pd.DataFrame:
    """One row per kernel, most samples first.

    Columns: `kernel_id`, `symbol`, `file`, `comm`, `pid`, `cpu_stack`, `address` uint64, `samples` int64, `share` of
    all samples, `intervals` (number of intervals in which it was sampled).
    """
    import pandas as pd

    per_run = np.zeros(len(profile.runs.kernel), np.int64)
    np.add.at(per_run, profile.stalls.run, profile.stalls.counts.sum(axis=1))
    count = len(profile.kernels)
    weights = np.zeros(count, np.int64)
    np.add.at(weights, profile.runs.kernel, per_run)
    seen = pd.Series(profile.runs.interval).groupby(profile.runs.kernel).nunique().reindex(range(count), fill_value=0)
    table = pd.DataFrame(
        {
            "kernel_id": np.arange(count),
            "symbol": [kernel.symbol for kernel in profile.kernels],
            "file": [kernel.file for kernel in profile.kernels],
            "comm": [kernel.comm for kernel in profile.kernels],
            "pid": np.array([kernel.pid for kernel in profile.kernels], np.int64),
            "cpu_stack": [kernel.cpu_stack for kernel in profile.kernels],
            "address": np.array([kernel.address for kernel in profile.kernels], np.uint64),
            "samples": weights,
            "share": weights / max(profile.total, 1),
            "intervals": seen.to_numpy(np.int64),
        }
    )
    return table.sort_values("samples", ascending=False, kind="stable", ignore_index=True)


def _lines(profile: IaprofProfile, rows: NDArray[np.intp]) -> pd.DataFrame:
    import pandas as pd

    stalls = profile.stalls
    runs = stalls.run[rows]
    interval = profile.runs.interval[runs]
    kernel = profile.runs.kernel[runs]
    return pd.DataFrame(
        {
            "interval": profile.intervals.number[interval],
            "time_ns": profile.intervals.start_ns[interval],
            "kernel": _category([one.symbol for one in profile.kernels], kernel),
            "kernel_id": kernel,
            "offset": stalls.offset[rows],
            "instruction": _category(profile.instructions, stalls.instruction[rows]),
        }
    )


def _category(texts: Sequence[str], codes: NDArray[Any]) -> Any:
    """Texts by code as a categorical; several codes may map to the same text."""
    import pandas as pd

    distinct = list(dict.fromkeys(texts))
    numbers = {text: number for number, text in enumerate(distinct)}
    places = np.array([numbers[text] for text in texts], np.int32)
    return pd.Categorical.from_codes(places[codes] if len(codes) else np.zeros(0, np.int32), pd.Index(distinct))


def _of_interval(profile: IaprofProfile, name: int) -> pd.arrays.IntegerArray:
    """Value of a metric in each interval; the last one if there are several."""
    import pandas as pd

    values = pd.array([None] * len(profile.intervals.number), dtype="Int64")
    rows = np.flatnonzero(profile.metrics.name == name)
    values[profile.metrics.interval[rows]] = profile.metrics.value[rows]
    return values

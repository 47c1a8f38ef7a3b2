"""Between iaprof profiles and profiles of any kind."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.profiles.folded import frame_of, text_of
from accel_magic.profiles.iaprof.collect import Collected
from accel_magic.profiles.iaprof.lines import MOST_PID, KernelLine
from accel_magic.profiles.iaprof.model import ORIGIN, REASONS, IaprofProfile, Kernel
from accel_magic.profiles.model import NO_TIME, Frame, Kind, Lost, Profile, ProfileBuilder, Samples, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

UNKNOWN_SUBSAMPLE: Final = (
    "iaprof keeps one of every N samples that the GPU takes (--eu-stall-subsample, 100 unless given), and its file "
    "does not say N: weights are the samples in the file"
)
SUBSAMPLE: Final = "iaprof kept one of every {:,} samples that the GPU took: weights are the samples that it kept"
INTERVAL_NS: Final = 10_000_000
"""Interval of profiles written from other profiles: iaprof's own default."""
_PYTHON: Final = re.compile(r"py::(.+):([^:]*[/.<][^:]*)")
_TABLE: Final = 1 << 26
_SEPARATOR: Final = Frame("-", Kind.SEPARATOR)
_GPU: Final = frozenset({Kind.GPU_KERNEL, Kind.GPU_SOURCE, Kind.GPU_INSTRUCTION, Kind.STALL})
_UNWRITABLE: Final = str.maketrans(dict.fromkeys("\t\n\r", " "))


def to_profile(iaprof: IaprofProfile) -> Profile:
    """Make the profile that figures and exports take: unit samples, every sample on the accelerator.

    Stacks, the root first: process, its id, the frames that launched the kernel, `-`, source file, kernel, instruction,
    stall reason, offset. A sample's time is when its interval began. What a CPU frame is, its text tells, as in folded
    stacks.
    """
    stalls = iaprof.stalls
    rows, reasons = np.nonzero(stalls.counts)
    builder = ProfileBuilder()
    builder.add_many(
        Samples(
            stack=_leaves(builder, iaprof, rows, reasons),
            weight=stalls.counts[rows, reasons],
            time_ns=iaprof.intervals.start_ns[iaprof.runs.interval[stalls.run[rows]]],
            tid=np.zeros(len(rows), np.int32),
            state=np.full(len(rows), State.ACCELERATOR, np.uint8),
        )
    )
    return builder.build(
        unit="samples",
        origin=ORIGIN,
        duration_ns=iaprof.intervals.duration_ns,
        started=iaprof.started,
        machine=dict(iaprof.machine),
        lost=[
            *(Lost(count, f"damaged lines left out: {reason}") for reason, count in iaprof.dropped.items()),
            *iaprof.lost,
        ],
        notes=(SUBSAMPLE.format(iaprof.subsample) if iaprof.subsample else UNKNOWN_SUBSAMPLE, *iaprof.notes),
    )


def kernel_frames(kernel: Kernel) -> list[Frame]:
    """Frames of a kernel's launch and of the kernel, the root first."""
    return [
        Frame(kernel.comm, Kind.PROCESS),
        Frame(str(kernel.pid), Kind.PROCESS),
        *(_cpu_frame(text) for text in kernel.cpu_stack.split(";") if text),
        _SEPARATOR,
        Frame(kernel.file, Kind.GPU_SOURCE),
        Frame(kernel.symbol, Kind.GPU_KERNEL, kernel.file),
    ]


def _cpu_frame(text: str) -> Frame:
    """Frame of a text in a CPU stack; CPython names its functions `py::NAME:FILE` for native profilers."""
    python = _PYTHON.fullmatch(text)
    return Frame(python[1], Kind.PYTHON, python[2]) if python else frame_of(text)


def _leaves(
    builder: ProfileBuilder, iaprof: IaprofProfile, rows: NDArray[np.intp], reasons: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Stacks of samples, (n,) int32: one level after the other, so that each different stack is made once.

    Args:
        builder: Gets the stacks.
        iaprof: What was sampled.
        rows: (n,), the samples' `eustall` lines.
        reasons: (n,), their reasons.

    """
    stalls = iaprof.stalls
    if not len(rows):
        return np.zeros(0, np.int32)
    roots = [builder.stack(_numbers(builder, kernel_frames(kernel))) for kernel in iaprof.kernels]
    offsets, places = _offsets(iaprof)
    nodes = np.array(roots, np.int32)[iaprof.runs.kernel[stalls.run[rows]]]
    for frames, numbers in (
        ([Frame(text, Kind.GPU_INSTRUCTION) for text in iaprof.instructions], stalls.instruction[rows]),
        ([Frame(reason, Kind.STALL) for reason in REASONS], reasons),
        (offsets, places[rows]),
    ):
        nodes = _below(builder, nodes, _numbers(builder, frames), numbers)
    return nodes


def _offsets(iaprof: IaprofProfile) -> tuple[list[Frame], NDArray[np.intp]]:
    """Frames of the offsets, which are of a kernel each, and the place of each `eustall` line's among them."""
    symbols = list(dict.fromkeys(kernel.symbol for kernel in iaprof.kernels))
    places = {symbol: place for place, symbol in enumerate(symbols)}
    of_kernel = np.array([places[kernel.symbol] for kernel in iaprof.kernels], np.int64)
    offsets, numbers = np.unique(iaprof.stalls.offset, return_inverse=True)
    kernels = of_kernel[iaprof.runs.kernel[iaprof.stalls.run]]
    pairs, inverse = _distinct(kernels * len(offsets) + numbers)
    texts = list(map(hex, offsets.tolist()))
    frames = [
        Frame(texts[pair % len(texts)], Kind.GPU_INSTRUCTION, symbols[pair // len(texts)]) for pair in pairs.tolist()
    ]
    return frames, inverse


def _below(
    builder: ProfileBuilder, parents: NDArray[np.int32], frames: Sequence[int], numbers: NDArray[Any]
) -> NDArray[np.int32]:
    """Nodes of `frames[numbers]` under `parents`."""
    width = len(frames)
    pairs, inverse = _distinct(parents.astype(np.int64) * width + numbers)
    made = [builder.node(frames[pair % width], pair // width) for pair in pairs.tolist()]
    return np.array(made, np.int32)[inverse]


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Different keys in order, and the place of each key among them; by a table where that is not too large."""
    span = int(keys.max(initial=0)) + 1
    if span > _TABLE:
        return np.unique(keys, return_inverse=True)
    there = np.zeros(span, np.bool_)
    there[keys] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]


def _numbers(builder: ProfileBuilder, frames: Iterable[Frame]) -> list[int]:
    return [builder.frame(*frame) for frame in frames]


class _Place(NamedTuple):
    """Where a sample belongs in an iaprof profile."""

    kernel: Kernel
    instruction: str
    reason: int
    offset: int


def from_profile(profile: Profile) -> IaprofProfile:
    """Make an iaprof profile of the accelerator's samples of any profile.

    Times are rounded down to intervals of 10 ms; samples without a time are in the first. What has no stall reason
    counts as `active`, what has no process stands under the first frame; weights stay what they are, in whatever unit.
    Left out, and said in a note: samples of the CPU, threads, modules and lines of frames beyond what a folded stack
    holds, driver spans and waits' kinds. Tabs and ends of lines in names become blanks.

    Raises:
        RecordingError: No sample is on an accelerator.

    """
    samples = profile.samples
    chosen = samples.take(samples.state == State.ACCELERATOR)
    if not len(chosen):
        raise RecordingError(
            "there is nothing to write in iaprof's format",
            why="no sample of this profile is on an accelerator, and the format holds nothing else",
            fix="write folded stacks or speedscope's JSON",
            code="save.no-accelerator",
        )
    ticks = np.where(chosen.time_ns == NO_TIME, 0, chosen.time_ns) // INTERVAL_NS
    by_interval: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for tick, stack, weight in zip(ticks.tolist(), chosen.stack.tolist(), chosen.weight.tolist(), strict=True):
        by_interval[tick][stack] += weight
    places = {stack: _place(profile.path(stack)) for stack in set(chosen.stack.tolist())}
    collected = Collected()
    # The end of one interval is the start of the next, so the one before each that has samples must be there too.
    for tick in sorted({max(tick - before, 0) for tick in by_interval for before in (0, 1)}):
        interval = collected.interval(tick, (tick + 1) * INTERVAL_NS)
        _add_interval(collected, interval, [(places[stack], weight) for stack, weight in by_interval[tick].items()])
    left_out = len(samples) - len(chosen)
    notes = (
        (f"left out, for they are not on an accelerator: {left_out:,} of {len(samples):,} samples",) if left_out else ()
    )
    if profile.unit != "samples":
        notes = (*notes, f"counts are {profile.unit}, not samples")
    return collected.profile({}, notes)


def _add_interval(collected: Collected, interval: int, samples: Sequence[tuple[_Place, int]]) -> None:
    by_kernel: dict[Kernel, dict[tuple[int, str], list[int]]] = {}
    for place, weight in samples:
        rows = by_kernel.setdefault(place.kernel, {})
        rows.setdefault((place.offset, place.instruction), [0] * len(REASONS))[place.reason] += weight
    for kernel, rows in by_kernel.items():
        comm, stack = collected.text(kernel.comm), collected.text(kernel.cpu_stack)
        file, symbol = collected.text(kernel.file), collected.text(kernel.symbol)
        run = collected.run(interval, KernelLine(kernel.address, comm, kernel.pid, stack, file, symbol))
        ordered = sorted(rows.items())
        collected.stalls(
            np.full(len(ordered), run, np.int32),
            np.array([offset for (offset, _), _ in ordered], np.uint64),
            np.array([collected.text(text) for (_, text), _ in ordered], np.int32),
            np.array([counts for _, counts in ordered], np.int64),
        )


def _place(path: Sequence[Frame]) -> _Place:
    """Take a stack apart: processes at the root, accelerator's frames at the end, the rest between."""
    processes = [frame for frame in path if frame.kind == Kind.PROCESS]
    pid = next((int(frame.name) for frame in processes if _is_pid(frame.name)), 0)
    comm = next((frame.name for frame in processes if not _is_pid(frame.name)), "")
    between = [frame for frame in path if frame.kind not in _GPU and frame.kind not in (Kind.PROCESS, Kind.SEPARATOR)]
    sources = [frame.name for frame in path if frame.kind == Kind.GPU_SOURCE]
    kernels = [frame.name for frame in path if frame.kind == Kind.GPU_KERNEL] or sources[1:2]
    stalls = [frame.name for frame in path if frame.kind == Kind.STALL and frame.name in REASONS]
    texts = [frame.name for frame in path if frame.kind == Kind.GPU_INSTRUCTION]
    offsets = [text for text in texts if text.startswith("0x")]
    words = [text for text in texts if not text.startswith("0x")]
    return _Place(
        Kernel(
            address=0,
            comm=_plain(comm),
            pid=pid,
            cpu_stack=_plain(";".join(map(text_of, between))),
            file=_plain(sources[0] if sources else ""),
            symbol=_plain(kernels[-1] if kernels else ""),
        ),
        _plain(words[0] if words else ""),
        REASONS.index(stalls[0]) if stalls else 0,
        _offset(offsets),
    )


def _is_pid(name: str) -> bool:
    return name.isdecimal() and len(name) <= len(str(MOST_PID)) and int(name) <= MOST_PID


def _offset(texts: Sequence[str]) -> int:
    try:
        value = int(texts[-1], 16) if texts else 0
    except ValueError:
        return 0
    return value if value < 1 << 64 else 0


def _plain(text: str) -> str:
    return text.translate(_UNWRITABLE)

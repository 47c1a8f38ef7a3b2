"""Convert other profiles to iaprof profiles."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.kernel.stacks.frame_text import text_of
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import NO_TIME, Profile, ThreadState
from accel_magic.subsystems.iaprof.parse import Collected
from accel_magic.subsystems.iaprof.profile import (
    _GPU,
    MOST_PID,
    REASONS,
    IaprofProfile,
    LaunchedKernel,
)
from accel_magic.subsystems.iaprof.profile_lines import KernelLine

if TYPE_CHECKING:
    from collections.abc import Sequence


INTERVAL_NS: Final = 10_000_000
"""Interval of converted profiles: iaprof's default."""
_UNWRITABLE: Final = str.maketrans(dict.fromkeys("\t\n\r", " "))


class _Place(NamedTuple):
    """Place of a sample in an iaprof profile."""

    kernel: LaunchedKernel
    instruction: str
    reason: int
    offset: int


def from_profile(profile: Profile) -> IaprofProfile:
    """Convert the accelerator samples of any profile to an iaprof profile.

    Times are rounded down to intervals of 10 ms; samples without a time go into the first interval. Samples without a
    stall reason count as `active`; weights are kept, in any unit. CPU samples are left out, with a note, and so are
    threads, and modules and lines of frames beyond those in a folded stack. Tabs and line ends in names become spaces.

    Raises:
        RecordingError: No sample is on an accelerator.

    """
    samples = profile.samples
    chosen = samples.take(samples.state == ThreadState.ACCELERATOR)
    if not len(chosen):
        raise RecordingError(
            "nothing to write in iaprof's format",
            why="this profile has no accelerator samples, and the format supports no others",
            fix="write folded stacks or speedscope JSON",
            code="save.no-accelerator",
        )
    ticks = np.where(chosen.time_ns == NO_TIME, 0, chosen.time_ns) // INTERVAL_NS
    by_interval: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for tick, stack, weight in zip(ticks.tolist(), chosen.stack.tolist(), chosen.weight.tolist(), strict=True):
        by_interval[tick][stack] += weight
    places = {stack: _place(profile.path(stack)) for stack in set(chosen.stack.tolist())}
    collected = Collected()
    # Each interval starts at the end of the previous one, which must therefore exist too.
    for tick in sorted({max(tick - before, 0) for tick in by_interval for before in (0, 1)}):
        interval = collected.interval(tick, (tick + 1) * INTERVAL_NS)
        _add_interval(collected, interval, [(places[stack], weight) for stack, weight in by_interval[tick].items()])
    left_out = len(samples) - len(chosen)
    notes = (
        (f"left out because they are not on an accelerator: {left_out:,} of {len(samples):,} samples",)
        if left_out
        else ()
    )
    if profile.unit != "samples":
        notes = (*notes, f"counts are {profile.unit}, not samples")
    return collected.profile({}, notes)


def _add_interval(collected: Collected, interval: int, samples: Sequence[tuple[_Place, int]]) -> None:
    by_kernel: dict[LaunchedKernel, dict[tuple[int, str], list[int]]] = {}
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
    """Split a stack: processes at the root, accelerator frames at the leaf, launching frames in between."""
    processes = [frame for frame in path if frame.kind == FrameKind.PROCESS]
    pid = next((int(frame.name) for frame in processes if _is_pid(frame.name)), 0)
    comm = next((frame.name for frame in processes if not _is_pid(frame.name)), "")
    between = [
        frame for frame in path if frame.kind not in _GPU and frame.kind not in (FrameKind.PROCESS, FrameKind.SEPARATOR)
    ]
    sources = [frame.name for frame in path if frame.kind == FrameKind.GPU_SOURCE]
    kernels = [frame.name for frame in path if frame.kind == FrameKind.GPU_KERNEL] or sources[1:2]
    stalls = [frame.name for frame in path if frame.kind == FrameKind.STALL and frame.name in REASONS]
    texts = [frame.name for frame in path if frame.kind == FrameKind.GPU_INSTRUCTION]
    offsets = [text for text in texts if text.startswith("0x")]
    words = [text for text in texts if not text.startswith("0x")]
    return _Place(
        LaunchedKernel(
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

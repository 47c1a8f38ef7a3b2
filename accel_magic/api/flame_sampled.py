"""A flame trace by the thread sampler, for processes that may not use BPF."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.flame.accelerator import launch_notes
from accel_magic.analysis.flame.folding import folded
from accel_magic.analysis.flame.merge import LEFT_OUT
from accel_magic.banners import banners
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import Lost, ProfileBuilder, ProfileSamples, ThreadState
from accel_magic.recording.thread_sampler import ThreadSampler

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.api.flame_options import FlameOptions
    from accel_magic.recording.flame_data import AcceleratorActivity, AcceleratorLaunch
    from accel_magic.recording.profile import Profile


class ThreadEngine:
    """Samples this process from one of its own threads; `go`, then `stop`.

    Args:
        options: The options.

    """

    def __init__(self, options: FlameOptions) -> None:
        self._sampler = ThreadSampler(options.rate, threads=True)
        self._running = False
        self.start_ns = 0

    def go(self) -> None:
        """Start sampling."""
        self.start_ns = time.monotonic_ns()
        self._running = True
        self._sampler.start()

    def stop(self) -> Profile:
        """Stop sampling; the profile has each thread as a root, all frames, and waits."""
        self._running = False
        return self._sampler.stop()

    def abort(self) -> None:
        """Stop without a profile; does nothing if already stopped."""
        if self._running:
            self.stop()


def shown(
    profile: Profile,
    options: FlameOptions,
    *,
    cells: Mapping[str, str],
    machine: dict[str, str],
    watched: AcceleratorActivity,
) -> Profile:
    """Apply the options to a sampler's profile, and add accelerator time.

    Args:
        profile: As returned by `ThreadEngine.stop`.
        options: The options of the trace.
        cells: Labels of cells by their file names.
        machine: Where it was made.
        watched: The accelerator's launches during the trace.

    """
    builder = ProfileBuilder()
    samples = profile.samples
    if not options.waits:
        samples = samples.take(samples.state != ThreadState.OFF_CPU)
    nodes, number = np.unique(samples.stack, return_inverse=True)
    paths = [_shown(profile.path(int(node)), options, cells) for node in nodes]
    made = [-1 if path is None else _stacked(builder, path) for path in paths]
    stack = np.array(made, np.int32)[number] if made else np.zeros(0, np.int32)
    kept = stack >= 0
    chosen = samples.take(kept)
    builder.add_many(ProfileSamples(stack[kept], chosen.weight, chosen.time_ns, chosen.tid, chosen.state))
    roots = _threads(profile)
    for launch, frames in _launched(watched):
        path = _shown((*roots.get(launch.tid, ()), *frames), options, cells) or ()
        node = _stacked(builder, (*path, Frame(launch.kernel, FrameKind.GPU_KERNEL, watched.device)))
        builder.add(node, launch.device_ns, time_ns=launch.time_ns, tid=launch.tid, state=ThreadState.ACCELERATOR)
    lost = [*profile.lost, Lost(int((~kept).sum()), LEFT_OUT, "left out")]
    return builder.build(
        unit=profile.unit,
        origin=f"%%flame, {profile.origin}",
        duration_ns=profile.duration_ns,
        started=profile.started,
        machine=machine,
        lost=[each for each in lost if each.count],
        notes=(*watched.notes, *launch_notes(watched.launches, watched.more), *profile.notes),
        banners=banners(machine),
    )


def _stacked(builder: ProfileBuilder, path: tuple[Frame, ...]) -> int:
    return builder.stack([builder.frame(*frame) for frame in path])


def _launched(watched: AcceleratorActivity) -> Iterator[tuple[AcceleratorLaunch, tuple[Frame, ...]]]:
    """Launches with a known duration, and their stacks."""
    if watched.stacks is None:
        return
    rows = watched.stacks.rows(np.array([launch.stack for launch in watched.launches], np.uint64)).tolist()
    for launch, row in zip(watched.launches, rows, strict=True):
        if launch.device_ns >= 0:
            yield launch, watched.stacks.of(row) if row >= 0 else ()


def _shown(path: tuple[Frame, ...], options: FlameOptions, cells: Mapping[str, str]) -> tuple[Frame, ...] | None:
    """Apply the options to a stack; None for the notebook's own threads."""
    roots = tuple(frame for frame in path[:1] if frame.kind == FrameKind.THREAD)
    frames = tuple(frame._replace(module=cells.get(frame.module, frame.module)) for frame in path[len(roots) :])
    waits = tuple(frame for frame in frames[-1:] if frame.kind == FrameKind.WAIT)
    code = frames[: len(frames) - len(waits)]
    code_shown = code if options.all_frames else folded(code)
    return None if code_shown is None else (*(roots if options.by_thread else ()), *code_shown, *waits)


def _threads(profile: Profile) -> dict[int, tuple[Frame]]:
    """Root frame of each sampled thread, by thread id."""
    tids, first = np.unique(profile.samples.tid, return_index=True)
    nodes = profile.samples.stack[first].tolist()
    return {tid: (profile.path(node)[0],) for tid, node in zip(tids.tolist(), nodes, strict=True)}

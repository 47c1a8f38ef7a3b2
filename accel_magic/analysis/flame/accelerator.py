"""Accelerator time, under the Python line that launched the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.quantities import sentence_text
from accel_magic.recording.profile import ThreadState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.analysis.flame.stacks import Stacks
    from accel_magic.recording.flame_data import AcceleratorLaunch, FlameFacts
    from accel_magic.recording.profile import ProfileBuilder
    from accel_magic.recording.recording import Recording


def add_launches(builder: ProfileBuilder, recording: Recording, facts: FlameFacts, stacks: Stacks) -> list[str]:
    """Add the launches of GPU kernels; returns notes for the user."""
    launches = [launch for launch in facts.launches if launch.time_ns <= recording.duration_ns]  # for partial playback
    keys = np.array([launch.stack for launch in launches], np.uint64)
    rows = recording.stacks.rows(keys).tolist() if recording.stacks is not None else [-1] * len(launches)
    for launch, row in zip(launches, rows, strict=True):
        if launch.device_ns >= 0:
            node = stacks.of_python(row, launch.tid, (Frame(launch.kernel, FrameKind.GPU_KERNEL, facts.device),))
            builder.add(node, launch.device_ns, time_ns=launch.time_ns, tid=launch.tid, state=ThreadState.ACCELERATOR)
    return launch_notes(launches, facts.more_launches)


def launch_notes(launches: Sequence[AcceleratorLaunch], more: int) -> list[str]:
    """Notes on launches without accelerator time, and on launches that were not kept."""
    untimed = sum(launch.device_ns < 0 for launch in launches)
    notes = [sentence_text(untimed, "launches have no accelerator time: the device did not report it")]
    rest = [sentence_text(more, "later launches are not shown: the limit of kept launches was reached")]
    return (notes if untimed else []) + (rest if more else [])

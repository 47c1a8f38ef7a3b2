"""From a flame recording to a profile: samples, waits and accelerator time, each under the stack that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.banners import banners_of
from accel_magic.flames import accelerator
from accel_magic.flames.facts import FlameFacts
from accel_magic.flames.losses import losses_of
from accel_magic.flames.rows import rows_of
from accel_magic.flames.spans import spans_of
from accel_magic.flames.stacks import Stacks
from accel_magic.profiles.model import Profile, ProfileBuilder, Samples

if TYPE_CHECKING:
    from accel_magic.flames.rows import Rows
    from accel_magic.flames.spans import Nesting
    from accel_magic.traces.recording import Recording


def facts_of(recording: Recording) -> FlameFacts:
    """What was asked of a recording; of one that no flame trace made what its points tell."""
    if recording.flame is not None:
        return recording.flame
    return FlameFacts(rate=next((point.rate_hz for point in recording.plan.points if point.kind == "profile"), 0))


@dataclass(frozen=True)
class Merged:
    """A flame recording put together.

    Attributes:
        profile: All of it that is shown.
        rows: The samples and waits among it.
        reasons: Of the waits.
        spans: Measured calls, by thread and time.

    """

    profile: Profile
    rows: Rows
    reasons: tuple[str, ...]
    spans: Nesting


def profile_of(recording: Recording, *, threads: bool | None = None, all_frames: bool | None = None) -> Profile:
    """Make the profile of a flame recording; arguments as of `merged`."""
    return merged(recording, threads=threads, all_frames=all_frames).profile


def merged(recording: Recording, *, threads: bool | None = None, all_frames: bool | None = None) -> Merged:
    """Merge everything that a flame recording knows.

    A stack is, from its root: the process where it is not the notebook's, the thread (with `threads`), Python frames,
    native frames that they called, the measured calls that the moment lies in, kernel frames, the reason of a wait. A
    wait that lies partly inside a measured call is cut there. Nothing counts twice: samples and waits of a thread add
    up to its time in the trace, and accelerator time has a state of its own.

    Args:
        recording: Events of `profile` and `offcpu` points, and of whatever else was traced with them.
        threads: A root for each thread; None: as was asked for when it was recorded.
        all_frames: Keep the frames of the notebook and of the tracer below the cell; None: likewise.

    """
    facts = facts_of(recording)
    spans = spans_of(recording)
    rows, reasons = rows_of(recording, spans, round(1e9 / max(facts.rate, 1)))
    taken = rows.take(rows.taken)
    builder = ProfileBuilder()
    stacks = Stacks(
        builder,
        recording,
        spans,
        reasons,
        names=dict(facts.names),
        threads=facts.threads if threads is None else threads,
        all_frames=facts.all_frames if all_frames is None else all_frames,
    )
    nodes = stacks.nodes(taken)
    shown = taken.take(nodes >= 0)
    builder.add_many(
        Samples(
            nodes[nodes >= 0].astype(np.int32),
            shown.weight,
            shown.time_ns,
            shown.tid.astype(np.int32),
            shown.state.astype(np.uint8),
        )
    )
    told = accelerator.add(builder, recording, facts, stacks)
    profile = builder.build(
        unit="ns",
        origin=f"%%flame at {facts.rate} Hz",
        duration_ns=recording.duration_ns,
        started=recording.started,
        machine=recording.machine,
        lost=losses_of(
            recording,
            not_taken=len(np.unique(rows.event[~rows.taken])),
            left_out=len(np.unique(taken.event[nodes < 0])),
        ),
        notes=tuple(dict.fromkeys([*recording.plan.notes, *facts.notes, *told])),
        banners=banners_of(recording),
    )
    return Merged(profile, shown, reasons, spans)

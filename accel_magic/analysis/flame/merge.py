"""From a flame recording to a profile: samples, waits and accelerator time, each under its stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.flame.accelerator import add_launches
from accel_magic.analysis.flame.rows import rows_of, spans_of
from accel_magic.analysis.flame.stacks import Stacks
from accel_magic.banners import banners_of
from accel_magic.recording.flame_data import FlameFacts
from accel_magic.recording.profile import Lost, Profile, ProfileBuilder, ProfileSamples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from accel_magic.analysis.flame.rows import Rows, Spans
    from accel_magic.recording.profile import Loss
    from accel_magic.recording.recording import Recording

    Accelerator = Callable[[ProfileBuilder, Recording, Stacks], list[str]]


def facts_of(recording: Recording) -> FlameFacts:
    """Settings of a flame recording; for other recordings, derived from their probe points."""
    if recording.flame is not None:
        return recording.flame
    return FlameFacts(rate=next((point.rate_hz for point in recording.plan.points if point.kind == "profile"), 0))


@dataclass(frozen=True)
class Merged:
    """A flame recording as a profile, with the data behind it.

    Attributes:
        profile: Everything that is shown.
        rows: Its samples and waits.
        reasons: Reasons of the waits.
        spans: Measured calls, by thread and time.

    """

    profile: Profile
    rows: Rows
    reasons: tuple[str, ...]
    spans: Spans


def merged(
    recording: Recording,
    *,
    threads: bool | None = None,
    all_frames: bool | None = None,
    accelerators: Iterable[Accelerator] = (),
) -> Merged:
    """Merge all data of a flame recording.

    A stack is, from its root: the process unless it is the notebook's, the thread (with `threads`), Python frames,
    native frames that they called, the enclosing measured calls, kernel frames, the reason of a wait. A wait that is
    partly inside a measured call is cut there. Nothing counts twice: samples and waits of a thread add up to its time
    in the trace, and accelerator time has its own state.

    Args:
        recording: Events of `profile` and `offcpu` points, and of anything else traced with them.
        threads: A root for each thread; None: as chosen when it was recorded.
        all_frames: Keep the frames of the notebook and of the tracer below the cell; None: as recorded.
        accelerators: Functions that add the time of an accelerator and return notes.

    """
    facts = facts_of(recording)
    spans = spans_of(recording)
    rows, reasons = rows_of(recording, spans.nesting, round(1e9 / max(facts.rate, 1)))
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
        ProfileSamples(
            nodes[nodes >= 0].astype(np.int32),
            shown.weight,
            shown.time_ns,
            shown.tid.astype(np.int32),
            shown.state.astype(np.uint8),
        )
    )
    notes = add_launches(builder, recording, facts, stacks)
    for add in accelerators:
        notes += add(builder, recording, stacks)
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
        notes=tuple(dict.fromkeys([*recording.notes, *facts.notes, *notes])),
        banners=banners_of(recording),
    )
    return Merged(profile, shown, reasons, spans)


LEFT_OUT: Final = "samples and waits of the notebook's own threads are left out (--all-frames shows them)"
_UNTIMED: Final = "could not be timed: the end was not recorded, or too many threads waited at once"
_WHAT = {"profile": "samples", "offcpu": "waits"}


def losses_of(recording: Recording, *, not_taken: int, left_out: int) -> tuple[Lost, ...]:
    """Count samples and waits that are in no stack.

    Args:
        recording: Of a flame trace.
        not_taken: Events whose stack did not fit into the stack table.
        left_out: Samples and waits of the notebook's own threads.

    """
    why = "the buffer was not read" if recording.unread else "the buffer was full"
    found = [
        Lost(not_taken, "samples and waits have no stack: the stack table was full"),
        Lost(left_out, LEFT_OUT, "left out"),
        Lost(recording.missed, "hits were missed: the kernel could not run the probe", "missed"),
    ]
    for point in recording.plan.points:
        if point.kind in _WHAT:
            what = _WHAT[point.kind]
            found.append(Lost(int(recording.lost[point.id]), f"{what} were lost: {why}"))
            found.append(Lost(int(recording.unpaired[point.id]), f"{what} {_UNTIMED}", "missed"))
            found.append(Lost(_not_kept(recording, point.id), *_not_kept_why(recording, point.id, what)))
    return tuple(lost for lost in found if lost.count > 0)


def _not_kept(recording: Recording, point: int) -> int:
    events = int((recording.events.columns["point"].values == point).sum())
    return int(recording.hits[point]) - int(recording.lost[point]) - int(recording.unpaired[point]) - events


def _not_kept_why(recording: Recording, point: int, what: str) -> tuple[str, Loss]:
    if recording.limit_reached:
        return f"{what} came after the event limit", "left out"
    shortest = recording.plan.points[point].shortest_ns
    if shortest:
        return f"{what} were shorter than {shortest / 1e3:,.0f} us", "left out"
    return f"{what} were not recorded", "lost"

"""The events of a trace as a profile: who called the traced functions, how often or for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.by_stack import LOST
from accel_magic.banners import banners_of
from accel_magic.demangle import function_name
from accel_magic.errors import ProbeError, ResultError
from accel_magic.kernel.stacks.frames import Frame, kind_of_call
from accel_magic.recording.profile import Lost, ProfileBuilder, ProfileSamples, ThreadState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.probes.plan import ProbePoint
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Recording

WEIGHTS: Final = ("hits", "duration")
_NO_STACK: Final = Frame("[no stack]")
_ORIGIN: Final = "%%ktrace --stacks"


def profile(recording: Recording, stacks: CombinedStacks, weight: str) -> Profile:
    """Make a profile in which each event is a sample; the traced function is the leaf of its stack.

    Args:
        recording: Source of the events.
        stacks: Stack of each event.
        weight: `hits`: each event counts 1; or `duration`: measured events count their ns, others are left out.

    Raises:
        ProbeError: Unknown weight.
        ResultError: Nothing was measured.

    """
    columns = recording.events.columns
    weights, counted = _weights(recording, weight)
    rows = np.flatnonzero(counted & (stacks.of_events != LOST))
    lost = int((counted & (stacks.of_events == LOST)).sum())
    builder = ProfileBuilder()
    points = columns["point"].values[rows].astype(np.int64)
    places = points * (len(stacks.frames) + 1) + stacks.of_events[rows] + 1
    different, inverse = np.unique(places, return_inverse=True)
    nodes = [
        _node(
            builder, recording.plan.points[place // (len(stacks.frames) + 1)], stacks, place % (len(stacks.frames) + 1)
        )
        for place in different.tolist()
    ]
    builder.add_many(
        ProfileSamples(
            stack=np.array(nodes, np.int32)[inverse] if nodes else np.zeros(0, np.int32),
            weight=weights[rows],
            time_ns=columns["time_ns"].values[rows].astype(np.int64),
            tid=columns["tid"].values[rows].astype(np.int32),
            state=np.full(len(rows), ThreadState.CPU, np.uint8),
        )
    )
    return builder.build(
        unit="calls" if weight == "hits" else "ns",
        origin=_ORIGIN,
        duration_ns=recording.duration_ns,
        started=recording.started,
        machine=recording.machine,
        lost=_losses(recording, lost),
        notes=recording.notes,
        banners=banners_of(recording),
    )


def _weights(recording: Recording, weight: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Weight of each event, and a mask of the events that count."""
    if weight not in WEIGHTS:
        raise ProbeError(f"unknown weight {weight!r}", fix=f"use one of {', '.join(WEIGHTS)}", code="profile.no-weight")
    count = len(recording.events)
    if weight == "hits":
        return np.ones(count, np.int64), np.ones(count, np.bool_)
    column = recording.events.columns.get("duration_ns")
    if column is None:
        raise ResultError(
            "this trace has no durations",
            why="only latency: probes have durations",
            fix='use profile("hits"), or trace again with latency: before the probe',
            code="result.not-measured",
        )
    measured = np.ones(count, np.bool_) if column.valid is None else column.valid
    return np.where(measured, column.values, 0).astype(np.int64), measured


def _node(builder: ProfileBuilder, point: ProbePoint, stacks: CombinedStacks, place: int) -> int:
    """Stack of an event at a point; `place` is the number of its stack plus one, 0 if it has none."""
    frames = stacks.frames[place - 1] if place else (_NO_STACK,)
    name = function_name(point.function)
    if frames[-1].name != name:
        frames = (*frames, Frame(name, kind_of_call(point.kind), point.target))
    return builder.stack(builder.frame(*frame) for frame in frames)


def _losses(recording: Recording, no_stack: int) -> tuple[Lost, ...]:
    events = int(recording.lost.sum())
    losses = (
        Lost(no_stack, "events have no stack: the stack table was full"),
        Lost(events, "events were lost: the ring buffer was full"),
    )
    return tuple(lost for lost in losses if lost.count)

"""What a flame profile does not show of what was recorded, or lost: exact counts, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.profiles.model import Lost

if TYPE_CHECKING:
    from accel_magic.profiles.model import Loss
    from accel_magic.traces.recording import Recording

LEFT_OUT: Final = "samples and waits of the notebook's own threads are left out (--all-frames shows them)"
_UNTIMED: Final = "could not be timed: their end was not seen, or too many threads waited at once"
_WHAT = {"profile": "samples", "offcpu": "waits"}


def losses_of(recording: Recording, *, not_taken: int, left_out: int) -> tuple[Lost, ...]:
    """Count what is in no stack.

    Args:
        recording: Of a flame trace.
        not_taken: Events with a stack that the full table did not take.
        left_out: Samples and waits of the notebook's own threads.

    """
    why = "nothing was read of the buffer" if recording.unread else "the buffer was full"
    found = [
        Lost(not_taken, "samples and waits had a stack that the full table of stacks did not take"),
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
        return f"{what} came after as many events as are kept", "left out"
    shortest = recording.plan.points[point].shortest_ns
    if shortest:
        return f"{what} were shorter than {shortest / 1e3:,.0f} us", "left out"
    return f"{what} were not recorded", "lost"

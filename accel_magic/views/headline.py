"""The first line of a result as values; the text and HTML views only draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.quantities import counted_text, duration_text, exact_text

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Recording


@dataclass(frozen=True)
class Note:
    """One item of the headline; `alarm` marks what the user must not overlook, `hint` explains the item."""

    text: str
    alarm: bool = False
    hint: str = ""


def headline(recording: Recording, stacks_lost: int = 0) -> tuple[Note, ...]:
    """Items of the headline, the most important first; items about problems only if there were any.

    Args:
        recording: What was traced.
        stacks_lost: Events whose stack did not fit into the kernel's table.

    """
    plan, imported, lost = recording.plan, recording.imported, recording.events_lost
    unpaired = int(recording.unpaired.sum())
    limit = f" {exact_text(plan.request.max_events)}" if plan.request.max_events is not None else ""
    outcomes = {"error": "the traced code failed", "interrupted": "interrupted"}
    counted = f"number in the {imported.format}" if imported else "exact, counted in the kernel"
    notes = [Note(duration_text(recording.duration_ns))] if recording.timed else []
    notes.append(Note(counted_text(int(recording.hits.sum()), "hit"), hint=counted))
    if plan.records_events or lost:
        full = "the ring buffer was not read" if recording.unread else "the ring buffer was full: raise --buffer"
        why = f"reported in the {imported.format}" if imported else full
        alarm = Note(f"{exact_text(lost)} lost", alarm=True, hint=why)
        notes += [Note(counted_text(recording.event_count, "event")), *_only_counted(recording)]
        notes.append(alarm if lost else Note("0 lost"))
    else:
        notes.append(Note("counts only"))
    if imported is None:
        notes.append(Note(f"scope {plan.scope_text()}", hint="whose hits were counted"))
    notes += _ways(plan)
    if plan.through:
        notes.append(Note(f"through {plan.through}", hint="what attached the probes, because this user may not"))
    if recording.missed:
        hint = "the kernel skipped the probe: a BPF program was already running on that CPU"
        notes.append(Note(f"{exact_text(recording.missed)} missed", alarm=True, hint=hint))
    if stacks_lost:
        hint = "the kernel's stack table was full: these events have no stack"
        notes.append(Note(f"{counted_text(stacks_lost, 'stack')} lost", alarm=True, hint=hint))
    if recording.limit_reached:
        what = "memory" if recording.memory_full else f"event limit{limit}"
        hint = "later hits were counted but not recorded"
        notes.append(Note(f"{what} {'full' if recording.memory_full else 'reached'}", hint=hint))
    if unpaired:
        hint = "too many were in flight at once, or their return was not seen: the latencies do not include them"
        notes.append(Note(f"{counted_text(unpaired, 'call')} not timed", alarm=True, hint=hint))
    if plan.skipped:
        hint = "\n".join(f"{skipped.function}: {skipped.why}" for skipped in plan.skipped[:20])
        notes.append(Note(f"{exact_text(len(plan.skipped))} skipped", hint=hint))
    if recording.outcome in outcomes:
        notes.append(
            Note(outcomes[recording.outcome], alarm=True, hint="the result holds what was recorded until then")
        )
    return tuple(notes)


_WAYS: Final = (
    "patched functions jump to the tracer by themselves and count in this process and its forks, also without privilege"
)


def _ways(plan: Plan) -> list[Note]:
    """How functions in user space were probed, if any were patched."""
    patched, breakpoints = len(plan.patched_points), sum(point.way == "breakpoint" for point in plan.points)
    if not patched:
        return []
    text = f"{counted_text(patched, 'function')} patched"
    return [Note(f"{text}, {exact_text(breakpoints)} by breakpoint" if breakpoints else text, hint=_WAYS)]


def _only_counted(recording: Recording) -> list[Note]:
    """Hits of points without events, in a trace that has events of others."""
    points = [point for point in recording.plan.points if point.counted]
    hits = int(recording.hits[[point.id for point in points]].sum())
    if not hits:
        return []
    names = ", ".join(point.function for point in points)
    hint = f"{names}: no event per hit; name such a probe on the line to record its hits"
    return [Note(f"{exact_text(hits)} only counted", hint=hint)]

"""What the first line of a result says, as values: the text and the HTML view only draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.views.format import duration_text, exact_text

if TYPE_CHECKING:
    from accel_magic.recording.recording import Recording


@dataclass(frozen=True)
class Note:
    """One item of the headline; `alarm` marks what the user must not overlook, `hint` says what it means."""

    text: str
    alarm: bool = False
    hint: str = ""


def headline(recording: Recording, stacks_lost: int = 0) -> tuple[Note, ...]:
    """Items of the headline, most wanted first; those about trouble only where there was any.

    Args:
        recording: What was traced.
        stacks_lost: Events whose stack did not fit into the kernel's table.

    """
    plan, imported, lost = recording.plan, recording.imported, recording.events_lost
    unpaired = int(recording.unpaired.sum())
    limit = f" {exact_text(plan.max_events)}" if plan.max_events is not None else ""
    outcomes = {"error": "the traced code failed", "interrupted": "interrupted"}
    counted = f"as many as the {imported.format} holds" if imported else "exact, counted in the kernel"
    notes = [Note(duration_text(recording.duration_ns))] if recording.timed else []
    notes.append(Note(_plural(int(recording.hits.sum()), "hit"), hint=counted))
    if plan.records_events or lost:
        full = "nothing was read of the ring buffer" if recording.unread else "the ring buffer was full: raise --buffer"
        why = f"the {imported.format} says so" if imported else full
        alarm = Note(f"{exact_text(lost)} lost", alarm=True, hint=why)
        notes += [Note(_plural(recording.event_count, "event")), alarm if lost else Note("0 lost")]
    else:
        notes.append(Note("counts only"))
    if imported is None:
        notes.append(Note(f"scope {plan.scope_text()}", hint="whose hits were counted"))
    if recording.missed:
        hint = "the kernel could not run the probe: it fired inside itself on the same CPU"
        notes.append(Note(f"{exact_text(recording.missed)} missed", alarm=True, hint=hint))
    if stacks_lost:
        hint = "the kernel's table of stacks was full: these events have none"
        notes.append(Note(f"{_plural(stacks_lost, 'stack')} lost", alarm=True, hint=hint))
    if recording.limit_reached:
        what = "memory" if recording.memory_full else f"event limit{limit}"
        hint = "later hits were counted but not recorded"
        notes.append(Note(f"{what} {'full' if recording.memory_full else 'reached'}", hint=hint))
    if unpaired:
        hint = "too many were under way at once, or their end was not seen: their durations are not in the latencies"
        notes.append(Note(f"{_plural(unpaired, 'call')} not timed", alarm=True, hint=hint))
    if plan.skipped:
        hint = "\n".join(f"{skipped.function}: {skipped.why}" for skipped in plan.skipped[:20])
        notes.append(Note(f"{exact_text(len(plan.skipped))} skipped", hint=hint))
    if recording.outcome in outcomes:
        notes.append(Note(outcomes[recording.outcome], alarm=True, hint="the result is what was recorded until then"))
    return tuple(notes)


def _plural(count: int, noun: str) -> str:
    return f"{exact_text(count)} {noun}{'' if count == 1 else 's'}"

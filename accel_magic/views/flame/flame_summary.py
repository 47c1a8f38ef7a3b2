"""A flame result as text and static HTML: headline, flame graph, frames, waits, measured calls, threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import terminal
from accel_magic.analysis.flame.stacks import span_name
from accel_magic.quantities import NOTHING, duration_text, exact_text, sentence_text, share_text
from accel_magic.recording.flame_data import NOT_KNOWN
from accel_magic.recording.profile import ThreadState
from accel_magic.views.figures.bokehjs import has_kernel
from accel_magic.views.flame.profile_view import profile_html, profile_text
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable
from accel_magic.views.trace_html import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from accel_magic.recording.companions import CompanionSamples
    from accel_magic.recording.flame_data import FlameFacts
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Recording

    Formats = dict[str, tuple[str, Callable[..., str]]]

TOP: Final = 10
_OUTCOMES: Final = {"error": "the profiled code raised", "interrupted": "interrupted"}


@dataclass(frozen=True)
class ThreadDryRun:
    """What `--dry-run` shows for the thread sampler.

    Attributes:
        rate: Samples per second.
        notes: Why the thread sampler would be used.

    """

    rate: int
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [f"dry run: a thread of this process would sample the others {self.rate} times a second", *self.notes]
        return terminal.page(lines)


@dataclass(frozen=True)
class FlameTables:
    """What is shown of a flame trace.

    Attributes:
        profile: All stacks.
        frames: As `ProfileResult.frames`.
        threads: As `FlameResult.threads`.
        waits: As `FlameResult.waits`; None for the thread sampler.
        spans: As `FlameResult.spans`; None for the thread sampler.
        recording: What the kernel recorded; None for the thread sampler.
        facts: Further facts about the trace; None for the thread sampler.
        companions: What subsystems recorded meanwhile.

    """

    profile: Profile
    frames: pd.DataFrame
    threads: pd.DataFrame
    waits: pd.DataFrame | None = None
    spans: pd.DataFrame | None = None
    recording: Recording | None = None
    facts: FlameFacts | None = None
    companions: tuple[CompanionSamples, ...] = ()


def flame_headline(shown: FlameTables) -> tuple[Note, ...]:
    """Items of the first line: duration, time by state, samples and expected samples, overhead, losses."""
    profile = shown.profile
    notes = [Note(duration_text(profile.duration_ns)), *_states(profile), *_sampling(shown)]
    notes += [Note(f"{exact_text(one.samples)} {one.name} samples", hint=one.hint) for one in shown.companions]
    notes += [Note(sentence_text(lost.count, lost.why), alarm=lost.kind != "left out") for lost in profile.lost]
    return tuple(notes) if profile.lost else (*notes, Note("0 lost", hint="every sample has a stack"))


def _sampling(shown: FlameTables) -> list[Note]:
    facts, recording = shown.facts, shown.recording
    if facts is None or recording is None:
        samples = int((shown.profile.samples.state == ThreadState.CPU).sum())
        return [Note(f"{exact_text(samples)} samples"), Note(shown.profile.origin)]
    sampled = sum(int(recording.hits[point.id]) for point in recording.plan.points if point.kind == "profile")
    expected = f", {exact_text(round(facts.cpu_ns * facts.rate / 1e9))} expected" if facts.cpu_ns != NOT_KNOWN else ""
    hint = "expected from the CPU time of this process and of the children that ended; those that run on add samples"
    notes = [Note(f"{exact_text(sampled)} samples at {facts.rate} Hz{expected}", hint=hint)]
    is_comparable = recording.duration_ns * facts.rate >= 1e9  # it is not with a trace between two samples
    if facts.tracer_ns != NOT_KNOWN and is_comparable:
        hint = f"{duration_text(facts.tracer_ns)} of CPU time for the tracer's BPF programs, threads and reader"
        notes.append(Note(f"overhead {share_text(facts.tracer_ns / recording.duration_ns)} of a processor", hint=hint))
    if recording.outcome in _OUTCOMES:
        hint = "the result holds what was recorded until then"
        notes.append(Note(_OUTCOMES[recording.outcome], alarm=True, hint=hint))
    return notes


def flame_text(shown: FlameTables) -> str:
    """Banners, headline, notes and tables in aligned columns."""
    return profile_text(shown.profile, shown.frames, flame_headline(shown), flame_tables(shown, TOP))


def bundle(shown: FlameTables) -> dict[str, str]:
    """Both representations, as `_repr_mimebundle_` returns them; the graph only in a notebook."""
    tables = flame_tables(shown, LIMIT)
    html = profile_html(shown.profile, shown.frames, flame_headline(shown), tables, figures=has_kernel())
    return {"text/plain": flame_text(shown), "text/html": html}


def flame_tables(shown: FlameTables, limit: int) -> list[tuple[str, FormattedTable]]:
    """The nonempty tables below the frames."""
    threads = shown.threads
    found = []
    if shown.waits is not None and len(shown.waits):
        found.append(_waits(shown.waits, limit))
    if shown.spans is not None and len(shown.spans):
        found.append(_spans(shown.spans, limit))
    if len(threads) > 1:
        columns: Formats = {
            "tid": ("tid", str),
            "samples": ("samples", exact_text),
            "cpu_ns": ("on CPU", duration_text),
            "off_cpu_ns": ("waiting", duration_text),
        }
        if threads["accelerator_ns"].any():
            columns["accelerator_ns"] = ("accelerator", duration_text)
        names = ("name",) if "name" in threads else ()
        found.append(("threads", _table(threads, names, columns, limit)))
    return found


def _waits(waits: pd.DataFrame, limit: int) -> tuple[str, FormattedTable]:
    columns: Formats = {"waits": ("waits", exact_text), **_durations("total", "mean", "max")}
    return "waits, by reason and place", _table(waits, ("reason", "where"), columns, limit)


def _spans(spans: pd.DataFrame, limit: int) -> tuple[str, FormattedTable]:
    called = spans[spans["calls"] > 0]
    others = len(spans) - len(called)
    title = f"measured calls (functions not called: {exact_text(others)})" if others else "measured calls"
    columns: Formats = {"calls": ("calls", exact_text), **_durations("total", "mean", "max"), **_inside()}
    named = called.assign(function=called["function"].map(span_name))
    return title, _table(named, ("function",), columns, limit)


def _states(profile: Profile) -> list[Note]:
    samples = profile.samples
    named = {ThreadState.CPU: "on CPU", ThreadState.OFF_CPU: "waiting", ThreadState.ACCELERATOR: "on an accelerator"}
    totals = {state: int(samples.weight[samples.state == state].sum()) for state in ThreadState}
    return [Note(f"{duration_text(total)} {named[state]}") for state, total in totals.items() if total]


def _durations(*names: str) -> Formats:
    return {f"{name}_ns": (name, duration_text) for name in names}


def _inside() -> Formats:
    return {"cpu_ns": ("on CPU inside", duration_text), "off_cpu_ns": ("waiting inside", duration_text)}


def _table(frame: pd.DataFrame, names: tuple[str, ...], formats: Formats, limit: int) -> FormattedTable:
    shown = frame.head(limit)
    cells = [
        [NOTHING if _missing(value) else text(value) for value in shown[name]] for name, (_, text) in formats.items()
    ]
    return FormattedTable(
        heads=(*names, *(head for head, _ in formats.values())),
        rows=tuple(zip(*(shown[name].astype("str").tolist() for name in names), *cells, strict=True)),
        names=len(names),
        more=len(frame) - len(shown),
    )


def _missing(value: object) -> bool:
    return isinstance(value, float) and bool(np.isnan(value))

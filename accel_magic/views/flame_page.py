"""A flame result as text and static HTML: headline, flame graph, frames, waits, measured calls, threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import terminal
from accel_magic.flames.facts import NOT_KNOWN
from accel_magic.flames.result import SampledResult
from accel_magic.flames.stacks import span_name
from accel_magic.profiles.model import State
from accel_magic.views.bokehjs import has_kernel
from accel_magic.views.format import NOTHING, duration_text, exact_text, share_text
from accel_magic.views.headline import Note
from accel_magic.views.profile import profile_html, profile_text
from accel_magic.views.static import LIMIT
from accel_magic.views.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from accel_magic.flames.result import FlameResult
    from accel_magic.profiles.model import Profile

    Formats = dict[str, tuple[str, Callable[..., str]]]

TOP: Final = 10
_OUTCOMES: Final = {"error": "the profiled code raised", "interrupted": "interrupted"}


@dataclass(frozen=True)
class ThreadDryRun:
    """What `--dry-run` shows where the thread sampler would be used.

    Attributes:
        rate: Samples per second.
        notes: Why it would.

    """

    rate: int
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [f"dry run: a thread of this process would look at all others {self.rate} times a second", *self.notes]
        return terminal.page(lines)


def flame_headline(result: FlameResult | SampledResult) -> tuple[Note, ...]:
    """Items of the first line: length, time by state, samples beside what was to be expected, cost, losses."""
    profile = result.profile
    notes = [Note(duration_text(profile.duration_ns)), *_states(profile), *_sampling(result)]
    if result.xe is not None:
        notes.append(Note(f"{exact_text(result.xe.total)} samples of iaprof", hint="on the GPU: result.xe"))
    notes += [Note(f"{exact_text(lost.count)} {lost.why}", alarm=_is_loss(lost.why)) for lost in profile.lost]
    return tuple(notes) if profile.lost else (*notes, Note("0 lost", hint="every sample is in a stack"))


def _sampling(result: FlameResult | SampledResult) -> list[Note]:
    if isinstance(result, SampledResult):
        looks = int((result.profile.samples.state == State.CPU).sum())
        return [Note(f"{exact_text(looks)} samples"), Note(result.profile.origin)]
    facts, recording = result.facts, result.recording
    sampled = sum(int(recording.hits[point.id]) for point in result.plan.points if point.kind == "profile")
    expected = f", {exact_text(round(facts.cpu_ns * facts.rate / 1e9))} expected" if facts.cpu_ns != NOT_KNOWN else ""
    hint = "expected by the CPU time of this process alone, at this rate; one with children has more samples"
    notes = [Note(f"{exact_text(sampled)} samples at {facts.rate} Hz{expected}", hint=hint)]
    if facts.tracer_ns != NOT_KNOWN and recording.duration_ns:
        hint = f"{duration_text(facts.tracer_ns)} of CPU time: the tracer's programs in the kernel, threads and reader"
        notes.append(Note(f"own cost {share_text(facts.tracer_ns / recording.duration_ns)} of a processor", hint=hint))
    if recording.outcome in _OUTCOMES:
        hint = "the result is what was recorded until then"
        notes.append(Note(_OUTCOMES[recording.outcome], alarm=True, hint=hint))
    return notes


def flame_text(result: FlameResult | SampledResult) -> str:
    """Banners, headline, notes and tables in aligned columns."""
    return profile_text(result, flame_headline(result), flame_tables(result, TOP))


def bundle(result: FlameResult | SampledResult) -> dict[str, str]:
    """Both representations, as `_repr_mimebundle_` returns them; the graph only where a notebook shows it."""
    html = profile_html(result, flame_headline(result), flame_tables(result, LIMIT), figures=has_kernel())
    return {"text/plain": flame_text(result), "text/html": html}


def flame_tables(result: FlameResult | SampledResult, limit: int) -> list[tuple[str, Table]]:
    """Tables below the frames, those that have rows."""
    found = [] if isinstance(result, SampledResult) else _recorded_tables(result, limit)
    threads = result.threads
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


def _recorded_tables(result: FlameResult, limit: int) -> list[tuple[str, Table]]:
    waits, spans = result.waits, result.spans
    found = []
    columns: Formats
    if len(waits):
        columns = {"waits": ("waits", exact_text), **_durations("total", "mean", "max")}
        found.append(("waits, by reason and place", _table(waits, ("reason", "where"), columns, limit)))
    called = spans[spans["calls"] > 0]
    if len(spans):
        others = len(spans) - len(called)
        title = f"measured calls (functions not called: {exact_text(others)})" if others else "measured calls"
        columns = {"calls": ("calls", exact_text), **_durations("total", "mean", "max"), **_inside()}
        named = called.assign(function=called["function"].map(span_name))
        found.append((title, _table(named, ("function",), columns, limit)))
    return found


def _states(profile: Profile) -> list[Note]:
    samples = profile.samples
    named = {State.CPU: "on CPU", State.OFF_CPU: "waiting", State.ACCELERATOR: "on an accelerator"}
    totals = {state: int(samples.weight[samples.state == state].sum()) for state in State}
    return [Note(f"{duration_text(total)} {named[state]}") for state, total in totals.items() if total]


def _is_loss(why: str) -> bool:
    """Whether it went against the user's wish: what is left out on purpose is told, and no alarm."""
    return not ("left out" in why or "shorter" in why)


def _durations(*names: str) -> Formats:
    return {f"{name}_ns": (name, duration_text) for name in names}


def _inside() -> Formats:
    return {"cpu_ns": ("on CPU inside", duration_text), "off_cpu_ns": ("waiting inside", duration_text)}


def _table(frame: pd.DataFrame, names: tuple[str, ...], formats: Formats, limit: int) -> Table:
    shown = frame.head(limit)
    cells = [
        [NOTHING if _missing(value) else text(value) for value in shown[name]] for name, (_, text) in formats.items()
    ]
    return Table(
        heads=(*names, *(head for head, _ in formats.values())),
        rows=tuple(zip(*(shown[name].astype("str").tolist() for name in names), *cells, strict=True)),
        names=len(names),
        more=len(frame) - len(shown),
    )


def _missing(value: object) -> bool:
    return isinstance(value, float) and bool(np.isnan(value))

"""The result of a user's own program, and its `--dry-run`, as text and static HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from accel_magic import terminal
from accel_magic.quantities import duration_text, exact_text
from accel_magic.views.element import element_html
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable, aligned, frame_table
from accel_magic.views.templates import render
from accel_magic.views.trace_html import LIMIT

if TYPE_CHECKING:
    from accel_magic.kernel.attach.function_bindings import FunctionBinding
    from accel_magic.kernel.bcc.compiler import ProgramMap
    from accel_magic.recording.program_data import ProgramRecording

TOP = 15
BAR_WIDTH = 30
_MOST_PLACES = 200


@dataclass(frozen=True)
class ProgramTables:
    """What is shown of a user's own program.

    Attributes:
        recording: What was recorded.
        maps: Its maps by name.
        rings: Its ring buffers by name.
        notes: Notes for the user.

    """

    recording: ProgramRecording
    maps: dict[str, pd.DataFrame]
    rings: dict[str, pd.DataFrame]
    notes: tuple[str, ...]


def program_headline(shown: ProgramTables) -> tuple[Note, ...]:
    """Items of the first line."""
    recording = shown.recording
    places = sum(len(place.names) for place in recording.places)
    outcomes = {"error": "the traced code failed", "interrupted": "interrupted"}
    notes = [
        Note(recording.program),
        Note(duration_text(recording.duration_ns)),
        Note(
            f"{len(recording.places)} function{'s' * (len(recording.places) != 1)} at {exact_text(places)} "
            f"place{'s' * (places != 1)}",
            hint="\n".join(places_text(recording.places)),
        ),
    ]
    if recording.rings:
        count = sum(len(frame) for frame in shown.rings.values())
        hint = "only the program itself can detect a full ring buffer: count failed outputs in it"
        notes += [Note(f"{exact_text(count)} event{'s' * (count != 1)}"), Note("losses unknown", hint=hint)]
    notes.append(Note("scope: the program's own", hint="the program itself decides which processes it counts"))
    if recording.missed:
        hint = "the kernel skipped the program: a BPF program was already running on that CPU"
        notes.append(Note(f"{exact_text(recording.missed)} missed", alarm=True, hint=hint))
    if recording.outcome in outcomes:
        notes.append(
            Note(outcomes[recording.outcome], alarm=True, hint="the result holds what was recorded until then")
        )
    return tuple(notes)


def program_text(shown: ProgramTables) -> str:
    """Headline, then each map and each ring in aligned columns."""
    lines = [", ".join(note.text for note in program_headline(shown))]
    lines += [f"note: {note}" for note in _notes(shown)]
    for title, table in _tables(shown, TOP):
        lines += ["", title, *aligned(table)]
    return terminal.page(lines)


def program_html(shown: ProgramTables) -> str:
    """The same as one self-contained element."""
    return element_html(_tables(shown, LIMIT), program_headline(shown), notes=_notes(shown))


def _notes(shown: ProgramTables) -> list[str]:
    nothing = [] if shown.maps or shown.rings else ["the program has no map or ring buffer that can be shown"]
    return [*shown.notes, *nothing]


def _tables(shown: ProgramTables, limit: int) -> list[tuple[str, FormattedTable]]:
    tables = []
    for name, frame in shown.maps.items():
        histogram = name in shown.recording.histograms
        kind = "histogram" if histogram else "map"
        title = f"{kind} {name}, {exact_text(len(frame))} row{'s' * (len(frame) != 1)}"
        tables.append((title, _histogram(frame, limit) if histogram else _map(frame, limit)))
    for name, frame in shown.rings.items():
        title = f"events {name}, {exact_text(len(frame))} record{'s' * (len(frame) != 1)}"
        tables.append((title, frame_table(frame, limit)))
    return tables


def _map(frame: pd.DataFrame, limit: int) -> FormattedTable:
    """A map's elements; if the values are numbers, the largest first."""
    shown = [name for name in frame.columns if not name.rpartition("_cpu")[2].isdecimal() or "_cpu" not in name]
    frame = frame[shown]
    if len(frame.columns) and "value" in frame and pd.api.types.is_numeric_dtype(frame["value"]):
        frame = frame.sort_values("value", ascending=False, kind="stable")
    return frame_table(frame, limit)


def _histogram(frame: pd.DataFrame, limit: int) -> FormattedTable:
    largest = max(frame["count"].max(), 1) if len(frame) else 1
    bars = ["█" * round(BAR_WIDTH * count / largest) for count in frame["count"]]
    table = frame_table(frame, limit)
    rows = tuple((*row, bar.ljust(BAR_WIDTH)) for row, bar in zip(table.rows, bars, strict=False))
    return FormattedTable((*table.heads, " " * BAR_WIDTH), rows, table.names, table.more)


def places_text(places: tuple[FunctionBinding, ...]) -> list[str]:
    """`function -> place`, one line each."""
    lines = [f"{place.function} -> {name}" for place in places for name in place.names]
    return [*lines[:_MOST_PLACES], f"and {len(lines) - _MOST_PLACES:,} more"] if len(lines) > _MOST_PLACES else lines


@dataclass(frozen=True)
class ProgramDryRun:
    """A program's maps, and where its functions would be attached; nothing was loaded or attached."""

    program: str
    places: tuple[FunctionBinding, ...]
    maps: tuple[ProgramMap, ...]
    notes: tuple[str, ...]

    def _headline(self) -> str:
        count = sum(len(place.names) for place in self.places)
        return (
            f"dry run: {self.program} compiles; {len(self.places)} function{'s' * (len(self.places) != 1)} "
            f"at {count:,} place{'s' * (count != 1)}; nothing was attached"
        )

    def _body(self) -> list[str]:
        lines = places_text(self.places)
        lines += [f"map {map_.name}, {map_.entries:,} entries" for map_ in self.maps if map_.key_size]
        lines += [f"ring buffer {map_.name}, {map_.entries:,} bytes" for map_ in self.maps if not map_.key_size]
        return [*lines, *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        return terminal.page([self._headline(), *self._body()])

    def _repr_html_(self) -> str:
        return render("dry_run", headline=self._headline(), body="\n".join(self._body()), code=())

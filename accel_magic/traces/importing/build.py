"""A recording of what a parser found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.probes.plan import Plan
from accel_magic.traces import buckets
from accel_magic.traces.importing.found import UNKNOWN, Bars, Found, Hits, Rates
from accel_magic.traces.recording import Column, Events, Histograms, Imported, Recording, Samples

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.traces.importing.names import Name

_MOST_POINTS = 1 << 16
_STEPS = 200  # of the counters over time
_MOST_SAMPLES = 4_000_000


def build(found: Found, path: Path) -> Recording:
    """Make the recording that `accel_magic.open` shows.

    Raises:
        RecordingError: There is nothing in it, or more probes than a recording can have.

    """
    names = _names(found)
    if not names:
        raise RecordingError(
            f"{path} holds no events and no counts",
            why=f"it looks like {found.format}, but nothing in it could be counted",
            fix="; ".join(found.notes) or "record again; see docs/import.md for what is understood",
            code="recording.empty",
        )
    if len(names) > _MOST_POINTS:
        raise RecordingError(
            f"{path} has {len(names):,} different probes or keys",
            why=f"a recording has {_MOST_POINTS:,} at most",
            fix="let the tool count by fewer keys",
            code="recording.too-many-probes",
        )
    places = {name: place for place, name in enumerate(names)}
    timed = found.hits is not None and found.hits.time_ns is not None
    events, start_ns, duration_ns = _events(found.hits, places)
    recorded = np.bincount(events.columns["point"].values, minlength=len(names)).astype(np.uint64)
    hits = recorded.copy()
    for name, count in found.counts.items():
        hits[places[name]] = max(count, int(recorded[places[name]]))
    if found.rates is not None:
        hits[[places[name] for name in found.rates.names]] += found.rates.counts.sum(axis=0)
    if not hits.any():  # else the calls in a histogram are counted already, under another name
        for bars in found.histograms:
            hits[places[bars.name]] += np.uint64(sum(count for *_, count in bars.bars))
    samples = _samples(events, hits, duration_ns, timed=timed)
    if found.rates is not None and not len(events):
        samples = _of_rates(found.rates, places, hits)
        timed, duration_ns = True, int(samples.times_ns[-1])
    zeros = np.zeros(len(names), np.uint64)
    return Recording(
        plan=Plan(
            points=tuple(name.point(place) for name, place in places.items()),
            mode="events" if len(events) else "count",
            notes=_notes(found),
        ),
        machine=found.machine,
        started="",
        start_ns=start_ns,
        duration_ns=duration_ns,
        hits=hits,
        lost=zeros,
        unpaired=zeros,
        totals=zeros,
        missed=0,
        histograms=_histograms(names, events, found.histograms, places),
        samples=samples,
        event_count=len(events),
        limit_reached=False,
        load_events=lambda: events,
        imported=Imported(str(path), found.format, timed, found.lost, measured=any(name.latency for name in names)),
    )


def without_cut(found: Found, last_line: str) -> Found:
    """Leave out the last event where the file ends in the middle of its name.

    `last_line` is the one without an end: a name that is nowhere else in the file, but begins like another one.
    """
    hits = found.hits
    if not last_line or hits is None or not len(hits):
        return found
    name = hits.names[int(hits.name[-1])]
    seen = [hits.names[code] for code in np.unique(hits.name[:-1])]
    cut = name not in seen and any(other.probe.startswith(name.probe) for other in seen)
    if not (cut and last_line.endswith(name.function)):
        return found
    notes = (*found.notes, f"the last line is cut off and left out: {last_line[-80:]}")
    return replace(found, hits=hits.rows(np.arange(len(hits) - 1)), notes=notes)


def _names(found: Found) -> list[Name]:
    """All points: those of events first, each once."""
    there: tuple[Name, ...] = ()
    if found.hits is not None:
        seen = np.unique(found.hits.name)
        there = tuple(found.hits.names[code] for code in seen)
    rated = () if found.rates is None else found.rates.names
    return list(dict.fromkeys([*there, *rated, *found.counts, *(bars.name for bars in found.histograms)]))


def _notes(found: Found) -> tuple[str, ...]:
    lines = "line is" if found.malformed == 1 else "lines are"
    malformed = (f"{found.malformed:,} {lines} not understood and left out",) if found.malformed else ()
    return (*malformed, *found.notes)


def _events(hits: Hits | None, places: dict[Name, int]) -> tuple[Events, int, int]:
    """Events in order of time, relative to the first; with it the first one's time and the whole length, ns."""
    if hits is None:
        nothing = np.zeros(0, np.int32)
        hits = Hits((), nothing, None, nothing, nothing, nothing.astype(np.int16), Column(nothing, categories=()))
    if hits.time_ns is not None and (np.diff(hits.time_ns) < 0).any():
        hits = hits.rows(np.argsort(hits.time_ns, kind="stable"))
    table = np.array([places.get(name, 0) for name in hits.names] or [0], np.uint16)
    time = np.zeros(len(hits), np.int64) if hits.time_ns is None else hits.time_ns
    start = int(time[0]) if len(time) else 0
    columns = {
        "time_ns": Column(time - start),
        "point": Column(table[hits.name]),
        "pid": Column(hits.pid),
        "tid": Column(hits.tid),
        "cpu": Column(hits.cpu),
        "comm": hits.comm,
    }
    ends = columns["time_ns"].values
    if hits.duration_ns is not None:
        valid = hits.duration_ns != UNKNOWN
        duration = np.where(valid, hits.duration_ns, 0)
        columns["duration_ns"] = Column(duration, valid)
        ends = ends + duration
    timed = hits.time_ns is not None and len(ends) > 0
    return Events({**columns, **hits.columns}), start, max(int(ends.max()), 1) if timed else 0


def _histograms(names: list[Name], events: Events, drawn: tuple[Bars, ...], places: dict[Name, int]) -> Histograms:
    """Durations of the events, and of printed histograms: each bucket's calls at its longest, never too short."""
    measured = [place for place, name in enumerate(names) if name.latency]
    counts = np.zeros((len(measured), buckets.COUNT), np.uint64)
    total, largest = np.zeros(len(measured), np.uint64), np.zeros(len(measured), np.uint64)
    row_of = np.full(len(names) + 1, UNKNOWN, np.int64)
    row_of[measured] = np.arange(len(measured))
    duration = events.columns.get("duration_ns")
    if duration is not None and duration.valid is not None and measured:
        rows = row_of[events.columns["point"].values[duration.valid]]
        values = duration.values[duration.valid][rows >= 0]
        rows = rows[rows >= 0]
        cells = rows * buckets.COUNT + buckets.index_of(values)
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape).astype(np.uint64)
        np.add.at(total, rows, values.astype(np.uint64))
        np.maximum.at(largest, rows, values.astype(np.uint64))
    for bars in drawn:
        row = int(row_of[places[bars.name]])
        for low, high, count in bars.bars:
            longest = min(low if high is None else max(high - 1, low), 1 << 62)
            if count:
                counts[row, int(buckets.index_of(np.array(longest, np.int64)))] += np.uint64(count)
                total[row] = min(int(total[row]) + longest * count, (1 << 64) - 1)
                largest[row] = max(int(largest[row]), longest)
    return Histograms(counts, total, largest)


def _samples(events: Events, hits: NDArray[np.uint64], duration_ns: int, *, timed: bool) -> Samples:
    """Counters over time as the events show them; the last row is exact."""
    steps = min(_STEPS, _MOST_SAMPLES // len(hits)) if timed else 0
    edges = np.unique(np.linspace(0, duration_ns, max(steps, 1) + 1).astype(np.int64))
    if len(edges) < 2:
        edges = np.array([0, max(duration_ns, 0)], np.int64)
    table = np.zeros((len(edges), len(hits)), np.uint64)
    if len(edges) > 2:
        step = np.clip(np.searchsorted(edges, events.columns["time_ns"].values, side="left"), 1, len(edges) - 1)
        cells = step * len(hits) + events.columns["point"].values
        counted = np.bincount(cells, minlength=table.size).reshape(table.shape)
        table = np.cumsum(counted, axis=0).astype(np.uint64)
    table[-1] = hits
    return Samples(edges, table)


def _of_rates(rates: Rates, places: dict[Name, int], hits: NDArray[np.uint64]) -> Samples:
    """Counters over time as a tool printed them; the last row is exact."""
    table = np.zeros((len(rates.counts) + 1, len(places)), np.uint64)
    table[1:, [places[name] for name in rates.names]] = np.cumsum(rates.counts, axis=0)
    table[-1] = hits
    return Samples(np.arange(len(table), dtype=np.int64) * rates.step_ns, table)

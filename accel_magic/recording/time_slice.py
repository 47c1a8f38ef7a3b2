"""A piece of a recording: the events of a stretch of time, as a recording of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import buckets
from accel_magic.recording import dataset
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, ThreadCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Recording

_STEPS: Final = 200


def between(recording: Recording, start_ns: int, end_ns: int) -> Recording:
    """The events from `start_ns` to before `end_ns` (ns since the start), whose times are then since `start_ns`.

    Hits, latencies and rates are those of these events; of points that are only counted, hits are those between the
    samples of the counters, and latencies are unknown. Of a dataset, only files with such events are read.

    Raises:
        ResultError: These events are too many to load.
        RecordingError: A file is damaged.

    """
    stored = dataset.files_of(recording)
    events = _of_memory(recording.events, start_ns, end_ns) if stored is None else stored.between(start_ns, end_ns)
    time = events.columns["time_ns"]
    events = Events({**events.columns, "time_ns": EventColumn(time.values - start_ns)})
    points = len(recording.plan.points)
    hits = np.bincount(events.columns["point"].values, minlength=points).astype(np.uint64)
    samples = _samples(events, points, end_ns - start_ns)
    counted = [point.id for point in recording.plan.points if point.counted]
    for point in counted:
        so_far = _counted_hits(recording, point, samples.times_ns + start_ns)
        samples.hits[:, point] = so_far - so_far[0]
        hits[point] = samples.hits[-1, point]
    none = np.zeros(points, np.uint64)
    where = f"{start_ns / 1e9:g} s to {end_ns / 1e9:g} s"
    note = f"a piece of a trace, from {where}: hits, latencies and rates are those of its recorded events"
    if counted:
        note += "; those of points that are only counted are estimated from the counters over time"
    return replace(
        recording.with_notes(note),
        start_ns=recording.start_ns + start_ns,
        duration_ns=end_ns - start_ns,
        hits=hits,
        lost=none,
        unpaired=none,
        totals=_totals(events, recording.plan),
        missed=0,
        histograms=_histograms(events, recording.plan),
        samples=samples,
        event_count=len(events),
        limit_reached=False,
        load_events=lambda: events,
        by_thread=ThreadCounts.of_rows(()),
    )


def _counted_hits(recording: Recording, point: int, times_ns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hits of a point until these times, interpolated between samples of the counters."""
    samples = recording.samples
    if not len(samples.times_ns):
        return np.zeros(len(times_ns), np.uint64)
    known = np.interp(times_ns, samples.times_ns, samples.hits[:, point].astype(np.float64))
    return np.round(known).astype(np.uint64)


def _of_memory(events: Events, start_ns: int, end_ns: int) -> Events:
    times = events.columns["time_ns"].values
    return dataset.rows_of(events, np.flatnonzero((times >= start_ns) & (times < end_ns)))


def _totals(events: Events, plan: Plan) -> NDArray[np.uint64]:
    """Sums of the values that points add up, as far as they are columns."""
    totals = np.zeros(len(plan.points), np.uint64)
    points = events.columns["point"].values
    for point in plan.points:
        column = events.columns.get(point.total) if point.total else None
        if column is not None and column.categories is None:
            chosen = points == point.id
            totals[point.id] = column.values[chosen].astype(np.uint64).sum(dtype=np.uint64)
    return totals


def _histograms(events: Events, plan: Plan) -> Histograms:
    rows = plan.latency_points
    counts = np.zeros((len(rows), buckets.COUNT), np.uint64)
    total, largest = np.zeros((2, len(rows)), np.uint64)
    durations = events.columns.get("duration_ns")
    if durations is not None:
        points = events.columns["point"].values
        for row, point in enumerate(rows):
            own = durations.values[points == point.id].astype(np.int64)
            if len(own):
                counts[row] = np.bincount(buckets.index_of(own), minlength=buckets.COUNT)
                total[row], largest[row] = own.sum(), own.max()
    return Histograms(counts, total, largest)


def _samples(events: Events, points: int, duration_ns: int) -> CounterSamples:
    """Hits so far at evenly spaced times."""
    edges = np.unique(np.linspace(0, max(duration_ns, 1), _STEPS + 1).astype(np.int64))
    row = np.searchsorted(edges, events.columns["time_ns"].values, side="right")  # counted from the next edge on
    cell = np.minimum(row, len(edges) - 1) * points + events.columns["point"].values.astype(np.int64)
    hits = np.bincount(cell, minlength=len(edges) * points).reshape(len(edges), points)
    return CounterSamples(edges, np.cumsum(hits, axis=0).astype(np.uint64))

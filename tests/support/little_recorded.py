"""Recordings of next to nothing, cut from whole ones: of no event, of one, and interrupted in the middle of calls."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

import accel_magic
from accel_magic import subsystems
from accel_magic.kernel import buckets
from accel_magic.recording import dataset, kernel_counts
from accel_magic.recording.flame_data import NOT_KNOWN
from accel_magic.recording.recording import CounterSamples, Histograms, ThreadCounts
from accel_magic.results.flame_result import FlameResult
from tests.support.paths import ROOT

RECORDINGS = ROOT / "notebooks/recordings"


@functools.cache
def opened(name):
    """The result of a recording of the notebooks."""
    return accel_magic.open(RECORDINGS / name)


@functools.cache
def files_of_subjects():
    """The smallest recording about each subsystem with tables, one about none of them, and one of a flame trace."""
    found = {}
    for file in sorted(RECORDINGS.glob("*.parquet"), key=lambda file: file.stat().st_size):
        result = opened(file.name)
        about = subsystems.of_plan(result.plan)
        found.setdefault(result.KIND if isinstance(result, FlameResult) or not about else about[0].name, file)
    return found


def subjects():
    """Their results."""
    return {subject: opened(file.name) for subject, file in files_of_subjects().items()}


def cut(recording, rows, **changes):
    """The recording with these rows of its events only, counts of them, and nothing that was found beside them.

    Args:
        recording: A whole one.
        rows: Of its events.
        changes: Fields that differ.

    """
    plan, events = recording.plan, dataset.rows_of(recording.events, rows)
    zero = kernel_counts.zero(plan)
    hits = np.bincount(events.columns["point"].values, minlength=len(plan.points)).astype(np.uint64)
    duration_ns = changes.get("duration_ns", recording.duration_ns)
    unknown = {"launches": (), "more_launches": 0, "cpu_ns": NOT_KNOWN, "tracer_ns": NOT_KNOWN}
    facts = {} if recording.flame is None else {"flame": replace(recording.flame, **unknown)}
    counted = {
        "hits": hits,
        "lost": zero.lost,
        "unpaired": zero.unpaired,
        "totals": zero.totals,
        "missed": 0,
        "histograms": _histograms(events, plan, zero.histograms),
        "samples": CounterSamples(np.array([0, duration_ns]), np.stack([zero.hits, hits])),
        "event_count": len(events),
        "load_events": lambda: events,
        "by_thread": ThreadCounts.of_rows(()),
        "companions": {},
        "observed": {},
    }
    return replace(recording, **{**counted, **facts, **changes})


def _histograms(events, plan, zero):
    durations = events.columns.get("duration_ns")
    if durations is None:
        return zero
    counts, total, largest = zero.counts.copy(), zero.total_ns.copy(), zero.max_ns.copy()
    for row, point in enumerate(plan.latency_points):
        own = durations.values[events.columns["point"].values == point.id].astype(np.int64)
        counts[row] = np.bincount(buckets.index_of(own), minlength=buckets.COUNT)
        total[row], largest[row] = own.sum(), own.max(initial=0)
    return Histograms(counts, total, largest)


def empty(recording):
    """Nothing was hit until the traced code failed at once."""
    return cut(recording, np.zeros(0, np.intp), outcome="error", duration_ns=1)


def one(recording):
    """Only the first event was recorded."""
    return cut(recording, np.array([0]))


def interrupted(recording):
    """The first half was recorded: calls that were running then have no end."""
    times = recording.events.columns["time_ns"].values
    first_half = np.flatnonzero(times <= np.median(times))
    return cut(recording, first_half, outcome="interrupted", observed=recording.observed)


LITTLE = (empty, one, interrupted)
"""Each takes a whole recording."""

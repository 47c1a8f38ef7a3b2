"""Data recorded by an engine and its reader: columns and counters, without drawing or pandas."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.banners import Imported, Replayed
    from accel_magic.kernel.own_process import OwnProcess
    from accel_magic.kernel.stacks.stack_table import StackTable
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.flame_data import FlameFacts
    from accel_magic.recording.observation import ObservedTable

Outcome = Literal["ok", "error", "interrupted"]


@dataclass(frozen=True)
class EventColumn:
    """One column of events.

    `values` has shape (events,). With `categories` the values are int codes into them (-1 = missing); with `valid`
    (bool, same shape) False marks a row that has no value.
    """

    values: NDArray[Any]
    valid: NDArray[np.bool_] | None = None
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Events:
    """Recorded hits in order of time.

    Always present: `time_ns` (int64, ns since the start), `point` (uint16, ProbePoint.id), `pid`, `tid` (int32), `cpu`
    (int16), `comm` (codes). With a latency point: `duration_ns` (int64; in these rows `time_ns` is the time of the
    entry). Then `retval`, captures and tracepoint fields under their own names, missing in rows whose probe has none.
    """

    columns: dict[str, EventColumn]

    def __len__(self) -> int:
        """Count the recorded events."""
        return len(self.columns["time_ns"].values)


@dataclass(frozen=True)
class CounterSamples:
    """Counters over time, sampled outside the notebook's process: `times_ns` (S,) since the start, `hits` (S, points).

    The first row is the start (zeros), the last the end.
    """

    times_ns: NDArray[np.int64]
    hits: NDArray[np.uint64]


@dataclass(frozen=True)
class Histograms:
    """In-kernel latency histograms, one row per latency point in the plan's order.

    `counts` (latency points, buckets) uint64 in the buckets of `accel_magic.kernel.buckets`; `total_ns` and `max_ns`
    (latency points,) uint64: sum and largest single duration.
    """

    counts: NDArray[np.uint64]
    total_ns: NDArray[np.uint64]
    max_ns: NDArray[np.uint64]


@dataclass(frozen=True)
class ThreadCounts:
    """Counts by thread of the points that are only counted (`ProbePoint.counted`); a row per point and thread.

    Attributes:
        point: (rows,) int64, ProbePoint.id.
        pid: (rows,) int64.
        tid: (rows,) int64.
        hits: (rows,) int64; of measured calls, those that returned.
        total_ns: (rows,) int64, sum of the durations; 0 for points that measure none.

    """

    point: NDArray[np.int64]
    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    hits: NDArray[np.int64]
    total_ns: NDArray[np.int64]

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> ThreadCounts:
        """Make them from rows of five numbers, in the order of the attributes."""
        return cls(*np.array(rows, np.int64).reshape(-1, 5).T)

    @property
    def rows(self) -> list[list[int]]:
        """The rows, as for `of_rows`."""
        table: list[list[int]] = np.stack([self.point, self.pid, self.tid, self.hits, self.total_ns], axis=1).tolist()
        return table


@dataclass(frozen=True)
class Recording:
    """One trace as recorded.

    Attributes:
        plan: What was traced, and notes about that.
        machine: Where it was recorded: `kernel`, `cpu`, `host`, `device`, `python`, `accel_magic` and so on.
        started: Wall-clock start, ISO 8601 with time zone.
        start_ns: CLOCK_MONOTONIC at the start; event times are relative to it.
        duration_ns: Length of the traced time.
        hits: (points,) uint64, exact, counted in the kernel.
        lost: (points,) uint64, events dropped because the ring buffer was full.
        unpaired: (points,) uint64, calls of latency points that could not be timed because the table was full.
        totals: (points,) uint64, sum of the value that a point adds up (`ProbePoint.total`); 0 without one.
        missed: Hits for which the kernel could not run our program (re-entered on the same CPU), over all points.
        histograms: Latency histograms of the latency points.
        samples: Counters over time.
        event_count: Number of recorded events.
        limit_reached: Whether recording stopped, at `max_events` or for lack of memory; counting continued.
        load_events: Decodes the raw records; called once, on first use of `events`.
        outcome: How the traced code ended.
        outcome_notes: Notes for the user about what happened, a sentence each.
        stacks: Stacks of the events; None without any.
        flame: Set if a flame trace made it.
        by_thread: Counts by thread of the points that are only counted.
        process: For waits: information about the traced process.
        companions: What subsystems recorded beside it, as JSON values, by their names.
        observed: What subsystems found in the traced process at the end, by their names.
        replayed: Set if this is a playback.
        imported: Set if another tool recorded it.

    """

    plan: Plan
    machine: dict[str, str]
    started: str
    start_ns: int
    duration_ns: int
    hits: NDArray[np.uint64]
    lost: NDArray[np.uint64]
    unpaired: NDArray[np.uint64]
    totals: NDArray[np.uint64]
    missed: int
    histograms: Histograms
    samples: CounterSamples
    event_count: int
    limit_reached: bool
    load_events: Callable[[], Events] = field(repr=False)
    outcome: Outcome = "ok"
    outcome_notes: tuple[str, ...] = ()
    stacks: StackTable | None = None
    flame: FlameFacts | None = None
    by_thread: ThreadCounts = field(default_factory=lambda: ThreadCounts.of_rows(()))
    process: OwnProcess | None = None
    companions: Mapping[str, Any] = field(default_factory=dict)
    observed: Mapping[str, ObservedTable] = field(default_factory=dict)
    replayed: Replayed | None = None
    imported: Imported | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes for the user: about what was traced, then about what happened."""
        return (*self.plan.notes, *self.outcome_notes)

    def with_notes(self, *notes: str) -> Recording:
        """Return the recording with more notes about what happened."""
        return replace(self, outcome_notes=(*self.outcome_notes, *notes))

    @property
    def hits_without_thread(self) -> dict[int, int]:
        """By point, hits that `by_thread` has no row for, because too many threads had some; no points without.

        Of measured calls, those that returned. The sums of all threads have them.
        """
        returned = {
            point.id: int(self.histograms.counts[row].sum()) for row, point in enumerate(self.plan.latency_points)
        }
        every = {
            point.id: returned.get(point.id, int(self.hits[point.id])) for point in self.plan.points if point.counted
        }
        known = {point: int(self.by_thread.hits[self.by_thread.point == point].sum()) for point in every}
        return {point: hits - known[point] for point, hits in every.items() if hits > known[point]}

    @property
    def timed(self) -> bool:
        """Whether times, durations and rates are meaningful; False if another tool's output contained no times."""
        return self.imported is None or self.imported.timed

    @property
    def unread(self) -> bool:
        """Whether all events are lost because the reader process died or its answer could not be received."""
        return self.imported is None and not self.event_count and bool(self.lost.any())

    @property
    def memory_full(self) -> bool:
        """Whether recording stopped for lack of memory before it reached `max_events`."""
        limit = self.plan.request.max_events
        return self.limit_reached and (limit is None or self.event_count < limit)

    @property
    def events_lost(self) -> int:
        """Events that could not be stored because a ring buffer was full, plus losses reported by an imported file."""
        return int(self.lost.sum()) + (self.imported.lost if self.imported is not None else 0)

    @cached_property
    def events(self) -> Events:
        """The recorded events, decoded on first use."""
        return self.load_events()

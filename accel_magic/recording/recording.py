"""What an engine and its reader recorded: columns and counters, nothing drawn and nothing pandas."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.banners import Imported, Replayed
    from accel_magic.kernel.own_process import OwnProcess
    from accel_magic.kernel.stacks.table import StackTable
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.flame import FlameFacts
    from accel_magic.recording.iaprof import IaprofProfile

Outcome = Literal["ok", "error", "interrupted"]


@dataclass(frozen=True)
class Column:
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

    Always there: `time_ns` (int64, ns since the start), `point` (uint16, ProbePoint.id), `pid`, `tid` (int32), `cpu`
    (int16), `comm` (codes). With a latency point `duration_ns` (int64; for these rows `time_ns` is the entry's). Then
    `retval`, captures and tracepoint fields under their own names, missing where a row's probe has none.
    """

    columns: dict[str, Column]

    def __len__(self) -> int:
        """Count the recorded events."""
        return len(self.columns["time_ns"].values)


@dataclass(frozen=True)
class Samples:
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
class Recording:
    """One trace as recorded.

    Attributes:
        plan: What was traced.
        machine: `kernel`, `cpu`, `host`, `device`, `python`, `accel_magic`: where.
        started: Wall-clock start, ISO 8601 with time zone.
        start_ns: CLOCK_MONOTONIC at the start; events count from here.
        duration_ns: Length of the traced stretch.
        hits: (points,) uint64, exact, counted in the kernel.
        lost: (points,) uint64, events the ring buffer had no room for.
        unpaired: (points,) uint64, calls of latency points that could not be timed because the table was full.
        totals: (points,) uint64, sum of the value that a point adds up (`ProbePoint.total`), 0 where it has none.
        missed: Hits the kernel could not run our program for (re-entered on the same CPU), over all points.
        histograms: Of the latency points.
        samples: Counters over time.
        limit_reached: Events stopped being kept, at `max_events` or for lack of memory; hits went on being counted.
        outcome: How the traced code ended.
        stacks: Of the events; None where they have none.
        flame: Set when a flame trace made it.
        process: Of waits: what the traced process knew of itself.
        iaprof: What iaprof recorded meanwhile, where it was asked to.
        load_events: Decodes the raw records; called once, when events are first asked for.
        replayed: Set when this is a playback.
        imported: Set when another tool recorded it.

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
    samples: Samples
    event_count: int
    limit_reached: bool
    load_events: Callable[[], Events] = field(repr=False)
    outcome: Outcome = "ok"
    stacks: StackTable | None = None
    flame: FlameFacts | None = None
    process: OwnProcess | None = None
    iaprof: IaprofProfile | None = None
    replayed: Replayed | None = None
    imported: Imported | None = None

    @property
    def timed(self) -> bool:
        """Whether times, durations and rates mean anything: not where another tool's output held no times."""
        return self.imported is None or self.imported.timed

    @property
    def unread(self) -> bool:
        """Whether nothing came of the events: the reader process died, or its answer could not be taken."""
        return self.imported is None and not self.event_count and bool(self.lost.any())

    @property
    def memory_full(self) -> bool:
        """Whether events stopped being kept for lack of memory, before there were `max_events` of them."""
        limit = self.plan.max_events
        return self.limit_reached and (limit is None or self.event_count < limit)

    @property
    def events_lost(self) -> int:
        """Events that could not be stored: the ring buffer was full, or the tool that recorded them says so."""
        return int(self.lost.sum()) + (self.imported.lost if self.imported is not None else 0)

    @cached_property
    def events(self) -> Events:
        """The recorded events, decoded on first use."""
        return self.load_events()

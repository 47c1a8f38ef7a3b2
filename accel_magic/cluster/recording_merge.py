"""Recordings of many nodes as one: sums of what the kernels counted, and all events on one clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.kernel.stacks.stack_table import COLUMNS, concatenated
from accel_magic.recording import dataset
from accel_magic.recording.recording import (
    CounterSamples,
    EventColumn,
    Events,
    Histograms,
    Recording,
    ThreadCounts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from accel_magic.cluster.node import Node
    from accel_magic.kernel.stacks.stack_table import StackTable
    from accel_magic.probes.plan import Plan, ProbePoint

HOST, RANK, NODE = "host", "rank", "node"
"""Columns that events get."""
_NAMED: Final = 3
"""Nodes that are named for one note."""
_NO_STACK, _LOST_STACK = np.uint64(0), np.uint64(2**64 - 1)
"""Keys of events without a stack, and of those whose stack is in no table."""
_ADDED: Final = (HOST, RANK, NODE)
_ROW_BYTES: Final = 64
"""Memory that an event takes, roughly: nodes may have different columns."""


class ClockMapping(Protocol):
    """Converts a node's CLOCK_MONOTONIC to the reference's."""

    def to_reference(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert times in ns."""


@dataclass(frozen=True)
class NodeRecording:
    """What one node recorded.

    Attributes:
        node: The node.
        recording: Its recording.
        clock: Its clock.

    """

    node: Node
    recording: Recording
    clock: ClockMapping

    @property
    def start_ns(self) -> int:
        """When it began, on the reference's clock."""
        return self._moment(self.recording.start_ns)

    @property
    def end_ns(self) -> int:
        """When it ended, on the reference's clock."""
        return self._moment(self.recording.start_ns + self.recording.duration_ns)

    def check(self) -> None:
        """Raise ValueError or OverflowError if a time of the recording itself is out of range; events are not read."""
        if self.end_ns < self.start_ns:
            raise ValueError("it ended before it began")
        self.clock.to_reference(self.recording.samples.times_ns + self.recording.start_ns)

    def _moment(self, time_ns: int) -> int:
        return int(self.clock.to_reference(np.array([time_ns], np.int64))[0])


def merged(parts: Sequence[NodeRecording]) -> Recording:
    """Make one recording of those of several nodes.

    Counts, sums and histograms of a point are those of all nodes. Times are relative to the earliest start. Events are
    read, and ordered by time, when they are first used; they have the columns `host`, `rank` and `node`.

    Args:
        parts: At least one.

    """
    points, places = _united([part.recording.plan for part in parts])
    start = min(part.start_ns for part in parts)
    recordings = [part.recording for part in parts]
    return Recording(
        plan=_plan(parts, points),
        machine=_machine(recordings),
        started=min(recording.started for recording in recordings),
        start_ns=start,
        duration_ns=max(part.end_ns for part in parts) - start,
        hits=_summed([one.hits for one in recordings], places, len(points)),
        lost=_summed([one.lost for one in recordings], places, len(points)),
        unpaired=_summed([one.unpaired for one in recordings], places, len(points)),
        totals=_summed([one.totals for one in recordings], places, len(points)),
        missed=sum(one.missed for one in recordings),
        histograms=_histograms(recordings, points, places),
        samples=_samples(parts, places, len(points), start),
        event_count=sum(one.event_count for one in recordings),
        limit_reached=any(one.limit_reached for one in recordings),
        load_events=_Merged(tuple(parts), tuple(places), start),
        by_thread=_by_thread(recordings, places),
        replayed=recordings[0].replayed,
        stacks=_stacks(recordings),
        outcome="error" if any(one.outcome == "error" for one in recordings) else recordings[0].outcome,
        outcome_notes=_notes(parts),
    )


@dataclass(frozen=True)
class _Merged:
    """Events of several nodes, on one clock; calling the object loads them all, in order of time.

    Attributes:
        parts: The nodes.
        places: Of each node, the places of its points among those of all.
        start: Time 0 on the reference's clock.

    """

    parts: tuple[NodeRecording, ...]
    places: tuple[NDArray[np.int64], ...]
    start: int

    def __call__(self) -> Events:
        self.check()
        return _events(self.parts, self.places, self.start)

    def check(self) -> None:
        """Check that the events can be loaded together. Raises ResultError: they are too many."""
        if any(isinstance(part.recording.load_events, dataset.Batched) for part in self.parts):
            dataset.check_rows(sum(part.recording.event_count for part in self.parts), _ROW_BYTES)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Events]:
        """Read one piece of one node after the other; each is in order of time."""
        stacks = _stack_places(self.parts)
        for number, (part, own) in enumerate(zip(self.parts, self.places, strict=True)):
            needed = None if names is None else [*{"time_ns", "point", *names}]
            for events in dataset.batches(part.recording, needed):
                joined = _with_common_stacks(part.recording, events, stacks[number]).columns
                point = own[joined["point"].values.astype(np.int64)].astype(np.uint16)
                columns = {"time_ns": EventColumn(_times(part, events, self.start)), "point": EventColumn(point)}
                columns |= _of_nodes(self.parts, _alone(number, len(self.parts), len(events)), slice(None))
                yield Events(columns | {name: one for name, one in joined.items() if name not in columns})


def _alone(number: int, nodes: int, rows: int) -> list[int]:
    """Numbers of rows by node, if all are of one node."""
    return [rows if node == number else 0 for node in range(nodes)]


def _times(part: NodeRecording, events: Events, start: int) -> NDArray[np.int64]:
    own = events.columns["time_ns"].values.astype(np.int64) + part.recording.start_ns
    try:
        return part.clock.to_reference(own) - start
    except ValueError as error:
        raise RecordingError(
            f"{part.node.name}: the times of its events make no sense",
            why=str(error),
            fix="trace again, without that node: nodes=",
            code="cluster.damaged",
        ) from error


def _united(plans: Sequence[Plan]) -> tuple[tuple[ProbePoint, ...], list[NDArray[np.int64]]]:
    """All points, and for each plan the places of its own among them. A library may have another path elsewhere."""
    numbers: dict[tuple[Any, ...], int] = {}
    points: list[ProbePoint] = []
    places = []
    for plan in plans:
        own, seen = [], dict[tuple[Any, ...], int]()
        for point in plan.points:
            alike = (point.probe, point.kind, point.function, point.latency, point.total, point.counted)
            seen[alike] = seen.get(alike, -1) + 1  # a USDT probe has several points of one name
            key = (*alike, seen[alike])
            if key not in numbers:
                numbers[key] = len(points)
                points.append(replace(point, id=len(points)))
            own.append(numbers[key])
        places.append(np.array(own, np.int64))
    return tuple(points), places


def _plan(parts: Sequence[NodeRecording], points: tuple[ProbePoint, ...]) -> Plan:
    stacks = dict.fromkeys(kind for part in parts for kind in part.recording.plan.stacks)
    return replace(parts[0].recording.plan, points=points, stacks=tuple(stacks), notes=())


def _notes(parts: Sequence[NodeRecording]) -> tuple[str, ...]:
    """Notes with the names of the nodes that have them."""
    names: dict[str, list[str]] = {}
    for part in parts:
        for note in part.recording.notes:
            names.setdefault(note, []).append(part.node.name)
    return tuple(f"{', '.join(of) if len(of) <= _NAMED else f'{len(of)} nodes'}: {note}" for note, of in names.items())


def _machine(recordings: Sequence[Recording]) -> dict[str, str]:
    names = dict.fromkeys(name for one in recordings for name in one.machine)
    values = {name: dict.fromkeys(one.machine[name] for one in recordings if name in one.machine) for name in names}
    return {name: ", ".join(found) for name, found in values.items()}


def _summed(
    arrays: Sequence[NDArray[np.uint64]], places: Sequence[NDArray[np.int64]], points: int
) -> NDArray[np.uint64]:
    total = np.zeros(points, np.uint64)
    for array, own in zip(arrays, places, strict=True):
        total[own] += array.astype(np.uint64)
    return total


def _by_thread(recordings: Sequence[Recording], places: Sequence[NDArray[np.int64]]) -> ThreadCounts:
    """Counts of the threads of all nodes; those of equal ids on two nodes are rows of their own."""
    rows = [
        [int(own[point]), *others]
        for one, own in zip(recordings, places, strict=True)
        for point, *others in one.by_thread.rows
    ]
    return ThreadCounts.of_rows(rows)


def _histograms(
    recordings: Sequence[Recording], points: Sequence[ProbePoint], places: Sequence[NDArray[np.int64]]
) -> Histograms:
    rows = {point.id: row for row, point in enumerate(point for point in points if point.latency)}
    buckets = max(one.histograms.counts.shape[1] for one in recordings)
    counts = np.zeros((len(rows), buckets), np.uint64)
    total, largest = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
    for one, own in zip(recordings, places, strict=True):
        if not one.histograms.counts.size:
            continue
        at = [rows[own[point.id]] for point in one.plan.latency_points]
        counts[at] += one.histograms.counts
        total[at] += one.histograms.total_ns
        largest[at] = np.maximum(largest[at], one.histograms.max_ns)
    return Histograms(counts, total, largest)


def _samples(
    parts: Sequence[NodeRecording], places: Sequence[NDArray[np.int64]], points: int, start: int
) -> CounterSamples:
    """Sums of the nodes' counters at every moment at which one was sampled; others then have their last values."""
    own_times = [part.clock.to_reference(part.recording.samples.times_ns + part.recording.start_ns) for part in parts]
    times = np.unique(np.concatenate(own_times)) if own_times else np.empty(0, np.int64)
    hits = np.zeros((len(times), points), np.uint64)
    for part, own, moments in zip(parts, places, own_times, strict=True):
        if len(moments):
            last = np.searchsorted(moments, times, side="right") - 1
            known = np.where((last >= 0)[:, None], part.recording.samples.hits[np.maximum(last, 0)], 0)
            hits[:, own] += known.astype(np.uint64)
    return CounterSamples(times - start, hits)


def _events(parts: Sequence[NodeRecording], places: Sequence[NDArray[np.int64]], start: int) -> Events:
    stacks = _stack_places(parts)
    events = [
        _with_common_stacks(part.recording, part.recording.events, before)
        for part, before in zip(parts, stacks, strict=True)
    ]
    times = [_times(part, one, start) for part, one in zip(parts, events, strict=True)]
    order = np.argsort(np.concatenate(times), kind="stable")
    lengths = [len(one) for one in events]
    columns = {"time_ns": EventColumn(np.concatenate(times)[order])}
    point = [own[one.columns["point"].values.astype(np.int64)] for one, own in zip(events, places, strict=True)]
    columns["point"] = EventColumn(np.concatenate(point).astype(np.uint16)[order])
    columns |= _of_nodes(parts, lengths, order)
    names = dict.fromkeys(name for one in events for name in one.columns)
    for name in names:
        if name not in columns:
            columns[name] = _joined([one.columns.get(name) for one in events], lengths, order)
    return Events(columns)


def _stacks(recordings: Sequence[Recording]) -> StackTable | None:
    tables = [one.stacks for one in recordings if one.stacks is not None]
    return concatenated(tables) if tables else None


def _stack_places(parts: Sequence[NodeRecording]) -> list[int]:
    """For each node, the number of stacks before its own in the table that `_stacks` makes."""
    sizes = [0 if part.recording.stacks is None else len(part.recording.stacks.keys) for part in parts]
    return [sum(sizes[:number]) for number in range(len(sizes))]


def _with_common_stacks(recording: Recording, events: Events, before: int) -> Events:
    """A node's events, with the keys of the table that `_stacks` makes."""
    if recording.stacks is None:
        return events
    columns = dict(events.columns)
    for name in COLUMNS.keys() & columns.keys():
        rows = recording.stacks.rows(columns[name].values)
        keys = (rows + before + 1).astype(np.uint64)
        keys[rows < 0] = np.where(rows[rows < 0] == -1, _NO_STACK, _LOST_STACK)
        columns[name] = EventColumn(keys, columns[name].valid)
    return Events(columns)


def _of_nodes(
    parts: Sequence[NodeRecording], lengths: Sequence[int], order: NDArray[np.intp] | slice
) -> dict[str, EventColumn]:
    hosts = list(dict.fromkeys(part.node.host for part in parts))
    host = np.repeat([hosts.index(part.node.host) for part in parts], lengths).astype(np.int32)
    ranks = [-1 if part.node.rank is None else part.node.rank for part in parts]
    rank = np.repeat(ranks, lengths).astype(np.int32)
    node = np.repeat(np.arange(len(parts)), lengths).astype(np.int32)
    return {
        HOST: EventColumn(host[order], None, tuple(hosts)),
        RANK: EventColumn(rank[order], rank[order] >= 0),
        NODE: EventColumn(node[order], None, tuple(part.node.name for part in parts)),
    }


def _joined(columns: Sequence[EventColumn | None], lengths: Sequence[int], order: NDArray[np.intp]) -> EventColumn:
    """One column of those that nodes have; rows of nodes without it have no value."""
    there = [column for column in columns if column is not None]
    if any(column.categories is not None for column in there):
        return _joined_codes(columns, lengths, order)
    kind = np.result_type(*(column.values.dtype for column in there))
    values = [
        np.zeros(length, kind) if column is None else column.values.astype(kind)
        for column, length in zip(columns, lengths, strict=True)
    ]
    complete = len(there) == len(columns) and all(column.valid is None for column in there)
    valid = None if complete else np.concatenate(list(map(_valid, columns, lengths)))[order]
    return EventColumn(np.concatenate(values)[order], valid)


def _joined_codes(
    columns: Sequence[EventColumn | None], lengths: Sequence[int], order: NDArray[np.intp]
) -> EventColumn:
    """The same for codes; numbers, where a node has some, become texts."""
    known: dict[str, int] = {}
    values = []
    for column, length in zip(columns, lengths, strict=True):
        if column is None:
            values.append(np.full(length, -1, np.int32))
            continue
        codes, texts = column.values.astype(np.int64), column.categories
        if texts is None:
            unique, codes = np.unique(column.values, return_inverse=True)
            texts = tuple(map(str, unique.tolist()))
        table = np.array([*(known.setdefault(text, len(known)) for text in texts), -1], np.int32)
        codes = codes if column.valid is None else np.where(column.valid, codes, -1)
        values.append(table[codes])
    return EventColumn(np.concatenate(values)[order], None, tuple(known))


def _valid(column: EventColumn | None, length: int) -> NDArray[np.bool_]:
    if column is None:
        return np.zeros(length, np.bool_)
    return np.ones(length, np.bool_) if column.valid is None else column.valid

"""Intervals of threads' time in a recording: samples, and waits cut where measured calls begin or end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from accel_magic.analysis import waits
from accel_magic.analysis.nesting import enclosing
from accel_magic.kernel.stacks.stack_table import COLUMNS
from accel_magic.recording.profile import ThreadState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.recording.recording import Recording

    Ints = NDArray[np.int64]
    from numpy.typing import NDArray


NO_REASON: Final = -1
_NO_STACK, _NOT_TAKEN = -1, -2
"""Numbers of no stack, and of a stack that did not fit into the table, as in `StackTable.rows`."""


@dataclass(frozen=True)
class Rows:
    """N intervals: samples and waits.

    Attributes:
        event: (N,) int64, the event it comes from.
        time_ns: (N,) int64, when it began.
        weight: (N,) int64, ns.
        pid: (N,) int64.
        tid: (N,) int64.
        state: (N,) int64, of `State`.
        stacks: (N, 3) int64, rows of the stack table: kernel, native, Python.
        path: (N,) int64, index into `Nesting.paths`.
        reason: (N,) int64, index into the reasons of waits; `NO_REASON` for a sample.

    """

    event: Ints
    time_ns: Ints
    weight: Ints
    pid: Ints
    tid: Ints
    state: Ints
    stacks: Ints
    path: Ints
    reason: Ints

    def take(self, rows: NDArray[np.bool_] | Ints) -> Rows:
        """Select rows."""
        return Rows(*(values[rows] for values in vars(self).values()))

    @property
    def taken(self) -> NDArray[np.bool_]:
        """(N,) bool: all of its stacks fit into the table."""
        return np.asarray((self.stacks != _NOT_TAKEN).all(axis=1))


def rows_of(recording: Recording, spans: Nesting, period_ns: int) -> tuple[Rows, tuple[str, ...]]:
    """Lay out samples and waits; also returns the reasons that `Rows.reason` indexes.

    Args:
        recording: With points of the kinds `profile` and `offcpu`.
        spans: Its measured calls.
        period_ns: Time between samples.

    """
    columns = recording.events.columns
    point = columns["point"].values
    of_kind = {
        kind: np.flatnonzero(np.isin(point, [each.id for each in recording.plan.points if each.kind == kind]))
        for kind in ("profile", "offcpu")
    }
    sampled = _plain(recording, of_kind["profile"], ThreadState.CPU)
    sampled = replace(
        sampled,
        weight=np.full(len(sampled.event), period_ns, np.int64),
        path=spans.at(sampled.tid, sampled.time_ns),
    )
    waited, reasons = _waits(recording, of_kind["offcpu"], spans)
    both = zip(vars(sampled).values(), vars(waited).values(), strict=True)
    return Rows(*(np.concatenate(parts) for parts in both)), reasons


def _waits(recording: Recording, events: Ints, spans: Nesting) -> tuple[Rows, tuple[str, ...]]:
    whole = _plain(recording, events, ThreadState.OFF_CPU)
    if not len(events):
        return whole, ()
    durations = recording.events.columns["duration_ns"].values[events].astype(np.int64)
    codes, reasons = waits.reasons(recording, events)
    pieces = spans.cut(whole.tid, whole.time_ns, durations)
    cut = replace(
        whole.take(pieces.row),
        time_ns=pieces.start_ns,
        weight=pieces.duration_ns,
        path=pieces.path,
        reason=codes[pieces.row].astype(np.int64),
    )
    return cut, reasons


def _plain(recording: Recording, events: Ints, state: ThreadState) -> Rows:
    """Columns copied from the events; weight, path and reason are filled in later."""
    columns, count = recording.events.columns, len(events)
    time_ns, pid, tid = (columns[name].values[events].astype(np.int64) for name in ("time_ns", "pid", "tid"))
    return Rows(
        event=events.astype(np.int64),
        time_ns=time_ns,
        weight=np.zeros(count, np.int64),
        pid=pid,
        tid=tid,
        state=np.full(count, int(state), np.int64),
        stacks=np.column_stack([_stack_rows(recording, name, events) for name in COLUMNS]),
        path=np.zeros(count, np.int64),
        reason=np.full(count, NO_REASON, np.int64),
    )


def _stack_rows(recording: Recording, name: str, events: Ints) -> Ints:
    column = recording.events.columns.get(name)
    if column is None or recording.stacks is None:
        return np.full(len(events), _NO_STACK, np.int64)
    keys = column.values[events]
    if column.valid is not None:
        keys = np.where(column.valid[events], keys, 0)
    return recording.stacks.rows(keys)


OUTSIDE = 0
"""Index of the path of a thread outside all spans."""


class Pieces(NamedTuple):
    """Intervals cut where a span begins or ends.

    Attributes:
        row: (P,) int64, the interval that each piece belongs to.
        start_ns: (P,) int64.
        duration_ns: (P,) int64; the pieces of an interval add up to its duration.
        path: (P,) int64, index into `Nesting.paths`.

    """

    row: Ints
    start_ns: Ints
    duration_ns: Ints
    path: Ints


@dataclass(frozen=True)
class Nesting:
    """Time of every thread, divided where its spans begin and end; between two such moments the path is constant.

    Attributes:
        paths: Numbers of the kinds of spans that enclose each other, outermost first; `OUTSIDE` is the empty path.
        threads: Known threads.
        first_ns: Origin of the times in `begins`.
        width_ns: Distance between the times of two threads in `begins`.
        begins: (B,) int64, ascending: thread number x `width_ns` + time.
        path: (B,) int64, path from each of `begins` on.

    """

    paths: tuple[tuple[int, ...], ...]
    threads: Ints
    first_ns: int
    width_ns: int
    begins: Ints
    path: Ints

    def at(self, tid: Ints, time_ns: Ints) -> Ints:
        """(N,) int64 path of each moment."""
        interval = self._interval(self._thread(tid), time_ns)
        return np.where(interval >= 0, self.path[interval], OUTSIDE) if len(self.path) else np.zeros(len(tid), np.int64)

    def cut(self, tid: Ints, start_ns: Ints, duration_ns: Ints) -> Pieces:
        """Cut N intervals of threads where spans begin or end."""
        rows = np.arange(len(tid), dtype=np.int64)
        if not len(self.path):
            return Pieces(rows, start_ns, duration_ns, np.zeros(len(tid), np.int64))
        thread, end_ns = self._thread(tid), start_ns + duration_ns
        first = self._interval(thread, start_ns)
        last = np.maximum(self._interval(thread, np.maximum(end_ns - 1, start_ns)), first)
        counts = last - first + 1
        row = np.repeat(rows, counts)
        interval = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        begin = np.where(interval == first[row], start_ns[row], self._time(interval, thread[row]))
        end = np.where(interval == last[row], end_ns[row], self._time(interval + 1, thread[row]))
        path = np.where(interval >= 0, self.path[interval], OUTSIDE)
        return Pieces(row, begin, end - begin, path)

    def _thread(self, tid: Ints) -> Ints:
        """Number of each thread; for a thread without spans, the number after the last, which has no intervals."""
        if not len(self.threads):
            return np.zeros(len(tid), np.int64)
        at = np.minimum(np.searchsorted(self.threads, tid), len(self.threads) - 1)
        return np.where(self.threads[at] == tid, at, len(self.threads)).astype(np.int64)

    def _interval(self, thread: Ints, time_ns: Ints) -> Ints:
        """Row of `begins` of each moment. Before a thread's first span and after its last, the path is outside."""
        at = np.clip(time_ns - self.first_ns, 0, self.width_ns - 1)
        return np.searchsorted(self.begins, thread * self.width_ns + at, side="right") - 1

    def _time(self, interval: Ints, thread: Ints) -> Ints:
        """Start of an interval, ns; intervals must not be before the first or after the last."""
        return self.begins[np.clip(interval, 0, len(self.begins) - 1)] - thread * self.width_ns + self.first_ns


def nesting(tid: Ints, start_ns: Ints, end_ns: Ints, kind: Ints) -> Nesting:
    """Divide the time of threads by their spans.

    Args:
        tid: (S,) thread of each span. Spans of one thread enclose each other or lie side by side.
        start_ns: (S,) when it was entered.
        end_ns: (S,) when it returned.
        kind: (S,) what was called, from 0.

    """
    if not len(tid):
        return Nesting(((),), np.zeros(0, np.int64), 0, 1, np.zeros(0, np.int64), np.zeros(0, np.int64))
    threads, thread = np.unique(tid, return_inverse=True)
    first = int(start_ns.min()) - 1
    width = int(end_ns.max()) - first + 2
    # Doubled, so that a call that begins in the nanosecond in which another ends lies after it, not inside.
    entered, left = 2 * start_ns, 2 * end_ns - 1
    parent = enclosing(tid, entered, left, tid, entered)
    paths, path = _paths(parent, kind)
    begins = np.unique(np.concatenate([thread * width + (times - first) for times in (start_ns, end_ns)]))
    inner = enclosing(tid, entered, left, threads[begins // width], 2 * (begins % width + first) + 1)
    return Nesting(paths, threads, first, width, begins, np.where(inner >= 0, path[inner], OUTSIDE))


def _paths(parent: NDArray[np.intp], point: Ints) -> tuple[tuple[tuple[int, ...], ...], Ints]:
    """Every distinct path, and the index of each span's own, level by level from the outside."""
    depth, above = np.zeros(len(parent), np.int64), parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    paths: list[tuple[int, ...]] = [()]
    path = np.zeros(len(parent), np.int64)
    for level in range(int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        outer = np.where(parent[rows] >= 0, path[parent[rows]], OUTSIDE)
        codes, kinds = pd.factorize(outer * (int(point.max()) + 1) + point[rows])
        path[rows] = codes + len(paths)
        paths += [(*paths[kind // (int(point.max()) + 1)], int(kind % (int(point.max()) + 1))) for kind in kinds]
    return tuple(paths), path


class SpanKind(NamedTuple):
    """What the spans of a recording are told apart by.

    Attributes:
        point: Number of the probe point.
        python: Of a task, the row of its Python stack in the stack table; negative: none.

    """

    point: int
    python: int


@dataclass(frozen=True)
class Spans:
    """The spans of a recording.

    Attributes:
        kinds: What `nesting.paths` refers to.
        nesting: How they divide the threads' time.

    """

    kinds: tuple[SpanKind, ...]
    nesting: Nesting


def spans_of(recording: Recording) -> Spans:
    """Divide time by a recording's measured calls, without waits, and tasks that are recorded only around the first."""
    columns = recording.events.columns
    if "duration_ns" not in columns:
        return Spans((), nesting(*(np.zeros(0, np.int64) for _ in range(4))))
    duration = columns["duration_ns"]
    points = columns["point"].values
    spans = (point.latency and point.kind != "offcpu" and point.nesting != "naming" for point in recording.plan.points)
    measured = np.array([*spans], np.bool_)
    chosen = measured[points] if duration.valid is None else measured[points] & duration.valid
    tid, start, length, point = (
        column[chosen].astype(np.int64)
        for column in (columns["tid"].values, columns["time_ns"].values, duration.values, points)
    )
    tasks = np.array([each.kind == "itt" for each in recording.plan.points], np.bool_)[point]
    python = np.full(len(point), _NO_STACK, np.int64)
    python[tasks] = _stack_rows(recording, "python_stack", np.flatnonzero(chosen)[tasks])
    kinds, kind = np.unique(np.column_stack([point, python]), axis=0, return_inverse=True)
    return Spans(
        tuple(SpanKind(*row) for row in kinds.tolist()),
        nesting(tid, start, start + length, kind.ravel().astype(np.int64)),
    )

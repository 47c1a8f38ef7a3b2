"""Stretches of threads' time that a recording tells of: samples, and waits cut where measured calls begin or end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis import waits
from accel_magic.profiles.model import State
from accel_magic.traces.stacks import COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.flames.spans import Nesting
    from accel_magic.traces.recording import Recording

    Ints = NDArray[np.int64]

NO_REASON: Final = -1
_NO_STACK, _NOT_TAKEN = -1, -2
"""Rows of no stack, and of one that the full table did not take, as `StackTable.rows` has them."""


@dataclass(frozen=True)
class Rows:
    """N stretches.

    Attributes:
        event: (N,) int64, the event that tells of it.
        time_ns: (N,) int64, when it began.
        weight: (N,) int64, ns.
        pid: (N,) int64.
        tid: (N,) int64.
        state: (N,) int64, of `State`.
        stacks: (N, 3) int64, rows of the table of stacks: kernel, native, Python.
        path: (N,) int64, index into `Nesting.paths`.
        reason: (N,) int64, index into the reasons of waits; `NO_REASON` of a sample.

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
        """Some of them."""
        return Rows(*(values[rows] for values in vars(self).values()))

    @property
    def taken(self) -> NDArray[np.bool_]:
        """(N,) bool: the table took all of its stacks."""
        return np.asarray((self.stacks != _NOT_TAKEN).all(axis=1))


def rows_of(recording: Recording, spans: Nesting, period_ns: int) -> tuple[Rows, tuple[str, ...]]:
    """Lay out samples and waits; also the reasons that `Rows.reason` counts by.

    Args:
        recording: With points of the kinds `profile` and `offcpu`.
        spans: What it measured besides.
        period_ns: What a sample stands for.

    """
    columns = recording.events.columns
    point = columns["point"].values
    of_kind = {
        kind: np.flatnonzero(np.isin(point, [each.id for each in recording.plan.points if each.kind == kind]))
        for kind in ("profile", "offcpu")
    }
    sampled = _plain(recording, of_kind["profile"], State.CPU)
    sampled = replace(
        sampled,
        weight=np.full(len(sampled.event), period_ns, np.int64),
        path=spans.at(sampled.tid, sampled.time_ns),
    )
    waited, reasons = _waits(recording, of_kind["offcpu"], spans)
    both = zip(vars(sampled).values(), vars(waited).values(), strict=True)
    return Rows(*(np.concatenate(parts) for parts in both)), reasons


def _waits(recording: Recording, events: Ints, spans: Nesting) -> tuple[Rows, tuple[str, ...]]:
    whole = _plain(recording, events, State.OFF_CPU)
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


def _plain(recording: Recording, events: Ints, state: State) -> Rows:
    """What every event tells; weight, path and reason are to come."""
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

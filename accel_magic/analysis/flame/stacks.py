"""Complete stacks of a flame profile, each distinct one built once."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from accel_magic.analysis.flame.folding import folded, notebooks_own
from accel_magic.analysis.flame.rows import NO_REASON
from accel_magic.demangle import readable
from accel_magic.kernel.stacks.frames import Frame, FrameKind, kind_of_call
from accel_magic.kernel.stacks.interleave import interleave

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from accel_magic.analysis.flame.rows import Rows, SpanKind, Spans
    from accel_magic.recording.profile import ProfileBuilder
    from accel_magic.recording.recording import Recording

    Ints = NDArray[np.int64]


NO_STACK: Final = Frame("[no stack]")
"""Root of samples without any stack."""
LEFT_OUT: Final = -1
_CALL: Final = "sys_enter_"
_SCHEDULER: Final = re.compile(r"(__|preempt_)?schedule(_\w+)?$|asm_sysvec_\w+|irqentry_exit\w*|exit_to_user_mode\w*")


class Stacks:
    """Builds the stacks of a recording in a profile.

    Args:
        builder: Builder of the profile.
        recording: Source of the stacks.
        spans: Its measured calls.
        reasons: Reasons of its waits.
        names: Python's thread names by thread id.
        threads: Begin each stack with its thread.
        all_frames: Keep the frames of the notebook and of the tracer below the cell.

    """

    def __init__(
        self,
        builder: ProfileBuilder,
        recording: Recording,
        spans: Spans,
        reasons: tuple[str, ...],
        *,
        names: dict[int, str],
        threads: bool,
        all_frames: bool,
    ) -> None:
        self._builder = builder
        self._table = recording.stacks
        self._reasons = [Frame(reason, FrameKind.WAIT) for reason in reasons]
        self._threads = threads
        self._names = thread_names(recording, names)
        self._processes = _others(recording)
        self._left_out = () if all_frames else tuple(tid for tid, name in self._names.items() if notebooks_own(name))
        self._merged: dict[tuple[int, int, int], tuple[tuple[Frame, ...], tuple[Frame, ...]] | None] = {}
        self._all_frames = all_frames
        kinds = [self._span(recording, kind) for kind in spans.kinds]
        self._spans = [tuple(kinds[kind] for kind in path) for path in spans.nesting.paths]

    def nodes(self, rows: Rows) -> Ints:
        """(N,) int64 node of each row's stack; `LEFT_OUT` for the notebook's own threads."""
        threads = rows.tid if self._threads else np.zeros(len(rows.tid), np.int64)
        processes = np.where(np.isin(rows.pid, list(self._processes)), rows.pid, 0)
        table = [*rows.stacks.T, rows.path, rows.reason, threads, processes]
        first, number = distinct(table)
        kinds = np.column_stack([column[first] for column in table]).tolist()
        nodes = np.array([self._node((kernel, user, python), *rest) for kernel, user, python, *rest in kinds], np.int64)
        shown = nodes[number] if len(nodes) else np.zeros(0, np.int64)
        return np.where(np.isin(rows.tid, self._left_out), LEFT_OUT, shown)

    def of_python(self, row: int, tid: int, inner: Iterable[Frame]) -> int:
        """Node of a Python stack (a row of the table, or -1) of one of our threads, with `inner` frames added."""
        merged = self._of((-1, -1, row))
        outer = merged[0] if merged is not None else ()
        return self._stack((*self._roots(tid if self._threads else 0, 0), *outer, *inner))

    def _node(self, rows: tuple[int, int, int], path: int, reason: int, tid: int, pid: int) -> int:
        merged = self._of(rows)
        if merged is None:
            return LEFT_OUT
        code, kernel = merged
        roots = self._roots(tid, pid)
        outer = code or (() if kernel else (NO_STACK,))
        called = with_spans(outer, self._spans[path])
        if reason == NO_REASON:
            return self._stack((*roots, *called, *kernel))
        return self._stack((*roots, *called, *until_scheduled(kernel), self._reasons[reason]))

    def _span(self, recording: Recording, kind: SpanKind) -> Span:
        frame = span_frame(recording, kind.point)
        if frame.kind != FrameKind.TASK:
            return Span(frame, None)
        merged = self._of((-1, -1, kind.python)) if kind.python >= 0 else None
        return Span(frame, merged[0] if merged is not None else ())

    def _stack(self, frames: Iterable[Frame]) -> int:
        return self._builder.stack([self._builder.frame(*frame) for frame in frames])  # noqa: PD013 - not pandas'

    def _roots(self, tid: int, pid: int) -> tuple[Frame, ...]:
        process = (self._processes[pid],) if pid else ()
        return (*process, Frame(f"{self._names.get(tid, 'thread')} ({tid})", FrameKind.THREAD)) if tid else process

    def _of(self, rows: tuple[int, int, int]) -> tuple[tuple[Frame, ...], tuple[Frame, ...]] | None:
        """Frames of user code and of the kernel; None if they are left out."""
        if rows not in self._merged:
            self._merged[rows] = self._merge(rows)
        return self._merged[rows]

    def _merge(self, rows: tuple[int, int, int]) -> tuple[tuple[Frame, ...], tuple[Frame, ...]] | None:
        kernel, user, python = (self._table.of(row) if self._table is not None and row >= 0 else () for row in rows)
        both = interleave((), user, python)
        code = both if self._all_frames else folded(both)
        return None if code is None else (code, tuple(kernel))


class Span(NamedTuple):
    """A measured call; of a task, the Python frames that it was marked in, else None."""

    frame: Frame
    python: tuple[Frame, ...] | None


def with_spans(code: tuple[Frame, ...], spans: tuple[Span, ...]) -> Iterable[Frame]:
    """Add the enclosing spans to frames of user code.

    Tasks are outside the native frames and the Python frames that were called in them; other calls are innermost.
    """
    python = next((at for at, frame in enumerate(code) if frame.kind != FrameKind.PYTHON), len(code))
    at = 0
    for frame, own in spans:
        if own is not None:
            depth = max(_same_functions(own, code[:python]) if own else python, at)
            yield from code[at:depth]
            yield frame
            at = depth
    yield from code[at:]
    yield from (frame for frame, own in spans if own is None)


def _same_functions(one: Sequence[Frame], other: Sequence[Frame]) -> int:
    """Count the frames at the beginning of both that are the same functions, at any line."""
    same = ((a.name, a.module) == (b.name, b.module) for a, b in zip(one, other, strict=False))
    return len(list(takewhile(bool, same)))


def until_scheduled(kernel: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Drop what every wait ends with: the scheduler, and the interrupt through which it took the CPU away."""
    first = next((at for at, frame in enumerate(kernel) if _SCHEDULER.match(frame.name)), len(kernel))
    return kernel[:first]


def span_frame(recording: Recording, point: int) -> Frame:
    """Frame of a measured call."""
    traced = recording.plan.points[point]
    return Frame(span_name(traced.function), kind_of_call(traced.kind), traced.target)


def span_name(function: str) -> str:
    """Display name of a measured call: `ioctl` for `sys_enter_ioctl`, C++ names demangled."""
    return readable(function.removeprefix(_CALL))


def distinct(columns: list[Ints]) -> tuple[Ints, Ints]:
    """First row of each distinct combination of columns, and each row's combination. Values must be -2 or more."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        shifted = column + 2
        number = pd.factorize(number * (int(shifted.max(initial=0)) + 1) + shifted)[0].astype(np.int64)
    first = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return first, number


def thread_names(recording: Recording, names: dict[int, str]) -> dict[int, str]:
    """Names of all threads in a recording: Python's name if it has one, else the kernel's."""
    columns = recording.events.columns
    comm = columns["comm"]
    known = comm.categories or ()
    last = _last(columns["tid"].values)
    return {tid: known[code] for tid, row in last.items() if 0 <= (code := int(comm.values[row])) < len(known)} | names


def _last(ids: NDArray[np.integer]) -> dict[int, int]:
    """Row of each id's last event: a program has its own name only after its start."""
    found, rows = np.unique(ids[::-1], return_index=True)
    return dict(zip(found.tolist(), (len(ids) - 1 - rows).tolist(), strict=True))


def own_pid(recording: Recording) -> int:
    """Process id of the notebook in the events: the process with Python stacks, else the scope's."""
    columns = recording.events.columns
    if "python_stack" in columns and columns["python_stack"].values.any():
        pids = columns["pid"].values[columns["python_stack"].values != 0]
        return int(np.bincount(pids).argmax())
    return next((point.scope.pid for point in recording.plan.points if point.scope.name != "all"), 0)


def _others(recording: Recording) -> dict[int, Frame]:
    """Root of each other process in the events."""
    columns = recording.events.columns
    comm, own = columns["comm"], own_pid(recording)
    # A process has the name of its main thread, which may have no events.
    rows = _last(columns["pid"].values) | {
        tid: row for tid, row in _last(columns["tid"].values).items() if tid == columns["pid"].values[row]
    }
    return {
        pid: Frame(f"{(comm.categories or ())[code]} ({pid})", FrameKind.PROCESS)
        for pid, row in rows.items()
        if pid != own and (code := int(comm.values[row])) >= 0
    }

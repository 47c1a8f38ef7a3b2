"""One trace of ITT tasks: choose them, switch them on and off, and read their counts."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import forks
from accel_magic.collecting import collector_memory, rings
from accel_magic.errors import ProbeError, TraceStateError
from accel_magic.itt import collector

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.collecting.collector_area import Area

_RECORD_BYTES: Final = 56
_RECORD_WITH_STACKS_BYTES: Final = 72
"""`struct record`, with its header."""


_one = threading.Lock()
"""Held by the trace that collects tasks."""


def _forget_in_child() -> None:
    """In a forked child: no trace collects tasks, whatever the parent is doing."""
    global _one  # noqa: PLW0603 - the lock's owner is not in this process
    _one = threading.Lock()


forks.in_child(_forget_in_child)


@dataclass(frozen=True)
class Pattern:
    """Tasks to trace, or with `excludes` to leave out, as globs.

    Attributes:
        domain: Glob of their domains.
        task: Glob of their names.
        excludes: Leave them out.
        page_faults: Records have those of the process.
        nesting: Which of them are measured and recorded, one of `collector_memory.NESTINGS`.

    """

    domain: str
    task: str
    excludes: bool = False
    page_faults: bool = False
    nesting: str = ""


@dataclass(frozen=True)
class Task:
    """A task that was seen: its names, and the index of the pattern that selected it."""

    domain: str
    task: str
    pattern: int


@dataclass(frozen=True)
class TaskCounts:
    """Exact counts of the tasks, in the order of `tasks`.

    Attributes:
        tasks: The tasks seen.
        hits: (tasks,) uint64: begun.
        lost: (tasks,) uint64: not recorded, because a ring was full.
        total_ns: (tasks,) uint64: sum of the durations of those that ended.
        longest_ns: (tasks,) uint64.
        histograms: (tasks, buckets) uint64, in the buckets of `accel_magic.kernel.buckets`.

    """

    tasks: tuple[Task, ...]
    hits: NDArray[np.uint64]
    lost: NDArray[np.uint64]
    total_ns: NDArray[np.uint64]
    longest_ns: NDArray[np.uint64]
    histograms: NDArray[np.uint64]


class TaskTrace:
    """One trace of tasks in this process and its descendants.

    Args:
        patterns: What to trace; exclusions apply to all others, whatever their order.
        first_point: Number of the first task in the records.
        buffer_bytes: Total size of the rings.
        records: Record every task, in addition to counting.
        shift_ns: Difference between the kernel's CLOCK_MONOTONIC and this process's.
        native: Record native stacks.
        python: Record Python stacks of this process.

    """

    def __init__(
        self,
        patterns: Sequence[Pattern],
        *,
        first_point: int,
        buffer_bytes: int,
        records: bool,
        shift_ns: int = 0,
        native: bool = False,
        python: rings.PythonFrames | None = None,
    ) -> None:
        self._patterns = sorted(patterns, key=lambda pattern: pattern.excludes)
        _check(self._patterns)
        self._first_point = first_point
        self._buffer_bytes = min(buffer_bytes, collector_memory.LARGEST_RINGS)
        self._records = records
        self._shift_ns = shift_ns
        self._native, self._python = native, python
        note = collector.own_traces()
        self._about = (note,) if note else ()
        self._area = collector.area_of_this_process()
        self._library: ctypes.CDLL = collector.loaded()
        self._owner = 0

    @property
    def fd(self) -> int:
        """Descriptor of the shared memory."""
        return self._area.fd

    @property
    def record_bytes(self) -> int:
        """Size of a record with its header."""
        with_stacks = self._native or self._python is not None
        return _RECORD_WITH_STACKS_BYTES if with_stacks else _RECORD_BYTES

    def prepare(self) -> None:
        """Clear what an earlier trace left, and set up this one; nothing is counted yet.

        Raises:
            TraceStateError: Another trace collects tasks.

        """
        area, control = self._area, self._area.control
        if not _one.acquire(blocking=False):
            raise TraceStateError(
                "another trace already collects ITT tasks",
                why="a library has only one collector",
                fix="put the itt probes on one line",
                code="itt.in-use",
            )
        self._owner = os.getpid()
        self.halt()
        area.clear()
        rings.free_slots(area)
        rings.share_out(area, self._buffer_bytes, self.record_bytes)
        control["record_bytes"] = self.record_bytes
        control["user_stacks"], control["python_stacks"] = self._native, self._python is not None
        if self._python is not None:
            rings.describe_python(control["python"], self._python)
        for index, pattern in enumerate(self._patterns):
            control["specs"][index] = (
                pattern.excludes,
                pattern.page_faults,
                collector_memory.NESTINGS.index(pattern.nesting),
                0,
                pattern.domain.encode(),
                pattern.task.encode(),
            )
        control["spec_count"] = len(self._patterns)
        control["first_point"] = self._first_point
        control["shift_ns"] = self._shift_ns
        control["points"] = control["slotless"] = control["not_walked"] = 0
        control["recording"] = self._records
        control["generation"] += np.uint32(1)

    @property
    def enabled(self) -> bool:
        """Whether tasks are counted; the reader process ends it after the trace's duration."""
        return bool(self._area.control["enabled"])

    def go(self) -> None:
        """Start counting."""
        self._library.accel_magic_itt_switch(1)
        self._area.control["enabled"] = 1

    def halt(self) -> tuple[str, ...]:
        """Stop counting; returns notes for the user. Can be called repeatedly."""
        self._area.control["enabled"] = 0
        writing = self._library.accel_magic_itt_settle()
        self._library.accel_magic_itt_switch(0)
        return () if not writing else (f"{writing} threads were stopped inside the collector: their last task is lost",)

    def counts(self) -> TaskCounts:
        """Read the counts; after `halt` they are final."""
        return counts(self._area)

    def stacks(self) -> rings.RecordedStacks:
        """Read the stacks recorded so far."""
        return rings.recorded_stacks(self._area)

    def notes(self) -> tuple[str, ...]:
        """Return notes for the user about what was not counted."""
        threads, callers = int(self._area.control["slotless"]), int(self._area.control["not_walked"])
        found = [*self._about]
        if threads:
            found.append(
                f"tasks of {threads} threads were not counted:"
                f" more than {collector_memory.MOST_SLOTS} threads ran tasks"
            )
        if callers:
            found.append(
                f"native stacks of {callers} tasks are only their calling function: their process cannot load "
                "libgcc_s.so.1, which finds the others (Debian: apt install libgcc-s1)"
            )
        return tuple(found)

    def close(self) -> None:
        """Stop, and free the memory of the rings. Can be called repeatedly."""
        if self._owner == os.getpid():  # not in a forked child, which has a copy of this object
            self._owner = 0
            self.halt()
            self._area.clear()
            _one.release()


def _rows(area: Area) -> NDArray[np.void]:
    """Counters of all threads and tasks, (threads, tasks)."""
    threads = np.flatnonzero(area.used_slots["generation"] == area.control["generation"])
    return area.counters[threads, : _count(area)]


def _count(area: Area) -> int:
    return min(int(area.control["points"]), area.layout.most_points)


def hits(area: Area) -> NDArray[np.uint64]:
    """Hits by task, (tasks,)."""
    return _sum(_rows(area), "hits")


def lost(area: Area) -> NDArray[np.uint64]:
    """Lost events by task, (tasks,)."""
    return _sum(_rows(area), "lost")


def histograms(area: Area) -> NDArray[np.uint64]:
    """Histograms by task, (tasks, buckets). The first threads have a copy each: only those of threads are read."""
    total: NDArray[np.uint64] = area.histograms[: len(area.used_slots), : _count(area)].sum(axis=0, dtype=np.uint64)
    return total


def _sum(rows: NDArray[np.void], name: str) -> NDArray[np.uint64]:
    total: NDArray[np.uint64] = rows[name].sum(axis=0, dtype=np.uint64)
    return total


def by_pattern(area: Area, values: NDArray[np.uint64], patterns: int) -> NDArray[np.uint64]:
    """Add up values by the pattern that selected the task: (tasks, ...) to (patterns, ...)."""
    added = np.zeros((patterns, *values.shape[1:]), np.uint64)
    chosen = np.minimum(area.names["spec"][: len(values)], patterns - 1)
    np.add.at(added, chosen, values)
    return added


def counts(area: Area) -> TaskCounts:
    """Add up the counts of all threads."""
    rows = _rows(area)
    names = area.names[: rows.shape[1]]
    return TaskCounts(
        tasks=tuple(Task(_text(name["domain"]), _text(name["task"]), int(name["spec"])) for name in names),
        hits=_sum(rows, "hits"),
        lost=_sum(rows, "lost"),
        total_ns=_sum(rows, "total"),
        longest_ns=rows["longest"].max(axis=0, initial=0),
        histograms=histograms(area)[: rows.shape[1]],
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _check(patterns: Sequence[Pattern]) -> None:
    if len(patterns) > collector_memory.MOST_SPECS:
        raise ProbeError(
            f"there are {len(patterns)} itt probes",
            why=f"at most {collector_memory.MOST_SPECS} are possible, exclusions included",
            fix="use globs: itt:DOMAIN:*",
            code="probe.too-many-itt",
        )
    for pattern in patterns:
        for text in (pattern.domain, pattern.task):
            if len(text.encode()) >= collector_memory.SPEC_TEXT:
                raise ProbeError(
                    f"itt:{pattern.domain[:30]}...: a name is longer than {collector_memory.SPEC_TEXT - 1} bytes",
                    fix="use a glob: the beginning of the name and *",
                    code="probe.too-long",
                )

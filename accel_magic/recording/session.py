"""One trace, from attaching to its recording. Independent of notebooks: both the magics and the plain API use it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from accel_magic import free_memory, machine
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.interrupts import uninterrupted, until_interrupted
from accel_magic.kernel import bpf as syscalls
from accel_magic.kernel import buckets, clock, own_process, own_threads, scope
from accel_magic.kernel.attach import waits
from accel_magic.kernel.attach.engine import KernelEngine
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.mapped import map_value
from accel_magic.recording.decode import RawEvents
from accel_magic.recording.live import LiveFeed
from accel_magic.recording.reader import client as reader
from accel_magic.recording.reader.client import Read
from accel_magic.recording.recording import Histograms, Outcome, Recording, Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.kernel.attach.stack_maps import StackWatch
    from accel_magic.kernel.attachment import Attachment, Layout
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live import LiveSample
    from accel_magic.recording.reader.client import Prepared

Show = Callable[[list["LiveSample"]], None]
Kind = Literal["ktrace", "gputrace", "flame"]
"""Kind of a trace; one trace of each kind may run at a time."""

_MORE: Final[dict[Kind, str]] = {
    "ktrace": "put all probes on one %%ktrace line",
    "gputrace": "put all tools on one %%gputrace line",
    "flame": "remove the inner one: the outer one includes its samples",
}
"""Fixes for starting a second trace of a kind."""
_running: set[Kind] = set()
_claiming = threading.Lock()


_SHARE: Final = 3
"""Records may take 1/3 of the free memory: decoding takes as much again, and a table half as much."""


def warm_up() -> None:
    """Start the compiler and reader processes early, so that they come up in parallel with other work."""
    compiler.start()
    reader.shared()


def _forget_in_child() -> None:
    """In a forked child: no trace is running, whatever the parent is doing."""
    global _claiming  # noqa: PLW0603 - the lock's owner may not be in this process
    _claiming = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def claim(kind: Kind) -> None:
    """Register this as the running trace of its kind. Raises TraceStateError if there is another one."""
    with _claiming:
        if kind in _running:
            raise already_running(kind)
        _running.add(kind)


def already_running(kind: Kind) -> TraceStateError:
    """Error for a second trace of a kind."""
    return TraceStateError(
        f"a %%{kind} trace is already running in this process",
        why="only one trace of each kind can run at a time; traces of different kinds can be nested",
        fix=f"{_MORE[kind]}, or run the inner trace in a separate cell",
        code="trace.already-running",
    )


def release(kind: Kind) -> None:
    """Allow the next trace of this kind to start."""
    with _claiming:
        _running.discard(kind)


@dataclass(frozen=True)
class _Attached:
    """State of a session while its probes are attached; the maps are memory-mapped, so reading them cannot fail."""

    attachment: Attachment
    prepared: Prepared
    control: NDArray[np.void]
    counters: NDArray[np.void]
    histograms: NDArray[np.void] | None
    feed: LiveFeed | None
    watch: StackWatch | None


class LiveSession:
    """A trace on the running kernel: `start`, then `go` right before the traced code, then `stop`.

    Args:
        plan: What to trace.
        show: Called with live samples in a thread, at most 5 times a second; None for no live display.
        each_look: Called about five times a second while a trace with stacks runs, in a thread that is not traced.

    """

    def __init__(self, plan: Plan, show: Show | None = None, *, each_look: Callable[[], None] | None = None) -> None:
        self.plan = plan
        self._show = show
        self._each_look = each_look
        self._undo = contextlib.ExitStack()
        self._attached: _Attached | None = None
        self._start_ns = 0
        self._end_ns = 0
        self._missed = 0
        self._started = ""

    def start(self) -> None:
        """Attach everything. On failure nothing stays attached, and an AccelMagicError is raised."""
        try:
            with own_threads.at_work(), uninterrupted():
                self._attached = self._attach()
        except BaseException:
            self.abort()
            raise

    def _attach(self) -> _Attached:
        warm_up()
        shared = reader.shared()
        attachment = KernelEngine((shared.pid,)).attach(self.plan)
        self._undo.callback(attachment.close)
        self.plan = plan = attachment.plan
        layout = attachment.layout
        control = map_value(attachment.control_fd, layout.control, writable=True)
        counters = map_value(attachment.counters_fd, layout.counters)
        threads = map_value(attachment.own_threads_fd, scope.BITS, writable=True)
        follows = any(point.scope.name != "all" for point in plan.points)
        self._undo.callback(own_threads.Marks(control, threads, follows=follows).close)
        has_latency = attachment.histograms_fd >= 0
        histograms = map_value(attachment.histograms_fd, layout.histograms) if has_latency else None
        descriptors = [attachment.control_fd, attachment.counters_fd]
        descriptors.append(attachment.histograms_fd if has_latency else attachment.control_fd)
        descriptors += attachment.ring_fds
        feed, watch = None, None
        if self._show is not None:
            feed = LiveFeed(plan, self._show)
            self._undo.callback(feed.stop)
            descriptors.append(feed.theirs.fileno())
            feed.start()
        if attachment.stacks_fd >= 0:
            from accel_magic.kernel.attach.stack_maps import StackWatch  # imports the ELF reader

            python = "python" in plan.stacks
            watch = StackWatch(attachment.stacks_fd, layout.stack_frames, python=python, each_look=self._each_look)
            self._undo.callback(watch.stop)
            watch.start()
        duration = plan.duration_s
        message: dict[str, Any] = {
            "source": "kernel",
            "layout": asdict(layout),
            "points": len(plan.points),
            "latencies": len(plan.latency_points),
            "stacks": plan.stacks if plan.records_events else (),
            "ring_sizes": attachment.ring_sizes,
            "live": feed is not None,
            "max_events": plan.max_events,
            "most_bytes": free_memory.available_bytes() // _SHARE,
            "duration_ns": None if duration is None else int(duration * 1e9),
        }
        prepared = shared.prepare(message, descriptors)
        self._undo.callback(prepared.drop)
        control["recording"] = int(plan.records_events)
        return _Attached(attachment, prepared, control, counters, histograms, feed, watch)

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC of `go`."""
        return self._start_ns

    def go(self) -> None:
        """Start counting."""
        attached = self._attached
        assert attached is not None  # noqa: S101 - go follows start
        with own_threads.at_work(), uninterrupted():  # a partial message would end the reader process for all traces
            self._started = datetime.now().astimezone().isoformat(timespec="seconds")
            attached.prepared.go(time.monotonic_ns())
            self._missed = attached.attachment.misses()  # programs have been running, with misses, since they attached
            self._start_ns = time.monotonic_ns()
            attached.control["enabled"] = 1

    def halt(self) -> None:
        """Stop counting; can be called repeatedly. Everything stays attached until `stop`."""
        if self._attached is not None and not self._end_ns:
            control, duration_s = self._attached.control, self.plan.duration_s
            over = duration_s is not None and not control["enabled"][0]  # the reader process stopped it in time
            control["enabled"] = 0
            self._end_ns = time.monotonic_ns()
            self._start_ns = self._start_ns or self._end_ns  # `go` was interrupted
            if over and duration_s is not None:
                self._end_ns = min(self._end_ns, self._start_ns + int(duration_s * 1e9))

    def stop(self, outcome: Outcome = "ok") -> Recording:
        """Stop counting, detach everything and return the recording.

        If the reader process has died, the recording has counts but no events, and a note about it.
        """
        with own_threads.at_work(), uninterrupted():
            watch = self._attached.watch if self._attached is not None else None
            try:
                self.halt()
                recording = self._finish(outcome)
            finally:
                self.abort()
            if watch is not None:
                stacks, notes = until_interrupted(watch.resolved, watch.unresolved)
                plan = replace(recording.plan, notes=(*recording.plan.notes, *notes))
                recording = replace(recording, plan=plan, stacks=stacks)
        return recording

    @property
    def reader_pid(self) -> int:
        """Process id of the reader, in this process's PID namespace; 0 if nothing is attached."""
        return 0 if self._attached is None else self._attached.prepared.reader.pid

    def programs_ns(self) -> int:
        """CPU time of the BPF programs so far, ns; 0 unless the kernel measures it (`syscalls.measure_programs`)."""
        return 0 if self._attached is None else self._attached.attachment.run_ns()

    def abort(self) -> None:
        """Detach without making a recording; can be called repeatedly."""
        with uninterrupted(), own_threads.at_work():
            self._attached = None
            self._undo.close()  # runs every step, even if one raises

    def _finish(self, outcome: Outcome) -> Recording:
        attached = self._attached
        assert attached is not None  # noqa: S101 - stop follows start
        attachment, plan, start_ns = attached.attachment, self.plan, self._start_ns
        missed = attachment.misses() - self._missed
        left = attachment.detach()
        syscalls.wait_for_programs()  # a program may have counted a hit but not recorded it yet
        if attached.feed is not None:
            attached.feed.stop()
        layout, points = attachment.layout, len(plan.points)
        hits, lost, unpaired, totals = (
            attached.counters[0][name].sum(axis=0)[:points] for name in ("hits", "lost", "unpaired", "totals")
        )
        histograms = _histograms(attached.histograms, len(plan.latency_points))
        shift = clock.shift()
        notes = (*attachment.notes(), *left, *shift.notes)
        try:
            read = attached.prepared.stop(start_ns, self._end_ns)
        except MachineError as error:
            read = _unread(layout, hits, self._end_ns - start_ns)
            if plan.records_events:
                lost = _all_events(plan, hits, histograms)
            notes = (*notes, _about_unread(error, records=plan.records_events))
            rings, recorded = read.rings, 0
        else:
            rings, recorded = read.rings, sum(read.recorded)
            if read.limit_reached and (plan.max_events is None or recorded < plan.max_events):
                notes = (*notes, _about_memory(recorded, sum(len(ring) for ring in rings)))
            if not read.limit_reached:
                rings, unfinished = waits.completed(attachment, rings, (read.end_ns or self._end_ns) - shift.ns)
                recorded += unfinished
        if attached.watch is not None:
            attached.watch.collect()
        return Recording(
            plan=replace(plan, notes=(*plan.notes, *notes)),
            machine=machine.describe(),
            started=self._started,
            start_ns=start_ns,
            duration_ns=(read.end_ns or self._end_ns) - start_ns,
            hits=hits,
            lost=lost,
            unpaired=unpaired,
            totals=totals,
            missed=missed,
            histograms=histograms,
            samples=read.samples,
            event_count=recorded if plan.max_events is None else min(recorded, plan.max_events),
            limit_reached=read.limit_reached,
            load_events=RawEvents(layout, rings, start_ns - shift.ns, plan.max_events),
            outcome=outcome,
            process=own_process.describe() if attachment.waits_fd >= 0 else None,
        )


def _histograms(mapped: NDArray[np.void] | None, rows: int) -> Histograms:
    if mapped is None:
        return Histograms(np.zeros((0, buckets.COUNT), np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    value = mapped[0]
    return Histograms(value["counts"][:rows].copy(), value["total"][:rows].copy(), value["max"][:rows].copy())


def _unread(layout: Layout, hits: NDArray[np.uint64], duration_ns: int) -> Read:
    """Return the data that remains if the reader process is gone: no events, and the counters at the end."""
    times = np.array([0, duration_ns], np.int64)
    return Read(
        rings=tuple(np.empty(0, np.uint8) for _ in layout.record_sizes),
        recorded=(0,) * len(layout.record_sizes),
        samples=Samples(times, np.stack([np.zeros_like(hits), hits])),
        end_ns=0,
        limit_reached=False,
    )


def _all_events(plan: Plan, hits: NDArray[np.uint64], histograms: Histograms) -> NDArray[np.uint64]:
    """Number of events by point that would have been recorded: one per hit, or per completed call if measured."""
    events = hits.copy()
    for row, point in enumerate(plan.latency_points):
        events[point.id] = histograms.counts[row].sum()
    return events


def _about_memory(events: int, size: int) -> str:
    return (
        f"recording stopped after {events:,} events: their records take {size / (1 << 30):,.2f} GiB, and with the "
        "tables made from them they would use up the free memory; hits were still counted (free some memory, or "
        "record less: --max-events, --filter, --mode count)"
    )


def _about_unread(error: MachineError, *, records: bool) -> str:
    why = f"{error.what} ({error.why})" if error.why else error.what
    if not records:
        return f"{why}: counts over time are not available; the final counts are exact"
    return f"{why}: all events are lost and counted as lost; counts and latencies are exact"

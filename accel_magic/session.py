"""One trace from attaching to its recording. Knows no notebook: the magics and the plain API both run these."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np

from accel_magic import machine
from accel_magic.errors import TraceStateError
from accel_magic.kernel import clock, compiler, own_process, own_threads, scope, syscalls, waits
from accel_magic.kernel.attach import KernelEngine
from accel_magic.traces import buckets, reader
from accel_magic.traces.decode import RawEvents
from accel_magic.traces.feed import LiveFeed
from accel_magic.traces.mapped import map_value
from accel_magic.traces.recording import Histograms, Outcome, Recording

if TYPE_CHECKING:
    from accel_magic.kernel.stack_watch import StackWatch
    from accel_magic.probes.plan import Plan
    from accel_magic.traces.attachment import Attachment
    from accel_magic.traces.live import LiveSample
    from accel_magic.traces.reader import Prepared

T = TypeVar("T")
Show = Callable[[list["LiveSample"]], None]
Kind = Literal["ktrace", "gputrace", "flame"]
"""What traces are told apart by: one of each kind may run at a time."""

_MORE: Final[dict[Kind, str]] = {
    "ktrace": "put all probes on one %%ktrace line",
    "gputrace": "name all tools on one %%gputrace line",
    "flame": "leave out the inner one: the outer one has its samples too",
}
"""What to do instead of a second trace of a kind."""
_running: set[Kind] = set()
_claiming = threading.Lock()


def warm_up() -> None:
    """Start the compiler and the reader processes, so that they come up while other things are done."""
    compiler.start()
    reader.shared()


@contextlib.contextmanager
def uninterrupted() -> Iterator[list[bool]]:
    """Put interrupts off until the block is done: a half-finished attach or detach helps nobody.

    Yields a list that is non-empty once an interrupt has come; raising it is the caller's business.
    """
    pending: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending  # Python delivers interrupts to the main thread only
        return
    previous = signal.signal(signal.SIGINT, lambda *_: pending.append(True))
    try:
        yield pending
    finally:
        signal.signal(signal.SIGINT, previous)


def until_interrupted(work: Callable[[], T], otherwise: Callable[[], T], pending: list[bool]) -> T:
    """Do work that an interrupt may end, although interrupts are put off.

    An interrupt at any moment of the work is answered, and never raised.

    Args:
        work: What to do.
        otherwise: What to do instead once an interrupt has come; a second one does not end it.
        pending: As `uninterrupted` yields it: becomes non-empty when an interrupt comes.

    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # Python delivers interrupts to the main thread only
    armed = True

    def interrupt(*_: object) -> None:
        nonlocal armed
        pending.append(True)
        if armed:
            armed = False
            raise KeyboardInterrupt

    previous = signal.getsignal(signal.SIGINT)
    try:
        try:
            signal.signal(signal.SIGINT, interrupt)
            return work()
        finally:
            armed = False
    except KeyboardInterrupt:
        return otherwise()
    finally:
        signal.signal(signal.SIGINT, previous)


def _forget_in_child() -> None:
    """A forked child has no trace running, whatever its parent was doing."""
    global _claiming  # noqa: PLW0603 - the lock's owner may not be in this process
    _claiming = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def claim(kind: Kind) -> None:
    """Make this the one running trace of its kind. Raises TraceStateError when there is another."""
    with _claiming:
        if kind not in _running:
            _running.add(kind)
            return
    raise TraceStateError(
        f"a %%{kind} trace is already running in this process",
        why="traces nest if their kinds differ; of each kind one runs at a time",
        fix=f"{_MORE[kind]}, or run the inner trace in a cell of its own",
        code="trace.already-running",
    )


def release(kind: Kind) -> None:
    """Let the next trace of this kind begin."""
    with _claiming:
        _running.discard(kind)


class LiveSession:
    """A trace on the running kernel: `start`, then `go` right before the traced code, then `stop`.

    Args:
        plan: What to trace.
        show: Receives live samples from a thread, at most 5 times a second; None for no live display.
        kind: Be the one running trace of this kind; None for a part of a trace that is.
        each_look: Called some five times a second while a trace with stacks runs, in a thread that is not traced.

    """

    def __init__(
        self,
        plan: Plan,
        show: Show | None = None,
        *,
        kind: Kind | None = "ktrace",
        each_look: Callable[[], None] | None = None,
    ) -> None:
        self.plan = plan
        self._show = show
        self._kind = kind
        self._claimed = False
        self._each_look = each_look
        self._attachment: Attachment | None = None
        self._feed: LiveFeed | None = None
        self._watch: StackWatch | None = None
        self._marks: own_threads.Marks | None = None
        self._prepared: Prepared | None = None
        self._owner = os.getpid()
        self._start_ns = 0
        self._end_ns = 0
        self._missed = 0
        self._started = ""
        self.interrupted = False
        """An interrupt came while `stop` was at work; the recording was kept, the caller raises it."""

    def start(self) -> None:
        """Attach everything. Raises an AccelMagicError and leaves nothing attached when that fails."""
        if self._kind is not None:
            claim(self._kind)
            self._claimed = True
        try:
            with own_threads.at_work(), uninterrupted() as pending:
                self._attach()
            if pending:
                raise KeyboardInterrupt  # noqa: TRY301 - undone like any other failure
        except BaseException:
            self._release()
            raise

    def _attach(self) -> None:
        warm_up()
        self._reader = shared = reader.shared()
        attachment = KernelEngine((shared.pid,)).attach(self.plan)
        self._attachment = attachment
        self.plan = attachment.plan
        self._control = map_value(attachment.control_fd, attachment.layout.control, writable=True)
        threads = map_value(attachment.own_threads_fd, scope.BITS, writable=True)
        follows = any(point.scope.name != "all" for point in self.plan.points)
        self._marks = own_threads.Marks(self._control, threads, follows=follows)
        descriptors = [attachment.control_fd, attachment.counters_fd]
        has_latency = attachment.histograms_fd >= 0
        descriptors.append(attachment.histograms_fd if has_latency else attachment.control_fd)
        descriptors += attachment.ring_fds
        if self._show is not None:
            self._feed = LiveFeed(self.plan, self._show)
            descriptors.append(self._feed.theirs.fileno())
            self._feed.start()
        if attachment.stacks_fd >= 0:
            from accel_magic.kernel.stack_watch import StackWatch  # which brings what reads ELF files

            python = "python" in self.plan.stacks
            frames = attachment.layout.stack_frames
            self._watch = StackWatch(attachment.stacks_fd, frames, python=python, each_look=self._each_look)
            self._watch.start()
        duration = self.plan.duration_s
        message: dict[str, Any] = {
            "source": "kernel",
            "layout": asdict(attachment.layout),
            "points": len(self.plan.points),
            "latencies": len(self.plan.latency_points),
            "stacks": self.plan.stacks if self.plan.records_events else (),
            "ring_sizes": attachment.ring_sizes,
            "live": self._feed is not None,
            "max_events": self.plan.max_events,
            "duration_ns": None if duration is None else int(duration * 1e9),
        }
        self._prepared = shared.prepare(message, descriptors)
        self._control["recording"] = int(self.plan.records_events)

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC of `go`."""
        return self._start_ns

    def go(self) -> None:
        """Count from here."""
        assert self._attachment is not None  # noqa: S101 - go follows start
        assert self._prepared is not None  # noqa: S101 - likewise
        with own_threads.at_work(), uninterrupted() as pending:  # half a message would end the reader for all traces
            self._started = datetime.now().astimezone().isoformat(timespec="seconds")
            self._prepared.go(time.monotonic_ns())
            self._missed = self._attachment.misses()  # programs run, and are missed, since they were attached
            self._start_ns = time.monotonic_ns()
            self._control["enabled"] = 1
        if pending:
            raise KeyboardInterrupt

    def halt(self) -> None:
        """Stop counting; again is harmless. What is attached stays so until `stop`."""
        if not self._end_ns and self._attachment is not None and os.getpid() == self._owner:
            self._control["enabled"] = 0
            self._end_ns = time.monotonic_ns()

    def stop(self, outcome: Outcome = "ok") -> Recording:
        """Stop counting, detach everything and hand over what was recorded.

        Raises:
            TraceStateError: In a forked child, whose parent goes on tracing.
            MachineError: The reader process has died.

        """
        if os.getpid() != self._owner:
            raise TraceStateError(
                "this trace belongs to the parent of this process",
                why="a forked child has left the traced block; its hits count, but only the parent can end the trace",
                fix="end the child inside the block, with os._exit()",
            )
        watch = self._watch
        with own_threads.at_work(), uninterrupted() as pending:
            try:
                self.halt()
                recording = self._finish(self._end_ns, outcome)
            finally:
                self._release()
            if watch is not None:
                stacks, notes = until_interrupted(watch.resolved, watch.unresolved, pending)
                plan = replace(recording.plan, notes=(*recording.plan.notes, *notes))
                recording = replace(recording, plan=plan, stacks=stacks)
        self.interrupted = bool(pending)
        return recording

    @property
    def reader_pid(self) -> int:
        """Process id of what empties the ring buffers, as this process sees it."""
        return self._reader.pid

    def programs_ns(self) -> int:
        """CPU time of the programs so far, ns; 0 unless the kernel measures it (`syscalls.measure_programs`)."""
        return 0 if self._attachment is None else self._attachment.run_ns()

    def abort(self) -> None:
        """Detach without a recording."""
        self._release()

    def _finish(self, end_ns: int, outcome: Outcome) -> Recording:
        attachment = self._attachment
        assert attachment is not None  # noqa: S101 - stop follows start
        missed = attachment.misses() - self._missed
        attachment.detach()
        syscalls.wait_for_programs()  # one may be between its count and its record
        if self._feed is not None:
            self._feed.stop()
            self._feed = None
        prepared, self._prepared = self._prepared, None
        assert prepared is not None  # noqa: S101 - stop follows start
        read = prepared.stop(self._start_ns, end_ns)
        layout, points = attachment.layout, len(self.plan.points)
        counters = map_value(attachment.counters_fd, layout.counters)[0]
        hits, lost, unpaired, totals = (
            counters[name].sum(axis=0)[:points] for name in ("hits", "lost", "unpaired", "totals")
        )
        rings, limit, start_ns = read.rings, self.plan.max_events, self._start_ns
        shift = clock.shift()
        recorded = sum(read.recorded)
        if not read.limit_reached:
            rings, unfinished = waits.completed(attachment, rings, (read.end_ns or end_ns) - shift.ns)
            recorded += unfinished
        if self._watch is not None:
            self._watch.collect()
        return Recording(
            plan=replace(self.plan, notes=(*self.plan.notes, *attachment.notes(), *shift.notes)),
            machine=machine.describe(),
            started=self._started,
            start_ns=start_ns,
            duration_ns=(read.end_ns or end_ns) - start_ns,
            hits=hits,
            lost=lost,
            unpaired=unpaired,
            totals=totals,
            missed=missed,
            histograms=_histograms(attachment, len(self.plan.latency_points)),
            samples=read.samples,
            event_count=recorded if limit is None else min(recorded, limit),
            limit_reached=read.limit_reached,
            load_events=RawEvents(layout, rings, start_ns - shift.ns, limit),
            outcome=outcome,
            process=own_process.describe() if attachment.waits_fd >= 0 else None,
        )

    def _release(self) -> None:
        with own_threads.at_work():
            if self._feed is not None:
                self._feed.stop()
                self._feed = None
            if self._watch is not None:
                self._watch.stop()
                self._watch = None
            if self._marks is not None:
                self._marks.close()
                self._marks = None
            if self._attachment is not None:
                self._attachment.close()
                self._attachment = None
            if self._prepared is not None:
                self._prepared.drop()
                self._prepared = None
            if self._kind is not None and self._claimed:
                self._claimed = False
                release(self._kind)


def _histograms(attachment: Attachment, rows: int) -> Histograms:
    if not rows:
        return Histograms(np.zeros((0, buckets.COUNT), np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    value = map_value(attachment.histograms_fd, attachment.layout.histograms)[0]
    return Histograms(value["counts"][:rows].copy(), value["total"][:rows].copy(), value["max"][:rows].copy())

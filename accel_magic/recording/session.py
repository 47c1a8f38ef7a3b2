"""One trace, from attaching to its recording. Independent of notebooks: both the magics and the plain API use it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from accel_magic import demangle, free_memory, machine
from accel_magic.broker import client as broker
from accel_magic.codec import Descriptor
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.interrupts import uninterrupted, until_interrupted
from accel_magic.itt import memory
from accel_magic.kernel import bpf as syscalls
from accel_magic.kernel import clock, own_process, own_threads, scope
from accel_magic.kernel.attach import waits
from accel_magic.kernel.attach.engine import KernelEngine
from accel_magic.kernel.attachment import HEAD, NO_PROGRAMS, Item, PointLayout
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.mapped import map_value
from accel_magic.kernel.stacks.choice import task_stacks
from accel_magic.probes import presets, return_probes
from accel_magic.probes.plan import USER_KINDS
from accel_magic.probes.presets import openvino as presets_openvino
from accel_magic.recording import counts as read_counts
from accel_magic.recording import nodes
from accel_magic.recording.counts import Counts
from accel_magic.recording.decode import RawEvents
from accel_magic.recording.live import LiveFeed
from accel_magic.recording.reader import client as reader
from accel_magic.recording.reader.client import Read
from accel_magic.recording.reader.messages import Kernel, Live, Ring, Streamed, Tasks
from accel_magic.recording.recording import Histograms, Outcome, Recording, Samples

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.itt.tasks import Counts as TaskCounts
    from accel_magic.itt.tasks import PythonFrames, Task, TaskTrace
    from accel_magic.kernel.attach.stack_maps import StackWatch
    from accel_magic.kernel.attachment import Attachment, Layout
    from accel_magic.kernel.stacks.table import RawStacks
    from accel_magic.kernel.symbols.mapping_events import MappingEvents
    from accel_magic.kernel.symbols.mappings import FileId
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.live import LiveSample
    from accel_magic.recording.reader.client import Prepared
    from accel_magic.recording.writer.client import Writer

Show = Callable[[list["LiveSample"]], None]
Kind = Literal["ktrace", "gputrace", "flame", "gpupolicy"]
"""Kind of a trace; one trace of each kind may run at a time."""

_MORE: Final[dict[Kind, str]] = {
    "ktrace": "put all probes on one %%ktrace line",
    "gputrace": "put all tools on one %%gputrace line",
    "flame": "remove the inner one: the outer one includes its samples",
    "gpupolicy": "attach one policy at a time",
}
"""Fixes for starting a second trace of a kind."""
_running: set[Kind] = set()
_claiming = threading.Lock()


_TASK_ITEMS: Final = (Item("duration_ns", "s64", 0), Item("user_stack", "u64", 8), Item("python_stack", "u64", 16))
"""The values in a task's record, the last two only in traces with stacks: `struct record` in itt/area.h."""
_UNLIMITED: Final = 1 << 62
_SHARE: Final = 3
"""Records may take 1/3 of the free memory: decoding takes as much again, and a table half as much."""


def warm_up() -> None:
    """Start the compiler (or the broker's session) and the reader early, in parallel with other work."""
    if broker.needed():
        with contextlib.suppress(MachineError):  # reported by the trace
            broker.connection()
    else:
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

    prepared: Prepared
    kernel: _Kernel | None
    tasks: TaskTrace | None
    feed: LiveFeed | None
    watch: StackWatch | None
    writer: Writer | None
    mapped: _Mapped | None


@dataclass(frozen=True)
class _Mapped:
    """What processes map while the trace runs, and the ids of the probed files."""

    events: MappingEvents
    files: dict[str, FileId]


@dataclass(frozen=True)
class _Kernel:
    """The attached BPF programs and their maps."""

    attachment: Attachment
    control: NDArray[np.void]
    counters: NDArray[np.void]
    histograms: NDArray[np.void] | None


@dataclass(frozen=True)
class _Kept:
    """What is left of the events: rings of records, their number, (points,) uint64 lost ones, and notes."""

    rings: tuple[NDArray[np.uint8], ...]
    count: int
    lost: NDArray[np.uint64]
    notes: tuple[str, ...] = ()


class LiveSession:
    """A trace on the running kernel: `start`, then `go` right before the traced code, then `stop`.

    Args:
        plan: What to trace.
        show: Called with live samples in a thread, at most 5 times a second; None for no live display.
        each_look: Called about five times a second while a trace with stacks runs, in a thread that is not traced.
        native_tasks: Record native stacks of ITT tasks too, if the plan has native stacks.
        into: Write the events to this folder as a dataset while the trace runs. The plan must not have ITT tasks, whose
            points are known only at the end.

    """

    def __init__(
        self,
        plan: Plan,
        show: Show | None = None,
        *,
        each_look: Callable[[], None] | None = None,
        native_tasks: bool = True,
        into: Path | None = None,
    ) -> None:
        self.plan = plan
        self._into = into
        self.unwritten = ""
        """Why the dataset is incomplete, after `stop`; '' if it is complete."""
        self._native_tasks = native_tasks
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
        plan = self.plan
        if plan.kernel_points:
            warm_up()
        shared = reader.shared()
        writer = None
        if self._into is not None:
            from accel_magic.recording.writer.client import Writer  # not needed by most traces

            writer = Writer(self._into)
            self._undo.callback(writer.abort)
        tracers = (shared.pid,) if writer is None else (shared.pid, writer.pid)
        kernel = self._attach_kernel_or_skip(tracers) if plan.kernel_points else None
        plan = self.plan
        mapped = self._record_mappings(tracers)
        tasks = self._attach_tasks(plan) if plan.task_points else None
        layout = kernel.attachment.layout if kernel is not None else NO_PROGRAMS
        if writer is not None and kernel is not None:
            histograms = kernel.attachment.histograms_fd if kernel.histograms is not None else None
            writer.open(plan, machine.describe(), layout, kernel.attachment.counters_fd, histograms)
        feed, watch = None, None
        if self._show is not None:
            feed = LiveFeed(plan, self._show)
            self._undo.callback(feed.stop)
            feed.start()
        if tables := _stack_tables(kernel, tasks, plan):
            from accel_magic.kernel.attach.stack_maps import StackWatch  # imports the ELF reader

            assert mapped is not None  # noqa: S101 - recorded for stacks
            python = "python" in plan.stacks
            watch = StackWatch(tables, python=python, mapped=mapped.events, each_look=self._each_look)
            self._undo.callback(watch.stop)
            watch.start()
        duration = plan.duration_s
        most_bytes = free_memory.available_bytes() // _SHARE if writer is None else _UNLIMITED
        prepared = shared.prepare(
            _source(plan, layout, kernel, tasks, most_bytes),
            live=None if feed is None else feed.theirs.fileno(),
            stream=None if writer is None else Streamed(writer=Descriptor(writer.stream), most_bytes=writer.most_bytes),
            max_events=plan.max_events,
            duration_ns=None if duration is None else int(duration * 1e9),
        )
        self._undo.callback(prepared.drop)
        if writer is not None:
            writer.given()
        if kernel is not None:
            kernel.control["recording"] = int(plan.records_events)
        return _Attached(prepared, kernel, tasks, feed, watch, writer, mapped)

    def _attach_kernel_or_skip(self, tracers: tuple[int, ...]) -> _Kernel | None:
        """Attach the BPF programs; without the privilege, a preset that also has ITT tasks is traced without them."""
        plan = self.plan
        try:
            return self._attach_kernel(tracers)
        except MachineError as error:
            if not plan.task_points or not all(presets.is_preset(point.probe) for point in plan.kernel_points):
                raise
            names = ", ".join(dict.fromkeys(point.probe.partition(":")[0] for point in plan.kernel_points))
            note = f"{names}: kernel probes are skipped: {error.what}" + (f": {error.why}" if error.why else "")
            self.plan = replace(plan, points=plan.task_points, notes=(*plan.notes, note))
            return None

    def _record_mappings(self, tracers: tuple[int, ...]) -> _Mapped | None:
        """Record what processes map, if the trace has probes in their files or their stacks."""
        plan = self.plan
        probed = any(point.kind in USER_KINDS for point in plan.points)
        if not probed and not plan.stacks:
            return None
        from accel_magic.kernel.symbols.mapping_events import MappingEvents  # these import the ELF reader
        from accel_magic.recording import unloaded

        roots = {point.scope.pid for point in plan.points if point.scope.name != "all"}
        helpers = (*tracers, *compiler.helper_pids(), demangle.helper_pid() or 0)
        events = MappingEvents(roots, helpers)
        self._undo.callback(events.stop)
        events.start()
        return _Mapped(events, unloaded.file_ids(plan))

    def _attach_kernel(self, tracers: tuple[int, ...]) -> _Kernel:
        plan = self.plan
        own = replace(plan, points=plan.kernel_points)
        engine = broker.BrokerEngine if broker.needed() else KernelEngine
        attachment = engine(tracers).attach(own)
        self._undo.callback(attachment.close)
        self.plan = replace(attachment.plan, points=(*attachment.plan.points, *plan.task_points))
        layout = attachment.layout
        control = map_value(attachment.control_fd, layout.control, writable=True)
        counters = map_value(attachment.counters_fd, layout.counters)
        threads = map_value(attachment.own_threads_fd, scope.IDS, writable=True)
        follows = any(point.scope.name != "all" for point in own.points)
        self._undo.callback(own_threads.Marks(control, threads, follows=follows).close)
        has_latency = attachment.histograms_fd >= 0
        histograms = map_value(attachment.histograms_fd, layout.histograms) if has_latency else None
        return _Kernel(attachment, control, counters, histograms)

    def _attach_tasks(self, plan: Plan) -> TaskTrace:
        from accel_magic.itt import collector, tasks

        notes = collector.require([point.target for point in plan.task_points])
        if _traced_openvino(plan) and (lacking := presets_openvino.what_lacks(nodes.version())):
            notes = (*notes, lacking)
        self.plan = replace(plan, notes=(*plan.notes, *notes))
        trace = tasks.TaskTrace(
            [
                *(tasks.Pattern(point.target, point.function) for point in plan.task_points),
                *(tasks.Pattern(pattern.domain, pattern.task, excludes=True) for pattern in plan.exclusions),
            ],
            first_point=len(plan.kernel_points),
            buffer_bytes=int(plan.buffer_mib * (1 << 20)),
            records=plan.records_events,
            shift_ns=-clock.shift().ns,
            native="user" in plan.stacks and self._native_tasks,
            python=_python_frames() if "python" in plan.stacks else None,
        )
        self._undo.callback(trace.close)
        trace.prepare()
        return trace

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
            if attached.kernel is not None:  # programs have been running, with misses, since they attached
                self._missed = attached.kernel.attachment.misses()
            self._start_ns = time.monotonic_ns()
            if attached.kernel is not None:
                attached.kernel.control["enabled"] = 1
            if attached.tasks is not None:
                attached.tasks.go()
            if attached.writer is not None:
                attached.writer.go(self._start_ns, clock.shift().ns)

    def halt(self) -> None:
        """Stop counting; can be called repeatedly. Everything stays attached until `stop`."""
        if self._attached is not None and not self._end_ns:
            kernel, tasks, duration_s = self._attached.kernel, self._attached.tasks, self.plan.duration_s
            enabled = bool(kernel.control["enabled"][0]) if kernel is not None else tasks is not None and tasks.enabled
            over = duration_s is not None and not enabled  # the reader process stopped it in time
            if kernel is not None:
                kernel.control["enabled"] = 0
            notes = tasks.halt() if tasks is not None else ()
            self.plan = replace(self.plan, notes=(*self.plan.notes, *notes))
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
            writer = self._attached.writer if self._attached is not None else None
            try:
                self.halt()
                recording = self._finish(outcome)
            finally:
                self.abort()
            if watch is not None:
                stacks, notes = until_interrupted(watch.resolved, watch.unresolved)
                plan = replace(recording.plan, notes=(*recording.plan.notes, *notes))
                recording = replace(recording, plan=plan, stacks=stacks)
            if writer is not None:
                recording = writer.complete(recording)
                self.unwritten = writer.failed
        return recording

    @property
    def reader_pid(self) -> int:
        """Process id of the reader, in this process's PID namespace; 0 if nothing is attached."""
        return 0 if self._attached is None else self._attached.prepared.reader.pid

    def programs_ns(self) -> int:
        """CPU time of the BPF programs so far, ns; 0 unless the kernel measures it (`syscalls.measure_programs`)."""
        kernel = self._attached.kernel if self._attached is not None else None
        return 0 if kernel is None else kernel.attachment.run_ns()

    def abort(self) -> None:
        """Detach without making a recording; can be called repeatedly."""
        with uninterrupted(), own_threads.at_work():
            self._attached = None
            self._undo.close()  # runs every step, even if one raises

    def _finish(self, outcome: Outcome) -> Recording:
        attached = self._attached
        assert attached is not None  # noqa: S101 - stop follows start
        kernel, plan, start_ns = attached.kernel, self.plan, self._start_ns
        missed = 0
        notes: tuple[str, ...] = ()
        if kernel is not None:
            missed = kernel.attachment.misses() - self._missed
            left = kernel.attachment.detach()
            syscalls.wait_for_programs()  # a program may have counted a hit but not recorded it yet
            notes = (*kernel.attachment.notes(), *left)
        if attached.feed is not None:
            attached.feed.stop()
        counts = _kernel_counts(kernel, plan)
        layout = kernel.attachment.layout if kernel is not None else NO_PROGRAMS
        if attached.tasks is not None:
            notes = (*notes, *attached.tasks.notes())
            plan, layout, counts = _with_tasks(plan, layout, counts, attached.tasks.counts())
        shift = clock.shift()
        notes = (*notes, *shift.notes)
        read, kept = self._read(attached, plan, layout, counts, shift.ns)
        if attached.watch is not None:
            attached.watch.collect()
        notes = (*notes, *_about_files(attached.mapped, plan, counts))
        return Recording(
            plan=replace(plan, notes=(*plan.notes, *notes, *kept.notes)),
            machine=machine.describe() | ({"openvino": nodes.version()} if _traced_openvino(plan) else {}),
            started=self._started,
            start_ns=start_ns,
            duration_ns=(read.end_ns or self._end_ns) - start_ns,
            hits=counts.hits,
            lost=kept.lost,
            unpaired=counts.unpaired,
            totals=counts.totals,
            missed=missed,
            histograms=counts.histograms,
            samples=_widened(read.samples, len(plan.points)),
            event_count=kept.count if plan.max_events is None else min(kept.count, plan.max_events),
            limit_reached=read.limit_reached,
            load_events=RawEvents(layout, kept.rings, start_ns - shift.ns, plan.max_events),
            outcome=outcome,
            process=own_process.describe() if kernel is not None and kernel.attachment.waits_fd >= 0 else None,
            nodes=nodes.of_this_process() if _traced_openvino(plan) else (),
        )

    def _read(
        self, attached: _Attached, plan: Plan, layout: Layout, counts: Counts, shift_ns: int
    ) -> tuple[Read, _Kept]:
        """Get the records from the reader; with a dataset, wait until the writer has written them."""
        writer, nothing = attached.writer, tuple(np.empty(0, np.uint8) for _ in layout.record_sizes)
        try:
            read = attached.prepared.stop(self._start_ns, self._end_ns)
        except MachineError as error:
            read = _unread(layout, counts.hits, self._end_ns - self._start_ns)
            if writer is not None:
                writer.failed = error.what
                writer.finish(nothing)
                return read, _Kept(nothing, 0, counts.lost)
            records = plan.records_events
            lost = read_counts.all_events(plan, counts.hits, counts.histograms) if records else counts.lost
            return read, _Kept(read.rings, 0, lost, (_about_unread(error, records=records),))
        notes: tuple[str, ...] = ()
        recorded = sum(read.recorded)
        rings = read.rings[: len(layout.record_sizes)] if writer is None else nothing
        if read.limit_reached and (plan.max_events is None or recorded < plan.max_events):
            notes = (_about_memory(recorded, sum(len(ring) for ring in rings)),)
        if attached.kernel is not None and not read.limit_reached:
            end_ns = (read.end_ns or self._end_ns) - shift_ns
            rings, unfinished = waits.completed(attached.kernel.attachment, rings, end_ns)
            recorded += unfinished
        if writer is not None:
            writer.finish(rings)
        return read, _Kept(rings, recorded, counts.lost, notes)


def _source(plan: Plan, layout: Layout, kernel: _Kernel | None, tasks: TaskTrace | None, most_bytes: int) -> Live:
    """What the reader reads; it keeps at most so many bytes of records."""
    stacks = {*plan.stacks} if plan.records_events else set()
    return Live(
        kernel=None
        if kernel is None
        else Kernel(
            layout=layout,
            control=Descriptor(kernel.attachment.control_fd),
            counters=Descriptor(kernel.attachment.counters_fd),
            histograms=None if kernel.histograms is None else Descriptor(kernel.attachment.histograms_fd),
            rings=tuple(
                Ring(map=Descriptor(fd), size=size)
                for fd, size in zip(kernel.attachment.ring_fds, kernel.attachment.ring_sizes, strict=True)
            ),
            points=len(plan.kernel_points),
            latencies=sum(point.latency for point in plan.kernel_points),
            native_stacks=bool({"kernel", "user"} & stacks),
            most_bytes=most_bytes,
        ),
        tasks=None
        if tasks is None
        else Tasks(
            memory=Descriptor(tasks.fd),
            record_bytes=tasks.record_bytes,
            patterns=len(plan.task_points),
            most_bytes=most_bytes,
        ),
    )


def _about_files(mapped: _Mapped | None, plan: Plan, counts: Counts) -> tuple[str, ...]:
    """Notes on probed files that no process has loaded, and on files that do not go with the probes."""
    if mapped is None:
        return ()
    from accel_magic.recording import unloaded

    mapped.events.stop()
    returns = any(map(return_probes.at_return, plan.points))
    risky = return_probes.about_loaded(plan.points, mapped.events.names()) if returns else []
    known = set(plan.notes)
    return (
        *(note for note in risky if note not in known),
        *unloaded.notes(plan, counts.hits, mapped.files, mapped.events),
    )


def _python_frames() -> PythonFrames:
    from accel_magic.itt.tasks import PythonFrames
    from accel_magic.kernel.stacks import python_layout

    found = python_layout.layout()
    names = {field.name for field in fields(PythonFrames)} - {"hops"}
    return PythonFrames(hops=found.hops, **{name: found.fields()[name] for name in names})


def _stack_tables(kernel: _Kernel | None, tasks: TaskTrace | None, plan: Plan) -> list[Callable[[], RawStacks]]:
    """Functions that read the stacks recorded so far."""
    found: list[Callable[[], RawStacks]] = []
    if kernel is not None and kernel.attachment.stacks_fd >= 0:
        from accel_magic.kernel.attach import stack_maps

        table, frames = kernel.attachment.stacks_fd, kernel.attachment.layout.stack_frames
        found.append(lambda: stack_maps.read(table, frames))
    if tasks is not None and task_stacks(plan):
        found.append(lambda: _stacks_of_tasks(tasks))
    return found


def _stacks_of_tasks(tasks: TaskTrace) -> RawStacks:
    from accel_magic.kernel.stacks.table import RawStacks

    found = tasks.stacks()
    own = found.pids == os.getpid()
    pids = np.where(own, scope.kernel_pid(os.getpid()), found.pids).astype(np.int32)
    return RawStacks(found.keys, found.kinds, found.starts, found.words, pids, memory.MOST_FRAMES)


def _traced_openvino(plan: Plan) -> bool:
    return any(point.kind == "itt" and point.target.startswith("ov::") for point in plan.points)


def _kernel_counts(kernel: _Kernel | None, plan: Plan) -> Counts:
    if kernel is None:
        return read_counts.none()
    return read_counts.of_maps(kernel.counters, kernel.histograms, plan)


def _with_tasks(plan: Plan, layout: Layout, counts: Counts, seen: TaskCounts) -> tuple[Plan, Layout, Counts]:
    """Replace the probes by the tasks that they selected, followed by the probes that selected none."""
    probes, first = plan.task_points, len(plan.kernel_points)
    of = [min(task.pattern, len(probes) - 1) for task in seen.tasks]
    tasks = [
        replace(probes[at], probe=_task_probe(probes[at], task), target=task.domain, function=task.task)
        for at, task in zip(of, seen.tasks, strict=True)
    ]
    tasks += [probe for at, probe in enumerate(probes) if at not in of]
    points = (*plan.kernel_points, *(replace(point, id=first + at) for at, point in enumerate(tasks)))
    missing = len(tasks) - len(seen.tasks)
    if plan.records_events:
        ring = len(layout.record_sizes)
        items = _TASK_ITEMS if task_stacks(plan) else _TASK_ITEMS[:1]
        layout = replace(
            layout,
            record_sizes=(*layout.record_sizes, HEAD.itemsize + 8 * len(items)),
            point_layouts=(*layout.point_layouts, *(PointLayout(ring, items) for _ in tasks)),
        )
    none = np.zeros(len(tasks), np.uint64)
    histograms = counts.histograms
    return (
        replace(plan, points=points),
        layout,
        Counts(
            hits=np.concatenate([counts.hits, np.pad(seen.hits, (0, missing))]),
            lost=np.concatenate([counts.lost, np.pad(seen.lost, (0, missing))]),
            unpaired=np.concatenate([counts.unpaired, none]),
            totals=np.concatenate([counts.totals, none]),
            histograms=Histograms(
                np.concatenate([histograms.counts, np.pad(seen.histograms, ((0, missing), (0, 0)))]),
                np.concatenate([histograms.total_ns, np.pad(seen.total_ns, (0, missing))]),
                np.concatenate([histograms.max_ns, np.pad(seen.longest_ns, (0, missing))]),
            ),
        ),
    )


def _task_probe(probe: ProbePoint, task: Task) -> str:
    """The probe shown for a task, with its domain; a part of a preset keeps its name."""
    return f"itt:{task.domain}:{probe.function}" if "itt:" in probe.probe else probe.probe


def _widened(samples: Samples, points: int) -> Samples:
    """Add columns of zeros for points that the reader does not know: probes that selected no task."""
    return replace(samples, hits=np.pad(samples.hits, ((0, 0), (0, points - samples.hits.shape[1]))))


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

"""One trace on the running kernel, from attaching to its recording. Needs neither a notebook nor the plain API."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import free_memory, machine
from accel_magic.codec import Descriptor
from accel_magic.engine import function_points, kernel_programs, mapped_files, records, task_points
from accel_magic.engine.helper_processes import warm_up
from accel_magic.engine.task_points import CountedTasks
from accel_magic.errors import MachineError
from accel_magic.interrupts import uninterrupted, until_interrupted
from accel_magic.kernel import bpf_syscalls, clock, own_process, own_threads
from accel_magic.kernel.attach import thread_counts
from accel_magic.kernel.attachment import NO_PROGRAMS
from accel_magic.kernel.stacks.stack_choice import task_stacks
from accel_magic.patching import library_file
from accel_magic.probes import presets
from accel_magic.recording import kernel_counts
from accel_magic.recording.live_samples import LiveFeed
from accel_magic.recording.reader import reader_client
from accel_magic.recording.reader.reader_messages import Functions, KernelMapsToRead, Live, Ring, Streamed, Tasks
from accel_magic.recording.record_decoder import RawEvents
from accel_magic.recording.recording import CounterSamples, Outcome, Recording, ThreadCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from accel_magic.engine.kernel_programs import KernelPrograms
    from accel_magic.engine.mapped_files import MappedFiles
    from accel_magic.itt.task_records import TaskTrace
    from accel_magic.kernel.attach.stack_watch import StackWatch
    from accel_magic.kernel.attachment import Attachment, RecordLayout
    from accel_magic.kernel.stacks.stack_table import RawStacks
    from accel_magic.patching.patched_functions import PatchedTrace
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.live_samples import LiveSample
    from accel_magic.recording.observation import Observation, Observers
    from accel_magic.recording.reader.reader_client import Prepared
    from accel_magic.recording.writer.writer_client import DatasetWriter

Show = Callable[[list["LiveSample"]], None]

_UNLIMITED: Final = 1 << 62
_SHARE: Final = 3
"""Records may take 1/3 of the free memory: decoding takes as much again, and a table half as much."""


@dataclass(frozen=True)
class AttachedParts:
    """What is attached.

    Attributes:
        plan: What is traced: the points that could be attached, then the probes of tasks.
        notes: Notes for the user from attaching.
        reader: The reader's side; it reads descriptors from now on.
        kernel: BPF programs; None if nothing is traced by the kernel.
        functions: Patched functions; None if there are none.
        tasks: ITT tasks; None if none are traced.
        feed: The thread that forwards live samples, if they are shown.
        watch: The thread that reads stacks, if they are recorded.
        writer: The process that writes the dataset, if there is one.
        mapped: What processes map, if that is needed for stacks or notes.

    """

    plan: Plan
    notes: tuple[str, ...]
    reader: Prepared
    kernel: KernelPrograms | None
    functions: PatchedTrace | None
    tasks: TaskTrace | None
    feed: LiveFeed | None
    watch: StackWatch | None
    writer: DatasetWriter | None
    mapped: MappedFiles | None

    @property
    def layout(self) -> RecordLayout:
        """Layout of the records of the kernel and of patched functions."""
        return _layout(self.plan, self.kernel, self.functions)


def _layout(plan: Plan, kernel: KernelPrograms | None, functions: PatchedTrace | None) -> RecordLayout:
    layout = NO_PROGRAMS if kernel is None else kernel.attachment.layout
    return layout if functions is None else function_points.layout_with(layout, plan, functions)


class Attached:
    """A trace whose probes are attached: `go` right before the traced code, then `stop`; or `abort` at any time.

    Args:
        parts: What is attached.
        undo: Detaches it.
        observers: Told when counting begins and ends, and asked at the end.

    """

    def __init__(self, parts: AttachedParts, undo: contextlib.ExitStack, observers: Observers | None) -> None:
        self.parts = parts
        self.start_ns = 0
        """CLOCK_MONOTONIC of `go`."""
        self._undo, self._observers = undo, observers
        if observers is not None:
            undo.callback(observers.end)
        self._end_ns = 0
        self._missed = 0
        self._started = ""
        self._notes = list(parts.notes)

    @property
    def reader_pid(self) -> int:
        """Process id of the reader, in this process's PID namespace."""
        return self.parts.reader.reader.pid

    @property
    def unwritten(self) -> str:
        """Why the dataset is incomplete, after `stop`; '' if it is complete, or if there is none."""
        return "" if self.parts.writer is None else self.parts.writer.failed

    def programs_ns(self) -> int:
        """CPU time of the BPF programs so far, ns; 0 unless the kernel measures it (`syscalls.measure_programs`)."""
        kernel = self.parts.kernel
        return 0 if kernel is None else kernel.attachment.run_ns()

    def add_note(self, note: str) -> None:
        """Add a note to the recording."""
        self._notes.append(note)

    def go(self) -> None:
        """Start counting."""
        parts = self.parts
        with own_threads.at_work(), uninterrupted():  # a partial message would end the reader process for all traces
            self._started = datetime.now().astimezone().isoformat(timespec="seconds")
            parts.reader.go(time.monotonic_ns())
            if self._observers is not None:
                self._observers.begin()
            if parts.kernel is not None:  # programs have been running, with misses, since they attached
                self._missed = parts.kernel.attachment.misses()
            self.start_ns = time.monotonic_ns()
            if parts.kernel is not None:
                parts.kernel.control["enabled"] = 1
            if parts.functions is not None:
                parts.functions.go()
            if parts.tasks is not None:
                parts.tasks.go()
            if parts.writer is not None:
                parts.writer.go(self.start_ns, clock.shift().ns)

    def halt(self) -> None:
        """Stop counting; can be called repeatedly. Everything stays attached until `stop`."""
        if self._end_ns:
            return
        kernel, functions, tasks = self.parts.kernel, self.parts.functions, self.parts.tasks
        duration_s = self.parts.plan.request.duration_s
        enabled = bool(kernel.control["enabled"][0]) if kernel is not None else False
        if kernel is None:
            enabled = any(part is not None and part.enabled for part in (functions, tasks))
        if self._observers is not None:
            self._observers.end()
        over = duration_s is not None and not enabled  # the reader process stopped it in time
        if kernel is not None:
            kernel.control["enabled"] = 0
        for part in (functions, tasks):
            self._notes += part.halt() if part is not None else ()
        self._end_ns = time.monotonic_ns()
        self.start_ns = self.start_ns or self._end_ns  # `go` was interrupted
        if over and duration_s is not None:
            self._end_ns = min(self._end_ns, self.start_ns + int(duration_s * 1e9))

    def stop(self, outcome: Outcome = "ok") -> Recording:
        """Stop counting, detach everything and return the recording.

        If the reader process has died, the recording has counts but no events, and a note about it.
        """
        watch, writer = self.parts.watch, self.parts.writer
        with own_threads.at_work(), uninterrupted():
            try:
                self.halt()
                recording = self._recorded(outcome)
            finally:
                self.abort()
            if watch is not None:
                stacks, notes = until_interrupted(watch.resolved, watch.unresolved)
                recording = replace(recording.with_notes(*notes), stacks=stacks)
            if writer is not None:
                recording = writer.complete(recording)
        return recording

    def abort(self) -> None:
        """Detach without making a recording; can be called repeatedly."""
        with uninterrupted(), own_threads.at_work():
            self._undo.close()  # runs every step, even if one raises

    def _recorded(self, outcome: Outcome) -> Recording:
        parts, kernel = self.parts, self.parts.kernel
        missed, detached = self._detach(kernel)
        if parts.feed is not None:
            parts.feed.stop()
        counts = _kernel_counts(kernel, parts.plan)
        notes = [*self._notes, *detached]
        if parts.functions is not None:
            parts.functions.unpatch()
            counts = kernel_counts.with_functions(counts, parts.functions.counts())
            notes += parts.functions.notes()
        counted = CountedTasks(parts.plan, parts.layout, counts)
        if parts.tasks is not None:
            notes += parts.tasks.notes()
            counted = counted.with_tasks(parts.tasks.counts())
        shift = clock.shift()
        plan, counts = counted.plan, counted.counts
        limit = plan.request.max_events
        attachment = None if kernel is None else kernel.attachment
        stretch = records.TracedTime(self.start_ns, self._end_ns, shift.ns)
        fetched = records.fetch(parts.reader, parts.writer, attachment, counted, stretch)
        read = fetched.read
        if parts.watch is not None:
            parts.watch.collect()
        observed = {} if self._observers is None else self._observers.found(plan)
        notes += [note for one in observed.values() for note in one.notes]
        about_files = () if parts.mapped is None else parts.mapped.notes(plan, counts)
        recording = Recording(
            plan=plan,
            machine=machine.describe() | _entries(observed),
            started=self._started,
            start_ns=self.start_ns,
            duration_ns=(read.end_ns or self._end_ns) - self.start_ns,
            hits=counts.hits,
            lost=fetched.lost,
            unpaired=counts.unpaired,
            totals=counts.totals,
            missed=missed,
            histograms=counts.histograms,
            samples=_widened(read.samples, len(plan.points)),
            event_count=fetched.count if limit is None else min(fetched.count, limit),
            limit_reached=read.limit_reached,
            load_events=RawEvents(counted.layout, fetched.rings, self.start_ns - shift.ns, limit),
            outcome=outcome,
            outcome_notes=(*notes, *shift.notes, *about_files, *fetched.notes),
            by_thread=_by_thread(attachment),
            process=own_process.describe() if attachment is not None and attachment.waits_fd >= 0 else None,
            observed={name: table for one in observed.values() for name, table in one.tables.items()},
        )
        return recording.with_notes(*_notes_about_threads(recording))

    def _detach(self, kernel: KernelPrograms | None) -> tuple[int, tuple[str, ...]]:
        """Detach the programs; return the number of missed hits, and notes for the user."""
        if kernel is None:
            return 0, ()
        missed = kernel.attachment.misses() - self._missed
        remaining = kernel.attachment.detach()
        bpf_syscalls.wait_for_programs()  # a program may have counted a hit but not recorded it yet
        return missed, (*kernel.attachment.notes(), *remaining)


def attach(
    plan: Plan,
    show: Show | None = None,
    *,
    each_look: Callable[[], None] | None = None,
    native_tasks: bool = True,
    into: Path | None = None,
    observers: Observers | None = None,
) -> Attached:
    """Attach everything; nothing is counted yet. If this fails, nothing stays attached.

    Call it within `uninterrupted`, if an interrupt can arrive before something owns what it returns.

    Args:
        plan: What to trace.
        show: Called with live samples in a thread, at most 5 times a second; None for no live display.
        each_look: Called about five times a second while a trace with stacks runs, in a thread that is not traced.
        native_tasks: Record native stacks of ITT tasks too, if the plan has native stacks.
        into: Write the events to this folder as a dataset while the trace runs. The plan must not have ITT tasks, whose
            points are known only at the end.
        observers: What looks at this process while the trace runs.

    Raises:
        AccelMagicError: This machine, the kernel or the broker does not allow it, or a helper process failed.

    """
    undo = contextlib.ExitStack()
    try:
        with own_threads.at_work(), uninterrupted():
            return Attached(_attach(plan, show, each_look, undo, native_tasks=native_tasks, into=into), undo, observers)
    except BaseException:
        with uninterrupted(), own_threads.at_work():
            undo.close()
        raise


def _attach(
    plan: Plan,
    show: Show | None,
    each_look: Callable[[], None] | None,
    undo: contextlib.ExitStack,
    *,
    native_tasks: bool,
    into: Path | None,
) -> AttachedParts:
    planned = plan
    if plan.kernel_points:
        warm_up()
    shared = reader_client.shared()
    writer = None if into is None else _start_writer(into, undo)
    tracers = (shared.pid,) if writer is None else (shared.pid, writer.pid)
    python = task_points.python_frames() if plan.patched_points and "python" in plan.stacks else None
    functions, plan = function_points.attach(plan, python, undo)
    kernel, plan, notes = _attach_kernel(plan, tracers, undo)
    mapped = mapped_files.record(plan, tracers, undo) if mapped_files.needed(plan) else None
    tasks = None
    if plan.task_points:
        tasks, about_tasks = task_points.attach(plan, native=native_tasks, undo=undo)
        notes = (*notes, *about_tasks)
    most_bytes = free_memory.available_bytes() // _SHARE if writer is None else _UNLIMITED
    source = _source(plan, kernel, functions, tasks, most_bytes)
    if writer is not None:
        writer.open(plan, machine.describe(), _layout(plan, kernel, functions), source)
    feed = None if show is None else _start_feed(plan, show, planned, undo)
    watch = None
    if mapped is not None and (tables := _stack_tables(kernel, functions, tasks, plan)):
        watch = _start_watch(plan, tables, mapped, each_look, undo)
    prepared = shared.prepare(
        source,
        live=None if feed is None else feed.theirs.fileno(),
        stream=None if writer is None else Streamed(writer=Descriptor(writer.stream), most_bytes=writer.most_bytes),
        max_events=plan.request.max_events,
        duration_ns=None if plan.request.duration_s is None else int(plan.request.duration_s * 1e9),
    )
    undo.callback(prepared.drop)
    if writer is not None:
        writer.given()
    if kernel is not None:
        kernel.control["recording"] = int(plan.records_events)
    return AttachedParts(plan, notes, prepared, kernel, functions, tasks, feed, watch, writer, mapped)


def _attach_kernel(
    plan: Plan, tracers: tuple[int, ...], undo: contextlib.ExitStack
) -> tuple[KernelPrograms | None, Plan, tuple[str, ...]]:
    """Attach the BPF programs; without the privilege, a preset that also has ITT tasks is traced without them.

    Returns:
        The programs, if there are any; what is traced; notes for the user.

    """
    if not plan.kernel_points:
        return None, plan, ()
    try:
        kernel = kernel_programs.attach(plan, tracers, undo)
    except MachineError as error:
        if not (plan.patched_points or plan.task_points) or not all(
            presets.is_preset(point.probe) for point in plan.kernel_points
        ):
            raise
        names = ", ".join(dict.fromkeys(point.probe.partition(":")[0] for point in plan.kernel_points))
        note = f"{names}: kernel probes are skipped: {error.what}" + (f": {error.why}" if error.why else "")
        return None, _renumbered(plan, (*plan.patched_points, *plan.task_points)), (note,)
    points = (*kernel.attachment.plan.points, *plan.patched_points, *plan.task_points)
    return kernel, plan.with_points(points, kernel.attachment.skipped), ()


def _renumbered(plan: Plan, points: tuple[ProbePoint, ...]) -> Plan:
    return plan.with_points(replace(point, id=number) for number, point in enumerate(points))


def _start_writer(into: Path, undo: contextlib.ExitStack) -> DatasetWriter:
    from accel_magic.recording.writer.writer_client import DatasetWriter  # not needed by most traces

    writer = DatasetWriter(into)
    undo.callback(writer.abort)
    return writer


def _start_feed(plan: Plan, show: Show, planned: Plan, undo: contextlib.ExitStack) -> LiveFeed:
    feed = LiveFeed(plan, show, planned=planned)
    undo.callback(feed.stop)
    feed.start()
    return feed


def _start_watch(
    plan: Plan,
    tables: list[Callable[[], RawStacks]],
    mapped: MappedFiles,
    each_look: Callable[[], None] | None,
    undo: contextlib.ExitStack,
) -> StackWatch:
    from accel_magic.kernel.attach.stack_watch import StackWatch  # imports the ELF reader

    watch = StackWatch(tables, python="python" in plan.stacks, mapped=mapped.events, each_look=each_look)
    undo.callback(watch.stop)
    watch.start()
    return watch


def _stack_tables(
    kernel: KernelPrograms | None, functions: PatchedTrace | None, tasks: TaskTrace | None, plan: Plan
) -> list[Callable[[], RawStacks]]:
    """Functions that read the stacks recorded so far."""
    found: list[Callable[[], RawStacks]] = []
    if kernel is not None and kernel.attachment.stacks_fd >= 0:
        from accel_magic.kernel.attach import stack_maps

        table, frames = kernel.attachment.stacks_fd, kernel.attachment.layout.stack_frames
        found.append(lambda: stack_maps.read(table, frames))
    if functions is not None and plan.stacks:
        found.append(lambda: task_points.stacks(functions.stacks()))
    if tasks is not None and task_stacks(plan):
        found.append(lambda: task_points.stacks(tasks.stacks()))
    return found


def _source(
    plan: Plan,
    kernel: KernelPrograms | None,
    functions: PatchedTrace | None,
    tasks: TaskTrace | None,
    most_bytes: int,
) -> Live:
    """What the reader reads; it keeps at most so many bytes of records."""
    return Live(
        kernel=None if kernel is None else _kernel_source(plan, kernel, most_bytes),
        functions=None
        if functions is None
        else Functions(
            memory=Descriptor(functions.fd),
            record_bytes=functions.record_bytes,
            numbers=tuple(functions.numbers.tolist()),
            latency=tuple(point.latency for point in plan.patched_points),
            library=str(library_file.library()),
            rare=all(presets.of(point.probe) is not None for point in plan.patched_points),
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


def _kernel_source(plan: Plan, kernel: KernelPrograms, most_bytes: int) -> KernelMapsToRead:
    attachment = kernel.attachment
    return KernelMapsToRead(
        layout=attachment.layout,
        control=Descriptor(attachment.control_fd),
        counters=Descriptor(attachment.counters_fd),
        histograms=None if kernel.histograms is None else Descriptor(attachment.histograms_fd),
        rings=tuple(
            Ring(map=Descriptor(fd), size=size)
            for fd, size in zip(attachment.ring_fds, attachment.ring_sizes, strict=True)
        ),
        points=len(plan.kernel_points),
        latencies=sum(point.latency for point in plan.kernel_points),
        native_stacks=plan.records_events and not {"kernel", "user"}.isdisjoint(plan.stacks),
        most_bytes=most_bytes,
    )


def _kernel_counts(kernel: KernelPrograms | None, plan: Plan) -> kernel_counts.KernelCounts:
    if kernel is None:
        return kernel_counts.none()
    return kernel_counts.of_maps(kernel.counters, kernel.histograms, plan)


def _by_thread(attachment: Attachment | None) -> ThreadCounts:
    """Counts by thread of the points that are only counted; the attachment must be detached."""
    if attachment is None or attachment.thread_counts_fd < 0:
        return ThreadCounts.of_rows(())
    keys, counts = thread_counts.read(attachment.thread_counts_fd)
    columns = (keys["point"], counts["pid"], keys["tid"], counts["hits"], counts["total"])
    return ThreadCounts(*(column.astype(np.int64) for column in columns))


def _notes_about_threads(recording: Recording) -> Iterator[str]:
    """Which hits are of threads that did not fit into the table of counts by thread."""
    if len(recording.by_thread.point) < thread_counts.MOST:
        return
    missing = recording.hits_without_thread
    shown = ", ".join(f"{hits:,} of {recording.plan.points[point].function}" for point, hits in missing.items())
    if shown:
        yield (
            f"Hits by thread are those of the first {thread_counts.MOST:,} pairs of a thread and a probe. Other hits "
            f"are only in the sums of all threads, which are exact: {shown}."
        )


def _entries(observed: Mapping[str, Observation]) -> dict[str, str]:
    """What observations add to the description of the machine."""
    return {name: value for one in observed.values() for name, value in one.machine.items()}


def _widened(samples: CounterSamples, points: int) -> CounterSamples:
    """Add columns of zeros for points that the reader does not know: probes that selected no task."""
    return replace(samples, hits=np.pad(samples.hits, ((0, 0), (0, points - samples.hits.shape[1]))))

"""The messages between the notebook's process, the reader and the writer. Times are CLOCK_MONOTONIC ns."""

# Classes of fields are needed when the program runs.
# ruff: noqa: TC001

from __future__ import annotations

from typing import Final

from accel_magic.codec import Descriptor, Message
from accel_magic.kernel.attachment import RecordLayout


class Ring(Message, frozen=True):
    """A ring buffer: its map, and its size in bytes."""

    map: Descriptor
    size: int


class KernelMapsToRead(Message, frozen=True):
    """What to read of an attachment to the running kernel.

    Attributes:
        layout: Layout of the maps and records.
        control: The control map.
        counters: The map of the counters.
        histograms: The map of the histograms, if latencies are measured.
        rings: The ring buffers.
        points: Number of probe points.
        latencies: Number of points whose latency is measured.
        native_stacks: Whether events have native stacks, so that they cannot come as fast.
        most_bytes: Records to keep; then recording stops.

    """

    layout: RecordLayout
    control: Descriptor
    counters: Descriptor
    histograms: Descriptor | None
    rings: tuple[Ring, ...]
    points: int
    latencies: int
    native_stacks: bool
    most_bytes: int


class Tasks(Message, frozen=True):
    """What to read of ITT tasks.

    Attributes:
        memory: The collectors' shared memory.
        record_bytes: Size of a task's record.
        patterns: Number of probes that select tasks.
        most_bytes: Records to keep; then recording stops.

    """

    memory: Descriptor
    record_bytes: int
    patterns: int
    most_bytes: int


class Functions(Message, frozen=True):
    """What to read of patched functions.

    Attributes:
        memory: Their shared memory.
        record_bytes: Size of a record.
        numbers: Numbers of the functions, by point.
        latency: Which of them are measured.
        library: Path of the library that patches, which adjusts the clock.
        rare: Whether they are called so seldom that their rings fill slowly.
        most_bytes: Records to keep; then recording stops.

    """

    memory: Descriptor
    record_bytes: int
    numbers: tuple[int, ...]
    latency: tuple[bool, ...]
    library: str
    rare: bool
    most_bytes: int


class Live(Message, frozen=True):
    """A trace of the running kernel, of patched functions, of tasks, or of several of these."""

    kernel: KernelMapsToRead | None
    functions: Functions | None
    tasks: Tasks | None


class PlayedRing(Message, frozen=True):
    """Records of a recording: a file of their release times (ns since the start), then the records in that order."""

    file: Descriptor
    count: int


class Playback(Message, frozen=True):
    """A recording to play back.

    Attributes:
        layout: Layout of the records.
        table: File of the sample times, hits and summed values (rows of time, point, value).
        rings: The records.
        points: Number of probe points.
        samples: Number of samples.
        latency_points: Ids of the points whose latency was measured.
        lost: Lost events by point.
        length_ns: Length of the recording.
        speed: Factor of the pace.

    """

    layout: RecordLayout
    table: Descriptor
    rings: tuple[PlayedRing, ...]
    points: int
    samples: int
    latency_points: tuple[int, ...]
    lost: tuple[int, ...]
    length_ns: int
    speed: float


class ProgramRings(Message, frozen=True):
    """The ring buffers of a user's program, of which at most `most_bytes` are kept."""

    rings: tuple[Ring, ...]
    most_bytes: int


class Streamed(Message, frozen=True):
    """Where records go while the trace runs: a socket to the writer, and how much may be in memory."""

    writer: Descriptor
    most_bytes: int


class Prepare(Message, frozen=True):
    """A new trace, answered by `Ready` or `Shortage`.

    Attributes:
        trace: Its number.
        source: What is read.
        live: Socket for a `Sample` five times a second.
        stream: Where records go; None to keep them until the end.
        max_events: Events to record.
        duration_ns: When to stop counting.

    """

    trace: int
    source: Live | Playback | ProgramRings
    live: Descriptor | None = None
    stream: Streamed | None = None
    max_events: int | None = None
    duration_ns: int | None = None


class Go(Message, frozen=True):
    """The traced code starts now."""

    trace: int
    start_ns: int


class StopReading(Message, frozen=True):
    """The trace has ended; answered by `Stopped`."""

    trace: int
    end_ns: int


class Drop(Message, frozen=True):
    """A trace that will not be stopped."""

    trace: int


class Ready(Message, frozen=True):
    """All maps are mapped."""


class Shortage(Message, frozen=True):
    """The process cannot open the files that the trace needs."""


class Stopped(Message, frozen=True):
    """What was read.

    Attributes:
        recorded: Records by ring.
        table: File of the sample times, then the hits, samples by points.
        samples: Number of samples.
        points: Number of points.
        end_ns: When counting ended by itself; 0 if it did not.
        limit_reached: Whether recording stopped at a limit.
        files: Records, a file for each ring; none if they went to the writer.

    """

    recorded: tuple[int, ...]
    table: Descriptor
    samples: int
    points: int
    end_ns: int
    limit_reached: bool
    files: tuple[Descriptor, ...] = ()


QUANTILES: Final = (0.5, 0.99)
"""Quantiles of durations in a sample."""


class Sample(Message, frozen=True):
    """The counters of a running trace.

    Attributes:
        time_ns: Since the start of the trace.
        sent_ns: When it was sent.
        hits: By point of the plan.
        recorded: Events recorded.
        lost: Events lost.
        totals: Sums by point.
        latency: `QUANTILES` in ns by measured point; NaN before its first call.

    """

    time_ns: int
    sent_ns: int
    hits: tuple[int, ...]
    recorded: int
    lost: int
    totals: tuple[int, ...]
    latency: tuple[tuple[float, ...], ...]


class Records(Message, frozen=True):
    """From the reader to the writer: records, a file for each ring, of this size together; answered by `Written`."""

    size: int
    files: tuple[Descriptor, ...]


class Written(Message, frozen=True):
    """So many bytes of records have been written."""

    size: int


class Open(Message, frozen=True):
    """From the notebook's process to the writer: a new dataset; answered by `Ready`.

    Attributes:
        folder: Path of the dataset, which has its description.
        directory: The same, open.
        stream: Socket to the reader.
        layout: Layout of the records.
        counters: The map of the kernel's counters, if there is one.
        histograms: The map of the kernel's histograms, if there is one.
        functions: Patched functions, if there are any.
        limit: Maximum number of events.

    """

    folder: str
    directory: Descriptor
    stream: Descriptor
    layout: RecordLayout
    counters: Descriptor | None
    histograms: Descriptor | None
    functions: Functions | None
    limit: int | None


class Begun(Message, frozen=True):
    """The traced code starts; `shift_ns` is how far the clock is ahead of the kernel's."""

    start_ns: int
    shift_ns: int


class Finish(Message, frozen=True):
    """Write these records as the last ones, a file for each ring; answered by `Finished`."""

    rest: tuple[Descriptor, ...]


class Finished(Message, frozen=True):
    """Everything is written that can be; `failed` says why not all of it, else it is empty."""

    failed: str


class Ended(Message, frozen=True):
    """The notebook's process has completed the dataset."""

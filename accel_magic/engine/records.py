"""Get a trace's records from the reader process at its end, and hand them to the writer of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.kernel.attach import waits
from accel_magic.recording import kernel_counts
from accel_magic.recording.reader.reader_client import Read
from accel_magic.recording.recording import CounterSamples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.engine.task_points import CountedTasks
    from accel_magic.kernel.attachment import Attachment, RecordLayout
    from accel_magic.recording.reader.reader_client import Prepared
    from accel_magic.recording.writer.writer_client import DatasetWriter


@dataclass(frozen=True)
class TracedTime:
    """The traced time, CLOCK_MONOTONIC of this process in ns, and how far that is ahead of the kernel's."""

    start_ns: int
    end_ns: int
    shift_ns: int


@dataclass(frozen=True)
class EventRecords:
    """What is there of the events.

    Attributes:
        read: What the reader returned.
        rings: Records in this process; empty arrays if a dataset has them.
        count: Number of records.
        lost: (points,) uint64 lost events.
        notes: Notes for the user.

    """

    read: Read
    rings: tuple[NDArray[np.uint8], ...]
    count: int
    lost: NDArray[np.uint64]
    notes: tuple[str, ...] = ()


def fetch(
    reader: Prepared,
    writer: DatasetWriter | None,
    attachment: Attachment | None,
    counted: CountedTasks,
    stretch: TracedTime,
) -> EventRecords:
    """Get the records from the reader; with a dataset, wait until the writer has written them.

    If the reader process has died, all events are lost.
    """
    plan, layout, counts = counted.plan, counted.layout, counted.counts
    nothing = tuple(np.empty(0, np.uint8) for _ in layout.record_sizes)
    try:
        read = reader.stop(stretch.start_ns, stretch.end_ns)
    except MachineError as error:
        read = _unread(layout, counts.hits, stretch.end_ns - stretch.start_ns)
        if writer is not None:
            writer.failed = error.what
            writer.finish(nothing)
            return EventRecords(read, nothing, 0, counts.lost)
        records = plan.records_events
        lost = kernel_counts.all_events(plan, counts.hits, counts.histograms) if records else counts.lost
        return EventRecords(read, read.rings, 0, lost, (_about_unread(error, records=records),))
    notes: tuple[str, ...] = ()
    recorded = sum(read.recorded)
    rings = read.rings[: len(layout.record_sizes)] if writer is None else nothing
    if read.limit_reached and (plan.request.max_events is None or recorded < plan.request.max_events):
        notes = (_about_memory(recorded, sum(len(ring) for ring in rings)),)
    if attachment is not None and not read.limit_reached:
        end_ns = (read.end_ns or stretch.end_ns) - stretch.shift_ns
        rings, unfinished = waits.completed(attachment, rings, end_ns)
        recorded += unfinished
    if writer is not None:
        writer.finish(rings)
    return EventRecords(read, rings, recorded, counts.lost, notes)


def _unread(layout: RecordLayout, hits: NDArray[np.uint64], duration_ns: int) -> Read:
    """Return the data that remains if the reader process is gone: no events, and the counters at the end."""
    times = np.array([0, duration_ns], np.int64)
    return Read(
        rings=tuple(np.empty(0, np.uint8) for _ in layout.record_sizes),
        recorded=(0,) * len(layout.record_sizes),
        samples=CounterSamples(times, np.stack([np.zeros_like(hits), hits])),
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

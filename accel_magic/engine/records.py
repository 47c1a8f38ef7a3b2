"""Get a trace's records from the reader process at its end, and hand them to the writer of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.kernel.attach import waits
from accel_magic.recording import counts as read_counts
from accel_magic.recording.reader.client import Read
from accel_magic.recording.recording import Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.engine.task_points import Counted
    from accel_magic.kernel.attachment import Attachment, Layout
    from accel_magic.recording.reader.client import Prepared
    from accel_magic.recording.writer.client import Writer


@dataclass(frozen=True)
class Stretch:
    """The traced time, CLOCK_MONOTONIC of this process in ns, and how far that is ahead of the kernel's."""

    start_ns: int
    end_ns: int
    shift_ns: int


@dataclass(frozen=True)
class Records:
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
    reader: Prepared, writer: Writer | None, attachment: Attachment | None, counted: Counted, stretch: Stretch
) -> Records:
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
            return Records(read, nothing, 0, counts.lost)
        records = plan.records_events
        lost = read_counts.all_events(plan, counts.hits, counts.histograms) if records else counts.lost
        return Records(read, read.rings, 0, lost, (_about_unread(error, records=records),))
    notes: tuple[str, ...] = ()
    recorded = sum(read.recorded)
    rings = read.rings[: len(layout.record_sizes)] if writer is None else nothing
    if read.limit_reached and (plan.max_events is None or recorded < plan.max_events):
        notes = (_about_memory(recorded, sum(len(ring) for ring in rings)),)
    if attachment is not None and not read.limit_reached:
        end_ns = (read.end_ns or stretch.end_ns) - stretch.shift_ns
        rings, unfinished = waits.completed(attachment, rings, end_ns)
        recorded += unfinished
    if writer is not None:
        writer.finish(rings)
    return Records(read, rings, recorded, counts.lost, notes)


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

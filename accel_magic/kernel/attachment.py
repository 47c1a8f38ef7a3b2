"""What an engine passes to the reader: file descriptors, and the layout of their maps and ring buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from accel_magic.kernel import buckets

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from accel_magic.probes.plan import Plan, Skipped

STRING_SIZE = 64
RING_HEADER = np.dtype([("length", "<u4"), ("page", "<u4")])
HEAD = np.dtype(
    [
        ("time", "<u8"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("comm", "S16"),
        ("point", "<u2"),
        ("cpu", "<u2"),
        ("reserved", "<u4"),
    ]
)
"""Head of every record: `struct am_record` in bpf/kernel/common.h."""


@dataclass(frozen=True)
class PayloadItem:
    """One value in a record's payload; `type` is `u8`..`s64`, `char[N]` or `string`.

    `offset` is from the payload's start; a negative one is that of a value in the head.
    """

    name: str
    type: str
    offset: int


@dataclass(frozen=True)
class PointLayout:
    """Record layout of one probe point: its ring, and the items after the head."""

    ring: int
    items: tuple[PayloadItem, ...]


@dataclass(frozen=True)
class RecordLayout:
    """Shapes of the maps and records of one attachment.

    Attributes:
        cpus: Rows of the counters (a power of two >= the possible CPUs).
        points: Columns of the counters (a power of two >= the probe points).
        latencies: Rows of the histograms; 0 without latency points.
        record_sizes: Bytes of a record of each ring, without the ring buffer's own header.
        point_layouts: By ProbePoint.id; empty when no events are recorded.
        stack_frames: Maximum frames per native stack; 0 if no stacks are recorded.

    """

    cpus: int
    points: int
    latencies: int
    record_sizes: tuple[int, ...]
    point_layouts: tuple[PointLayout, ...]
    stack_frames: int = 0

    @property
    def control(self) -> np.dtype[np.void]:
        """Dtype of the control map's element (`struct am_control`)."""
        return np.dtype(
            [
                ("enabled", "<u4"),
                ("recording", "<u4"),
                ("starter", "<u4"),
                ("ignored_tgid", "<u4", (3,)),
            ]
        )

    @property
    def counters(self) -> np.dtype[np.void]:
        """Dtype of the counters map's element (`struct am_counters`)."""
        row = (self.cpus, self.points)
        return np.dtype([(name, "<u8", row) for name in ("hits", "lost", "unpaired", "totals")])

    @property
    def histograms(self) -> np.dtype[np.void]:
        """Dtype of the histograms map's element (`struct am_histograms`)."""
        rows = self.latencies
        return np.dtype([("counts", "<u8", (rows, buckets.COUNT)), ("total", "<u8", (rows,)), ("max", "<u8", (rows,))])

    def record(self, ring: int) -> np.dtype[np.void]:
        """Dtype of a whole record in a ring: the ring buffer's header, the head, the payload as bytes."""
        payload = self.record_sizes[ring] - HEAD.itemsize
        fields: list[tuple[str, Any]] = [("header", RING_HEADER), ("head", HEAD)]
        if payload:
            fields.append(("payload", f"V{payload}"))
        return np.dtype(fields)


NO_RECORDS = PointLayout(-1, ())
"""Layout of a point without events, in a trace that records those of others."""
NO_PROGRAMS = RecordLayout(cpus=1, points=1, latencies=0, record_sizes=(), point_layouts=())
"""Layout of a trace that attaches no BPF programs."""


@dataclass(frozen=True)
class Attachment:
    """Attached probes. Nothing is counted until `control.enabled` is set.

    `plan` has only points in the kernel; `skipped` are those that the kernel refused. `own_threads_fd` is the map of
    the tool's threads, `stacks_fd` the table of stacks (-1 if events have no stacks), `waits_fd` the map of waits in
    progress (-1 if waits are not measured), `thread_counts_fd` the table of counts by thread (-1 without points that
    are only counted). `misses` returns the number of hits since attaching for which no program
    ran, `run_ns` the CPU time of the programs if the kernel measures it, `notes` notes for the user about the programs
    and counts; call all three before detaching.
    `detach` closes the links, so that no program runs any more, and returns notes for the user about links that
    remain; `close`, or leaving the `with` block, also closes the maps.
    """

    plan: Plan
    skipped: tuple[Skipped, ...]
    layout: RecordLayout
    control_fd: int
    counters_fd: int
    histograms_fd: int
    own_threads_fd: int
    stacks_fd: int
    waits_fd: int
    thread_counts_fd: int
    ring_fds: tuple[int, ...]
    ring_sizes: tuple[int, ...]
    misses: Callable[[], int]
    run_ns: Callable[[], int]
    notes: Callable[[], tuple[str, ...]]
    detach: Callable[[], tuple[str, ...]] = field(repr=False)
    close: Callable[[], None] = field(repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

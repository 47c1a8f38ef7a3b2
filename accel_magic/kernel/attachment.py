"""What an engine hands to the reader: file descriptors and the layout of what lies behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from accel_magic.kernel import buckets

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from accel_magic.probes.plan import Plan

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
"""Head of every record, as `struct am_record` in bpf/kernel/common.h has it."""


@dataclass(frozen=True)
class Item:
    """One value in a record's payload: `offset` from the payload's start; `type` `u8`..`s64`, `char[N]`, `string`."""

    name: str
    type: str
    offset: int


@dataclass(frozen=True)
class PointLayout:
    """How the records of one probe point look: which ring they are in and what follows the head."""

    ring: int
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Layout:
    """Shapes of the maps and records of one attachment.

    Attributes:
        cpus: Rows of the counters (a power of two >= the possible CPUs).
        points: Columns of the counters (a power of two >= the probe points).
        latencies: Rows of the histograms; 0 without latency points.
        record_sizes: Bytes of a record of each ring, without the ring buffer's own header.
        point_layouts: By ProbePoint.id; empty when no events are recorded.
        stack_frames: Frames that are taken of a native stack at the most; 0 where no stacks are taken.

    """

    cpus: int
    points: int
    latencies: int
    record_sizes: tuple[int, ...]
    point_layouts: tuple[PointLayout, ...]
    stack_frames: int = 0

    @property
    def control(self) -> np.dtype[np.void]:
        """Of the control map, one element (`struct am_control`)."""
        return np.dtype(
            [
                ("enabled", "<u4"),
                ("recording", "<u4"),
                ("at_work", "<u4", (2,)),
                ("starter", "<u4"),
                ("ignored_tgid", "<u4", (2,)),
            ]
        )

    @property
    def counters(self) -> np.dtype[np.void]:
        """Of the counters map, one element (`struct am_counters`)."""
        row = (self.cpus, self.points)
        return np.dtype([(name, "<u8", row) for name in ("hits", "lost", "unpaired", "totals")])

    @property
    def histograms(self) -> np.dtype[np.void]:
        """Of the histograms map, one element (`struct am_histograms`)."""
        rows = self.latencies
        return np.dtype([("counts", "<u8", (rows, buckets.COUNT)), ("total", "<u8", (rows,)), ("max", "<u8", (rows,))])

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Layout:
        """Build a layout back from `dataclasses.asdict` of it."""
        return cls(
            cpus=data["cpus"],
            points=data["points"],
            latencies=data["latencies"],
            record_sizes=tuple(data["record_sizes"]),
            point_layouts=tuple(
                PointLayout(point["ring"], tuple(Item(**item) for item in point["items"]))
                for point in data["point_layouts"]
            ),
            stack_frames=data["stack_frames"],
        )

    def record(self, ring: int) -> np.dtype[np.void]:
        """Of a whole record in a ring: the ring buffer's header, the head, the payload as bytes."""
        payload = self.record_sizes[ring] - HEAD.itemsize
        fields: list[tuple[str, Any]] = [("header", RING_HEADER), ("head", HEAD)]
        if payload:
            fields.append(("payload", f"V{payload}"))
        return np.dtype(fields)


@dataclass(frozen=True)
class Attachment:
    """Probes attached and waiting: nothing counts until `control.enabled` is set.

    `own_threads_fd` is the map of the tool's threads, `stacks_fd` the table of stacks, -1 where the events have none;
    `waits_fd` that of the waits under way, -1 where none are measured. `misses` are the hits since attaching that no
    program ran for, `run_ns` the CPU time of programs where the kernel measures it, `notes` what the user must know of
    the counts; all are asked before detaching.
    `detach` closes the links, so that no program runs any more, and gives what the user must know of links that stay;
    `close`, or leaving the `with` block, closes the maps as well.
    """

    plan: Plan
    layout: Layout
    control_fd: int
    counters_fd: int
    histograms_fd: int
    own_threads_fd: int
    stacks_fd: int
    waits_fd: int
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

"""The map of waits in progress (bpf/kernel/offcpu.h): creating it, and records of waits that did not end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.load import bpf_maps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.kernel.attachment import Attachment, RecordLayout
    from accel_magic.kernel.load.bpf_links import Descriptors
    from accel_magic.probes.plan import ProbePoint

MOST_WAITS: Final = 16384
STACKS: Final = 3
WAIT: Final = np.dtype(
    [
        ("time", "<u8"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("comm", "S16"),
        ("cpu", "<u4"),
        ("state", "<u4"),
        ("syscall", "<i8"),
        ("arguments", "<u8", (2,)),
        ("stacks", "<u8", (STACKS,)),
    ]
)
"""`struct am_wait`."""
VALUES: Final = (
    ("duration_ns", "s64", "duration"),
    ("state", "u32", "wait.state"),
    ("syscall", "s32", "wait.syscall"),
    ("arg0", "u64", "wait.arguments[0]"),
    ("arg1", "u64", "wait.arguments[1]"),
)
"""Columns of a wait, their types and C expressions, in payload order; stacks follow."""


def create(keep: Descriptors) -> int:
    """Create the map, to which only programs can write; return its descriptor."""
    return keep.add(bpf_maps.create_table("am_waits", key=4, value=WAIT.itemsize, entries=MOST_WAITS))


def under_way(table: int) -> NDArray[np.void]:
    """Read the waits that have not ended, as `WAIT`. Raises OSError if the kernel rejects the call."""
    content = bpf_maps.read(bpf_maps.OpenMap(table, bpf_maps.HASH, MOST_WAITS, 4, WAIT.itemsize))
    return np.ascontiguousarray(content.values[:, 0]).view(WAIT).ravel()


def completed(
    attachment: Attachment, rings: tuple[NDArray[np.uint8], ...], end_ns: int
) -> tuple[tuple[NDArray[np.uint8], ...], int]:
    """Add the waits in progress to the recorded ones, as if they had ended at `end_ns`.

    Args:
        attachment: It must be detached.
        rings: (bytes,) uint8 by ring.
        end_ns: End of the trace on the kernel's CLOCK_MONOTONIC.

    Returns:
        The rings, and the number of records added.

    """
    point = next((point for point in attachment.plan.points if point.kind == "offcpu"), None)
    if point is None or not attachment.layout.point_layouts:
        return rings, 0
    ring = attachment.layout.point_layouts[point.id].ring
    added = records(under_way(attachment.waits_fd), point, attachment.layout, end_ns)
    if not len(added):
        return rings, 0
    joined = np.concatenate([rings[ring], added.view(np.uint8).ravel()])
    return (*rings[:ring], joined, *rings[ring + 1 :]), len(added)


def records(waits: NDArray[np.void], point: ProbePoint, layout: RecordLayout, end_ns: int) -> NDArray[np.void]:
    """Make ring records of waits, as if they had ended at `end_ns`.

    Waits shorter than the point's minimum are omitted. If a filter tests the duration, all are omitted, because their
    durations are unknown.
    """
    place = layout.point_layouts[point.id]
    durations = end_ns - waits["time"].astype(np.int64)
    chosen = (durations >= point.shortest_ns) & (durations >= 0) & (not point.filter.exit)
    waits, durations = waits[chosen], durations[chosen]
    made = np.zeros(len(waits), layout.record(place.ring))
    for name in ("time", "pid", "tid", "comm", "cpu"):
        made["head"][name] = waits[name]
    made["head"]["point"] = point.id
    columns = [durations, waits["state"], waits["syscall"], *waits["arguments"].T, *waits["stacks"].T]
    payload = np.zeros((len(waits), made.dtype["payload"].itemsize // 8), np.uint64)
    for at, values in enumerate(columns[: len(place.items)]):
        payload[:, at] = values.astype(np.uint64)
    made["payload"] = payload.view(made.dtype["payload"]).ravel()
    return made

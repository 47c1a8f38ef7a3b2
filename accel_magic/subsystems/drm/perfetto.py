"""Export the jobs of the DRM scheduler as tracks of trace-event JSON.

Each device is a process. Each ring has tracks for what waits and for what runs; those that overlap get a track each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.nesting import lanes
from accel_magic.formats.trace_event_writer import TraceEvents, composed, process_name, thread_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

FIRST_PID: Final = (1 << 22) + 0x100  # above Linux's largest process id, and those of other tracks
_STRETCHES: Final = (("waits", "queued_ns", "started_ns"), ("runs", "started_ns", "done_ns"))


def jobs(table: pd.DataFrame) -> Iterator[bytes]:
    """Yield the text of the jobs' entries, in pieces.

    Args:
        table: Result of `accel_magic.subsystems.drm.jobs.jobs`.

    """
    devices = {device: FIRST_PID + number for number, device in enumerate(dict.fromkeys(table["device"].astype("str")))}
    names = [process_name(pid, f"GPU: {name}", 0) for name, pid in devices.items()]
    next_track = dict.fromkeys(devices, 1)
    for (device, ring), of_ring in table.groupby(["device", "ring"], observed=True, sort=False, dropna=False):
        pid = devices[str(device)]
        for what, begins, ends in _STRETCHES:
            part = of_ring.dropna(subset=[begins, ends]).sort_values(begins, kind="stable")
            if not len(part):
                continue
            begin, end = (part[name].to_numpy(np.int64) for name in (begins, ends))
            lane, first = lanes(begin, end), next_track[str(device)]
            next_track[str(device)] += int(lane.max()) + 1
            yield from _slices(part, begin, pid, first + lane).complete(end - begin)
            names += [thread_name(pid, first + one, f"{ring}: {what}") for one in range(int(lane.max()) + 1)]
    yield from names


def _slices(part: pd.DataFrame, begin: NDArray[np.int64], pid: int, track: NDArray[np.int64]) -> TraceEvents:
    numbers = part[["context", "seqno", "client", "pid", "depth"]].astype("Int64").fillna(-1)
    return TraceEvents(
        name=composed("job ", numbers["context"], ":", numbers["seqno"]),
        category="gpu jobs",
        time_ns=begin,
        pid=pid,
        tid=track,
        args={
            **{name: part[name].astype("str") for name in ("comm", "status")},
            **{name: numbers[name] for name in ("client", "pid", "depth")},
        },
    )

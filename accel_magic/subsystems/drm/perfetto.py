"""Export the jobs of the DRM scheduler as tracks of trace-event JSON.

Each device is a process. Each ring has tracks for what waits and for what runs; those that overlap get a track each.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.analysis.nesting import lanes
from accel_magic.formats.trace_event import joined, microseconds, plain, texts, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

FIRST_PID: Final = (1 << 22) + 0x100  # above Linux's largest process id, and those of other tracks
_STRETCHES: Final = (("waits", "queued_ns", "started_ns"), ("runs", "started_ns", "done_ns"))


def jobs(table: pd.DataFrame) -> Iterator[bytes]:
    """Yield the text of the jobs' entries in pieces; every entry starts with a comma and a newline.

    Args:
        table: Result of `accel_magic.subsystems.drm.jobs.jobs`.

    """
    devices = {device: FIRST_PID + number for number, device in enumerate(dict.fromkeys(table["device"].astype("str")))}
    named: list[dict[str, Any]] = [_named("process_name", pid, 0, f"GPU: {name}") for name, pid in devices.items()]
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
            yield _slices(part, begin, end, pid, first + lane)
            named += [_named("thread_name", pid, first + one, f"{ring}: {what}") for one in range(int(lane.max()) + 1)]
    yield "".join(f",\n{json.dumps(entry, separators=(',', ':'))}" for entry in named).encode("ascii")


def _slices(part: pd.DataFrame, begin: Any, end: Any, pid: int, track: Any) -> bytes:
    reported = part[["context", "seqno", "client", "pid", "depth"]].astype("Int64").fillna(-1).to_numpy(np.int64)
    names = texts([json.dumps(f"job {context}:{seqno}") for context, seqno in reported[:, :2].tolist()])
    words = part[["comm", "status"]].astype("str")
    ends = [
        f',"args":{{"comm":{json.dumps(comm)},"status":{json.dumps(status)},'
        f'"client":{client},"pid":{process},"depth":{depth}}}}}'
        for (comm, status), (_, _, client, process, depth) in zip(
            words.itertuples(index=False), reported.tolist(), strict=True
        )
    ]
    return to_bytes(
        joined(
            *(',\n{"name":', names, ',"cat":"gpu jobs","ph":"X","dur":', microseconds(end - begin)),
            *(',"ts":', microseconds(begin), f',"pid":{pid},"tid":', plain(track), texts(ends)),
        )
    )


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}

"""Waits of threads for fences, by the call that waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import answers, captured, nullable
from accel_magic.subsystems.drm.jobs import FENCE_BITS, category

if TYPE_CHECKING:
    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.subsystems.drm.calls import DriverCallNames

START, END = "dma_fence_wait_start", "dma_fence_wait_end"
COLUMNS: Final = (
    *("start_ns", "wait_ns", "pid", "tid", "comm", "call", "ioctl"),
    *("driver", "timeline", "context", "seqno", "job"),
)


def waits(trace: DriverTrace, calls: DriverCallNames, jobs: pd.DataFrame) -> pd.DataFrame:
    """Describe every wait for a fence.

    Args:
        trace: The trace.
        calls: Its API calls and ioctls.
        jobs: Its jobs.

    Returns:
        One row per wait, in order of time: `start_ns`, `wait_ns` Int64 (NA if its end was not recorded); `pid`, `tid`,
        `comm` of the thread; `call`, `ioctl` category, in which it waited, NA if none was traced; `driver`, `timeline`,
        `context`, `seqno` of the fence (the lower 32 bits); `job` Int64, row of the job with this fence, NA if none.

    """
    starts, ends = trace.rows(START), trace.rows(END)
    tid = trace.events["tid"].to_numpy()
    time = trace.events["time_ns"].to_numpy()
    answer, _ = answers(tid[starts], starts, tid[ends], ends)
    known = (answer >= 0) & trace.timed
    frame = pd.DataFrame(index=pd.RangeIndex(len(starts)))
    for name in ("comm", "driver", "timeline"):
        frame[name] = category(trace, name, starts)
    for name in ("pid", "tid"):
        frame[name] = captured(trace, name, starts)
    frame["start_ns"] = nullable(time[starts], trace.timed)
    frame["wait_ns"] = nullable(np.append(time[ends], 0)[answer] - time[starts], known)
    frame["call"], frame["ioctl"] = calls.around(trace, starts)
    for name in ("context", "seqno"):
        frame[name] = captured(trace, name, starts, "UInt64")
    fences = jobs[["context", "seqno"]].astype("UInt64") & FENCE_BITS
    own = fences.assign(job=jobs.index).dropna().drop_duplicates(["context", "seqno"], keep="last")
    frame["job"] = frame[["context", "seqno"]].merge(own, how="left")["job"].astype("Int64").to_numpy()
    return frame[list(COLUMNS)]

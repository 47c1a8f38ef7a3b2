"""Polling loops: what polls, the repeated calls, how often, for how long.

What is polled is a state: a loop counts as polling only if each of its calls reads one. Work done once per page, buffer
or message repeats as well, but changes something with each call. Calls that can do either only count if their arguments
and results are known: the same question, and no success.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis import cycles
from accel_magic.analysis.nesting import enclosing
from accel_magic.analysis.thread_events import NONE, nullable
from accel_magic.subsystems.npu.contexts import interrupts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.cycles import Cycles
    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]


@dataclass(frozen=True)
class PolledRead:
    """A function that may be part of a polling loop.

    Attributes:
        subject: Captured columns that identify what is polled. The loop ends when they change; if they are unknown,
            the call is not a poll.
        answers: Its return value shows whether the wait is over: 0 ends the loop.

    """

    subject: tuple[str, ...] = ()
    answers: bool = False


READS: Final[dict[str, PolledRead]] = {
    "ivpu_ipc_irq_handler": PolledRead(),
    "ivpu_hw_ip_ipc_rx_count_get": PolledRead(),
    "ivpu_ipc_receive": PolledRead(answers=True),
    "ivpu_hw_btrs_is_idle": PolledRead(),
    "ivpu_hw_reg_rd32": PolledRead(),
    "ivpu_hw_reg_rd64": PolledRead(),
    "ivpu_get_param_ioctl": PolledRead(("file", "param", "index")),
    "ivpu_bo_wait_ioctl": PolledRead(("file", "handle"), answers=True),
    "dma_fence_wait_start": PolledRead(("context", "seqno")),
    "dma_fence_wait_end": PolledRead(("context", "seqno")),
    "zeFenceQueryStatus": PolledRead(("ze_fence",), answers=True),
    "zeFenceHostSynchronize": PolledRead(("ze_fence",), answers=True),
    "zeEventQueryStatus": PolledRead(("ze_event",), answers=True),
    "zeEventHostSynchronize": PolledRead(("ze_event",), answers=True),
    "zeCommandQueueSynchronize": PolledRead(("ze_queue",), answers=True),
    "zeCommandListHostSynchronize": PolledRead(("ze_list",), answers=True),
}
"""Every call of a polling loop is to one of these functions."""

BY_TRACING: Final = re.compile(r"ivpu_fence_get_\w+|ivpu_jsm_msg_type_to_str")
"""Called by the kernel's tracepoints to print themselves; they occur between the calls of any loop."""

HOSTS: Final = re.compile(r"ivpu_(wait_for_\w+|boot|resume|\w+_cb|\w+_ioctl|\w+_work(_fn)?|\w+_thread_handler)")
"""Functions that contain loops, for traces that do not show which call contains which."""

USER_SPACE: Final = "user space"
"""Host of a loop of system calls or library calls outside all measured calls."""
_BY_USER_SPACE: Final = re.compile(r"\w+_ioctl|ze\w+")


def polls(trace: DriverTrace) -> pd.DataFrame:
    """Find the polling loops, in order of time.

    Returns:
        One row per loop. `host`: the polling function, the innermost call around the loop; without measured calls, the
        newest earlier call to a function with loops; "user space" for a program's own. `cycle`: the calls of one round,
        "a -> b -> c". `repeats`, `calls` (int64): rounds, and calls in them. `start_ns`, `end_ns` (Int64, NA without
        times), `period_ns` (float64, median from round to round, NaN without times), `pid`, `tid` (Int64, NA without
        times), `comm` (NA if not recorded), `first_row`, `last_row` (int64, exclusive; other threads' events may be in
        between).

    """
    rows, groups, codes = reads(trace)
    found = cycles.find(codes, groups)
    first, last = rows[found.first], rows[found.first + found.calls - 1]
    time, events = trace.events["time_ns"].to_numpy(), trace.events
    lasts = np.nan_to_num(trace.column("duration_ns", last)).astype(np.int64)
    table = pd.DataFrame(
        {
            "host": pd.Series(_hosts(trace, first), dtype="str"),
            "cycle": pd.Series(_texts(trace, rows, found), dtype="str"),
            "repeats": found.repeats.astype(np.int64),
            "calls": found.calls.astype(np.int64),
            "start_ns": nullable(time[first], trace.timed),
            "end_ns": nullable(time[last] + lasts, trace.timed),
            "period_ns": _periods(time, rows, found) if trace.timed else np.nan,
            "pid": nullable(events["pid"].to_numpy()[first], trace.timed),
            "tid": nullable(events["tid"].to_numpy()[first], trace.timed),
            "comm": events["comm"].iloc[first].astype("str").reset_index(drop=True),
            "first_row": first.astype(np.int64),
            "last_row": last.astype(np.int64) + 1,
        }
    )
    return table.sort_values("first_row", ignore_index=True)


def reads(trace: DriverTrace) -> tuple[Rows, NDArray[np.intp], NDArray[np.int64]]:
    """Find the calls that may be part of a loop, by thread.

    Returns:
        Their rows; (rows,) a number that changes whenever another call of the thread, or another thread, comes in
        between; (rows,) a code for the function and its subject.

    """
    asks, codes = _questions(trace)
    seen = np.array([BY_TRACING.fullmatch(name) is None for name in trace.names], np.bool_)[trace.codes]
    if trace.timed:
        tid = trace.events["tid"].to_numpy()
        rows = np.flatnonzero(seen & (interrupts(trace, tid) < 0))
        thread = pd.factorize(tid[rows])[0]
        if thread.max(initial=0) < 1 << 16:
            thread = thread.astype(np.uint16)  # sorted by counting
        rows = rows[np.argsort(thread, kind="stable")]
        other = np.diff(tid[rows], prepend=-1) != 0
    else:
        rows = np.flatnonzero(seen)
        other = np.zeros(len(rows), np.bool_)
    groups = np.cumsum(~asks[rows] | other)
    chosen = asks[rows]
    return rows[chosen], groups[chosen], codes[rows[chosen]]


def _questions(trace: DriverTrace) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """(events,) bool: may be part of a loop; (events,) int64: equal for the same function with the same subject."""
    reads, codes = np.zeros(len(trace.events), np.bool_), trace.codes.astype(np.int64)
    for name in trace.names.intersection(list(READS)):
        rows, read = trace.rows(name), READS[name]
        requested = np.ones(len(rows), np.bool_)
        if read.subject:
            columns = [column for column in read.subject if column in trace.events]
            values = trace.events[columns].iloc[rows]
            requested &= values.notna().to_numpy().all(axis=1) & bool(columns)
            # Numbers from 1, above those of functions: each subject gets its own code.
            codes[rows] += len(trace.names) * (values.groupby(columns, dropna=False).ngroup() + 1) if columns else 0
        if read.answers:
            answer = trace.column("retval", rows)
            requested &= (answer != 0) & ~(np.isnan(answer) & bool(read.subject))
        reads[rows] = requested
    return reads, codes


def _texts(trace: DriverTrace, rows: Rows, found: Cycles) -> list[str]:
    """The calls of each cycle as text."""
    names = trace.names[trace.codes[rows]]
    at = zip(found.first.tolist(), found.period.tolist(), strict=True)
    return [" -> ".join(names[first : first + period]) for first, period in at]


def _periods(time: NDArray[np.int64], rows: Rows, found: Cycles) -> NDArray[np.float64]:
    """(loops,) float64 ns: median time from the start of a round to that of the next."""
    rounds = np.repeat(found.first, found.repeats)
    number = np.arange(len(rounds)) - np.repeat(np.cumsum(found.repeats) - found.repeats, found.repeats)
    starts = time[rows[rounds + number * np.repeat(found.period, found.repeats)]]
    loop = np.repeat(np.arange(len(found)), found.repeats)
    within = loop[1:] == loop[:-1]
    return pd.Series(np.diff(starts)[within]).groupby(loop[1:][within]).median().to_numpy(np.float64)


def _hosts(trace: DriverTrace, rows: Rows) -> NDArray[np.object_]:
    """(rows,) name of the function that makes each of these calls."""
    names = np.append(trace.names.to_numpy(object), USER_SPACE)
    codes = np.append(trace.codes, len(names) - 1)
    host = np.full(len(rows), NONE, np.intp)
    time, tid = trace.events["time_ns"].to_numpy(), trace.events["tid"].to_numpy()
    duration = trace.column("duration_ns", np.arange(len(trace.events)))
    may = ~np.array([name in READS for name in trace.names], np.bool_)[trace.codes]
    measured = np.flatnonzero(may & ~np.isnan(duration) & np.isin(tid, tid[rows]))
    if trace.timed and len(measured):
        starts = time[measured]
        found = enclosing(tid[measured], starts, starts + duration[measured].astype(np.int64), tid[rows], time[rows])
        host = np.where(found >= 0, measured[found], NONE)
    hosts = np.array([HOSTS.fullmatch(name) is not None for name in trace.names], np.bool_)[trace.codes]
    before = newest(trace, np.flatnonzero(may & hosts & np.isnan(duration)), rows)
    own = np.array([_BY_USER_SPACE.fullmatch(name) is not None for name in trace.names], np.bool_)[trace.codes[rows]]
    return np.asarray(names[codes[np.where((host >= 0) | own, host, before)]], np.object_)


def newest(trace: DriverTrace, calls: Rows, moments: Rows) -> Rows:
    """(moments,) row of the newest of the calls that the moment's thread made earlier, -1 if none.

    Calls are rows in order. A list without times is treated as one thread.
    """
    if not trace.timed:
        return np.append(calls, NONE)[np.searchsorted(calls, moments) - 1]
    # Combine thread and row into one number, so that one search finds both.
    thread = pd.factorize(trace.events["tid"].to_numpy()[np.concatenate([calls, moments])])[0]
    rows, own = max(len(trace.events), 1), thread[len(calls) :]
    keys = np.sort(thread[: len(calls)] * rows + calls)
    found = np.append(keys, NONE)[np.searchsorted(keys, own * rows + moments) - 1]
    return np.where((found >= 0) & (found // rows == own), found % rows, NONE)

"""What leads from one thread to another: jobs by their fences, messages by their requests, buffers by their handles.

Everything here is in rows of `NpuTrace.events`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.npu.contexts import NONE, Contexts
from accel_magic.analysis.npu.layer_names import API, FENCE, IOCTL, LEFT_OUT
from accel_magic.analysis.npu.objects import SUBMITS, objects, objects_of_handles
from accel_magic.analysis.npu.threads import answers, end_ns, newest_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.npu.trace import NpuTrace

    Rows = NDArray[np.intp]

CREATES_FENCE, COMPLETES, STARTS_WAIT, ENDS_WAIT = (
    *("dma_fence_init", "dma_fence_signaled", "dma_fence_wait_start", "dma_fence_wait_end"),
)
WAIT: Final = "ivpu_bo_wait_ioctl"
CALLBACK: Final = "ivpu_job_done_callback"
DOORBELLS: Final = ("ivpu_hw_ip_db_set", "ivpu_hw_db_set")
SEND, RECEIVE, MESSAGE = "ivpu_ipc_send", "ivpu_ipc_receive", "jsm"
_WITH_IDS = (CALLBACK, *DOORBELLS, MESSAGE, "job", "pm", "ivpu_job_signal", "ivpu_job_signal_and_destroy")


def carries_ids(trace: NpuTrace) -> NDArray[np.bool_]:
    """(events,) bool: hits that stand for one certain job, message, fence or buffer, however many follow each other."""
    ids = trace.mask(*_WITH_IDS) | np.char.startswith(np.array(trace.names, str), "dma_fence_")[trace.codes]
    return ids | trace.events["bo"].notna().to_numpy() if "bo" in trace.events else ids


def buffers(trace: NpuTrace, where: Contexts, layer: NDArray[np.int8]) -> NDArray[np.uint64]:
    """(events,) uint64: address of the buffer object that each hit is about, 0 where not known."""
    bo: NDArray[np.uint64] = trace.column("bo", np.arange(len(trace.events)), np.uint64)
    found = objects(trace)
    bo[found.made] = found.bo[: len(found.made)]
    asked = found.ioctl >= 0
    bo[found.ioctl[asked]] = found.bo[: len(found.made)][asked]
    named = np.flatnonzero((layer == IOCTL) & (bo == 0))
    bo[named] = np.append(found.bo, np.uint64(0))[objects_of_handles(found, named)]
    return inherited(bo, where.inside, np.uint64(0))


def jobs_and_causes(
    trace: NpuTrace, where: Contexts, layer: NDArray[np.int8], jobs: pd.DataFrame
) -> tuple[NDArray[np.int64], Rows]:
    """Find each hit's job and cause.

    Fences of other drivers are marked as left out in `layer`.

    Returns:
        (events,) int64 row of `jobs`, -1 for none or several; (events,) row of the hit that caused this one, -1.

    """
    job = np.full(len(trace.events), NONE, np.int64)
    parent = where.inside.copy()
    fences = np.flatnonzero(layer == FENCE)
    job[fences] = _job_of_fence(trace, fences, jobs)
    layer[fences[job[fences] == NONE]] = LEFT_OUT
    _ioctls(trace, where, layer, jobs, job)
    callbacks = _completions(trace, where, jobs, job)
    job = inherited(job, where.inside, NONE)
    begun = _begun(trace, job, len(jobs))
    _caused(parent, callbacks, begun, job)
    lone = trace.rows(COMPLETES)
    _caused(parent, lone[where.inside[lone] == NONE], begun, job)
    _wakes(trace, parent, job, len(jobs))
    replies = _messages(trace, where, parent)
    _interrupts(trace, where, _Found(job, parent), callbacks, replies)
    _upwards(where, layer, job)
    return job, np.where(parent < np.arange(len(parent)), parent, NONE)


def climb(where: Contexts, layer: NDArray[np.int8], rows: Rows, to: int = IOCTL) -> Rows:
    """(rows,) innermost step of layer `to` that each of these ran inside of, -1 for none."""
    found = where.inside[rows]
    while len(wrong := np.flatnonzero((found >= 0) & (layer[found] != to))):
        found[wrong] = where.inside[found[wrong]]
    return found


def inherited(values: NDArray[Any], inside: Rows, missing: Any) -> NDArray[Any]:
    """Give what ran inside of something the value of that, where it has none of its own."""
    open_ = np.flatnonzero((values == missing) & (inside >= 0))
    while len(open_):
        given = values[inside[open_]] != missing
        if not given.any():
            break
        values[open_[given]] = values[inside[open_[given]]]
        open_ = open_[~given]
    return values


def _numbers(jobs: pd.DataFrame, column: str) -> NDArray[np.int64]:
    """(jobs,) int64: a column of the jobs, -1 where it is missing."""
    if column not in jobs:
        return np.full(len(jobs), NONE, np.int64)
    numbers: NDArray[np.int64] = jobs[column].to_numpy(np.int64, na_value=NONE)
    return numbers


def _places(keys: NDArray[np.int64], asked: NDArray[np.int64]) -> Rows:
    """(asked,) place of each in `keys`, of the first where there are several; -1 for none and for negative ones."""
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], asked)
    found = order[np.minimum(place, len(order) - 1)] if len(order) else np.zeros(len(asked), np.intp)
    known = (asked >= 0) & (keys[found] == asked) if len(order) else np.zeros(len(asked), np.bool_)
    return np.where(known, found, NONE)


def _job_of_fence(trace: NpuTrace, fences: Rows, jobs: pd.DataFrame) -> Rows:
    context, seqno = _numbers(jobs, "context"), _numbers(jobs, "seqno")
    keys = np.where((context >= 0) & (seqno >= 0), context << 32 | seqno, NONE)
    asked = trace.column("context", fences, np.int64), trace.column("seqno", fences, np.int64)
    return _places(keys, np.where((asked[0] >= 0) & (asked[1] >= 0), asked[0] << 32 | asked[1], NONE))


def _ioctls(
    trace: NpuTrace, where: Contexts, layer: NDArray[np.int8], jobs: pd.DataFrame, job: NDArray[np.int64]
) -> None:
    """Give submissions and waits their jobs: by the fence that they make or wait for, else by when they began."""
    fences = trace.rows(CREATES_FENCE, STARTS_WAIT, ENDS_WAIT)
    fences = fences[job[fences] >= 0]
    ioctls = climb(where, layer, fences)
    job[ioctls[ioctls >= 0]] = job[fences[ioctls >= 0]]
    for names, column in ((SUBMITS, "submitted_ns"), ((WAIT,), "wait_start_ns")):
        rows = trace.rows(*names)
        rows = rows[job[rows] == NONE]
        job[rows] = _places(_numbers(jobs, column), trace.events["time_ns"].to_numpy()[rows])


def _completions(trace: NpuTrace, where: Contexts, jobs: pd.DataFrame, job: NDArray[np.int64]) -> Rows:
    """Give callbacks their jobs; rows of those that have one."""
    signals = trace.rows(COMPLETES)
    of = where.inside[signals]
    within = (of >= 0) & (job[signals] >= 0)
    within[within] = trace.mask(CALLBACK)[of[within]]
    job[of[within]] = job[signals[within]]
    callbacks = trace.rows(CALLBACK)
    unknown = callbacks[job[callbacks] == NONE]
    job[unknown] = _places(_numbers(jobs, "done_ns"), trace.events["time_ns"].to_numpy()[unknown])
    return callbacks[job[callbacks] >= 0]


def _outermost(where: Contexts, rows: Rows) -> Rows:
    found = where.inside[rows]
    while len(inner := np.flatnonzero((found >= 0) & (where.inside[found] >= 0))):
        found[inner] = where.inside[found[inner]]
    return found


def _begun(trace: NpuTrace, job: NDArray[np.int64], jobs: int) -> Rows:
    """(jobs,) the hit that gave each job to the device: its doorbell, else its submission; -1 for none."""
    begun = np.full(jobs, NONE, np.intp)
    for names in ((CREATES_FENCE,), SUBMITS, DOORBELLS):
        rows = trace.rows(*names)
        rows = rows[job[rows] >= 0]
        begun[job[rows]] = rows
    return begun


def _caused(parent: Rows, rows: Rows, begun: Rows, job: NDArray[np.int64]) -> None:
    rows = rows[job[rows] >= 0]
    cause = begun[job[rows]]
    known = (cause >= 0) & (cause < rows)
    parent[rows[known]] = cause[known]


def _wakes(trace: NpuTrace, parent: Rows, job: NDArray[np.int64], jobs: int) -> None:
    """The end of a wait is the doing of the completion that came before it."""
    done = np.full(jobs, NONE, np.intp)
    signals = trace.rows(COMPLETES)
    signals = signals[job[signals] >= 0]
    done[job[signals]] = signals
    _caused(parent, trace.rows(ENDS_WAIT), done, job)


def _messages(trace: NpuTrace, where: Contexts, parent: Rows) -> Rows:
    """Make requests the cause of their answers; rows of the calls that received one."""
    told = trace.rows(MESSAGE)
    if len(told) and "event" in trace.events:
        direction = trace.events["event"].iloc[told].astype("str").to_numpy()
        sent, got = (told[np.char.find(direction.astype(str), word) >= 0] for word in ("tx", "rx"))
        ids = [trace.column("request_id", rows, np.int64) for rows in (sent, got)]
        request = np.where(ids[1] >= 0, answers(ids[0], sent, ids[1], got)[1], NONE)
        parent[got[request >= 0]] = sent[request[request >= 0]]
    sends, receives = trace.rows(SEND), trace.rows(RECEIVE)
    receives = receives[where.inside[receives] >= 0]
    request = newest_before(where.inside[sends], sends, where.inside[receives], receives)
    receives, sends = receives[request >= 0], sends[request[request >= 0]]
    parent[receives] = sends
    answered: Rows = receives[trace.column("retval", receives, np.int64) == 0]
    return answered


@dataclass(frozen=True)
class _Found:
    """Each hit's job and cause as far as they are known: (events,) both, written into."""

    job: NDArray[np.int64]
    parent: Rows


def _interrupts(trace: NpuTrace, where: Contexts, found: _Found, callbacks: Rows, replies: Rows) -> None:
    """Lead from an interrupt to the thread that it wakes, and to it from what it answers, where that is one thing."""
    job, parent = found.job, found.parent
    entries = np.flatnonzero(where.interrupt & where.opener)
    if not len(entries):
        return
    deferred = np.flatnonzero(where.deferred & (where.inside == NONE))
    woken_by = entries[np.maximum(np.searchsorted(entries, deferred) - 1, 0)]
    known = (woken_by < deferred) & (woken_by > np.append(NONE, deferred[:-1])[: len(deferred)])
    parent[deferred[known]] = woken_by[known]
    handlers = _outermost(where, callbacks)
    told_by = np.where(handlers >= 0, parent[handlers], NONE)
    told_by = np.where(where.interrupt[told_by], told_by, NONE)
    # The last interrupt before a wait for an answer is over brought the answer.
    latest = np.searchsorted(trace.events["time_ns"].to_numpy()[entries], end_ns(trace, replies), side="right") - 1
    brought_by = np.where((latest >= 0) & (entries[latest] > replies), entries[latest], NONE)
    only, cause = _only(np.concatenate([told_by, brought_by]), parent[np.concatenate([callbacks, replies])])
    parent[only], job[only] = cause, job[cause]
    handler, its_job = _only(handlers, job[callbacks])
    job[handler] = its_job
    inherited(job, where.inside, NONE)


def _upwards(where: Contexts, layer: NDArray[np.int8], job: NDArray[np.int64]) -> None:
    """Give a program's call the job of the ioctls below it, where that is one job."""
    rows = np.flatnonzero((layer == IOCTL) & (job >= 0))
    calls, jobs = climb(where, layer, rows, API), job[rows]
    owners, owned = [calls], [jobs]
    while (calls >= 0).any():
        jobs = jobs[calls >= 0]
        calls = climb(where, layer, calls[calls >= 0], API)
        owners.append(calls)
        owned.append(jobs)
    only, its_job = _only(np.concatenate(owners), np.concatenate(owned))
    job[only] = its_job


def _only(owner: Rows, value: Rows) -> tuple[Rows, Rows]:
    """Owners (-1 is none) that have one value alone, however often, and that value."""
    known = (owner >= 0) & (value >= 0)
    grouped = pd.Series(value[known]).groupby(owner[known]).agg(["min", "max"])
    one = grouped[grouped["min"] == grouped["max"]]
    return one.index.to_numpy(np.intp), one["min"].to_numpy(np.intp)

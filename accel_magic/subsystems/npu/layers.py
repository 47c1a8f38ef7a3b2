"""From an inference or a Level Zero call down to the interrupt that completes it: every step with its cause.

Steps of one thread are linked by nesting (`contexts`), steps of different threads by their contents: a job's fence
links the submission to the completion and to the wait that it ends, a message's number links a request to its reply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import answers, end_ns, newest_before, nullable
from accel_magic.subsystems.npu.contexts import NONE, Contexts, contexts, durations
from accel_magic.subsystems.npu.families import API, FENCE, INTERRUPT, IOCTL, LAYERS, LEFT_OUT, layer_codes, shown_name
from accel_magic.subsystems.npu.objects import SUBMITS, objects, objects_of_handles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]


COLUMNS: Final = (
    *("id", "parent", "inside", "root", "layer", "name", "start_ns", "duration_ns", "calls"),
    *("pid", "tid", "comm", "job", "bo", "row"),
)
AT_ONCE_NS: Final = 100_000
NO_THREAD: Final = "interrupt"
"""`comm` of steps that ran in an interrupt, which are unrelated to the thread they interrupted."""


@dataclass(frozen=True)
class _Rows:
    """Data of every hit that is a step or part of one. All (events,), rows as in `DriverTrace.events`."""

    where: Contexts
    layer: NDArray[np.int8]
    parent: NDArray[np.intp]
    job: NDArray[np.int64]
    bo: NDArray[np.uint64]
    duration: NDArray[np.float64]


def layers(trace: DriverTrace, jobs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Divide a trace into steps, each with its cause.

    Args:
        trace: A trace with times; one without has no steps.
        jobs: The jobs of this trace (`subsystems.npu.jobs.jobs`); computed if not given.

    Returns:
        One row per step, in order of time; consecutive hits of one function are one step (a buffer's pages).

        - `id` int64: 0..n-1, the index. `parent` int64: the step that caused it; `inside` int64: the step that contains
          it, equal to `parent` if both are on one thread; `root` int64: the program's own call that started it all; -1
          if unknown.
        - `layer` category, one of `LAYERS`; work that an interrupt defers to a thread is also in "interrupt".
        - `name` category: the task, the Level Zero call, the function or the tracepoint.
        - `start_ns` int64 since the start; `duration_ns` float64: measured, or for unmeasured handlers and steps of
          several hits, up to the last known hit; NaN for instants. `calls` int64: hits in the step.
        - `pid`, `tid` int32, `comm` category; -1 and "interrupt" for steps in an interrupt.
        - `job` int64: row of `jobs`, -1 for none or several. `bo` UInt64: address of the buffer object. `row` int64:
          its first hit in `trace.events`.

    """
    if not trace.timed or not len(trace.events):
        return _frame(trace, None, np.zeros(0, np.intp), np.zeros(0, np.intp))
    if jobs is None:
        from accel_magic.subsystems.npu.jobs import jobs as find_jobs

        jobs = find_jobs(trace)
    rows = _joined(trace, jobs)
    first, step = _steps(trace, rows)
    return _frame(trace, rows, first, step)


def _joined(trace: DriverTrace, jobs: pd.DataFrame) -> _Rows:
    where = contexts(trace)
    layer = layer_codes(trace)[trace.codes]
    layer[(where.interrupt | where.deferred) & (layer >= 0) & (layer != FENCE)] = INTERRUPT
    duration = durations(trace)
    bo = buffers(trace, where, layer)
    job, parent = jobs_and_causes(trace, where, layer, jobs)
    # What a task that is no step contains is in what contains that one.
    around = np.where(trace.mask(*trace.naming), where.inside, np.arange(len(trace.events)))
    inside, parent = (np.where(rows >= 0, around[rows], NONE) for rows in (where.inside, parent))
    return _Rows(replace(where, inside=inside), layer, parent, job, bo, duration)


def _steps(trace: DriverTrace, rows: _Rows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First row of each step (steps,), in order of time, and the step of each row (events,), -1 for rows left out."""
    kept = np.flatnonzero(rows.layer >= 0)
    cpu_or_tid = np.where(rows.where.interrupt, NONE - trace.events["cpu"].to_numpy(), trace.events["tid"].to_numpy())
    thread = pd.factorize(cpu_or_tid[kept])[0].astype(np.uint16)
    order = kept[np.argsort(thread, kind="stable")]
    # A hit that has its own job or buffer, encloses others, or was measured is a separate step.
    single = ~np.isnan(rows.duration) | rows.where.opener | carries_ids(trace)
    again = np.zeros(len(order), np.bool_)
    before, this = order[:-1], order[1:]
    again[1:] = (trace.codes[before] == trace.codes[this]) & ~single[this] & ~single[before]
    again[1:] &= (rows.parent[before] == rows.parent[this]) & (cpu_or_tid[before] == cpu_or_tid[this])
    again[1:] &= rows.where.inside[before] == rows.where.inside[this]
    # Hits outside any known call only belong together if they follow each other at once.
    time = trace.events["time_ns"].to_numpy()
    again[1:] &= (rows.where.inside[this] >= 0) | (time[this] - time[before] < AT_ONCE_NS)
    first = order[~again]
    number = np.empty(len(first), np.intp)
    number[np.argsort(first)] = np.arange(len(first))
    step = np.full(len(trace.events), NONE, np.intp)
    step[order] = number[np.cumsum(~again) - 1]
    return np.sort(first), step


def _ends(trace: DriverTrace, rows: _Rows) -> NDArray[np.int64]:
    """(events,) int64 ns: the return if measured, the last known hit of unmeasured handlers, else the hit itself."""
    time = trace.events["time_ns"].to_numpy()
    end = time + np.nan_to_num(rows.duration).astype(np.int64)
    inner = np.flatnonzero(rows.where.opener[rows.where.inside] & (rows.where.inside >= 0))
    # Handlers inside handlers first: their ends count for the outer ones.
    nested = rows.where.opener[inner]
    for chosen in (inner[~nested], inner[nested], inner[nested]):
        np.maximum.at(end, rows.where.inside[chosen], end[chosen])
    return end


def _frame(trace: DriverTrace, rows: _Rows | None, first: NDArray[np.intp], step: NDArray[np.intp]) -> pd.DataFrame:
    if rows is None:
        return _empty()
    events = trace.events
    time = events["time_ns"].to_numpy()
    ends = _ends(trace, rows)
    members = np.flatnonzero(step >= 0)
    last = time[first].copy()
    np.maximum.at(last, step[members], ends[members])
    calls = np.bincount(step[members], minlength=len(first))
    known = ~np.isnan(rows.duration[first]) | rows.where.opener[first] | (calls > 1)
    parent, inside = (_step_of(step, chosen[first]) for chosen in (rows.parent, rows.where.inside))
    layer, interrupt = rows.layer[first], rows.where.interrupt[first]
    names = pd.Index([shown_name(name) for name in trace.names], dtype="str")
    return pd.DataFrame(
        {
            "id": np.arange(len(first)),
            "parent": parent,
            "inside": inside,
            "root": _roots(parent, layer),
            "layer": pd.Categorical.from_codes(layer, categories=pd.Index(LAYERS)),
            "name": pd.Categorical.from_codes(trace.codes[first], categories=names),
            "start_ns": time[first],
            "duration_ns": np.where(known, (last - time[first]).astype(np.float64), np.nan),
            "calls": calls,
            "pid": np.where(interrupt, np.int32(NONE), events["pid"].to_numpy()[first]),
            "tid": np.where(interrupt, np.int32(NONE), events["tid"].to_numpy()[first]),
            "comm": _comm(events["comm"].cat, first, interrupt),
            "job": rows.job[first],
            "bo": nullable(rows.bo[first], rows.bo[first] != 0, "UInt64"),
            "row": first,
        },
        copy=False,  # otherwise pandas copies all columns of each dtype into one block
    )


def _comm(comm: Any, first: NDArray[np.intp], interrupt: NDArray[np.bool_]) -> pd.Categorical:
    names = comm.categories.union([NO_THREAD], sort=False)
    codes = comm.codes.to_numpy()[first].astype(np.int32)
    codes[interrupt] = names.get_loc(NO_THREAD)
    return pd.Categorical.from_codes(codes, categories=names)


def _step_of(step: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.where(rows >= 0, step[rows], NONE)


def _roots(parent: NDArray[np.intp], layer: NDArray[np.int8]) -> NDArray[np.intp]:
    """(steps,) the first step of each chain of parents, -1 if that is not a program's call."""
    root = np.where(parent >= 0, parent, np.arange(len(parent)))
    while True:
        further = root[root]
        if (further == root).all():
            return np.where(layer[root] <= IOCTL, root, NONE)
        root = further


def _empty() -> pd.DataFrame:
    kinds = {"duration_ns": "float64", "pid": "int32", "tid": "int32", "bo": "UInt64"}
    frame = pd.DataFrame({name: pd.Series(dtype=kinds.get(name, "int64")) for name in COLUMNS})
    frame["layer"] = pd.Categorical([], categories=pd.Index(LAYERS))
    return frame.astype({"name": "category", "comm": "category"})


CREATES_FENCE, COMPLETES, STARTS_WAIT, ENDS_WAIT = (
    *("dma_fence_init", "dma_fence_signaled", "dma_fence_wait_start", "dma_fence_wait_end"),
)
WAIT: Final = "ivpu_bo_wait_ioctl"
CALLBACK: Final = "ivpu_job_done_callback"
DOORBELLS: Final = ("ivpu_hw_ip_db_set", "ivpu_hw_db_set")
SEND, RECEIVE, MESSAGE = "ivpu_ipc_send", "ivpu_ipc_receive", "jsm"
_WITH_IDS = (CALLBACK, *DOORBELLS, MESSAGE, "job", "pm", "ivpu_job_signal", "ivpu_job_signal_and_destroy")


def carries_ids(trace: DriverTrace) -> NDArray[np.bool_]:
    """(events,) bool: hits about one particular job, message, fence or buffer, which are never merged into one step."""
    ids = trace.mask(*_WITH_IDS) | np.char.startswith(np.array(trace.names, str), "dma_fence_")[trace.codes]
    return ids | trace.events["bo"].notna().to_numpy() if "bo" in trace.events else ids


def buffers(trace: DriverTrace, where: Contexts, layer: NDArray[np.int8]) -> NDArray[np.uint64]:
    """(events,) uint64: address of the buffer object of each hit, 0 if unknown."""
    bo: NDArray[np.uint64] = trace.column("bo", np.arange(len(trace.events)), np.uint64)
    found = objects(trace)
    bo[found.made] = found.bo[: len(found.made)]
    requested = found.ioctl >= 0
    bo[found.ioctl[requested]] = found.bo[: len(found.made)][requested]
    named = np.flatnonzero((layer == IOCTL) & (bo == 0))
    bo[named] = np.append(found.bo, np.uint64(0))[objects_of_handles(found, named)]
    return inherited(bo, where.inside, np.uint64(0))


def jobs_and_causes(
    trace: DriverTrace, where: Contexts, layer: NDArray[np.int8], jobs: pd.DataFrame
) -> tuple[NDArray[np.int64], Rows]:
    """Find each hit's job and cause.

    Fences of other drivers are marked as left out in `layer`.

    Returns:
        (events,) int64 row of `jobs`, -1 for none or several; (events,) row of the hit that caused this one, -1 if
        unknown.

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
    """(rows,) innermost enclosing step of layer `to`, -1 if none."""
    found = where.inside[rows]
    while len(wrong := np.flatnonzero((found >= 0) & (layer[found] != to))):
        found[wrong] = where.inside[found[wrong]]
    return found


def inherited(values: NDArray[Any], inside: Rows, missing: Any) -> NDArray[Any]:
    """Pass values on to the hits inside, where those have none of their own."""
    open_ = np.flatnonzero((values == missing) & (inside >= 0))
    while len(open_):
        given = values[inside[open_]] != missing
        if not given.any():
            break
        values[open_[given]] = values[inside[open_[given]]]
        open_ = open_[~given]
    return values


def _numbers(jobs: pd.DataFrame, column: str) -> NDArray[np.int64]:
    """(jobs,) int64: a column of the jobs, -1 if missing."""
    if column not in jobs:
        return np.full(len(jobs), NONE, np.int64)
    numbers: NDArray[np.int64] = jobs[column].to_numpy(np.int64, na_value=NONE)
    return numbers


def _places(keys: NDArray[np.int64], requested: NDArray[np.int64]) -> Rows:
    """(asked,) first index of each in `keys`; -1 if there is none, and for negative values."""
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], requested)
    found = order[np.minimum(place, len(order) - 1)] if len(order) else np.zeros(len(requested), np.intp)
    known = (requested >= 0) & (keys[found] == requested) if len(order) else np.zeros(len(requested), np.bool_)
    return np.where(known, found, NONE)


def _job_of_fence(trace: DriverTrace, fences: Rows, jobs: pd.DataFrame) -> Rows:
    context, seqno = _numbers(jobs, "context"), _numbers(jobs, "seqno")
    keys = np.where((context >= 0) & (seqno >= 0), context << 32 | seqno, NONE)
    requested = trace.column("context", fences, np.int64), trace.column("seqno", fences, np.int64)
    return _places(keys, np.where((requested[0] >= 0) & (requested[1] >= 0), requested[0] << 32 | requested[1], NONE))


def _ioctls(
    trace: DriverTrace, where: Contexts, layer: NDArray[np.int8], jobs: pd.DataFrame, job: NDArray[np.int64]
) -> None:
    """Assign jobs to submissions and waits: by the fence that they create or wait for, else by their start."""
    fences = trace.rows(CREATES_FENCE, STARTS_WAIT, ENDS_WAIT)
    fences = fences[job[fences] >= 0]
    ioctls = climb(where, layer, fences)
    job[ioctls[ioctls >= 0]] = job[fences[ioctls >= 0]]
    for names, column in ((SUBMITS, "submitted_ns"), ((WAIT,), "wait_start_ns")):
        rows = trace.rows(*names)
        rows = rows[job[rows] == NONE]
        job[rows] = _places(_numbers(jobs, column), trace.events["time_ns"].to_numpy()[rows])


def _completions(trace: DriverTrace, where: Contexts, jobs: pd.DataFrame, job: NDArray[np.int64]) -> Rows:
    """Assign jobs to callbacks; returns the rows of those that have one."""
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


def _begun(trace: DriverTrace, job: NDArray[np.int64], jobs: int) -> Rows:
    """(jobs,) the hit that passed each job to the device: its doorbell, else its submission; -1 if none."""
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


def _wakes(trace: DriverTrace, parent: Rows, job: NDArray[np.int64], jobs: int) -> None:
    """Make a job's completion the cause of the end of the wait for it."""
    done = np.full(jobs, NONE, np.intp)
    signals = trace.rows(COMPLETES)
    signals = signals[job[signals] >= 0]
    done[job[signals]] = signals
    _caused(parent, trace.rows(ENDS_WAIT), done, job)


def _messages(trace: DriverTrace, where: Contexts, parent: Rows) -> Rows:
    """Make requests the cause of their replies; returns the rows of the calls that received one."""
    passed = trace.rows(MESSAGE)
    if len(passed) and "event" in trace.events:
        direction = trace.events["event"].iloc[passed].astype("str").to_numpy()
        sent, got = (passed[np.char.find(direction.astype(str), word) >= 0] for word in ("tx", "rx"))
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
    """Each hit's job and cause as far as known: (events,) both, modified in place."""

    job: NDArray[np.int64]
    parent: Rows


def _interrupts(trace: DriverTrace, where: Contexts, found: _Found, callbacks: Rows, replies: Rows) -> None:
    """Link an interrupt to the thread that it wakes, and to what it answers, if that is a single thing."""
    job, parent = found.job, found.parent
    entries = np.flatnonzero(where.interrupt & where.opener)
    if not len(entries):
        return
    deferred = np.flatnonzero(where.deferred & (where.inside == NONE))
    woken_by = entries[np.maximum(np.searchsorted(entries, deferred) - 1, 0)]
    known = (woken_by < deferred) & (woken_by > np.append(NONE, deferred[:-1])[: len(deferred)])
    parent[deferred[known]] = woken_by[known]
    handlers = _outermost(where, callbacks)
    caused_by = np.where(handlers >= 0, parent[handlers], NONE)
    caused_by = np.where(where.interrupt[caused_by], caused_by, NONE)
    # The last interrupt before the end of a wait for a reply brought the reply.
    latest = np.searchsorted(trace.events["time_ns"].to_numpy()[entries], end_ns(trace, replies), side="right") - 1
    brought_by = np.where((latest >= 0) & (entries[latest] > replies), entries[latest], NONE)
    only, cause = _only(np.concatenate([caused_by, brought_by]), parent[np.concatenate([callbacks, replies])])
    parent[only], job[only] = cause, job[cause]
    handler, its_job = _only(handlers, job[callbacks])
    job[handler] = its_job
    inherited(job, where.inside, NONE)


def _upwards(where: Contexts, layer: NDArray[np.int8], job: NDArray[np.int64]) -> None:
    """Assign the job of the ioctls below a program's call to the call, if it is a single job."""
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
    """Owners (-1: none) with a single distinct value, and that value."""
    known = (owner >= 0) & (value >= 0)
    grouped = pd.Series(value[known]).groupby(owner[known]).agg(["min", "max"])
    one = grouped[grouped["min"] == grouped["max"]]
    return one.index.to_numpy(np.intp), one["min"].to_numpy(np.intp)

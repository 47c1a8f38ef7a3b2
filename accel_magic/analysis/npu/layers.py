"""From a Level Zero call down to the interrupt that completes it: every step with the step that caused it.

Steps of one thread are joined by nesting (`contexts`), steps of different threads by what they carry: a job's fence
leads from the submission to the completion and on to the wait that it ends, a message's request to its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.npu import links
from accel_magic.analysis.npu.contexts import NONE, Contexts, contexts, durations
from accel_magic.analysis.npu.layer_names import FENCE, INTERRUPT, IOCTL, LAYERS, layer_codes, shown_name
from accel_magic.analysis.npu.threads import nullable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.npu.trace import NpuTrace

COLUMNS: Final = (
    *("id", "parent", "inside", "root", "layer", "name", "start_ns", "duration_ns", "calls"),
    *("pid", "tid", "comm", "job", "bo", "row"),
)
AT_ONCE_NS: Final = 100_000
NO_THREAD: Final = "interrupt"
"""`comm` of steps that ran in an interrupt: what they interrupted has nothing to do with them."""


@dataclass(frozen=True)
class _Rows:
    """What is known of every hit that is a step or part of one. All (events,), rows as in `NpuTrace.events`."""

    where: Contexts
    layer: NDArray[np.int8]
    parent: NDArray[np.intp]
    job: NDArray[np.int64]
    bo: NDArray[np.uint64]
    duration: NDArray[np.float64]


def layers(trace: NpuTrace, jobs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Lay out what happened as steps, each with its cause.

    Args:
        trace: A trace with times; one without gives no steps.
        jobs: The jobs of this trace (`analysis.npu.jobs.jobs`), found here when not given.

    Returns:
        One row per step, in order of time; hits of one function right after each other are one step (a buffer's pages).

        - `id` int64: 0..n-1, the index. `parent` int64: the step that caused it; `inside` int64: the step that it ran
          inside of, the same where both are on one thread; `root` int64: the program's own call that it all began with;
          -1 for none that is known.
        - `layer` category, one of `LAYERS`; to "interrupt" belongs what it leaves to a thread.
        - `name` category: the Level Zero call, the function or the tracepoint.
        - `start_ns` int64 since the start; `duration_ns` float64: measured, or for handlers that were not measured, and
          several hits in one step, up to the last thing known of it; NaN for instants. `calls` int64: hits in the step.
        - `pid`, `tid` int32, `comm` category: who; -1 and "interrupt" for steps in an interrupt.
        - `job` int64: row of `jobs`, -1 for none or several. `bo` UInt64: address of the buffer object. `row` int64:
          its first hit in `trace.events`.

    """
    if not trace.timed or not len(trace.events):
        return _frame(trace, None, np.zeros(0, np.intp), np.zeros(0, np.intp))
    if jobs is None:
        from accel_magic.analysis.npu.jobs import jobs as find_jobs

        jobs = find_jobs(trace)
    rows = _joined(trace, jobs)
    first, step = _steps(trace, rows)
    return _frame(trace, rows, first, step)


def _joined(trace: NpuTrace, jobs: pd.DataFrame) -> _Rows:
    where = contexts(trace)
    layer = layer_codes(trace)[trace.codes]
    layer[(where.interrupt | where.deferred) & (layer >= 0) & (layer != FENCE)] = INTERRUPT
    duration = durations(trace)
    bo = links.buffers(trace, where, layer)
    job, parent = links.jobs_and_causes(trace, where, layer, jobs)
    return _Rows(where, layer, parent, job, bo, duration)


def _steps(trace: NpuTrace, rows: _Rows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First row of each step (steps,), in order of time, and the step of each row (events,), -1 for rows left out."""
    kept = np.flatnonzero(rows.layer >= 0)
    cpu_or_tid = np.where(rows.where.interrupt, NONE - trace.events["cpu"].to_numpy(), trace.events["tid"].to_numpy())
    thread = pd.factorize(cpu_or_tid[kept])[0].astype(np.uint16)
    order = kept[np.argsort(thread, kind="stable")]
    # What carries a job or a buffer of its own, encloses others or was measured is a step by itself.
    single = ~np.isnan(rows.duration) | rows.where.opener | links.carries_ids(trace)
    again = np.zeros(len(order), np.bool_)
    before, this = order[:-1], order[1:]
    again[1:] = (trace.codes[before] == trace.codes[this]) & ~single[this] & ~single[before]
    again[1:] &= (rows.parent[before] == rows.parent[this]) & (cpu_or_tid[before] == cpu_or_tid[this])
    again[1:] &= rows.where.inside[before] == rows.where.inside[this]
    # Of what is inside of nothing known, nothing tells that it belongs together, but that it follows at once.
    time = trace.events["time_ns"].to_numpy()
    again[1:] &= (rows.where.inside[this] >= 0) | (time[this] - time[before] < AT_ONCE_NS)
    first = order[~again]
    number = np.empty(len(first), np.intp)
    number[np.argsort(first)] = np.arange(len(first))
    step = np.full(len(trace.events), NONE, np.intp)
    step[order] = number[np.cumsum(~again) - 1]
    return np.sort(first), step


def _ends(trace: NpuTrace, rows: _Rows) -> NDArray[np.int64]:
    """(events,) int64 ns: return of what was measured, last known thing of unmeasured handlers, else the hit itself."""
    time = trace.events["time_ns"].to_numpy()
    end = time + np.nan_to_num(rows.duration).astype(np.int64)
    inner = np.flatnonzero(rows.where.opener[rows.where.inside] & (rows.where.inside >= 0))
    # Handlers inside handlers first: their ends count for the outer ones.
    nested = rows.where.opener[inner]
    for chosen in (inner[~nested], inner[nested], inner[nested]):
        np.maximum.at(end, rows.where.inside[chosen], end[chosen])
    return end


def _frame(trace: NpuTrace, rows: _Rows | None, first: NDArray[np.intp], step: NDArray[np.intp]) -> pd.DataFrame:
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
        copy=False,  # a million rows of each kind of column would be copied together
    )


def _comm(comm: Any, first: NDArray[np.intp], interrupt: NDArray[np.bool_]) -> pd.Categorical:
    names = comm.categories.union([NO_THREAD], sort=False)
    codes = comm.codes.to_numpy()[first].astype(np.int32)
    codes[interrupt] = names.get_loc(NO_THREAD)
    return pd.Categorical.from_codes(codes, categories=names)


def _step_of(step: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.where(rows >= 0, step[rows], NONE)


def _roots(parent: NDArray[np.intp], layer: NDArray[np.int8]) -> NDArray[np.intp]:
    """(steps,) the step that each chain of parents begins with, -1 where that is no call of a program."""
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

"""Inferences: how long each took, and how much of it was spent in queues, in layers, waiting, and on the NPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.subsystems.npu.jobs import ABORTED, DONE, ERROR, OK, REFUSED, TIMED_OUT
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.compiled_models import shapes_in
from accel_magic.subsystems.openvino.input_shapes import is_dynamic, shapes_text
from accel_magic.subsystems.openvino.model_names import task_name
from accel_magic.subsystems.openvino.queueing import Queue
from accel_magic.subsystems.openvino.task_frames import STEP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

_FAILED = (ERROR, ABORTED, REFUSED, TIMED_OUT)
_SUCCEEDED = (OK, DONE)


def requests(trace: OpenVinoTrace, jobs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per inference, in order of time.

    Args:
        trace: The trace.
        jobs: Its NPU jobs (`subsystems.npu.jobs`); empty if the NPU's driver was not traced.

    Columns: `model` (category: its name, or OpenVINO's own, such as `Model1`, if that is unknown; '' without any),
    `device` (category), `shapes` (category: of its inputs, such as `x[1,3,48,320]`, separated by `; `; NA if they are
    not known: of models with dynamic inputs, calls from Python of the traced process have them; of others, the compiled
    model), `pid`, `tid` (the thread that ran it), `start_ns`, `end_ns`, `duration_ns` (int64), `queue_ns`
    (Int64: the time before it ran: of an asynchronous one from `start_async` to `start_ns`, with copies of its inputs
    and until the stream's thread ran; of any other before its first layer, while layers of its model's other inferences
    ran; NA if that is unknown, see `queueing`),
    `latency_ns` (int64: from the call to `end_ns`, with the queue), `layers` (number of executed nodes, with those that
    are part of another), `layers_ns` (their time, each moment once), `outside_ns` (the rest of `duration_ns`, without
    the queue: preparing, scheduling), `call_ns` (Int64: the call of the Python API: of `infer`, which waits, or of
    `start_async`, which does not; NA if another program called), `copy_ns` (Int64: the part of that call outside of the
    inference: copies of inputs and outputs, conversions), `waiting_ns` (Int64: for the NPU; NA on
    other devices), `jobs` (number of NPU jobs), `npu_ns` (Int64: from the first job's doorbell to the last one's end;
    NA without jobs), `failed` (boolean: OpenVINO raised an exception during it in its thread, its call from Python
    raised one, or one of its NPU jobs failed; NA if that is not known: neither exceptions nor the results of its jobs
    were traced), `faults` (Int64: page faults of its
    process during the inference, in any thread; NA if they were not counted), `gap_ns` (Int64: since the previous
    inference on this thread ended; NA for the first).
    """
    found = trace.inferences
    table = pd.DataFrame(
        {
            "model": found["model"].astype(str).to_numpy(object),
            "device": found["device"].to_numpy(),
            "pid": found["pid"].to_numpy(),
            "tid": found["tid"].to_numpy(),
            "start_ns": found["start_ns"].to_numpy(),
            "end_ns": found["end_ns"].to_numpy(),
            "duration_ns": found["duration_ns"].to_numpy(),
        }
    )
    queue = Queue.of(trace)
    table.insert(7, "queue_ns", queue.waited)
    table.insert(8, "latency_ns", table["duration_ns"] + queue.before)
    table["layers"], table["layers_ns"] = found["layers"], found["layers_ns"]
    table["outside_ns"] = found["end_ns"] - found["stream_ns"] - found["layers_ns"]
    table = table.astype({"latency_ns": "int64"})
    _add_calls(trace, table, queue)
    table["waiting_ns"] = _waiting(trace, found)
    _add_jobs(trace, table, jobs)
    table["failed"] = _any_of(table["failed"], _raised(trace, table), _raised_from_calls(trace, table))
    table["faults"] = _faults(trace, table)
    table.insert(2, "shapes", _shapes(trace, queue))
    table["model"] = pd.Categorical(table["model"])
    before = table.groupby("tid", sort=False)["end_ns"].shift()
    table["gap_ns"] = (table["start_ns"] - before).astype("Int64")
    return table


def _add_calls(trace: OpenVinoTrace, table: pd.DataFrame, queue: Queue) -> None:
    """Add the time of the Python call that made each inference, and its part before and after OpenVINO's own task."""
    calls, of = trace.waiting_calls.calls, trace.waiting_calls.of
    alone = (of >= 0) & (pd.Series(of).groupby(of).transform("size") == 1).to_numpy(bool)
    waited = pd.Series(calls["duration_ns"].to_numpy()[np.maximum(of, 0)] if len(calls) else 0, table.index)
    call = waited.astype("Int64").where(pd.Series(alone, table.index))
    table["call_ns"] = call.fillna(queue.called)
    queued = table["queue_ns"].where(trace.waiting_calls.elsewhere, 0).fillna(0)  # else it is part of the duration
    table["copy_ns"] = (call - table["duration_ns"] - queued).fillna(queue.called)


def _shapes(trace: OpenVinoTrace, queue: Queue) -> pd.Series[str]:
    """The shapes of the inputs of each inference; NA where they are not known."""
    static = {
        (pid, task): shapes for (pid, task), model in trace.names.known.items() if (shapes := _static(model.inputs))
    }
    ran = trace.inferences
    keys = zip(ran["pid"].tolist(), ran["name"].astype(str).map(task_name), strict=True)
    found = np.array([static.get(key) for key in keys], object)
    of = trace.waiting_calls.of
    alone = (of >= 0) & (pd.Series(of).groupby(of).transform("size") == 1).to_numpy(bool)
    waiting, started = trace.waiting_calls.calls, trace.python_calls((preset.STARTED,))
    given = _given(trace, pd.concat([waiting, started], ignore_index=True))
    for rows, own in ((np.where(alone, of, -1), given[: len(waiting)]), (queue.started, given[len(waiting) :])):
        chosen = (rows >= 0) & pd.isna(found)
        found[chosen] = own[rows[chosen]]
    return pd.Series(pd.Categorical(found))


def _static(inputs: str) -> str:
    """The shapes in `CompiledModel.inputs`, such as `x f32[1,3,48,320]`; '' if some are dynamic, or the text is cut."""
    ports = [port.rpartition(" ") for port in inputs.split("; ")]
    if not inputs.endswith("]") or any(is_dynamic(port) for *_, port in ports):
        return ""
    return shapes_text((name, port.partition("[")[2]) for name, _, port in ports)


def _given(trace: OpenVinoTrace, calls: pd.DataFrame) -> NDArray[np.object_]:
    """The shapes of each call of the Python API as it was noted: by the last note of its thread before it began."""
    found = np.full(len(calls), None, object)
    calls = calls.sort_values("start_ns", kind="stable")
    models = calls["name"].map(lambda name: name.partition(" ")[2])
    noted: dict[tuple[str, int], list[tuple[NDArray[np.int64], str]]] = {}
    for one in shapes_in(trace.recording):
        times = np.cumsum(np.array(one.times.split(), np.int64)) - trace.recording.start_ns
        noted.setdefault((one.model, int(one.tid)), []).append((times, one.shapes))
    for (model, tid), own in calls.groupby([models, calls["tid"]], sort=False):
        notes = noted.get((str(model), int(str(tid))), [])
        if not notes:
            continue
        times = np.concatenate([each for each, _ in notes])
        shapes = np.repeat(np.array([text for _, text in notes], object), [len(each) for each, _ in notes])
        order = np.argsort(times, kind="stable")
        last = np.searchsorted(times[order], own["start_ns"].to_numpy(), side="right") - 1
        first = np.diff(last, prepend=-1) > 0  # a note belongs to one call: the one that begins right after it
        found[own.index.to_numpy()[first]] = shapes[order][last[first]]
    return found


def succeeded(requests: pd.DataFrame) -> pd.DataFrame:
    """The inferences that are not known to have failed: the time that a failed one took says nothing about others."""
    return requests[~requests["failed"].fillna(value=False).astype(bool)]


def _waiting(trace: OpenVinoTrace, found: pd.DataFrame) -> pd.Series[int]:
    """Time that each inference waited for the NPU."""
    steps = trace.of_kind(STEP)
    waits = steps[steps["name"].astype(str) == preset.NPU_WAIT]
    of = trace.within(found, waits)
    spent = np.bincount(of[of >= 0], waits["duration_ns"].to_numpy()[of >= 0], minlength=len(found))
    known = np.isin(np.arange(len(found)), of)
    return pd.Series(spent.astype(np.int64), dtype="Int64").where(pd.Series(known))


def _faults(trace: OpenVinoTrace, table: pd.DataFrame) -> pd.Series[int]:
    """Page faults during each inference; those during several count for each."""
    counted = trace.inferences["page_faults"].copy()
    if not any(point.function == preset.FAULT and not point.counted for point in trace.points):
        return counted
    events = trace.events[trace.events["function"] == preset.FAULT]
    for pid, own in table[counted.isna()].groupby("pid", sort=False):
        times = events.loc[events["pid"] == pid, "time_ns"].to_numpy()
        ends = (np.searchsorted(times, own[edge].to_numpy()) for edge in ("end_ns", "start_ns"))
        counted[own.index] = np.subtract(*ends)
    return counted


def _raised(trace: OpenVinoTrace, table: pd.DataFrame) -> pd.Series[bool]:
    """Whether OpenVINO raised an exception during each inference, in its thread; NA if exceptions were not traced."""
    if not any(preset.EXCEPTION in point.function for point in trace.points):
        return pd.Series(pd.NA, table.index, dtype="boolean")
    raised = trace.events["function"].astype(str).str.contains(preset.EXCEPTION, regex=False)
    calls = trace.events.loc[raised, ["tid", "time_ns"]].rename(columns={"time_ns": "start_ns"})
    return pd.Series(table.index.isin(trace.within(table, calls)), table.index, dtype="boolean")


def _any_of(*reported: pd.Series[bool]) -> pd.Series[bool]:
    """Whether any of the sources reports a failure; NA where none knows."""
    every = pd.concat(reported, axis=1)
    return every.any(axis=1).astype("boolean").where(every.notna().any(axis=1))


def _raised_from_calls(trace: OpenVinoTrace, table: pd.DataFrame) -> pd.Series[bool]:
    """True for the last inference of each call from Python that raised an exception, NA for all others."""
    raised = np.unique(trace.within(trace.waiting_calls.calls, trace.python_calls((preset.RAISED,))))
    of = pd.Series(trace.waiting_calls.of, table.index)
    last = ~of.duplicated(keep="last") & of.isin(raised[raised >= 0])
    return pd.Series(pd.NA, table.index, dtype="boolean").mask(last, other=True)


def _job_failed(jobs: pd.DataFrame) -> pd.Series[bool]:
    """Whether each job failed; NA if that is not known."""
    known = jobs["status"].isin((*_FAILED, *_SUCCEEDED))
    return jobs["status"].isin(_FAILED).astype("boolean").where(known)


def _add_jobs(trace: OpenVinoTrace, table: pd.DataFrame, jobs: pd.DataFrame) -> None:
    """Add number, time, failures of the NPU's jobs; and their graph, where the inference's task names no model."""
    jobs = jobs[jobs["submitted_ns"].notna()] if len(jobs) else jobs
    moments = pd.DataFrame(
        {name: jobs[column].to_numpy(np.int64) for name, column in (("tid", "tid"), ("start_ns", "submitted_ns"))}
        if len(jobs)
        else {"tid": np.zeros(0, np.int64), "start_ns": np.zeros(0, np.int64)}
    )
    of: NDArray[np.intp] = trace.within(table, moments)
    inside = jobs.assign(of=of)[of >= 0] if len(jobs) else jobs
    table["jobs"] = np.bincount(of[of >= 0], minlength=len(table))
    table["npu_ns"] = pd.Series(pd.NA, table.index, dtype="Int64")
    table["failed"] = pd.Series(pd.NA, table.index, dtype="boolean")
    if len(inside):
        failed = _job_failed(inside).groupby(inside["of"])
        known = failed.max().where(failed.max() | (failed.count() == failed.size()))
        table["failed"] = known.reindex(table.index).astype("boolean")
        rung = inside["doorbell_ns"].fillna(inside["submitted_ns"]).groupby(inside["of"]).min()
        ended = inside["done_ns"].groupby(inside["of"]).max()
        table["npu_ns"] = (ended - rung).reindex(table.index).astype("Int64")
        graphs = inside["graph"].dropna().groupby(inside["of"]).first().reindex(table.index)
        table["model"] = table["model"].where((table["model"] != "") | graphs.isna(), graphs)

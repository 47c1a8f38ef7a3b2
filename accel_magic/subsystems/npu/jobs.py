"""The NPU's jobs, each from its submission to its end, reconstructed from everything that shows them.

The sources, best first: the job's fence (`dma_fence:*`; its context and sequence number identify the job on every
kernel), the driver's own tracepoint (`vpu:job`, Linux 6.16 and newer), the firmware's reply (`ivpu_job_done_callback`).
A trace of only the driver's functions shows only submissions: with several jobs in flight, an end cannot be assigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import NONE, answers, captured, inside, latest, nullable, signed32
from accel_magic.npu_interface import level_zero
from accel_magic.subsystems.npu.objects import refused
from accel_magic.subsystems.npu.tracks import (
    ABORTS,
    FENCE_DONE,
    JOB_POINT,
    answers_of_firmware,
    find_tracks,
    find_waits,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.subsystems.npu.tracks import Tracks, Waits

    Rows = NDArray[np.intp]

DOORBELLS = ("ivpu_hw_ip_db_set", "ivpu_hw_db_set")
QUEUE_CREATE = "ivpu_cmdq_create_ioctl"
TIMEOUT = "ivpu_job_timeout_work"
DEVICE_RESETS = ("ivpu_pm_trigger_recovery", "ivpu_pm_recovery_work")
ENGINE_RESETS = ("ivpu_context_abort_work_fn", "ivpu_jsm_reset_engine")

OK, ERROR, ABORTED, DONE = "ok", "error", "aborted", "done"
REFUSED, TIMED_OUT, UNFINISHED, UNKNOWN = "refused", "timed out", "unfinished", "not known"
STATUSES = (OK, ERROR, ABORTED, DONE, REFUSED, TIMED_OUT, UNFINISHED, UNKNOWN)
JOB_SUCCESS, JOB_ABORTED = 0, 0x100  # include/uapi/drm/ivpu_accel.h, DRM_IVPU_JOB_STATUS_*
BAD_CONTEXT = -77  # EBADFD: the driver takes no more jobs of a context that it aborted

COLUMNS = (
    *("context", "seqno", "job_id", "ctx_id", "pid", "tid", "comm", "file", "status", "code"),
    *("submitted_ns", "submit_ns", "queued_ns", "doorbell_ns", "done_ns", "latency_ns", "wait_start_ns", "wait_ns"),
    *("engine", "cmdq_id", "priority", "bo", "buffer_count", "completions", "wait_timeouts", "begun_before", "graph"),
)


def jobs(trace: DriverTrace) -> pd.DataFrame:
    """Describe every job in the trace, in order of first appearance.

    Returns:
        One row per call of a submit ioctl, and per job that was started before the trace and ended in it. What the
        trace does not contain is NA.

        - Who: `pid`, `tid` Int64, `comm`, `file` UInt64 address of the open device, `ctx_id` Int64 its number;
          `context`, `seqno` Int64 of its fence; `job_id` Int64, the driver's number, reused after the job;
          `graph` str, the name of the model that it executes, in the lab with Level Zero traced;
          `engine`, `cmdq_id`, `priority` Int64; `bo` UInt64 address of its command buffer, `buffer_count` Int64.
        - When, Int64 ns: `submitted_ns` entry of the ioctl, `submit_ns` its duration, `queued_ns` fence created,
          `doorbell_ns` doorbell rung, `done_ns` fence signaled (else the driver's tracepoint, else the firmware's
          reply), `latency_ns` from `submitted_ns` to `done_ns`; `wait_start_ns`, `wait_ns` entry and duration of the
          BO_WAIT that returned its completion, else of the last that timed out.
        - How: `status`; `code` Int64: as reported by the driver, 0 for success, 256 for aborted, a negative errno for a
          rejection; `completions` Int64 replies of the firmware with its number (2: reported twice); `wait_timeouts`
          Int64 BO_WAITs that timed out; `begun_before` bool.

        `status` is category: `ok`; `error` (see `code`); `aborted` by the driver; `done`: ended, result unknown;
        `refused`: not submitted; `timed out`: a wait timed out, and no end was seen, or only the abort by the process
        itself, with its queue; `unfinished`: no end was seen; `not known`: the trace cannot show an end.

    """
    tracks = find_tracks(trace)
    waits = find_waits(trace, tracks)
    frame = pd.DataFrame(index=pd.RangeIndex(len(tracks.start)))
    _add_owner(frame, trace, tracks)
    _add_submission(frame, trace, tracks, waits)
    _add_end(frame, trace, tracks, waits)
    return frame[list(COLUMNS)]


def recoveries(trace: DriverTrace, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Find when the driver gave up on jobs, and what was lost with them.

    Args:
        trace: The trace.
        frame: Result of `jobs`; computed if not given.

    Returns:
        One row per event, in order of time: `time_ns` Int64; `kind`: "timeout" (no job ended for long; the driver
        checks the engine's heartbeat), "engine reset" (contexts with hung jobs are aborted) or "device reset" (all jobs
        are aborted); `reason` text, NA if not captured; for resets: `jobs_lost` Int64 jobs that the driver aborted
        between it and the next reset, `pids` tuple of their processes, `refused` Int64 submissions in the same interval
        that it rejected because their context had been aborted, `lost_ns` Int64 from the submission of the first lost
        job to the end of the last.

    """
    frame = jobs(trace) if frame is None else frame
    kinds = (("timeout", (TIMEOUT,)), ("engine reset", ENGINE_RESETS), ("device reset", DEVICE_RESETS))
    found = [(kind, trace.rows(next((name for name in names if trace.saw(name)), names[0]))) for kind, names in kinds]
    rows = np.concatenate([where for _, where in found])
    order = np.argsort(rows)
    table = pd.DataFrame({"time_ns": nullable(trace.events["time_ns"].to_numpy()[rows], trace.timed)})
    table["kind"] = pd.Categorical(
        np.repeat([kind for kind, _ in found], [len(where) for _, where in found]), [kind for kind, _ in kinds]
    )
    reason = trace.events["reason"].iloc[rows].astype("str") if "reason" in trace.events else pd.Series(index=rows)
    table["reason"] = reason.where(reason != "nan").to_numpy()
    table = table.iloc[order].reset_index(drop=True)
    return _add_losses(table, frame, trace.timed)


def _add_losses(table: pd.DataFrame, frame: pd.DataFrame, timed: bool) -> pd.DataFrame:
    """Add the losses between each reset and the next."""
    resets = np.flatnonzero(table["kind"] != "timeout")
    starts = table["time_ns"].to_numpy(np.int64, na_value=0)[resets]

    def reset_of(when: pd.Series[int]) -> Rows:
        return np.searchsorted(starts, when.to_numpy(np.int64, na_value=-1), side="right") - 1

    lost = frame[(frame["status"] == ABORTED) & frame["done_ns"].notna()]
    aborted = lost.assign(reset=reset_of(lost["done_ns"])).query("reset >= 0").groupby("reset")
    late = frame[(frame["status"] == REFUSED) & (frame["code"] == BAD_CONTEXT).fillna(value=False)]
    turned_away = late.assign(reset=reset_of(late["submitted_ns"])).query("reset >= 0").groupby("reset")
    at = pd.RangeIndex(len(resets))
    values = {
        "jobs_lost": aborted.size().reindex(at, fill_value=0),
        "refused": turned_away.size().reindex(at, fill_value=0),
        "lost_ns": (aborted["done_ns"].max() - aborted["submitted_ns"].min()).reindex(at),
    }
    for name, column in values.items():
        table[name] = pd.Series(column.to_numpy(), index=resets, dtype="Int64").reindex(table.index)
    pids = {resets[int(str(reset))]: tuple(group["pid"].dropna().sort_values().unique()) for reset, group in aborted}
    table["pids"] = [pids.get(row, ()) for row in table.index]
    if not timed:
        table[["jobs_lost", "refused", "lost_ns"]] = pd.NA
    return table[["time_ns", "kind", "reason", "jobs_lost", "pids", "refused", "lost_ns"]]


def _add_owner(frame: pd.DataFrame, trace: DriverTrace, tracks: Tracks) -> None:
    """Add the submitter of each job, and the job's numbers."""
    events, here = trace.events, (tracks.start >= 0) & trace.timed
    for name in ("pid", "tid"):
        frame[name] = nullable(events[name].to_numpy()[tracks.start], here)
    frame["comm"] = events["comm"].iloc[tracks.start].reset_index(drop=True).where(here)
    frame["file"] = captured(trace, "file", tracks.submit, "UInt64")
    for name in ("context", "seqno"):
        frame[name] = captured(trace, name, tracks.fence)
    frame["ctx_id"] = captured(trace, "ctx_id", tracks.point)
    number, reply = (pd.Series(captured(trace, "job_id", rows)) for rows in (tracks.point, tracks.opener))
    frame["job_id"] = number.fillna(reply)
    frame["begun_before"] = tracks.start == NONE


def _add_submission(frame: pd.DataFrame, trace: DriverTrace, tracks: Tracks, waits: Waits) -> None:
    """Add what was submitted, where to, and when the doorbell rang."""
    submit = tracks.submit
    frame["submitted_ns"] = _time(trace, submit)
    frame["submit_ns"] = captured(trace, "duration_ns", submit)
    frame["queued_ns"] = _time(trace, tracks.queued)
    bells = trace.rows(*DOORBELLS)
    order = np.argsort(tracks.start, kind="stable")
    order = order[tracks.start[order] >= 0]
    rung = inside(trace, tracks.start[order], bells)
    bell = np.full(len(tracks.start), NONE, np.intp)
    bell[order[rung[rung >= 0]][::-1]] = bells[rung >= 0][::-1]  # the first of several stays
    frame["doorbell_ns"] = _time(trace, bell)
    engine = pd.Series(captured(trace, "engine", submit))
    frame["engine"] = engine.fillna(pd.Series(captured(trace, "engine_id", tracks.point)))
    frame["cmdq_id"] = captured(trace, "cmdq_id", submit)
    frame["buffer_count"] = captured(trace, "buffer_count", submit)
    frame["priority"] = pd.Series(captured(trace, "priority", submit)).fillna(_priority_of_queue(frame, trace))
    frame["bo"] = nullable(waits.bo, waits.bo != 0, "UInt64")
    frame["graph"] = _graphs(trace, submit)


def _graphs(trace: DriverTrace, submit: Rows) -> pd.Series[str]:
    """Name of the graph that each job executes: told by the lab's driver library before the submission."""
    reported = trace.rows(level_zero.LAB_INFERENCE)
    names = np.full(len(submit), None, object)
    if len(reported) and "graph" in trace.events:
        known = np.flatnonzero(submit >= 0)
        known = known[np.argsort(submit[known], kind="stable")]
        at = latest(trace, reported, submit[known])
        _, first = np.unique(at, return_index=True)  # a later submission after the same call executes no graph
        chosen = np.intersect1d(first, np.flatnonzero(at >= 0))
        names[known[chosen]] = trace.events["graph"].iloc[reported[at[chosen]]].astype(object).to_numpy()
    return pd.Series(names, dtype="str")


def _priority_of_queue(frame: pd.DataFrame, trace: DriverTrace) -> pd.Series[int]:
    """Priority of each job's queue at its creation; NA if queues with that number have several."""
    made = trace.rows(QUEUE_CREATE)
    made = made[~refused(trace, made)]
    keys = ["pid", "file", "cmdq_id"]
    queues = pd.DataFrame({name: captured(trace, name, made) for name in ("pid", "cmdq_id", "priority")})
    queues["file"] = captured(trace, "file", made, "UInt64")
    given = queues.dropna(subset=["priority"]).groupby(keys, dropna=False)["priority"].agg(["min", "max"])
    sure = given.loc[given["min"] == given["max"], "min"].rename("of_queue").reset_index()
    return frame[keys].merge(sure, how="left", on=keys)["of_queue"].astype("Int64")


def _add_end(frame: pd.DataFrame, trace: DriverTrace, tracks: Tracks, waits: Waits) -> None:
    """Add when and how each job ended, and the waits for it."""
    over = np.where(waits.over, waits.wait, NONE)
    status = pd.Series(captured(trace, "job_status", over))
    code = status.fillna(pd.Series(captured(trace, "job_status", tracks.opener)))
    turned_away = np.zeros(len(frame), np.bool_)
    turned_away[tracks.submit >= 0] = refused(trace, tracks.submit[tracks.submit >= 0])
    errno = signed32(trace.column("retval", tracks.submit, np.int64))
    frame["code"] = code.mask(pd.Series(turned_away), pd.Series(errno, dtype="Int64"))

    frame["done_ns"] = pd.Series(_time(trace, tracks.ended)).mask(pd.Series(turned_away))
    frame["latency_ns"] = frame["done_ns"] - frame["submitted_ns"]
    frame["wait_start_ns"] = _time(trace, waits.wait)
    frame["wait_ns"] = captured(trace, "duration_ns", waits.wait)
    frame["wait_timeouts"] = nullable(waits.timeouts, trace.timed)
    frame["completions"] = _completions(frame, trace, tracks)

    ended = ((tracks.ended >= 0) | waits.over) & trace.timed
    by_driver = (tracks.opener >= 0) & trace.mask(*ABORTS)[tracks.opener]
    by_itself = trace.events["pid"].to_numpy()[tracks.opener] == frame["pid"].to_numpy(np.int64, na_value=NONE)
    given_up = waits.timeouts > 0
    fences_tell = (tracks.fence >= 0) & trace.saw(FENCE_DONE)
    points_tell = (tracks.point >= 0) & trace.saw(JOB_POINT)
    how = frame["code"].to_numpy(np.int64, na_value=NONE)
    aborted = ended & ((how == JOB_ABORTED) | (how == NONE) & by_driver)
    cases = {
        REFUSED: turned_away,
        OK: ended & (how == JOB_SUCCESS),
        TIMED_OUT: given_up & (~ended | aborted & by_itself & (tracks.opener >= 0)),
        ABORTED: aborted,
        ERROR: ended & (how != NONE),
        DONE: ended,
        UNFINISHED: fences_tell | points_tell,
    }
    frame["status"] = pd.Categorical(np.select(list(cases.values()), list(cases), UNKNOWN), STATUSES)


def _completions(frame: pd.DataFrame, trace: DriverTrace, tracks: Tracks) -> pd.arrays.IntegerArray:
    """How often the firmware reported each job's completion; NA if its number is unknown."""
    number = frame["job_id"].to_numpy(np.int64, na_value=NONE)
    rows = answers_of_firmware(trace)
    known = np.flatnonzero((number >= 0) & (tracks.start >= 0))
    given = trace.column("job_id", rows, np.int64)
    job = answers(number[known], tracks.start[known], given, rows)[1]
    count = np.bincount(known[job[job >= 0]], minlength=len(frame))
    knows = np.zeros(len(frame), np.bool_)
    knows[known] = len(rows) > 0
    return nullable(count, knows)


def _time(trace: DriverTrace, rows: Rows) -> pd.arrays.IntegerArray:
    """(rows,) ns, NA for -1 and if the trace has no times."""
    return nullable(np.append(trace.events["time_ns"].to_numpy(), 0)[rows], (rows >= 0) & trace.timed)

"""Hits of each job, and the waits for it: by the fence in the wait, or if already signaled, by its command buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.thread_events import NONE, answers, inside, known_at, latest, newest_before, pick, signed32
from accel_magic.subsystems.npu.objects import BINDS, SUBMITS, objects, objects_of_handles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.subsystems.npu.objects import Objects

    Rows = NDArray[np.intp]
    from numpy.typing import NDArray


WAIT = "ivpu_bo_wait_ioctl"
FENCE_WAIT = "dma_fence_wait_start"
TIMED_OUT = -110


@dataclass(frozen=True)
class Waits:
    """Each job's command buffer and the waits for it.

    Attributes:
        bo: (jobs,) uint64 address of the command buffer, 0 if unknown.
        wait: (jobs,) row of the BO_WAIT that returned the completion, else of the last that timed out; -1 if none.
        over: (jobs,) bool: that wait returned the completion, and the job's status.
        timeouts: (jobs,) BO_WAITs that timed out.

    """

    bo: NDArray[np.uint64]
    wait: Rows
    over: NDArray[np.bool_]
    timeouts: NDArray[np.intp]


def find_waits(trace: DriverTrace, tracks: Tracks) -> Waits:
    """Find the command buffer of each job, and the waits for it."""
    calls, found = trace.rows(WAIT), objects(trace)
    job = _by_fence(trace, tracks, calls)
    command = _commands(found, tracks)
    bo = np.append(found.bo, np.uint64(0))[command]
    job = np.where(job == NONE, _by_handle(found, tracks, calls, command), job)

    calls, job = calls[job >= 0], job[job >= 0]
    known = known_at(trace, "retval", calls)
    returned = signed32(trace.column("retval", calls, np.int64))
    over = known & (returned == 0)
    order = np.lexsort((np.where(over, calls, -calls), ~over, job))  # first successful wait, else the last wait
    jobs, first = np.unique(job[order], return_index=True)
    wait = np.full(len(tracks.start), NONE, np.intp)
    saw = np.zeros(len(tracks.start), np.bool_)
    wait[jobs], saw[jobs] = calls[order][first], over[order][first]
    timeouts = np.bincount(job[known & (returned == TIMED_OUT)], minlength=len(tracks.start))
    return Waits(bo, wait, saw, timeouts)


def _by_fence(trace: DriverTrace, tracks: Tracks, calls: Rows) -> Rows:
    """(calls,) job whose fence the kernel started to wait for inside each call; -1 if none."""
    jobs = np.flatnonzero(tracks.fence >= 0)
    keys = fence_key(trace, tracks.fence[jobs])
    order = np.argsort(keys)
    waits = trace.rows(FENCE_WAIT)
    waited = fence_key(trace, waits)
    place = np.searchsorted(keys[order], waited)
    match = np.append(keys[order], np.uint64(0))[place] == waited
    call = inside(trace, calls, waits)
    here = np.flatnonzero(match & (call >= 0) & (place < len(keys)))[::-1]  # a call keeps its first fence
    job = np.full(len(calls), NONE, np.intp)
    job[call[here]] = jobs[order[place[here]]]
    return job


def _commands(found: Objects, tracks: Tracks) -> Rows:
    """(jobs,) object of each job's command buffer, -1 if unknown.

    The driver binds a job's buffers first, starting with the command buffer, and its own buffers only after them.
    """
    trace, binds = found.trace, found.trace.rows(*BINDS)
    order = np.argsort(tracks.submit, kind="stable")
    order = order[tracks.submit[order] >= 0]
    call = inside(trace, tracks.submit[order], binds)
    calls, first = np.unique(call, return_index=True)
    calls, first = calls[calls >= 0], first[calls >= 0]
    command = np.full(len(tracks.start), NONE, np.intp)
    command[order[calls]] = found.of(binds[first])
    own = np.isin(command, np.flatnonzero(~found.users))
    command[own] = NONE
    return command


def _by_handle(found: Objects, tracks: Tracks, calls: Rows, command: Rows) -> Rows:
    """(calls,) newest earlier job whose command buffer has the handle that is waited for; -1 if none."""
    buffer = objects_of_handles(found, calls)
    jobs = np.flatnonzero(command >= 0)
    newest = newest_before(command[jobs], tracks.start[jobs], buffer, calls)
    return np.where(buffer >= 0, pick(jobs, newest), NONE)


FENCE_DRIVER = "intel_vpu"
FENCE_INIT, FENCE_DONE = "dma_fence_init", "dma_fence_signaled"
JOB_POINT = "job"
CALLBACK = "ivpu_job_done_callback"
SIGNALS = ("ivpu_job_signal_and_destroy", "ivpu_job_signal")  # Linux 7.2: the second
ABORTS = (
    "ivpu_jobs_abort_all",
    "ivpu_cmdq_abort_all_jobs",
    "ivpu_context_abort_work_fn",
    "ivpu_context_abort_locked",
    "ivpu_job_timeout_work",
    "ivpu_pm_trigger_recovery",
    "ivpu_pm_recovery_work",
)


@dataclass(frozen=True)
class Fences:
    """The driver's fences, one per job, in order of first appearance.

    Attributes:
        key: (fences,) uint64: context and sequence number.
        init: (fences,) row of its creation, -1 if before the trace.
        done: (fences,) row of its signal, -1 if none.

    """

    key: NDArray[np.uint64]
    init: Rows
    done: Rows


@dataclass(frozen=True)
class Points:
    """Hits of the driver's own tracepoint `vpu:job`.

    Attributes:
        submitted: Rows of submissions, with the job's number and context.
        done: Rows of completions.

    """

    submitted: Rows
    done: Rows


@dataclass(frozen=True)
class Tracks:
    """The rows of each job, in order of first appearance.

    Attributes:
        start: (jobs,) row of its ioctl, else of its fence or tracepoint; -1 if before the trace.
        submit: (jobs,) row of its submit ioctl, -1 if none.
        fence: (jobs,) row of its fence's creation, else of its signal; -1 if none.
        queued: (jobs,) row of its fence's creation, -1 if none.
        ended: (jobs,) row of its end, -1 if none.
        opener: (jobs,) row of what ended it: a reply of the firmware or an abort; -1 if unknown.
        point: (jobs,) row of its `vpu:job` hit at its submission, else at its end; -1 if none.

    """

    start: Rows
    submit: Rows
    fence: Rows
    queued: Rows
    ended: Rows
    opener: Rows
    point: Rows


def fence_key(trace: DriverTrace, rows: Rows) -> NDArray[np.uint64]:
    """(rows,) uint64: context and sequence number of fence events, as one number."""
    context, seqno = (trace.column(name, rows, np.uint64) for name in ("context", "seqno"))
    key: NDArray[np.uint64] = context << np.uint64(32) | seqno
    return key


def find_fences(trace: DriverTrace) -> Fences:
    """Find the driver's fences, without those of other drivers."""
    init, done = (_of_driver(trace, trace.rows(name)) for name in (FENCE_INIT, FENCE_DONE))
    key, place = np.unique(fence_key(trace, np.concatenate([init, done])), return_inverse=True)
    made, signaled = np.full(len(key), NONE, np.intp), np.full(len(key), NONE, np.intp)
    made[place[: len(init)]] = init
    signaled[place[len(init) :][::-1]] = done[::-1]  # keep the first of several
    order = np.argsort(np.where(made >= 0, made, signaled))
    return Fences(key[order], made[order], signaled[order])


def find_points(trace: DriverTrace) -> Points:
    """Find the hits of `vpu:job` at submissions and completions."""
    rows = trace.rows(JOB_POINT)
    if not {"event", "job_id", "ctx_id"} <= set(trace.events.columns):
        return Points(rows[:0], rows[:0])
    event = trace.events["event"].iloc[rows].astype("str").to_numpy()
    return Points(rows[event == "submit"], rows[event == "done"])


def find_tracks(trace: DriverTrace) -> Tracks:
    """Find the jobs of a trace: submit ioctls, and fences and tracepoints that do not belong to any of them."""
    fences, points = find_fences(trace), find_points(trace)
    calls = trace.rows(*SUBMITS)
    begun = np.flatnonzero(fences.init >= 0)
    call = np.full(len(fences.key), NONE, np.intp)
    call[begun] = _once(inside(trace, calls, fences.init[begun]))

    lone = np.flatnonzero(call == NONE)
    start = np.concatenate([calls, fences.init[lone]])
    known = np.sort(start[start >= 0])
    unclaimed = points.submitted[inside(trace, known, points.submitted) == NONE]
    to_done, to_submitted = _pair(trace, points)
    old = points.done[to_submitted == NONE] if not trace.saw(FENCE_DONE) else points.done[:0]
    start = np.concatenate([start, unclaimed, np.full(len(old), NONE)])

    count = len(start)
    fence, submit, ended = (np.full(count, NONE, np.intp) for _ in range(3))
    submit[: len(calls)] = calls
    fence[call[call >= 0]] = np.flatnonzero(call >= 0)
    fence[len(calls) : len(calls) + len(lone)] = lone
    ended[count - len(old) :] = old

    point = _points_of(trace, start, points.submitted)
    ended = np.where(ended == NONE, pick(fences.done, fence), ended)
    by_point = np.full(len(trace.events) + 1, NONE, np.intp)
    by_point[points.submitted] = pick(points.done, to_done)
    ended = np.where(ended == NONE, by_point[point], ended)
    point = np.where(point == NONE, _point_at_end(trace, ended, points.done), point)
    opener = _openers(trace, ended)
    ended, opener = _answered(trace, point, ended, opener)

    first = np.where(start >= 0, start, ended)
    order = np.argsort(first, kind="stable")
    queued = pick(fences.init, fence)
    fence = np.where(queued >= 0, queued, pick(fences.done, fence))
    return Tracks(*(rows[order] for rows in (start, submit, fence, queued, ended, opener, point)))


def answers_of_firmware(trace: DriverTrace) -> Rows:
    """Rows of the firmware's replies with a captured job number."""
    rows = trace.rows(CALLBACK)
    return rows[trace.column("job_id", rows, np.int64) >= 0]


def _of_driver(trace: DriverTrace, rows: Rows) -> Rows:
    if "driver" not in trace.events:
        return rows[:0]
    return rows[(trace.events["driver"].iloc[rows].astype("str") == FENCE_DRIVER).to_numpy()]


def _once(call: Rows) -> Rows:
    """Keep one fence per call: a second one means that its own call is missing in the trace."""
    _, first = np.unique(call, return_index=True)
    kept = np.full(len(call), NONE, np.intp)
    kept[first] = call[first]
    return kept


def _pair(trace: DriverTrace, points: Points) -> tuple[Rows, Rows]:
    """Match submissions and completions by job number: completions of submissions, and submissions of completions."""
    requested, given = (trace.column("job_id", rows, np.int64) for rows in (points.submitted, points.done))
    return answers(requested, points.submitted, given, points.done)


def _points_of(trace: DriverTrace, start: Rows, submitted: Rows) -> Rows:
    """(jobs,) row of the tracepoint of each job's submission: the same row, or inside its ioctl, or after its fence."""
    order = np.argsort(start, kind="stable")
    order = order[start[order] >= 0]
    found = inside(trace, start[order], submitted)
    point = np.full(len(start), NONE, np.intp)
    point[order[found[found >= 0]]] = submitted[found >= 0]
    return np.where(np.isin(start, submitted), start, point)


def _point_at_end(trace: DriverTrace, ended: Rows, done: Rows) -> Rows:
    """(jobs,) row of the tracepoint that the driver passes right after signaling each job's fence."""
    order = np.argsort(ended, kind="stable")
    order = order[ended[order] >= 0]
    point = np.full(len(ended), NONE, np.intp)
    found = latest(trace, ended[order], done)
    point[order[found[found >= 0]]] = done[found >= 0]
    return np.where(np.isin(ended, done), ended, point)


def _openers(trace: DriverTrace, ended: Rows) -> Rows:
    """(jobs,) row of what ended each: its thread's last such call. A reply of the firmware ends only one job."""
    signals = trace.rows(*SIGNALS)
    reported = signals[trace.column("job_status", signals, np.int64) >= 0]
    answer = np.concatenate([trace.rows(CALLBACK), reported])
    openers = np.sort(np.concatenate([answer, trace.rows(*ABORTS)]))
    opener = np.full(len(ended), NONE, np.intp)
    order = np.argsort(ended, kind="stable")
    order = order[ended[order] >= 0]
    found = latest(trace, openers, ended[order])
    single = np.isin(pick(openers, found), answer)
    found[single] = _once(found[single])
    opener[order] = pick(openers, found)
    return opener


def _answered(trace: DriverTrace, point: Rows, ended: Rows, opener: Rows) -> tuple[Rows, Rows]:
    """Fill in ends and openers of jobs with a known number from the firmware's replies."""
    given = answers_of_firmware(trace)
    jobs = np.flatnonzero((point >= 0) & ((ended == NONE) | (opener == NONE) & (point < ended)))
    requested = trace.column("job_id", point[jobs], np.int64)
    answer = pick(given, answers(requested, point[jobs], trace.column("job_id", given, np.int64), given)[0])
    ended, opener = ended.copy(), opener.copy()
    open_ended = ended[jobs] == NONE
    ended[jobs[open_ended]] = answer[open_ended]
    opener[jobs] = np.where(opener[jobs] == NONE, answer, opener[jobs])
    return ended, opener

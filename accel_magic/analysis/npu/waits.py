"""Which job a BO_WAIT waited for: that of the fence inside it, or where it was over by then of its command buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.npu.objects import BINDS, objects, objects_of_handles
from accel_magic.analysis.npu.threads import NONE, inside, known_at, newest_before, pick, signed32
from accel_magic.analysis.npu.tracks import fence_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.npu.objects import Objects
    from accel_magic.analysis.npu.trace import NpuTrace
    from accel_magic.analysis.npu.tracks import Tracks

    Rows = NDArray[np.intp]

WAIT = "ivpu_bo_wait_ioctl"
FENCE_WAIT = "dma_fence_wait_start"
TIMED_OUT = -110


@dataclass(frozen=True)
class Waits:
    """What is known of each job's command buffer and of the waits for it.

    Attributes:
        bo: (jobs,) uint64 address of the command buffer, 0 where not known.
        wait: (jobs,) row of the BO_WAIT that saw the job's end, else of the last that gave up; -1 for none.
        over: (jobs,) bool: that wait saw the end, and the job's status.
        timeouts: (jobs,) BO_WAITs that timed out.

    """

    bo: NDArray[np.uint64]
    wait: Rows
    over: NDArray[np.bool_]
    timeouts: NDArray[np.intp]


def find_waits(trace: NpuTrace, tracks: Tracks) -> Waits:
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
    order = np.lexsort((np.where(over, calls, -calls), ~over, job))  # the first that saw the end, or the last other
    jobs, first = np.unique(job[order], return_index=True)
    wait = np.full(len(tracks.start), NONE, np.intp)
    saw = np.zeros(len(tracks.start), np.bool_)
    wait[jobs], saw[jobs] = calls[order][first], over[order][first]
    timeouts = np.bincount(job[known & (returned == TIMED_OUT)], minlength=len(tracks.start))
    return Waits(bo, wait, saw, timeouts)


def _by_fence(trace: NpuTrace, tracks: Tracks, calls: Rows) -> Rows:
    """(calls,) job whose fence the kernel began to wait for inside each call; -1 for none."""
    jobs = np.flatnonzero(tracks.fence >= 0)
    keys = fence_key(trace, tracks.fence[jobs])
    order = np.argsort(keys)
    waits = trace.rows(FENCE_WAIT)
    waited = fence_key(trace, waits)
    place = np.searchsorted(keys[order], waited)
    match = np.append(keys[order], np.uint64(0))[place] == waited
    call = inside(trace, calls, waits)
    here = np.flatnonzero(match & (call >= 0) & (place < len(keys)))[::-1]  # the first fence of a call stays
    job = np.full(len(calls), NONE, np.intp)
    job[call[here]] = jobs[order[place[here]]]
    return job


def _commands(found: Objects, tracks: Tracks) -> Rows:
    """(jobs,) object of each job's command buffer, -1 not known.

    The driver binds a job's buffers first thing, the command buffer first; a buffer of its own only after them.
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
    """(calls,) newest job before each call whose command buffer has the handle that is waited for; -1 for none."""
    buffer = objects_of_handles(found, calls)
    jobs = np.flatnonzero(command >= 0)
    newest = newest_before(command[jobs], tracks.start[jobs], buffer, calls)
    return np.where(buffer >= 0, pick(jobs, newest), NONE)

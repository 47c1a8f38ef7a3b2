"""A model of how a GPU shares its engine among tasks: the runlist, time slices and interleave levels.

The engine goes through the runlist again and again. A task that has work keeps the engine until its time slice has
passed or it has nothing more to do; one that has none is skipped. On the runlist, all tasks of a level come once before
each task of the level below, so that a task of a higher level waits for one task at most. A policy that probes launches
may take the engine from a task, which then waits for its next turn.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from accel_magic.policies.model_engine import ScheduledTask
    from accel_magic.policies.tenants import Tenant

MOST_ENTRIES: Final = 1 << 16
MOST_JOBS: Final = 1_000_000
MOST_SLICES: Final = 1_000_000
JOB: Final = np.dtype([("tenant", "<i4"), ("arrival_us", "<f8"), ("start_us", "<f8"), ("end_us", "<f8")])
"""A job: its tenant, when it came, when it first ran and when it ended; NaN for what was not reached."""


@dataclass(frozen=True)
class Schedule:
    """What the engine did.

    Attributes:
        jobs: (jobs,) structured array of `JOB`, in the order in which they came.
        busy_us: (tenants,) float64: how long each had the engine.
        switches: How often the engine went to another task; in the lab: how often a job got it.
        preempted: (tenants,) int64: how often a policy took the engine from each.

    """

    jobs: NDArray[np.void]
    busy_us: NDArray[np.float64]
    switches: int
    preempted: NDArray[np.int64]


def runlist(levels: Sequence[int], members: Sequence[int]) -> list[int]:
    """Order tasks.

    Args:
        levels: Interleave level of each task.
        members: The tasks that are on the runlist.

    Raises:
        ProbeError: It would be too long.

    """
    ordered: list[int] = []
    for level in sorted({levels[one] for one in members}, reverse=True):
        own = [one for one in members if levels[one] == level]
        if len(own) * (len(ordered) + 1) > MOST_ENTRIES:
            raise ProbeError(
                "the runlist is too long",
                why=f"with these interleave levels it has more than {MOST_ENTRIES:,} entries",
                fix="use fewer tenants or levels",
                code="policy.bad-tenant",
            )
        ordered = [entry for one in own for entry in (*ordered, one)]
    return ordered


def run(
    tenants: Sequence[Tenant],
    tasks: Sequence[ScheduledTask],
    duration_us: float,
    random: np.random.Generator,
    *,
    switch_us: float = 0.0,
    launch: Callable[[int, bool], Sequence[int]] | None = None,
) -> Schedule:
    """Share the engine.

    Args:
        tenants: What wants to run.
        tasks: What the scheduling policy made of each.
        duration_us: The time that is modelled, in us. Jobs that have not ended by then have no end.
        random: For the times at which jobs come.
        switch_us: What it costs to go from one task to another, in us.
        launch: Called with a tenant before (False) and after (True) it queues a job; returns the tenants that the
            policy preempts.

    Raises:
        ProbeError: The runlist, or the number of time slices, is too large.

    """
    members = [number for number, task in enumerate(tasks) if task.admitted]
    order = runlist([task.interleave for task in tasks], members)
    arrivals = [one.arrivals(duration_us, random) for one in tenants]
    engine = _Engine(tenants, tasks, arrivals, duration_us, switch_us=switch_us, launch=launch)
    engine.go(order)
    jobs = np.array([tuple(job) for job in engine.jobs], JOB)
    ordered = np.sort(jobs, order="arrival_us", kind="stable")
    return Schedule(ordered, engine.busy, engine.switches, engine.preempted)


def _too_many(what: str) -> ProbeError:
    return ProbeError(
        f"{what} in a run",
        why="each is modelled",
        fix="model a shorter time, longer jobs, or longer time slices",
        code="policy.bad-tenant",
    )


class _Engine:
    def __init__(
        self,
        tenants: Sequence[Tenant],
        tasks: Sequence[ScheduledTask],
        arrivals: list[NDArray[np.float64]],
        duration_us: float,
        *,
        switch_us: float,
        launch: Callable[[int, bool], Sequence[int]] | None,
    ) -> None:
        self._tenants, self._tasks, self._duration, self._switch = tenants, tasks, duration_us, switch_us
        self._launch = launch
        self.busy = np.zeros(len(tenants))
        self.preempted = np.zeros(len(tenants), np.int64)
        self.jobs: list[list[float]] = []
        self.switches = 0
        self._slices = 0
        self._waiting: list[deque[list[float]]] = [deque() for _ in tenants]
        self._left = [tenant.work_us for tenant in tenants]  # of the first job that waits
        # When a job comes, whose it is, and whether the launch has already begun.
        times = [(time, number, False) for number, column in enumerate(arrivals) for time in column.tolist()]
        self._coming = times
        heapq.heapify(times)

    def go(self, order: list[int]) -> None:
        now, at, last, idle, lost = 0.0, 0, -1, 0, False
        while now < self._duration:
            if not lost:  # a task that lost the engine lost it before what comes now
                self._arrive(now)
            if idle >= len(order):  # nobody on the runlist has work
                if not self._coming:
                    return
                now, idle, lost = max(now, self._coming[0][0]), 0, False
                continue
            one, at = order[at], (at + 1) % len(order)
            if not self._waiting[one]:
                idle += 1
                continue
            if one != last:
                self.switches += last >= 0
                now += self._switch if last >= 0 else 0
            now, lost = self._slice(one, now)
            last, idle = one, 0

    def _slice(self, one: int, now: float) -> tuple[float, bool]:
        """Let a task run until its time slice has passed, it has nothing to do, it is preempted (True), or all ends."""
        self._slices += 1
        if self._slices > MOST_SLICES:
            raise _too_many(f"more than {MOST_SLICES:,} time slices")
        end = min(now + max(self._tasks[one].timeslice_us, 1), self._duration)
        queue = self._waiting[one]
        while queue and now < end:
            job = queue[0]
            if np.isnan(job[2]):
                job[2] = now
            part = min(self._left[one], end - now)
            if self._launch and self._coming:
                part = min(part, max(self._coming[0][0] - now, 0.0))
            now += part
            self.busy[one] += part
            self._left[one] -= part
            if self._left[one] <= 1e-9:  # rounding
                job[3] = now
                queue.popleft()
                self._left[one] = self._tenants[one].work_us
                if not self._tenants[one].every_us:
                    heapq.heappush(self._coming, (now, one, False))
            if self._arrive(now, one if queue and now < end else -1):
                self.preempted[one] += 1
                return now, True
        return now, False

    def _arrive(self, now: float, running: int = -1) -> bool:
        """Take the jobs that have come; returns True, and stops, when the policy preempts the task that is running."""
        while self._coming and self._coming[0][0] <= now:
            time, number, begun = heapq.heappop(self._coming)
            if self._launch and not begun:
                heapq.heappush(self._coming, (time, number, True))
                if running in self._launch(number, False):
                    return True
                continue
            job = [float(number), time, np.nan, np.nan]
            self.jobs.append(job)
            if len(self.jobs) > MOST_JOBS:
                raise _too_many(f"more than {MOST_JOBS:,} jobs")
            self._waiting[number].append(job)
            if self._launch and running in self._launch(number, True):
                return True
        return False

"""Doorbells, and the choice of the next job; each engine runs one job at a time.

In the driver's "OS" mode a queue is registered with its doorbell; in "HW" mode queues are created first, have a
priority band, and are assigned to doorbells. Source: Linux, drivers/accel/ivpu/ivpu_job.c and vpu_jsm_api.h.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.lab.device import fault_injection, jsm_messages
from accel_magic.lab.device.fault_injection import JobFault
from accel_magic.lab.device.guest_fault import GuestFault
from accel_magic.lab.device.jobs import Engine, Job, JobQueue
from accel_magic.lab.device.npu_registers import DOORBELLS

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from accel_magic.lab.device.commands import Command, Commands
    from accel_magic.lab.device.fault_injection import Faults
    from accel_magic.lab.device.log import Log
    from accel_magic.lab.device.mmu import Mmu
    from accel_magic.lab.device.statistics import Statistics
    from accel_magic.lab.device.timers import Timers

MOST_QUEUES = 1024


class Scheduler:
    """Doorbells, queues and engines.

    Args:
        mmu: Reads queues.
        commands: Reads and executes the commands of jobs.
        timers: End jobs.
        faults: Faults to inject.
        statistics: Counts.
        log: Logs jobs and injected faults.
        job_us: Least duration of a job, in microseconds.
        on_done: Reports a completed job to the driver.
        guard: Runs an action; a `GuestFault` in it is counted, logged and suppressed.

    """

    def __init__(
        self,
        mmu: Mmu,
        commands: Commands,
        timers: Timers,
        *,
        faults: Faults,
        statistics: Statistics,
        log: Log,
        job_us: int,
        on_done: Callable[[Job], None],
        guard: Callable[[Callable[[], None]], None],
    ) -> None:
        self._mmu = mmu
        self._commands = commands
        self._timers = timers
        self._faults = faults
        self._statistics = statistics
        self._log = log
        self._job_us = job_us
        self._on_done = on_done
        self._guard = guard
        self.engines = [Engine(index, timers.clock) for index in range(len(jsm_messages.ENGINES))]
        self._queues: dict[tuple[int, int], JobQueue] = {}
        self._doorbells: dict[int, JobQueue] = {}

    # Requests in the driver's messages

    def create_queue(self, ssid: int, number: int, base: int, size: int, engine: int) -> None:
        """Create a queue in HW mode. A queue of the same number is replaced: the driver may have missed its creation.

        Raises:
            GuestFault: The queue is invalid, or there are too many.

        """
        queue = JobQueue(ssid, number, base, size, engine)
        if (ssid, number) in self._queues:
            self.destroy_queue(ssid, number)
        if len(self._queues) >= MOST_QUEUES:
            raise GuestFault("job-queue", f"too many queues for queue {number} of SSID {ssid}")
        self._queues[ssid, number] = queue

    def queue(self, ssid: int, number: int) -> JobQueue:
        """Find a queue of HW mode.

        Raises:
            GuestFault: There is no such queue.

        """
        try:
            return self._queues[ssid, number]
        except KeyError:
            raise GuestFault("job-queue", f"there is no queue {number} of SSID {ssid}") from None

    def destroy_queue(self, ssid: int, number: int) -> None:
        """Drop a queue with its jobs. The running job is aborted too, unless it hangs, which needs a reset.

        Its doorbell stays registered without effect: drivers unregister it either before or after this.

        Raises:
            GuestFault: There is no such queue.

        """
        queue = self.queue(ssid, number)
        del self._queues[ssid, number]
        self._drop(queue)

    def register_doorbell(self, doorbell: int, ssid: int, base: int, size: int) -> None:
        """Register a doorbell with its queue, in OS mode; the queue's header names its engine.

        Raises:
            GuestFault: There is no such doorbell, or the queue is invalid.

        """
        self._connect(doorbell, JobQueue(ssid, 0, base, size, 0))

    def register_queue_doorbell(self, doorbell: int, ssid: int, number: int) -> None:
        """Assign a queue of HW mode to a doorbell.

        Raises:
            GuestFault: There is no such doorbell or queue.

        """
        self._connect(doorbell, self.queue(ssid, number))

    def _connect(self, doorbell: int, queue: JobQueue) -> None:
        """Connect a doorbell and a queue; earlier connections of either are removed."""
        if doorbell >= DOORBELLS:
            raise GuestFault("doorbell", f"there is no doorbell {doorbell}")
        for used in (doorbell, queue.doorbell):
            if used is not None and used in self._doorbells:
                self.unregister_doorbell(used)
        self._doorbells[doorbell] = queue
        queue.doorbell = doorbell

    def unregister_doorbell(self, doorbell: int) -> None:
        """Take no more jobs through a doorbell. A running job completes normally.

        Raises:
            GuestFault: The doorbell has no queue.

        """
        queue = self._doorbells.pop(doorbell, None)
        if queue is None:
            raise GuestFault("doorbell", f"doorbell {doorbell} has no queue")
        queue.doorbell = None
        queue.rung = False

    def release(self, ssid: int) -> None:
        """Drop all doorbells, queues, jobs and models of a context."""
        self._commands.release(ssid)
        for key in [key for key in self._queues if key[0] == ssid]:
            self._drop(self._queues.pop(key))
        for doorbell, queue in list(self._doorbells.items()):
            if queue.ssid == ssid:
                del self._doorbells[doorbell]
                self._drop(queue)

    def resume_queue(self, ssid: int, number: int) -> None:
        """Resume a suspended queue.

        Raises:
            GuestFault: There is no such queue.

        """
        queue = self.queue(ssid, number)
        queue.suspended = False
        self._work(queue.engine)

    def reset_engine(self, engine: int, *, stop: bool) -> list[tuple[int, int]]:
        """Abort the job of an engine, hung or not.

        Args:
            engine: Its number.
            stop: Whether it takes no more jobs until `resume_engine`, as in HW mode.

        Returns:
            (SSID, number) of the queue whose job was aborted, if any.

        Raises:
            GuestFault: There is no such engine.

        """
        chosen = self.engine(engine)
        impacted = [(chosen.job.queue.ssid, chosen.job.queue.number)] if chosen.job else []
        self._give_up(chosen)
        chosen.stopped = stop
        self._work(engine)
        return impacted

    def resume_engine(self, engine: int) -> None:
        """Let an engine take jobs again.

        Raises:
            GuestFault: There is no such engine.

        """
        self.engine(engine).stopped = False
        self._work(engine)

    def engine(self, index: int) -> Engine:
        """Find an engine by number.

        Raises:
            GuestFault: There is no such engine.

        """
        if index >= len(self.engines):
            raise GuestFault("message", f"there is no engine {index}")
        return self.engines[index]

    # Register accesses of the driver

    def ring(self, doorbell: int) -> None:
        """Ring a doorbell: its queue may hold new jobs.

        Raises:
            GuestFault: The doorbell has no queue, or the queue's header is unreadable or invalid.

        """
        queue = self._doorbells.get(doorbell)
        if queue is None or queue.doorbell is None:
            raise GuestFault("doorbell", f"doorbell {doorbell} has no queue")
        if not queue.number:
            engine = jsm_messages.JOB_QUEUE_HEADER.unpack(
                self._mmu.read(queue.base, jsm_messages.JOB_QUEUE_HEADER.size)
            )[0]
            if engine >= len(self.engines):
                raise GuestFault("job-queue", f"doorbell {doorbell} names engine {engine}")
            queue.engine = engine
        queue.rung = True
        self._work(queue.engine)

    def reset(self) -> tuple[dict[tuple[int, int], JobQueue], dict[int, JobQueue]]:
        """Reset the state; returns the queues and doorbells for `restore`."""
        for engine in self.engines:
            self._give_up(engine)
            engine.stopped = False
        kept = self._queues, self._doorbells
        self._queues, self._doorbells = {}, {}
        return kept

    def restore(self, kept: tuple[dict[tuple[int, int], JobQueue], dict[int, JobQueue]]) -> None:
        """Restore the queues and doorbells from before a `reset`, as after a warm boot."""
        self._queues, self._doorbells = kept
        for engine in self.engines:
            self._work(engine.index)

    @property
    def idle(self) -> bool:
        """Whether no engine has a job."""
        return all(engine.job is None for engine in self.engines)

    # Running jobs

    def _drop(self, queue: JobQueue) -> None:
        queue.rung = False
        queue.doorbell = None
        engine = self.engines[queue.engine]
        if engine.job is not None and engine.job.queue is queue and not engine.hung:
            self._give_up(engine)
            self._work(engine.index)

    def _give_up(self, engine: Engine) -> None:
        if engine.job is not None:
            self._statistics.jobs["aborted"] += 1
            self._log.event(f"job {engine.job.number:#x} aborted")
        if engine.timer is not None:
            self._timers.cancel(engine.timer)
        if engine.work is not None:
            self._commands.give_up(engine.work)
        engine.free()

    def _work(self, index: int) -> None:
        """Start the next job on an idle engine: from the highest band, and in it the queue that waited longest.

        Each round either takes a job or clears a queue's `rung`, so there are no more rounds than queues.
        """
        engine = self.engines[index]
        while engine.job is None and not engine.stopped:
            ready = [
                queue
                for queue in self._doorbells.values()
                if queue.rung and not queue.suspended and queue.engine == index
            ]
            if not ready:
                return
            queue = min(ready, key=lambda each: (-each.band, each.served))
            queue.rung = False
            self._guard(lambda queue=queue: self._take(engine, queue))  # type: ignore[misc]

    def _take(self, engine: Engine, queue: JobQueue) -> None:
        head, tail = jsm_messages.JOB_QUEUE_HEADER.unpack(
            self._mmu.read(queue.base, jsm_messages.JOB_QUEUE_HEADER.size)
        )[1:]
        slots = queue.slots
        if head >= slots or tail >= slots:
            raise GuestFault("job-queue", f"head {head} and tail {tail} of {slots} slots")
        if head == tail or queue.doorbell is None:
            return
        slot = queue.base + jsm_messages.JOB_QUEUE_HEADER_SIZE + head * jsm_messages.JOB_SLOT_SIZE
        commands, number, flags = jsm_messages.JOB_SLOT.unpack(self._mmu.read(slot, jsm_messages.JOB_SLOT.size))
        following = (head + 1) % slots
        self._mmu.write(queue.base + jsm_messages.JOB_QUEUE_HEAD_OFFSET, following.to_bytes(4, "little"))
        queue.rung = following != tail
        self._statistics.jobs["taken"] += 1
        serial = queue.served = self._statistics.jobs["taken"]
        fault, status = self._faults.of_job(serial), jsm_messages.SUCCESS
        work: deque[Command] | None = None
        if not flags & jsm_messages.JOB_NULL:
            requested, status = self._read_request(commands, queue.ssid)
            fault = fault if fault.kind else requested
            if status == jsm_messages.SUCCESS:
                work, status = self._read_commands(commands, queue.ssid)
        job = Job(serial, number, queue, queue.doorbell, fault, status)
        engine.take(job)
        self._log.event(
            f"job {number:#x} (no. {serial}) from doorbell {job.doorbell}, commands {commands:#x}, fault {fault.kind}"
        )
        self._start(engine, job, 0 if flags & jsm_messages.JOB_NULL else self._job_us, work)

    def _read_request(self, commands: int, ssid: int) -> tuple[JobFault, int]:
        """Read the fault request in a job's commands; returns the fault and the job's status."""
        start: list[bytes] = []
        requested: list[JobFault] = []

        def read() -> None:
            try:
                start.append(self._mmu.read(commands, fault_injection.JOB_REQUEST.size, ssid))
            except GuestFault as fault:
                raise GuestFault("batch", f"commands at {commands:#x} of SSID {ssid}: {fault.detail}") from None

        self._guard(read)
        if not start:
            return JobFault(), jsm_messages.PARSING_ERROR
        # An invalid request does not fail the job.
        self._guard(lambda: requested.append(fault_injection.in_commands(start[0])))
        return (requested[0] if requested else JobFault()), jsm_messages.SUCCESS

    def _read_commands(self, commands: int, ssid: int) -> tuple[deque[Command] | None, int]:
        """Read a job's commands, if it has any; returns them and the job's status."""
        found: list[deque[Command] | None] = []
        self._guard(lambda: found.append(self._commands.read(commands, ssid)))
        return (found[0], jsm_messages.SUCCESS) if found else (None, jsm_messages.PARSING_ERROR)

    def _start(self, engine: Engine, job: Job, duration_us: int, commands: deque[Command] | None) -> None:
        if job.fault.kind == fault_injection.HANG:
            self._statistics.jobs["hung"] += 1
            self._log.warning(f"job {job.number:#x} (no. {job.serial}) hangs, as requested")
            engine.hang()
            return
        if job.fault.kind == fault_injection.SLOW:
            self._statistics.jobs["slow"] += 1
            duration_us = job.fault.argument
        if not commands:
            engine.timer = self._timers.after(duration_us, lambda: self._end(engine, job))
            return
        until_us = self._timers.clock() + duration_us

        def done(status: int) -> None:
            ended, left_us = replace(job, status=status), max(until_us - self._timers.clock(), 0)
            engine.work = None
            engine.timer = self._timers.after(left_us, lambda: self._end(engine, ended))

        # Commands that are done at once leave no work behind.
        work = self._commands.run(commands, job.queue.ssid, done)
        engine.work = work if work.done is not None else None

    def _end(self, engine: Engine, job: Job) -> None:
        engine.free()
        counts = self._statistics.jobs
        if job.status == jsm_messages.SUCCESS:
            counts["done"] += 1
            self._statistics.done_by_doorbell[job.doorbell] += 1
            self._statistics.done_by_engine[engine.index] += 1
        else:
            counts["failed"] += 1
        copies = {fault_injection.LOSE: 0, fault_injection.DUPLICATE: 2}.get(job.fault.kind, 1)
        if copies != 1:
            counts["duplicated" if copies else "lost"] += 1
            self._log.warning(
                f"completion of job {job.number:#x} (no. {job.serial}) is reported {copies} times, as requested"
            )
        for _ in range(copies):
            self._guard(lambda: self._on_done(job))
        self._work(engine.index)

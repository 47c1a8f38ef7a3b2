"""Runs a load: processes, their threads, each thread's jobs; everything that is counted lies in shared memory.

`python -m accel_magic.lab.npu.runner OPTIONS` takes the options as JSON and prints the load, or the error, as JSON.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from accel_magic.errors import MachineError
from accel_magic.lab.npu import uapi
from accel_magic.lab.npu.counts import Counts, CountTable
from accel_magic.lab.npu.device import Buffer, Device, IoctlError, Queue
from accel_magic.lab.npu.faults import job_fault
from accel_magic.lab.npu.loads import Latency, Load
from accel_magic.lab.npu.options import Options
from accel_magic.lab.npu.uapi import BufferFlags

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_RUN, _RUNNING, _OK, _FAILED, _TIMED_OUT = range(5)
_NOT_ENDED = {errno.EINTR, errno.EAGAIN}
_PR_SET_PDEATHSIG = 1


class _Job(ctypes.Structure):
    _fields_: ClassVar = [
        ("state", ctypes.c_uint32),
        ("ended", ctypes.c_uint32),  # the driver said so, and with what status
        ("status", ctypes.c_uint32),
        ("latency_ns", ctypes.c_uint64),
    ]


class _Param(ctypes.Structure):
    _fields_: ClassVar = [("known", ctypes.c_uint64), ("value", ctypes.c_uint64)]


class _Process(ctypes.Structure):
    _fields_: ClassVar = [
        ("counts", CountTable),
        ("cmdq", ctypes.c_uint32),  # submits by command queues
        ("problem", ctypes.c_char * 1024),  # JSON of the error that kept it from its jobs
    ]


class _Tally:
    """Memory that all processes write as things happen: it outlives an interrupt and a killed process."""

    def __init__(self, options: Options) -> None:
        class Shared(ctypes.Structure):
            _fields_: ClassVar = [
                ("params", _Param * len(uapi.PARAMS)),
                ("processes", _Process * options.processes),
                ("jobs", _Job * options.jobs),
            ]

        shared = Shared.from_buffer(mmap.mmap(-1, ctypes.sizeof(Shared)))
        self.params: ctypes.Array[_Param] = shared.params
        self.processes: ctypes.Array[_Process] = shared.processes
        self.jobs: ctypes.Array[_Job] = shared.jobs
        self.started_ns = time.monotonic_ns()

    def stopped_by_problem(self) -> bool:
        return any(process.problem for process in self.processes)


@dataclass
class Stop:
    """Set when the load is to end early.

    Attributes:
        signal: The signal that asked for it; 0 for none.
        children: Processes to pass it on to.

    """

    signal: int = 0
    children: set[int] = field(default_factory=set)

    def __call__(self, number: int, _frame: object) -> None:
        """Handle a signal."""
        self.signal = self.signal or number  # later ones are those that wake the threads
        for child in self.children:
            os.kill(child, signal.SIGINT)


@dataclass(frozen=True)
class _Run:
    """What a load's workers share."""

    options: Options
    tally: _Tally
    stop: Stop


def run(options: Options, *, stop: Stop | None = None) -> Load:
    """Run a load. With more than one process this forks, so the caller must be the only thread.

    SIGINT (if this is the main thread) ends the load early: the jobs that ended count, and `interrupted` is set.

    Raises:
        MachineError: A process found no NPU, or could not use it.

    """
    stop = Stop() if stop is None else stop
    tally = _Tally(options)
    shared = _Run(options, tally, stop)
    killed = 0
    with _handling(stop):
        if options.processes == 1:
            _run_process(shared, 0)
        else:
            killed = _fork_processes(shared)
    duration_ns = time.monotonic_ns() - tally.started_ns
    for process in tally.processes:
        if process.problem:
            raise MachineError(**json.loads(process.problem))
    return _summary(options, tally, stop, killed=killed, duration_ns=duration_ns)


@contextmanager
def _handling(stop: Stop) -> Iterator[None]:
    """Let `stop` handle SIGINT meanwhile. Counts stay exact: no KeyboardInterrupt between a call and its counting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fork_processes(run: _Run) -> int:
    """Run each process in a child; returns how many were killed."""
    stop, killed = run.stop, 0
    waiting: list[int] = []
    for number in range(run.options.processes):
        # A signal meanwhile waits until the child is known, and does not find the others' ids in it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        parent = os.getpid()
        child = os.fork()
        if not child:
            try:
                _be_child(parent, stop)
                _run_process(run, number)
            finally:
                os._exit(0)  # what is above this frame is the parent's to run
        stop.children.add(child)
        waiting.append(child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    for child in waiting:
        # Not reaped yet: while its id is among the children it is nobody else's.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        stop.children.discard(child)
        killed += os.waitpid(child, 0)[1] & 0x7F != 0
    return killed


def _be_child(parent: int, stop: Stop) -> None:
    stop.children.clear()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(3)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def _run_process(run: _Run, number: int) -> None:
    """Open the device, ask its parameters, run this process's share of the jobs in threads."""
    options, tally = run.options, run.tally
    mine = tally.processes[number]
    try:
        with Device(options.device, counts=Counts(mine.counts)) as device:
            params = device.params()
            if number == 0:
                for place, value in zip(tally.params, params.values(), strict=True):
                    place.known, place.value = value is not None, value or 0
            mine.cmdq = options.submit == "cmdq" or (options.submit == "auto" and bool(params["cap_manage_cmdq"]))
            threads = [
                threading.Thread(target=_run_thread, args=(run, device, number * options.threads + thread))
                for thread in range(options.threads)
            ]
            _run_threads(threads, run.stop)
    except MachineError as error:
        _report(mine, error)


def _run_threads(threads: list[threading.Thread], stop: Stop) -> None:
    """Run them to their end. A signal ends one thread's system call only, so each gets it, until it has ended."""
    for thread in threads:
        thread.start()
    handled = threading.current_thread() is threading.main_thread()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.05)
            for other in threads if stop.signal and handled else ():
                if other.is_alive() and other.ident is not None:
                    signal.pthread_kill(other.ident, signal.SIGINT)


def _run_thread(run: _Run, device: Device, worker: int) -> None:
    options, tally = run.options, run.tally
    process = tally.processes[worker // options.threads]
    queue = None
    try:
        if process.cmdq:
            queue = device.create_queue(options.priority)
        for job in range(worker + 1, options.jobs + 1, options.workers):
            if not _wait_turn(run, job) or tally.stopped_by_problem():
                break
            _run_job(run, device, queue, job)
    except MachineError as error:
        _report(process, error)
    finally:
        if queue is not None:
            queue.close()


def _wait_turn(run: _Run, job: int) -> bool:
    """Sleep until the job is due; False when the load is to end."""
    rate = run.options.rate
    due = run.tally.started_ns + (job - 1) * 1e9 / rate if rate else 0
    while not run.stop.signal and (left := due - time.monotonic_ns()) > 0:
        time.sleep(min(left / 1e9, 0.1))
    return not run.stop.signal


def _run_job(run: _Run, device: Device, queue: Queue | None, number: int) -> None:
    options = run.options
    job = run.tally.jobs[number - 1]
    job.state = _RUNNING
    buffers: list[Buffer] = []
    try:
        for index in range(options.buffers):
            buffers.append(device.create_buffer(options.size, _FLAGS[index > 0]))
            _fill(buffers[-1], options, asks=index == 0 and options.is_faulty(number))
        began = time.monotonic_ns()
        device.submit(buffers, queue, options.priority)
        deadline = began + int(options.timeout * 1e9)
        error, status = device.try_wait(buffers[0], deadline)
        while error in _NOT_ENDED and not run.stop.signal:
            error, status = device.try_wait(buffers[0], deadline)
        job.latency_ns = time.monotonic_ns() - began
        job.status, job.ended = status, not error
        if error == errno.ETIMEDOUT:
            job.state = _TIMED_OUT
        elif error not in _NOT_ENDED:
            job.state = _FAILED if error or status != uapi.JOB_SUCCESS else _OK
    except MachineError:
        job.state = _FAILED
    finally:
        for buffer in buffers:
            buffer.close()


_FLAGS = (BufferFlags.MAPPABLE, BufferFlags.MAPPABLE | BufferFlags.SHAVE_MEM)
"""Of a command buffer, and of the others."""


def _fill(buffer: Buffer, options: Options, *, asks: bool) -> None:
    """Write all of it: zeros, and the request for the fault where this job asks for it."""
    if buffer.memory is None:
        return
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(buffer.memory)), 0, buffer.size)
    if asks:
        request = job_fault(options.fault, options.fault_argument)
        buffer.memory[: len(request)] = request


def _report(process: _Process, error: MachineError) -> None:
    what = error.what
    if isinstance(error, IoctlError) and error.name == "CMDQ_CREATE" and error.why:
        error = MachineError(what, why=error.why, fix="submit='auto' or 'submit'; --submit auto", code=error.code)
    text = json.dumps({"what": error.what, "why": error.why, "fix": error.fix, "code": error.code})
    short = json.dumps({"what": what[:300], "code": error.code})
    process.problem = (text if len(text) < 1024 else short).encode()


def _summary(options: Options, tally: _Tally, stop: Stop, *, killed: int, duration_ns: int) -> Load:
    states = Counter(int(job.state) for job in tally.jobs)
    counts = Counts()
    for process in tally.processes:
        counts.merge(Counts(process.counts))
    params = {
        name: int(place.value) if place.known else None for name, place in zip(uapi.PARAMS, tally.params, strict=True)
    }
    asked = asdict(options)
    asked["submit"] = "cmdq" if any(process.cmdq for process in tally.processes) else "submit"
    return Load(
        **asked,
        ok=states[_OK],
        failed=states[_FAILED],
        timed_out=states[_TIMED_OUT],
        unfinished=states[_NOT_RUN] + states[_RUNNING],
        faulty=sum(job.state != _NOT_RUN and options.is_faulty(number) for number, job in enumerate(tally.jobs, 1)),
        statuses=dict(sorted(Counter(int(job.status) for job in tally.jobs if job.ended).items())),
        duration_ns=duration_ns,
        interrupted=bool(stop.signal),
        killed=killed,
        latency_ns=_latency([int(job.latency_ns) for job in tally.jobs if job.state == _OK]),
        params=params,
        calls=counts.to_dict(),
    )


def _latency(values: list[int]) -> Latency | None:
    if not values:
        return None
    values.sort()
    return Latency(mean=sum(values) // len(values), p50=values[(len(values) - 1) // 2], max=values[-1])


def main(arguments: list[str]) -> int:
    """Run the load of `load()` in a process of its own; prints one JSON object, always."""
    try:
        print(run(Options(**json.loads(arguments[0]))).to_json())
    except MachineError as error:
        print(json.dumps({"error": {"what": error.what, "why": error.why, "fix": error.fix, "code": error.code}}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run jobs on the NPU and count exactly what was done: the ground truth for a trace of the driver."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from accel_magic import own_python, terminal
from accel_magic.errors import MachineError
from accel_magic.lab.npu import uapi
from accel_magic.lab.npu.counts import CountTable, IoctlCounts
from accel_magic.lab.npu.device import Buffer, Device, IoctlError, Queue
from accel_magic.lab.npu.faults import job_fault
from accel_magic.lab.npu.options import LoadOptions, parse_fault
from accel_magic.lab.npu.uapi import CALLS, NODE, BufferFlags

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


_FUNCTIONS = {call.name: call.function for call in CALLS}


@dataclass(frozen=True)
class Latency:
    """Nanoseconds from just before a job's submission until BO_WAIT returned, for the jobs that succeeded.

    Attributes:
        mean: Arithmetic mean, rounded down.
        p50: Lower median, so always the latency of an actual job.
        max: Maximum.

    """

    mean: int
    p50: int
    max: int


@dataclass(frozen=True)
class Load:
    """Result of a load. `npu_load --json` prints the same.

    Attributes:
        device: The device node.
        submit: How jobs were submitted: `submit` or `cmdq`.
        processes: As requested; likewise `threads`, `buffers`, `size`, `priority`, `rate`, `timeout`, `fault`,
            `fault_argument`, `every` and `at`.
        jobs: Jobs requested: the sum of `ok`, `failed`, `timed_out` and `unfinished`.
        ok: Jobs that ended with status 0.
        failed: Jobs that could not be submitted, or ended with another status.
        timed_out: Jobs that did not end in time.
        unfinished: Jobs not started or not ended when the load was interrupted or a process was killed.
        faulty: Jobs that requested the fault.
        statuses: Status reported by the driver (256: aborted) -> jobs.
        duration_ns: From before the first open to after the last close.
        interrupted: Whether a signal ended the load early.
        killed: Number of processes killed by a signal.
        latency_ns: Latency of the jobs that succeeded; None if there are none.
        params: The device's parameters as the first process read them; None for those that the driver rejected.
        calls: ioctl -> `ok` (calls) and `failed` (errno name -> calls). Every system call counts.

    """

    device: str
    submit: str
    processes: int
    threads: int
    buffers: int
    size: int
    priority: str
    rate: float
    timeout: float
    fault: str
    fault_argument: int
    every: int
    at: int
    jobs: int
    ok: int
    failed: int
    timed_out: int
    unfinished: int
    faulty: int
    statuses: dict[int, int]
    duration_ns: int
    interrupted: bool
    killed: int
    latency_ns: Latency | None
    params: dict[str, int | None]
    calls: dict[str, dict[str, Any]]

    @classmethod
    def from_json(cls, text: str) -> Load:
        """Parse the output of `to_json` or `npu_load --json`."""
        values = json.loads(text)
        values["calls"] = values.pop("ioctls")
        values["statuses"] = {int(status): jobs for status, jobs in values["statuses"].items()}
        values["latency_ns"] = values["latency_ns"] and Latency(**values["latency_ns"])
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def to_json(self) -> str:
        """One line of JSON; `calls` is named `ioctls` in it."""
        values = asdict(self)
        values["ioctls"] = values.pop("calls")
        return json.dumps(values)

    @property
    def ioctls(self) -> pd.DataFrame:
        """One row per ioctl made: `ok`, `failed` (calls), `errors` (by errno), kernel `function` that serves it."""
        import pandas as pd

        rows = [
            (name, call["ok"], sum(call["failed"].values()), _errors(call), _FUNCTIONS[name])
            for name, call in self.calls.items()
            if call["ok"] or call["failed"]
        ]
        return pd.DataFrame(rows, columns=["ioctl", "ok", "failed", "errors", "function"]).set_index("ioctl")

    @property
    def functions(self) -> pd.Series[int]:
        """Calls of each kernel function that serves an ioctl, including failed calls: what a trace of it must count."""
        import pandas as pd

        totals = {
            _FUNCTIONS[name]: call["ok"] + sum(call["failed"].values())
            for name, call in self.calls.items()
            if call["ok"] or call["failed"]
        }
        return pd.Series(totals, name="calls", dtype="int64")

    def __repr__(self) -> str:
        made = [(name, call) for name, call in self.calls.items() if call["ok"] or call["failed"]]
        return terminal.page(
            [
                self._headline(),
                *(f"{name:<8} {text}" for name, text in self._lines()),
                f"{'ioctl':<14} {'ok':>10}  failed",
                *(f"{name:<14} {call['ok']:>10}  {_errors(call)}".rstrip() for name, call in made),
            ]
        )

    def _repr_html_(self) -> str:
        made = [(name, call) for name, call in self.calls.items() if call["ok"] or call["failed"]]
        facts = "".join(f"<div>{name}: {escape(text)}</div>" for name, text in self._lines())
        rows = "".join(
            f"<tr><td>{name}</td><td>{call['ok']:,}</td><td>{_errors(call)}</td><td>{_FUNCTIONS[name]}</td></tr>"
            for name, call in made
        )
        head = "<tr><th>ioctl</th><th>ok</th><th>failed</th><th>kernel function</th></tr>"
        return f"<div><b>{escape(self._headline())}</b>{facts}<table>{head}{rows}</table></div>"

    def _headline(self) -> str:
        end = ", interrupted" if self.interrupted else ""
        by = "CMDQ_SUBMIT" if self.submit == "cmdq" else "SUBMIT"
        seconds = f"{self.duration_ns / 1e9:.3f} s by {by}"
        return f"{self.jobs} jobs on {self.device} in {seconds}, {self.processes} x {self.threads} workers{end}"

    def _lines(self) -> list[tuple[str, str]]:
        lines = [
            (
                "jobs",
                f"ok {self.ok}, failed {self.failed}, timed out {self.timed_out}, unfinished {self.unfinished}",
            )
        ]
        if self.fault != "none":
            lines.append(("faults", f"{self.fault} requested {self.faulty} times"))
        if self.killed:
            lines.append(("killed", f"{self.killed} of the processes"))
        if self.latency_ns:
            mean, p50, most = (f"{ns / 1e3:.1f} us" for ns in asdict(self.latency_ns).values())
            lines.append(("latency", f"mean {mean}, p50 {p50}, max {most}"))
        return lines


def load(
    jobs: int = 20,
    *,
    processes: int = 1,
    threads: int = 1,
    buffers: int = 1,
    size: int = 65536,
    rate: float = 0.0,
    submit: str = "auto",
    priority: str = "default",
    timeout: float = 10.0,
    fault: str | None = None,
    every: int = 0,
    at: int = 0,
    device: str | os.PathLike[str] = NODE,
) -> Load:
    """Run jobs on the NPU (create, map and fill buffers, submit, wait, free) and return the exact counts.

    With one process, the jobs run in threads of this process; otherwise in child processes. After a hang, newer
    drivers reject further jobs of the process that submitted the hung job: they count as failed (EBADFD).

    Args:
        jobs: Total number of jobs.
        processes: Number of processes; each opens the device itself.
        threads: Threads per process; they share its device.
        buffers: Buffers per job; the first is its command buffer.
        size: Bytes per buffer.
        rate: Jobs started per second, in total; 0: as fast as possible.
        submit: `submit`: the SUBMIT ioctl; `cmdq`: command queues; `auto`: command queues if the driver has them.
        priority: `default`, `idle`, `normal`, `focus` or `realtime`.
        timeout: Seconds from a job's submission until it counts as timed out.
        fault: Fault to inject in the lab's device: `slow=MICROSECONDS`, `hang`, `lose` or `duplicate`; needs one of
            `every` and `at`.
        every: Every Kth job requests the fault.
        at: Number of the job that requests the fault.
        device: The device node.

    Raises:
        MachineError: No NPU, no permission, or no command queues although `cmdq` was requested.
        ProbeError: An option is invalid.
        KeyboardInterrupt: The load was interrupted; its counts were printed.

    """
    name, argument = parse_fault(fault)
    options = LoadOptions(
        jobs=jobs,
        processes=processes,
        threads=threads,
        buffers=buffers,
        size=size,
        rate=rate,
        submit=submit,
        priority=priority,
        timeout=timeout,
        fault=name,
        fault_argument=argument,
        every=every,
        at=at,
        device=os.fspath(device),
    )

    done = run(options) if processes == 1 else _run_in_children(options)
    if done.interrupted:
        print(done)
        raise KeyboardInterrupt
    return done


def _run_in_children(options: LoadOptions) -> Load:
    """Start a fresh interpreter that forks the processes: this one must not fork because it may have threads."""
    helper = subprocess.Popen(
        own_python.command("accel_magic.lab.npu.loads", json.dumps(asdict(options))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed, complaint = helper.communicate()
    except KeyboardInterrupt:
        helper.send_signal(signal.SIGINT)  # harmless if the terminal already sent it one
        printed, complaint = helper.communicate()
    finally:
        if helper.poll() is None:
            helper.kill()
            helper.wait()
    try:
        answer = json.loads(printed)
    except ValueError:
        why = (complaint.strip() or f"status {helper.returncode}").splitlines()[-1]
        raise MachineError("the load's processes ended without a result", why=why, code="load.no-answer") from None
    if "error" in answer:
        raise MachineError(**answer["error"])
    return Load.from_json(printed)


def _errors(call: dict[str, Any]) -> str:
    return "  ".join(f"{count} {name}" for name, count in call["failed"].items())


_NOT_RUN, _RUNNING, _OK, _FAILED, _TIMED_OUT = range(5)
_NOT_ENDED = {errno.EINTR, errno.EAGAIN}
_PR_SET_PDEATHSIG = 1


class _Job(ctypes.Structure):
    _fields_: ClassVar = [
        ("state", ctypes.c_uint32),
        ("ended", ctypes.c_uint32),  # whether the driver reported its end; `status` is then valid
        ("status", ctypes.c_uint32),
        ("latency_ns", ctypes.c_uint64),
    ]


class _Param(ctypes.Structure):
    _fields_: ClassVar = [("known", ctypes.c_uint64), ("value", ctypes.c_uint64)]


class _Process(ctypes.Structure):
    _fields_: ClassVar = [
        ("counts", CountTable),
        ("cmdq", ctypes.c_uint32),  # whether it submits through command queues
        ("problem", ctypes.c_char * 1024),  # JSON of the error that stopped it; empty if none
    ]


class _Tally:
    """Shared memory that all processes update as they go, so that it survives an interrupt or a killed process."""

    def __init__(self, options: LoadOptions) -> None:
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
    """Signal handler that ends the load early.

    Attributes:
        signal: The first signal received; 0 for none.
        children: Process ids to forward it to.

    """

    signal: int = 0
    children: set[int] = field(default_factory=set)

    def __call__(self, number: int, _frame: object) -> None:
        """Handle a signal."""
        self.signal = self.signal or number  # later signals only wake the threads
        for child in self.children:
            os.kill(child, signal.SIGINT)


@dataclass(frozen=True)
class _Run:
    """State shared by a load's workers."""

    options: LoadOptions
    tally: _Tally
    stop: Stop


def run(options: LoadOptions, *, stop: Stop | None = None) -> Load:
    """Run a load. With more than one process this forks, so the caller must be the only thread.

    In the main thread, SIGINT ends the load early: completed jobs count, and `interrupted` is set.

    Raises:
        MachineError: A process found no NPU or could not use it.

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
    """Let `stop` handle SIGINT in the block, so that no KeyboardInterrupt comes between a call and its counting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fork_processes(run: _Run) -> int:
    """Run each process in a child; returns how many were killed by a signal."""
    stop, killed = run.stop, 0
    waiting: list[int] = []
    for number in range(run.options.processes):
        # Signals are blocked until the parent knows the child, and the child has forgotten its siblings.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        parent = os.getpid()
        child = os.fork()
        if not child:
            try:
                _be_child(parent, stop)
                _run_process(run, number)
            finally:
                os._exit(0)  # only the parent may return from this function
        stop.children.add(child)
        waiting.append(child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    for child in waiting:
        # Not reaped yet: its id is not reused while it is in `stop.children`.
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
    """Open the device, read its parameters, and run this process's share of the jobs in threads."""
    options, tally = run.options, run.tally
    mine = tally.processes[number]
    try:
        with Device(options.device, counts=IoctlCounts(mine.counts)) as device:
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
    """Run threads until they end. A signal interrupts the system call of one thread only, so it is sent to each."""
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
    """Sleep until the job is due; False if the load was stopped."""
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
            _fill(buffers[-1], options, faulty=index == 0 and options.is_faulty(number))
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
"""For a command buffer, and for other buffers."""


def _fill(buffer: Buffer, options: LoadOptions, *, faulty: bool) -> None:
    """Fill the buffer with zeros, and write the fault request to its start if `faulty`."""
    if buffer.memory is None:
        return
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(buffer.memory)), 0, buffer.size)
    if faulty:
        request = job_fault(options.fault, options.fault_argument)
        buffer.memory[: len(request)] = request


def _report(process: _Process, error: MachineError) -> None:
    what = error.what
    if isinstance(error, IoctlError) and error.name == "CMDQ_CREATE" and error.why:
        error = MachineError(what, why=error.why, fix="use submit='auto' (--submit auto)", code=error.code)
    text = json.dumps({"what": error.what, "why": error.why, "fix": error.fix, "code": error.code})
    short = json.dumps({"what": what[:300], "code": error.code})
    process.problem = (text if len(text) < 1024 else short).encode()


def _summary(options: LoadOptions, tally: _Tally, stop: Stop, *, killed: int, duration_ns: int) -> Load:
    states = Counter(int(job.state) for job in tally.jobs)
    counts = IoctlCounts()
    for process in tally.processes:
        counts.merge(IoctlCounts(process.counts))
    params = {
        name: int(place.value) if place.known else None for name, place in zip(uapi.PARAMS, tally.params, strict=True)
    }
    requested = asdict(options)
    requested["submit"] = "cmdq" if any(process.cmdq for process in tally.processes) else "submit"
    return Load(
        **requested,
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
    """Run the load of `load()` in a separate process; always prints one JSON object."""
    try:
        print(run(LoadOptions(**json.loads(arguments[0]))).to_json())
    except MachineError as error:
        print(json.dumps({"error": {"what": error.what, "why": error.why, "fix": error.fix, "code": error.code}}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

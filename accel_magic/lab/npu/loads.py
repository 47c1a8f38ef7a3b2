"""Run jobs on the NPU and say exactly what was done: the ground truth for a trace of the driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

from accel_magic import own_python, terminal
from accel_magic.errors import MachineError
from accel_magic.lab.npu.options import Options, parse_fault
from accel_magic.lab.npu.uapi import CALLS, NODE

if TYPE_CHECKING:
    import pandas as pd

_FUNCTIONS = {call.name: call.function for call in CALLS}


@dataclass(frozen=True)
class Latency:
    """Nanoseconds from just before a job's submission until BO_WAIT returned, over the jobs that are OK.

    Attributes:
        mean: Rounded down.
        p50: The lower median: a latency that a job had.
        max: The greatest.

    """

    mean: int
    p50: int
    max: int


@dataclass(frozen=True)
class Load:
    """What a load did. `npu_load --json` prints the same.

    Attributes:
        device: The device node.
        submit: How jobs were submitted: `submit` or `cmdq`.
        processes: As asked; so are `threads`, `buffers`, `size`, `priority`, `rate`, `timeout`, `fault`,
            `fault_argument`, `every` and `at`.
        jobs: Jobs asked for: the sum of `ok`, `failed`, `timed_out` and `unfinished`.
        ok: Jobs done with status 0.
        failed: Jobs that could not be submitted, or ended with another status.
        timed_out: Jobs not done in time.
        unfinished: Jobs not begun or not ended when the load was interrupted or a process killed.
        faulty: Jobs that asked for the fault.
        statuses: Status that the driver reported (256: aborted) -> jobs.
        duration_ns: From before the first open to after the last close.
        interrupted: Ended by a signal.
        killed: Processes that a signal killed.
        latency_ns: Of the jobs that are OK; None without one.
        params: The device's parameters as the first process saw them; None where the driver refused one.
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
        """Read what `to_json`, or `npu_load --json`, printed."""
        values = json.loads(text)
        values["calls"] = values.pop("ioctls")
        values["statuses"] = {int(status): jobs for status, jobs in values["statuses"].items()}
        values["latency_ns"] = values["latency_ns"] and Latency(**values["latency_ns"])
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def to_json(self) -> str:
        """One line of JSON; `calls` under the name `ioctls`."""
        values = asdict(self)
        values["ioctls"] = values.pop("calls")
        return json.dumps(values)

    @property
    def ioctls(self) -> pd.DataFrame:
        """One row per ioctl made: `ok`, `failed` (calls), `errors` (by errno) and `function`, where it arrives."""
        import pandas as pd

        rows = [
            (name, call["ok"], sum(call["failed"].values()), _errors(call), _FUNCTIONS[name])
            for name, call in self.calls.items()
            if call["ok"] or call["failed"]
        ]
        return pd.DataFrame(rows, columns=["ioctl", "ok", "failed", "errors", "function"]).set_index("ioctl")

    @property
    def functions(self) -> pd.Series[int]:
        """Calls of each kernel function that serves an ioctl, failed ones too: what a trace of it must count."""
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
            lines.append(("faults", f"{self.fault} asked for {self.faulty} times"))
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
    """Run jobs on the NPU: make, map and fill buffers, submit, wait, free; and return the exact counts.

    One process means this one, in threads of its own; more are started as children of this one. After a hang, newer
    drivers take no more jobs from the process whose job it was: they count as failed (EBADFD).

    Args:
        jobs: Of all workers together.
        processes: Each opens the device itself.
        threads: Of each process; they share its device.
        buffers: Of each job; the first is its command buffer.
        size: Bytes of each buffer.
        rate: Jobs started per second, all workers together; 0: as fast as they go.
        submit: `submit`: the old ioctl; `cmdq`: command queues; `auto`: these where the driver has them.
        priority: `default`, `idle`, `normal`, `focus` or `realtime`.
        timeout: Seconds from a job's submission until it counts as timed out.
        fault: Asks the lab's device for it: `slow=MICROSECONDS`, `hang`, `lose` or `duplicate`; goes with one of:
        every: Each of this number of jobs asks.
        at: The job of this number asks.
        device: The device node.

    Raises:
        MachineError: No NPU, no permission, or no command queues where `cmdq` was asked for.
        ProbeError: An option that cannot be.
        KeyboardInterrupt: The load was interrupted; its counts were printed.

    """
    name, argument = parse_fault(fault)
    options = Options(
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
    from accel_magic.lab.npu.runner import run

    done = run(options) if processes == 1 else _run_in_children(options)
    if done.interrupted:
        print(done)
        raise KeyboardInterrupt
    return done


def _run_in_children(options: Options) -> Load:
    """Start a fresh interpreter that forks the processes: this one may have threads, and then must not fork."""
    helper = subprocess.Popen(
        own_python.command("accel_magic.lab.npu.runner", json.dumps(asdict(options))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed, complaint = helper.communicate()
    except KeyboardInterrupt:
        helper.send_signal(signal.SIGINT)  # it may have had one of its own already, which does no harm
        printed, complaint = helper.communicate()
    finally:
        if helper.poll() is None:
            helper.kill()
            helper.wait()
    try:
        answer = json.loads(printed)
    except ValueError:
        why = (complaint.strip() or f"status {helper.returncode}").splitlines()[-1]
        raise MachineError("the load's processes ended without an answer", why=why, code="load.no-answer") from None
    if "error" in answer:
        raise MachineError(**answer["error"])
    return Load.from_json(printed)


def _errors(call: dict[str, Any]) -> str:
    return "  ".join(f"{count} {name}" for name, count in call["failed"].items())

"""Run jobs on the NPU through Level Zero and count every call exactly: the ground truth for a trace of the API."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.c_programs import compile_program
from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab import program_folder
from accel_magic.lab.level_zero import parts
from accel_magic.lab.npu.loads import Latency

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

_BAD_OPTION, _NO_USE = 2, 3  # exit statuses of ze_load


@dataclass(frozen=True)
class ZeLoad:
    """Result of a load. `ze_load --json` prints the same.

    Attributes:
        device: The driver's name for the device.
        threads: As requested; likewise `in_flight`, `wait`, `size`, `memory`, `fresh`, `rate` and `timeout`.
        jobs: Jobs requested: the sum of `ok`, `failed` and `timed_out`.
        ok: Jobs that succeeded.
        failed: Jobs that could not be submitted or ended with an error.
        timed_out: Jobs that did not end in time.
        fault: Fault requested from the lab's device; `fault_argument`, `every` and `at` are also as requested.
        faulty: Submissions that requested the fault.
        most_in_flight: Maximum number of jobs of all threads that were submitted and not yet known to be done.
        duration_ns: From before the loader was opened to after the context was destroyed.
        latency_ns: From before a job's Execute until it was known to be done, for successful jobs; None without any.
        calls: Function -> result (`SUCCESS`, `NOT_READY`, ...) -> calls.

    """

    device: str
    threads: int
    in_flight: int
    wait: str
    size: int
    memory: str
    fresh: bool
    rate: float
    timeout: float
    fault: str
    fault_argument: int
    every: int
    at: int
    faulty: int
    jobs: int
    ok: int
    failed: int
    timed_out: int
    most_in_flight: int
    duration_ns: int
    latency_ns: Latency | None
    calls: dict[str, dict[str, int]]

    @classmethod
    def from_json(cls, text: str) -> ZeLoad:
        """Parse the output of `ze_load --json`."""
        values = json.loads(text)
        values["latency_ns"] = values["latency_ns"] and Latency(**values["latency_ns"])
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    @property
    def functions(self) -> pd.Series[int]:
        """Calls of each API function, whatever their result: what a trace of the loader must count."""
        import pandas as pd

        return pd.Series({name: sum(kinds.values()) for name, kinds in self.calls.items()}, name="calls", dtype="int64")

    @property
    def results(self) -> pd.DataFrame:
        """Number of calls: one row per function, one column per result."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.calls, orient="index").fillna(0).astype("int64")

    def __repr__(self) -> str:
        rows = (f"{name:<36} {_results(kinds)}" for name, kinds in self.calls.items())
        return terminal.page([self._headline(), *(f"{name:<8} {text}" for name, text in self._lines()), *rows])

    def _repr_html_(self) -> str:
        facts = "".join(f"<div>{name}: {escape(text)}</div>" for name, text in self._lines())
        rows = "".join(f"<tr><td>{name}</td><td>{_results(kinds)}</td></tr>" for name, kinds in self.calls.items())
        table = f"<table><tr><th>call</th><th>results</th></tr>{rows}</table>"
        return f"<div><b>{escape(self._headline())}</b>{facts}{table}</div>"

    def _headline(self) -> str:
        how = f"{self.threads} thread{'s' if self.threads > 1 else ''}, at most {self.most_in_flight} in flight"
        return f"{self.jobs} jobs on {self.device} in {self.duration_ns / 1e9:.3f} s, {how}"

    def _lines(self) -> list[tuple[str, str]]:
        lines = [("jobs", f"ok {self.ok}, failed {self.failed}, timed out {self.timed_out}")]
        if self.fault != "none":
            lines.append(("faults", f"{self.fault} requested {self.faulty} times"))
        if self.latency_ns:
            of = self.latency_ns
            lines.append(
                ("latency", f"mean {of.mean / 1e3:.1f} us, p50 {of.p50 / 1e3:.1f} us, max {of.max / 1e3:.1f} us")
            )
        return lines


def ze_load(
    jobs: int = 20,
    *,
    threads: int = 1,
    in_flight: int = 1,
    wait: str = "fence",
    size: int = 65536,
    memory: str = "device",
    fresh: bool = False,
    rate: float = 0.0,
    timeout: float = 10.0,
    fault: str | None = None,
    every: int = 0,
    at: int = 0,
) -> ZeLoad:
    """Run copies on the NPU through Level Zero in a separate process, and return the exact count of every call.

    In the lab the NPU is emulated and copies nothing. On a machine with an NPU, its own loader and driver are used.

    Args:
        jobs: Total number of jobs.
        threads: Number of threads, each with its own queue.
        in_flight: Jobs that a thread submits before it waits for the oldest; 1: one after the other.
        wait: `fence`: zeFenceHostSynchronize; `query`: poll with zeFenceQueryStatus; `queue`:
            zeCommandQueueSynchronize; `synchronous`: use a synchronous queue.
        size: Bytes of each job's two buffers.
        memory: Memory of the destination buffer: `host`, `device` or `shared`; the source is host memory.
        fresh: Create buffers, list and fence for every job instead of reusing those of the slot in flight.
        rate: Jobs started per second, in total; 0: as fast as possible.
        timeout: Seconds from a job's submission until it counts as timed out.
        fault: Fault to inject in the lab's device: `slow=MICROSECONDS`, `hang`, `lose` or `duplicate`; needs one of
            `every` and `at`.
        every: Every Kth submission requests the fault.
        at: Number of the submission that requests the fault.

    Raises:
        MachineError: No loader, no driver, no NPU, or no C compiler to build the program with.
        ProbeError: An option is invalid.

    """
    given = {
        "jobs": jobs,
        "threads": threads,
        "in-flight": in_flight,
        "wait": wait,
        "size": size,
        "memory": memory,
        "rate": rate,
        "timeout": timeout,
        **({"fault": fault} if fault else {}),
        **({"every": every} if every else {}),
        **({"at": at} if at else {}),
    }
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    command = [*_program(), "--json", *options, *(["--fresh"] if fresh else [])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise _failure(done.returncode, done.stderr)
    return ZeLoad.from_json(done.stdout)


def _program() -> Sequence[str]:
    if "ACCEL_MAGIC_LAB" not in os.environ:
        return [str(compile_program(parts.LOAD, program_folder.folder()))]
    found = parts.find()
    return [
        str(found.program),
        "--loader",
        str(found.loader),
        "--driver",
        os.environ.get(parts.DRIVERS, str(found.driver)),
    ]


def _failure(status: int, complaint: str) -> Exception:
    why = (complaint.strip() or "it printed nothing").splitlines()[0].removeprefix("ze_load: ")
    if status == _BAD_OPTION:
        return ProbeError(f"bad option for ze_load: {why}", fix="see help(ze_load)", code="load.bad-option")
    if status == _NO_USE:
        return MachineError(
            "no NPU found by Level Zero",
            why=why,
            fix="in the lab: python -m accel_magic lab build; on an NPU: install Intel's NPU driver",
            code="npu.not-found",
        )
    return MachineError("ze_load ended without a result", why=f"status {status}: {why}", code="load.no-answer")


def _results(kinds: dict[str, int]) -> str:
    return "  ".join(f"{name} {calls}" for name, calls in kinds.items())

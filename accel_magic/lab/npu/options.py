"""Options of a load, shared by `load()`, `python -m accel_magic.lab.npu` and `npu_load`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.errors import ProbeError
from accel_magic.lab.npu.uapi import JOB_FAULTS, NODE, Priority

if TYPE_CHECKING:
    from collections.abc import Sequence

SUBMITS = ("auto", "submit", "cmdq")
PRIORITIES = tuple(priority.name.lower() for priority in Priority)
MOST_JOBS = 10_000_000
MOST_WORKERS = 1024
_MOST_BUFFERS = 65_535  # the driver's own limit


@dataclass(frozen=True)
class LoadOptions:
    """A load. Job j (from 1) runs on worker j modulo (processes * threads), so faults do not depend on timing.

    Attributes:
        jobs: Total number of jobs.
        processes: Number of processes; each opens the device itself.
        threads: Threads per process; they share its device.
        buffers: Buffers per job; the first is its command buffer.
        size: Bytes per buffer.
        rate: Jobs started per second, in total; 0: as fast as possible.
        submit: `submit`: the SUBMIT ioctl; `cmdq`: command queues; `auto`: command queues if the driver has them.
        priority: Priority of the jobs or queues: `default`, `idle`, `normal`, `focus` or `realtime`.
        timeout: Seconds from a job's submission until it counts as timed out.
        fault: Fault to inject in the lab's device: `slow`, `hang`, `lose`, `duplicate`; or `none`.
        fault_argument: Microseconds, for `slow`.
        every: Every Kth job requests the fault; 0: only job `at`.
        at: Number of the job that requests the fault.
        device: The device node.

    Raises:
        ProbeError: A value is out of range, or values do not fit together.

    """

    jobs: int = 20
    processes: int = 1
    threads: int = 1
    buffers: int = 1
    size: int = 65536
    rate: float = 0.0
    submit: str = "auto"
    priority: str = "default"
    timeout: float = 10.0
    fault: str = "none"
    fault_argument: int = 0
    every: int = 0
    at: int = 0
    device: str = NODE

    def __post_init__(self) -> None:
        for name, least, most in (
            ("jobs", 1, MOST_JOBS),
            ("processes", 1, MOST_WORKERS),
            ("threads", 1, MOST_WORKERS),
            ("buffers", 1, _MOST_BUFFERS),
            ("size", 64, (1 << 62) - 1),
            ("rate", 0, 1e9),
            ("timeout", 0, 1e9),
            ("fault_argument", 0, (1 << 63) - 1),
            ("every", 0, MOST_JOBS),
            ("at", 0, MOST_JOBS),
        ):
            if not least <= getattr(self, name) <= most:
                raise ProbeError(
                    f"bad {name}: {getattr(self, name)}",
                    fix=f"use a value from {least} to {most}",
                    code="load.bad-option",
                )
        for name, names in (("submit", SUBMITS), ("priority", PRIORITIES), ("fault", JOB_FAULTS)):
            if getattr(self, name) not in names:
                raise ProbeError(
                    f"bad {name}: {getattr(self, name)!r}",
                    fix=f"use one of {', '.join(names)}",
                    code="load.bad-option",
                )
        if self.workers > MOST_WORKERS:
            raise ProbeError(
                f"too many workers: {self.workers}", fix=f"use at most {MOST_WORKERS}", code="load.too-many-workers"
            )
        requested = (self.every > 0) + (self.at > 0)
        if requested != (self.fault != "none"):
            raise ProbeError(
                "`fault` needs exactly one of `every` and `at`, and neither works without `fault`",
                fix="for example: fault='hang', at=3",
                code="load.fault-without-job",
            )

    @property
    def workers(self) -> int:
        """Total number of threads."""
        return self.processes * self.threads

    def is_faulty(self, job: int) -> bool:
        """Whether job number `job` requests the fault."""
        return self.fault != "none" and (job == self.at if self.at else job % self.every == 0)


def parse_fault(text: str | None) -> tuple[str, int]:
    """Fault and its argument from `slow=MICROSECONDS`, `hang`, `lose`, `duplicate` or None; ProbeError otherwise."""
    name, equals, argument = (text or "none").partition("=")
    slow = name == "slow"
    if name not in JOB_FAULTS or slow != bool(equals) or (slow and not argument.isdecimal()):
        raise ProbeError(
            f"unknown job fault {text!r}",
            fix="use slow=MICROSECONDS, hang, lose or duplicate",
            code="npu.unknown-fault",
        )
    return name, int(argument) if slow else 0


def parse(arguments: Sequence[str] | None = None) -> tuple[LoadOptions, bool]:
    """Parse the command line; returns the options and whether to print JSON. Exits with status 2 on bad arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m accel_magic.lab.npu",
        description="Run jobs on the NPU and print the exact count of every ioctl made for them.",
    )
    add = parser.add_argument
    add("--jobs", type=int, default=20, metavar="N", help="total number of jobs (20)")
    add("--processes", type=int, default=1, metavar="P", help="processes; each opens the device itself (1)")
    add("--threads", type=int, default=1, metavar="T", help="threads per process (1)")
    add("--buffers", type=int, default=1, metavar="B", help="buffers per job; the first is its command buffer (1)")
    add("--size", type=int, default=65536, metavar="BYTES", help="size of each buffer (65536)")
    add("--rate", type=float, default=0.0, metavar="PER_SECOND", help="jobs started per second, in total (no limit)")
    add("--submit", choices=SUBMITS, default="auto", help="auto: command queues if the driver has them (auto)")
    add("--priority", choices=PRIORITIES, default="default")
    add("--timeout", type=float, default=10.0, metavar="S", help="seconds until a job counts as timed out (10)")
    add("--fault", metavar="FAULT", help="fault to inject in the lab: slow=MICROSECONDS, hang, lose or duplicate")
    add("--every", type=int, default=0, metavar="K", help="inject the fault in every Kth job")
    add("--at", type=int, default=0, metavar="J", help="inject the fault in job J")
    add("--device", default=NODE, metavar="PATH", help=f"device node ({NODE})")
    add("--json", action="store_true", help="print JSON")
    values = vars(parser.parse_args(arguments))
    as_json = values.pop("json")
    try:
        values["fault"], values["fault_argument"] = parse_fault(values["fault"])
        return LoadOptions(**values), as_json
    except ProbeError as error:
        parser.error(str(error))

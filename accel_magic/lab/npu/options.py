"""What a load is asked to do: the options of `load()`, of `python -m accel_magic.lab.npu` and of `npu_load`."""

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
class Options:
    """A load. Job j (from 1) belongs to worker j modulo processes times threads, so faults do not depend on timing.

    Attributes:
        jobs: Of all workers together.
        processes: Each opens the device itself.
        threads: Of each process; they share its device.
        buffers: Of each job; the first is its command buffer.
        size: Bytes of each buffer.
        rate: Jobs started per second, of all workers together; 0: as fast as they go.
        submit: `submit`: the old ioctl; `cmdq`: command queues; `auto`: these where the driver has them.
        priority: Of the jobs or the queues: `default`, `idle`, `normal`, `focus` or `realtime`.
        timeout: Seconds from a job's submission until it counts as timed out.
        fault: What to ask the lab's device for: `slow`, `hang`, `lose`, `duplicate`; `none`.
        fault_argument: For slow: microseconds.
        every: Jobs that ask for the fault: each of this number; 0: the one of `at`.
        at: The job that asks for the fault.
        device: The device node.

    Raises:
        ProbeError: A value that cannot be.

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
            ("size", 64, 1 << 62),
            ("rate", 0, 1e9),
            ("timeout", 0, 1e9),
            ("fault_argument", 0, (1 << 63) - 1),
            ("every", 0, MOST_JOBS),
            ("at", 0, MOST_JOBS),
        ):
            if not least <= getattr(self, name) <= most:
                raise ProbeError(
                    f"{name} cannot be {getattr(self, name)}", fix=f"from {least} to {most}", code="load.bad-option"
                )
        for name, names in (("submit", SUBMITS), ("priority", PRIORITIES), ("fault", JOB_FAULTS)):
            if getattr(self, name) not in names:
                raise ProbeError(
                    f"{name} cannot be {getattr(self, name)!r}",
                    fix=f"one of {', '.join(names)}",
                    code="load.bad-option",
                )
        if self.workers > MOST_WORKERS:
            raise ProbeError(
                f"{self.workers} workers are too many", fix=f"at most {MOST_WORKERS}", code="load.too-many-workers"
            )
        asked = (self.every > 0) + (self.at > 0)
        if asked != (self.fault != "none"):
            raise ProbeError(
                "a fault goes with one of `every` and `at`",
                fix="e.g. fault='hang', at=3",
                code="load.fault-without-job",
            )

    @property
    def workers(self) -> int:
        """Threads of all processes."""
        return self.processes * self.threads

    def is_faulty(self, job: int) -> bool:
        """Whether job number `job` asks for the fault."""
        return self.fault != "none" and (job == self.at if self.at else job % self.every == 0)


def parse_fault(text: str | None) -> tuple[str, int]:
    """Fault and its argument from `slow=MICROSECONDS`, `hang`, `lose`, `duplicate` or None; ProbeError otherwise."""
    name, equals, argument = (text or "none").partition("=")
    slow = name == "slow"
    if name not in JOB_FAULTS or slow != bool(equals) or (slow and not argument.isdecimal()):
        raise ProbeError(
            f"a job has no fault {text!r}", fix="slow=MICROSECONDS, hang, lose or duplicate", code="npu.unknown-fault"
        )
    return name, int(argument) if slow else 0


def parse(arguments: Sequence[str] | None = None) -> tuple[Options, bool]:
    """Options of the command line, and whether to print JSON. Bad ones end the program with status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m accel_magic.lab.npu",
        description="Run jobs on the NPU and print the exact count of every ioctl made for them.",
    )
    add = parser.add_argument
    add("--jobs", type=int, default=20, metavar="N", help="jobs of all workers together (20)")
    add("--processes", type=int, default=1, metavar="P", help="each opens the device itself (1)")
    add("--threads", type=int, default=1, metavar="T", help="of each process (1)")
    add("--buffers", type=int, default=1, metavar="B", help="of each job, the first is its command buffer (1)")
    add("--size", type=int, default=65536, metavar="BYTES", help="of each buffer (65536)")
    add("--rate", type=float, default=0.0, metavar="PER_SECOND", help="jobs started per second, all workers together")
    add("--submit", choices=SUBMITS, default="auto", help="command queues where the driver has them (auto)")
    add("--priority", choices=PRIORITIES, default="default")
    add("--timeout", type=float, default=10.0, metavar="S", help="seconds until a job counts as timed out (10)")
    add("--fault", metavar="FAULT", help="slow=MICROSECONDS, hang, lose, duplicate: ask the lab's device for it, in")
    add("--every", type=int, default=0, metavar="K", help="each Kth job, or")
    add("--at", type=int, default=0, metavar="J", help="job J")
    add("--device", default=NODE, metavar="PATH", help=f"({NODE})")
    add("--json", action="store_true", help="print JSON")
    values = vars(parser.parse_args(arguments))
    as_json = values.pop("json")
    try:
        values["fault"], values["fault_argument"] = parse_fault(values["fault"])
        return Options(**values), as_json
    except ProbeError as error:
        parser.error(str(error))

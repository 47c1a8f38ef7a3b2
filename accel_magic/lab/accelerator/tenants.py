"""Tenants of the accelerator: processes with names of their own, which submit jobs to the ring that is shared."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.channel import pipes
from accel_magic.closing import Closing
from accel_magic.errors import MachineError
from accel_magic.lab.accelerator import uapi
from accel_magic.lab.accelerator.accelerator_programs import TENANT
from accel_magic.lab.accelerator.device import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_REQUEST: Final = struct.Struct("<4Q")
_ANSWER: Final = struct.Struct("<2Q")
_AHEAD_NS: Final = 100_000_000
"""From a request to the start of a run: all tenants have read it by then."""
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class TenantWork:
    """What a tenant does in a run.

    Attributes:
        work_us: What a job needs of the engine, in us.
        times_ns: (jobs,) int64: when jobs come, from the start of the run.
        again: Whether the next job comes when the last has ended.

    """

    work_us: int
    times_ns: NDArray[np.int64]
    again: bool


class TenantProcess(Closing):
    """One tenant. A context manager; its task ends with it.

    Args:
        name: The process's name, at most 15 bytes.
        asks_us: The time slice that it asks for, in us; 0 for none.

    Attributes:
        task: Its task, as the scheduling policy left it.

    Raises:
        MachineError: There is no accelerator, or the process ended.

    """

    def __init__(self, name: str, asks_us: int = 0) -> None:
        program = shutil.which(TENANT)
        if program is None:
            raise MachineError(
                f"there is no {TENANT}",
                why="tenants run in the lab only",
                fix="python -m accel_magic lab run --accelerator -- COMMAND",
                code="accelerator.missing",
            )
        self.name = name
        self._process = subprocess.Popen(
            [program, str(find()), name, str(asks_us)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt of the notebook ends it by closing its standard input
        )
        self._input, self._output = pipes(self._process)
        try:
            self.task = uapi.Task.from_buffer_copy(self._read(ctypes.sizeof(uapi.Task)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it."""
        self._input.close()
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._output, self._process.stderr):
            if stream:
                stream.close()

    def begin(self, work: TenantWork, start_ns: int, duration_ns: int) -> None:
        """Tell it what to do; times are those of CLOCK_MONOTONIC."""
        times = np.ascontiguousarray(work.times_ns + start_ns, np.uint64)
        request = _REQUEST.pack(start_ns + duration_ns, work.work_us, int(work.again), len(times))
        self._input.write(request + times.tobytes())
        self._input.flush()

    def end(self) -> tuple[NDArray[Any], int]:
        """Wait for the end of its jobs; returns their records (`uapi.JOB`), and how many were lost."""
        count, lost = _ANSWER.unpack(self._read(_ANSWER.size))
        return np.frombuffer(self._read(count * uapi.JOB.itemsize), uapi.JOB), lost

    def _read(self, size: int) -> bytes:
        data = self._output.read(size)
        if len(data) == size:
            return data
        _, messages = self._process.communicate(timeout=_TIMEOUT_S)
        raise MachineError(
            f"the tenant {self.name} ended",
            why=messages.decode(errors="replace").strip()[-300:],
            fix="look at the kernel's log: dmesg",
            code="accelerator.call-failed",
        )


def run(
    tenants: Sequence[TenantProcess], work: Sequence[TenantWork], duration_ns: int
) -> tuple[int, list[NDArray[Any]]]:
    """Have tenants work at the same time.

    Returns:
        When the run started, on CLOCK_MONOTONIC, and for each tenant its records (`uapi.JOB`).

    Raises:
        MachineError: A tenant ended, or records were lost.

    """
    start = time.monotonic_ns() + _AHEAD_NS
    for tenant, one in zip(tenants, work, strict=True):
        tenant.begin(one, start, duration_ns)
    answers = [tenant.end() for tenant in tenants]
    if lost := sum(lost for _, lost in answers):
        raise MachineError(
            f"{lost} records of jobs were lost",
            why="a tenant has room for 16,384 in a run",
            fix="use a shorter run, or jobs that come less often",
            code="accelerator.call-failed",
        )
    return start, [records for records, _ in answers]

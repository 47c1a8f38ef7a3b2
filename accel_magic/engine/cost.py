"""The CPU cost of a flame trace: its programs in the kernel, its threads and its reader process."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from accel_magic.kernel import bpf_syscalls, own_threads
from accel_magic.recording.flame_data import NOT_KNOWN

if TYPE_CHECKING:
    from types import TracebackType

    from accel_magic.engine.session import Attached

_OWN: Final = "accel_magic"
"""Prefix of the names of this tool's threads."""
_OF_PROCESS: Final = 2
"""Low bits of a process's CPU-time clock id, next to the inverted process id (Linux ABI)."""


class Cost:
    """Context manager that measures CPU time since `go`."""

    def __init__(self) -> None:
        self._measuring = NOT_KNOWN
        self._programs_ns = 0
        self._threads: dict[int, int] = {}
        self._worked_ns = 0
        self._reader_ns = 0

    def __enter__(self) -> Self:
        try:
            self._measuring = bpf_syscalls.measure_programs()  # Linux 5.8
        except OSError:
            self._measuring = NOT_KNOWN
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._measuring != NOT_KNOWN:
            os.close(self._measuring)
            self._measuring = NOT_KNOWN

    def go(self, live: Attached) -> None:
        """Start measuring."""
        self._programs_ns = live.programs_ns()
        self._threads, self._worked_ns = _clocks(), own_threads.worked_ns()
        self._reader_ns = _process_ns(live.reader_pid)

    def programs_ns(self, live: Attached) -> int:
        """CPU time of the trace's programs since `go`, ns; `NOT_KNOWN` if the kernel does not measure it."""
        return NOT_KNOWN if self._measuring == NOT_KNOWN else live.programs_ns() - self._programs_ns

    def threads_ns(self) -> int:
        """CPU time of this tool in this process since `go`, ns: its running threads, and user threads in `at_work`."""
        own = sum(now - self._threads.get(tid, 0) for tid, now in _clocks().items())
        return own + own_threads.worked_ns() - self._worked_ns

    def reader_ns(self, live: Attached) -> int:
        """CPU time of the reader process since `go`, ns; 0 if it has ended."""
        return max(_process_ns(live.reader_pid) - self._reader_ns, 0)


def _clocks() -> dict[int, int]:
    """CPU time in ns of each of this tool's threads in this process, by native id."""
    found = {}
    for thread in threading.enumerate():
        if thread.name.startswith(_OWN) and thread.ident is not None and thread.native_id is not None:
            try:
                found[thread.native_id] = time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))
            except OSError:
                continue  # it has just ended
    return found


def _process_ns(pid: int) -> int:
    """CPU time of a process, ns; 0 if it has ended."""
    try:
        return time.clock_gettime_ns(~pid << 3 | _OF_PROCESS)
    except OSError:
        return 0

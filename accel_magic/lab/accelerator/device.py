"""The lab accelerator's render node: device memory and the replay of accesses, jobs and fences."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.closing import Closing
from accel_magic.errors import MachineError
from accel_magic.lab.accelerator import uapi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CLASS: Final = "/sys/class/drm"
_REASONS: Final = {
    (uapi.MEMORY, errno.ESRCH): ("one of the processes has ended", "create the memory while its tenants run"),
    (uapi.MEMORY, errno.EINVAL): (
        f"it has 1 to {uapi.MOST_BLOCKS:,} chunks and blocks, and at most {uapi.MOST_TENANTS:,} tenants",
        "use a smaller memory or trace",
    ),
    (uapi.REPLAY, errno.EINVAL): ("a page or a tenant is out of range", "create the memory from the same trace"),
    (uapi.REPLAY, errno.ENXIO): ("this file has no memory yet", "call memory() first"),
    (uapi.COUNTS, errno.ENXIO): ("this file has no memory yet", "call memory() first"),
    (uapi.FAULTS, errno.ENXIO): ("this file has no memory yet", "call memory() first"),
    (uapi.TIMESLICE, errno.EINVAL): (
        "it is not one of 1 to 60,000,000 us, or the policy answered with one that is not of 1 to 1,000,000",
        "ask for another, or correct the policy's on_timeslice_control",
    ),
    (uapi.SUBMIT, errno.ENOSPC): ("with these tasks and interleave levels the runlist is too long", "close some files"),
    (uapi.SUBMIT, errno.EPERM): ("the scheduling policy rejected this file's task", "detach the policy, open again"),
    (uapi.SUBMIT, errno.ENOENT): ("there is no such fence", "create it with fence()"),
    (uapi.FENCE_WAIT, errno.ETIME): ("the jobs have not ended", "wait longer; a job that hangs is timed out"),
}
_TAKEN: Final = 4096


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Memory:
    """Totals of a device memory: accesses, faults (of pages), misses (of blocks), evictions, pages, refusals."""

    accesses: int
    faults: int
    misses: int
    evictions: int
    pages_in: int
    pages_out: int
    refused: int


class Accelerator(Closing):
    """The open render node: one client, with its own memory. A context manager.

    Args:
        path: The node; None to find it.

    Raises:
        MachineError: There is none, or it cannot be opened.

    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = os.fspath(path) if path else str(find())
        self._fd = -1
        self._blocks = 0
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise _missing(f"{self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the node; jobs that have not started never will."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # Memory

    def memory(self, chunks: int, blocks: int, *, observe: bool = True, processes: Sequence[int] = ()) -> None:
        """Give this client a new, empty memory.

        Args:
            chunks: Its size in chunks of 2 MiB, which hold one block each.
            blocks: Number of blocks that accesses may name.
            observe: Whether policies hear of every access, or of faults only.
            processes: Process ids of the tenants; this process by default.

        Raises:
            MachineError: A size is out of range, or a process does not exist.

        """
        numbers = np.array(processes, np.uint32)
        self._call(
            uapi.MEMORY,
            uapi.NewMemory(chunks, blocks, int(observe), len(numbers), numbers.ctypes.data if len(numbers) else 0),
        )
        self._blocks = blocks

    def buffer(self) -> NDArray[np.uint8]:
        """Map this client's memory, all its blocks; it stays there as long as the array.

        Touching a page that is not in device memory is a page fault, and an access that the policy hears of. Touching
        one that is there is neither: as with a GPU without access counters, nobody notices. Contents are kept wherever
        a page is.

        Returns:
            (blocks * 2 MiB,) uint8, zeros at first.

        Raises:
            MachineError: There is no memory yet, or it is too large to be mapped.

        """
        try:
            mapped = mmap.mmap(self._fd, max(self._blocks, 1) * uapi.PAGES_PER_BLOCK * mmap.PAGESIZE)
        except OSError as error:
            raise MachineError(
                f"the lab's accelerator cannot be mapped: {error.strerror}",
                why="this file has no memory yet" if error.errno == errno.ENXIO else "",
                fix="call memory() first",
                code="accelerator.call-failed",
            ) from error
        return np.frombuffer(mapped, np.uint8)

    def faults(self) -> tuple[NDArray[Any], int]:
        """Take the accesses that mappings made since the last call, oldest first.

        Returns:
            A structured array of `uapi.ACCESS_OF_BUFFER`, and how many were lost since the beginning: the kernel keeps
            16,384.

        Raises:
            MachineError: There is no memory yet.

        """
        return self._take(uapi.FAULTS, uapi.ACCESS_OF_BUFFER)

    def replay(self, pages: NDArray[Any], tenants: NDArray[Any] | None = None) -> NDArray[Any]:
        """Access pages in turn; an interrupt ends it after the access that is being made.

        Args:
            pages: Integers below 2**32: block * 512 + page in the block.
            tenants: The tenant of each access; the first by default.

        Returns:
            A structured array of `uapi.DECISION`, one row per access.

        Raises:
            MachineError: A page or tenant is out of range, or there is no memory.

        """
        pages = np.ascontiguousarray(pages, np.uint32)
        tenants = None if tenants is None else np.ascontiguousarray(tenants, np.uint16)
        if tenants is not None and len(tenants) != len(pages):
            raise ValueError(f"{len(pages)} pages and {len(tenants)} tenants")
        decisions = np.zeros(len(pages), uapi.DECISION)
        done = 0
        while done < len(pages):
            requested = uapi.Replay(
                pages[done:].ctypes.data,
                0 if tenants is None else tenants[done:].ctypes.data,
                decisions[done:].ctypes.data,
                len(pages) - done,
            )
            self._call(uapi.REPLAY, requested)  # ended early by a signal: Python has handled it when this returns
            done += requested.done
        return decisions

    @property
    def counts(self) -> Memory:
        """What happened in this client's memory, as the module counted it."""
        counted = uapi.Counts()
        self._call(uapi.COUNTS, counted)
        return Memory(**{name: int(getattr(counted, name)) for name in uapi.COUNTERS})

    # Jobs

    def fence(self) -> int:
        """Create a fence (a DRM synchronisation object); returns its handle."""
        requested = uapi.Fence()
        self._call(uapi.FENCE_CREATE, requested)
        return int(requested.handle)

    def submit(
        self,
        duration_us: int,
        *,
        ring: str = "compute",
        priority: uapi.Priority = uapi.Priority.NORMAL,
        wait: int = 0,
        signal: int = 0,
        hang: bool = False,
        cookie: int = 0,
    ) -> None:
        """Submit a job to the kernel's scheduler.

        Args:
            duration_us: For how long it needs the ring's engine, in us, at most 60 s.
            ring: "compute" or "copy", which run one job at a time; "shared", whose engine tasks share by time slices.
            priority: Among the jobs that wait for the ring.
            wait: A fence that it waits for; 0 for none.
            signal: A fence that gets the job's end; 0 for none.
            hang: Whether it never ends by itself, so that it times out; not on the ring "shared".
            cookie: A number for `jobs`; 0 if nothing is to be recorded.

        Raises:
            MachineError: An argument is wrong, or the scheduling policy has rejected this client.

        """
        flags = uapi.HANG if hang else 0
        self._call(uapi.SUBMIT, uapi.Submit(uapi.RINGS.index(ring), priority, duration_us, flags, wait, signal, cookie))

    def jobs(self) -> tuple[NDArray[Any], int]:
        """Take the records of jobs with a cookie that ended since the last call, in the order of their ends.

        Returns:
            A structured array of `uapi.JOB`, and how many were lost since the beginning: the kernel keeps 16,384.

        """
        return self._take(uapi.JOBS, uapi.JOB)

    def wait(self, fences: Sequence[int], timeout_s: float = 10.0) -> None:
        """Wait until all fences have been signalled.

        Raises:
            MachineError: They were not in time, or one has no job.

        """
        handles = np.array(fences, np.uint32)
        until = time.monotonic_ns() + int(timeout_s * 1e9)
        self._call(uapi.FENCE_WAIT, uapi.Wait(handles.ctypes.data, until, len(handles), uapi.WAIT_ALL, 0, 0))

    @property
    def task(self) -> uapi.Task:
        """This client's task as the scheduling policy left it."""
        found = uapi.Task()
        self._call(uapi.TASK, found)
        return found

    def set_timeslice(self, timeslice_us: int) -> int:
        """Ask for a time slice, as CUDA does for each context; returns the one that the policy gave.

        Args:
            timeslice_us: In us, 1 to 60,000,000.

        Raises:
            MachineError: It is out of range, or the policy's answer is.

        """
        requested = uapi.Timeslice(timeslice_us)
        self._call(uapi.TIMESLICE, requested)
        return int(requested.timeslice_us)

    def _take(self, call: uapi.AcceleratorIoctl, dtype: np.dtype[Any]) -> tuple[NDArray[Any], int]:
        parts: list[NDArray[Any]] = []
        lost = 0
        while not parts or len(parts[-1]):
            records = np.empty(_TAKEN, dtype)
            requested = uapi.Take(records.ctypes.data, len(records))
            self._call(call, requested)
            parts.append(records[: requested.taken])
            lost = int(requested.lost)
        return np.concatenate(parts), lost

    def _call(self, call: uapi.AcceleratorIoctl, argument: ctypes.Structure) -> None:
        while _libc().ioctl(self._fd, ctypes.c_ulong(call.request), ctypes.byref(argument)):
            error = ctypes.get_errno()
            if error == errno.EINTR:
                continue
            why, fix = _REASONS.get((call, error), ("", ""))
            raise MachineError(
                f"the lab's accelerator refused {call.name}: {os.strerror(error)}",
                why=why,
                fix=fix,
                code="accelerator.call-failed",
            )


def find() -> Path:
    """Return the accelerator's render node.

    Raises:
        MachineError: There is none.

    """
    for node in sorted(Path(_CLASS).glob("renderD*")):
        if (node / "device").resolve().name == uapi.DRIVER:
            return Path("/dev/dri") / node.name
    raise _missing(f"no render node in {_CLASS} belongs to the module {uapi.DRIVER}")


def _missing(why: str) -> MachineError:
    return MachineError(
        "this machine has no lab accelerator",
        why=why,
        fix="python -m accel_magic lab run --accelerator -- COMMAND, or the Jupyter kernel of the accelerator lab",
        code="accelerator.missing",
    )

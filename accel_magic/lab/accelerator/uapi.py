"""The interface of the lab accelerator's render node; `accel_magic/lab/module/accel_lab_uapi.h` is the same in C."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

import numpy as np

from accel_magic.machine import LAB_DRIVER

U16, U32, U64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64

DRIVER: Final = LAB_DRIVER
RINGS: Final = ("compute", "copy", "shared")
"""`shared` takes many jobs at a time, whose tasks share its engine by time slices."""
PAGES_PER_BLOCK: Final = 512
MOST_BLOCKS: Final = 1 << 18
MOST_TENANTS: Final = 1 << 10
HANG: Final = 1

DECISION: Final = np.dtype(
    [
        ("evicted", "<i4"),
        ("pages_in", "<u2"),
        ("pages_out", "<u2"),
        ("outcome", "u1"),
        ("refused", "u1"),
        ("tenant", "<u2"),
    ]
)
"""What happened with one access; `evicted` is a block, -1 for none; `outcome` as in `Outcome`."""

ACCESS_OF_BUFFER: Final = np.dtype([("time_ns", "<u8"), ("page", "<u4"), *DECISION.descr])
"""An access that a mapping of the memory made; times are those of CLOCK_MONOTONIC, `page` is block * 512 + page."""
JOB: Final = np.dtype(
    [
        ("cookie", "<u8"),
        ("queued_ns", "<u8"),
        ("started_ns", "<u8"),
        ("ended_ns", "<u8"),
        ("busy_ns", "<u8"),
        ("slices", "<u4"),
        ("error", "<i4"),
    ]
)
"""A job that ended: for how long (`busy_ns`) and how often it had the engine; `error` is a negative errno."""

COUNTERS: Final = ("accesses", "faults", "misses", "evictions", "pages_in", "pages_out", "refused")


class Priority(IntEnum):
    """Priority of a job."""

    LOW = 0
    NORMAL = 1
    HIGH = 2


class NewMemory(ctypes.Structure):
    """Argument of MEMORY."""

    _fields_: ClassVar = [("chunks", U32), ("blocks", U32), ("observe", U32), ("tenants", U32), ("processes", U64)]


class Replay(ctypes.Structure):
    """Argument of REPLAY; addresses are 64-bit integers."""

    _fields_: ClassVar = [("pages", U64), ("tenants", U64), ("decisions", U64), ("count", U32), ("done", U32)]


class Counts(ctypes.Structure):
    """Argument of COUNTS."""

    _fields_: ClassVar = [(name, U64) for name in COUNTERS]


class Submit(ctypes.Structure):
    """Argument of SUBMIT; `wait` and `signal` are handles of synchronisation objects, 0 for none."""

    _fields_: ClassVar = [
        *((name, U32) for name in ("ring", "priority", "duration_us", "flags", "wait", "signal")),
        ("cookie", U64),
    ]


class Task(ctypes.Structure):
    """Argument of TASK: the file's time-slice group."""

    _fields_: ClassVar = [
        ("tsg_id", U64),
        ("timeslice_us", U64),
        *((name, U32) for name in ("interleave", "rejected", "refused", "preempted")),
    ]


class Take(ctypes.Structure):
    """Argument of FAULTS and JOBS: the records' address, their number, how many there were, how many are lost."""

    _fields_: ClassVar = [("records", U64), ("count", U32), ("taken", U32), ("lost", U64)]


class Timeslice(ctypes.Structure):
    """Argument of TIMESLICE."""

    _fields_: ClassVar = [("timeslice_us", U64)]


class Fence(ctypes.Structure):
    """Argument of DRM's SYNCOBJ_CREATE and SYNCOBJ_DESTROY."""

    _fields_: ClassVar = [("handle", U32), ("flags", U32)]


class Wait(ctypes.Structure):
    """Argument of DRM's SYNCOBJ_WAIT; the time is one of CLOCK_MONOTONIC."""

    _fields_: ClassVar = [
        ("handles", U64),
        ("until_ns", ctypes.c_int64),
        ("count", U32),
        ("flags", U32),
        ("first", U32),
        ("padding", U32),
    ]


@dataclass(frozen=True)
class AcceleratorIoctl:
    """An ioctl: its name and its request number."""

    name: str
    request: int


def _call(name: str, number: int, argument: type[ctypes.Structure], *, reads: bool, writes: bool) -> AcceleratorIoctl:
    return AcceleratorIoctl(name, (2 * writes + reads) << 30 | ctypes.sizeof(argument) << 16 | ord("d") << 8 | number)


MEMORY = _call("MEMORY", 0x40, NewMemory, reads=True, writes=False)
REPLAY = _call("REPLAY", 0x41, Replay, reads=True, writes=True)
COUNTS = _call("COUNTS", 0x42, Counts, reads=False, writes=True)
SUBMIT = _call("SUBMIT", 0x43, Submit, reads=True, writes=False)
TASK = _call("TASK", 0x44, Task, reads=False, writes=True)
FAULTS = _call("FAULTS", 0x45, Take, reads=True, writes=True)
JOBS = _call("JOBS", 0x46, Take, reads=True, writes=True)
TIMESLICE = _call("TIMESLICE", 0x47, Timeslice, reads=True, writes=True)
FENCE_CREATE = _call("SYNCOBJ_CREATE", 0xBF, Fence, reads=True, writes=True)
FENCE_WAIT = _call("SYNCOBJ_WAIT", 0xC3, Wait, reads=True, writes=True)
WAIT_ALL: Final = 1

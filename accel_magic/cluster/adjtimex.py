"""What the kernel knows about the synchronization of this machine's wall clock: adjtimex(2), read only."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

_TIME_ERROR: Final = 5
"""Returned if the clock is not synchronized."""
_STA_UNSYNC: Final = 0x40
_NS_PER_US: Final = 1000


class Timex(ctypes.Structure):
    """`struct timex` of 64-bit Linux (include/uapi/linux/timex.h); modes 0 changes nothing."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


@dataclass(frozen=True)
class Synchronization:
    """How well the wall clock follows UTC, as stated by the machine's time service.

    Attributes:
        synchronized: Whether the kernel considers the clock synchronized.
        estimated_error_ns: The service's estimate; 0 if it states none.
        max_error_ns: Its bound; the kernel adds 500 ppm of the time since the last update.

    """

    synchronized: bool = False
    estimated_error_ns: int = 0
    max_error_ns: int = 0


def synchronization() -> Synchronization:
    """Ask the kernel; not synchronized if it does not answer, for example because of a container's seccomp filter."""
    answer = Timex()
    state = ctypes.CDLL(None).adjtimex(ctypes.byref(answer))
    if state < 0:
        return Synchronization()
    return Synchronization(
        synchronized=state != _TIME_ERROR and not answer.status & _STA_UNSYNC,
        estimated_error_ns=answer.esterror * _NS_PER_US,
        max_error_ns=answer.maxerror * _NS_PER_US,
    )

"""Exact ioctl counts by call and result."""

from __future__ import annotations

import ctypes
import errno
import threading

from accel_magic.lab.npu.uapi import CALLS, NpuIoctl

ERRNOS = 134  # Linux's largest errno + 1; index 0 counts successes

CountTable = ctypes.c_uint64 * ERRNOS * len(CALLS)
"""Memory of `Counts`; may be in shared memory."""


def errno_name(number: int) -> str:
    """Name of an errno, e.g. `EINVAL`; `E` and the number if it has no name."""
    return "EDEADLK" if number == errno.EDEADLK else errno.errorcode.get(number, f"E{number}")


class IoctlCounts:
    """Counts of ioctls by kind and result.

    Args:
        table: Table to add to, with the counts it holds; None for a new one.

    """

    def __init__(self, table: ctypes.Array[ctypes.Array[ctypes.c_uint64]] | None = None) -> None:
        self._table = CountTable() if table is None else table
        self._lock = threading.Lock()  # adding is not atomic, and threads share a device

    def add(self, call: NpuIoctl, error: int) -> None:
        """Count one call that returned this errno; 0 for success."""
        with self._lock:
            self._table[call.number][min(error, ERRNOS - 1)] += 1

    def reset(self) -> None:
        """Set all counts to zero."""
        with self._lock:
            ctypes.memset(ctypes.byref(self._table), 0, ctypes.sizeof(self._table))

    def merge(self, other: IoctlCounts) -> None:
        """Add the other's counts to these."""
        with self._lock:
            for row, others in zip(self._table, other._table, strict=True):
                for error, count in enumerate(others):
                    row[error] += count

    def to_dict(self) -> dict[str, dict[str, object]]:
        """Counts by call name: `ok` (calls) and `failed` (errno name -> calls)."""
        return {
            call.name: {
                "ok": int(row[0]),
                "failed": {errno_name(error): int(count) for error, count in enumerate(row) if error and count},
            }
            for call, row in zip(CALLS, self._table, strict=True)
        }

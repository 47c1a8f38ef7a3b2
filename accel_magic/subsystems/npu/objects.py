"""Which buffer an address refers to at a given time: the kernel reuses the addresses of freed objects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.thread_events import (
    NONE,
    answers,
    end_ns,
    inside,
    known_at,
    latest,
    newest_before,
    pick,
    signed32,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]

CREATE_IOCTLS = ("ivpu_bo_create_ioctl", "ivpu_bo_create_from_userptr_ioctl")
CREATE_OBJECT = "ivpu_gem_create_object"
IMPORT, OPEN_OBJECT = "ivpu_gem_prime_import", "ivpu_gem_bo_open"
BINDS = ("ivpu_bo_bind", "ivpu_bo_pin")
FREE = "ivpu_gem_bo_free"
CLOSE_HANDLE = "drm_gem_close_ioctl"
SUBMITS = ("ivpu_submit_ioctl", "ivpu_cmdq_submit_ioctl")
_LARGEST_ERRNO = 4095
_LARGEST_PID = 1 << 22


@dataclass(frozen=True)
class Objects:
    """Every buffer object of a trace: those created during the trace, then those that events only refer to.

    Attributes:
        trace: The trace.
        made: (made,) rows of the calls that created them: `ivpu_gem_create_object`; if that hit was missed,
            `ivpu_gem_bo_open`; if it was not traced, the ioctl.
        ioctl: (made,) rows of the ioctls that requested them; -1: created by the driver for itself, or imported.
        imported: (made,) bool: another driver's memory.
        users: (made,) bool: a program has a handle of it.
        bo: (objects,) uint64 addresses; 0 if unknown.
        born: (made,) float64 ns: time from which the address refers to this object.

    """

    trace: DriverTrace
    made: Rows
    ioctl: Rows
    imported: NDArray[np.bool_]
    users: NDArray[np.bool_]
    bo: NDArray[np.uint64]
    born: NDArray[np.float64]

    def of(self, rows: Rows) -> Rows:
        """(rows,) index of the object that each event refers to in `bo`; -1 if none."""
        bo = self.trace.column("bo", rows, np.uint64)
        at = self.trace.events["time_ns"].to_numpy()[rows]
        found = newest_before(self.bo[: len(self.made)], self.born, bo, at)
        earlier = self.bo[len(self.made) :]
        place = np.searchsorted(earlier, bo)
        known = np.append(earlier, np.uint64(0))[place] == bo
        found = np.where((found == NONE) & known, len(self.made) + place, found)
        return np.where(bo == 0, NONE, found)


def objects(trace: DriverTrace) -> Objects:
    """Find every buffer object of a trace."""
    if trace.saw(CREATE_OBJECT):
        made, ioctl, imported = _made_in_ioctls(trace)
    else:
        made = ioctl = _without_errors(trace, trace.rows(*CREATE_IOCTLS))
        imported = np.zeros(len(made), np.bool_)
    bo = _addresses(trace, made)
    born = end_ns(trace, made)
    time = trace.events["time_ns"].to_numpy()[made]
    # An address is reused only after the free returned, so it refers to this object once its creation returned.
    users = (ioctl >= 0) | imported
    found = Objects(trace, made, ioctl, imported, users, bo, np.where(np.isinf(born), time, born))
    found = replace(found, bo=np.concatenate([bo, _created_before(found)]))
    opened = found.of(trace.rows(OPEN_OBJECT))  # opening gives it a handle
    users[opened[(opened >= 0) & (opened < len(made))]] = True
    return found


def freed(found: Objects) -> Rows:
    """(objects,) row of the call that freed each; -1 if none."""
    frees = found.trace.rows(FREE)
    which = found.of(frees)
    rows = np.full(len(found.bo), NONE, np.intp)
    rows[which[which >= 0]] = frees[which >= 0]
    return rows


def closed(found: Objects) -> Rows:
    """(objects,) row of the GEM_CLOSE of its handle: the one that freed it, else the first with its handle.

    If the open file was not captured, another driver's handle with the same number may be taken for the NPU's.
    """
    trace = found.trace
    closes, (which, keys, given) = trace.rows(CLOSE_HANDLE), _handles(found)
    time = trace.events["time_ns"].to_numpy()
    first = answers(keys, given, _handle_key(trace, closes), time[closes])[0]
    rows = np.full(len(found.bo), NONE, np.intp)
    rows[which] = pick(closes, first)
    within = inside(trace, closes, trace.rows(FREE))
    freed_one = found.of(trace.rows(FREE))
    sure = (within >= 0) & (freed_one >= 0)
    sure[sure] &= np.isfinite(end_ns(trace, closes[within[sure]]))
    rows[freed_one[sure]] = closes[within[sure]]
    return rows


def objects_of_handles(found: Objects, rows: Rows) -> Rows:
    """(rows,) object that each event's `handle` refers to; -1 if it has none, or if that is ambiguous.

    Handles belong to an open device: if that was not captured, a process may use one number for two buffers.
    """
    trace = found.trace
    which, keys, given = _handles(found)
    time = trace.events["time_ns"].to_numpy()
    ended = np.fmin(_when(trace, closed(found)), _when(trace, freed(found)))
    ended = np.where(np.isnan(ended), np.inf, ended)
    order = np.lexsort((given, keys))
    which, keys, given = which[order], keys[order], given[order]
    overlaps = np.zeros(len(which), np.bool_)
    overlaps[1:] = (keys[1:] == keys[:-1]) & (ended[which[:-1]] > given[1:])
    requested = _handle_key(trace, rows)
    newest = newest_before(keys, given, requested, time[rows])
    return np.where(pick(overlaps.astype(np.intp), newest) == 1, NONE, pick(which, newest))


def refused(trace: DriverTrace, rows: Rows) -> NDArray[np.bool_]:
    """(rows,) bool: calls of functions that return an int, and are known to have returned an error."""
    return known_at(trace, "retval", rows) & (signed32(trace.column("retval", rows, np.int64)) < 0)


def _without_errors(trace: DriverTrace, rows: Rows) -> Rows:
    return rows[~refused(trace, rows)]


def _made_in_ioctls(trace: DriverTrace) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """Rows of `ivpu_gem_create_object`, of the ioctl around each (-1 if none), and whether it imports memory."""
    made = trace.rows(CREATE_OBJECT)
    if "retval" in trace.events:  # the address of the object, or an error code
        address = trace.column("retval", made, np.int64)
        error = known_at(trace, "retval", made) & (address < 0) & (address >= -_LARGEST_ERRNO)
        made = made[~error]
    calls = trace.rows(*trace.names[trace.names.str.endswith("_ioctl")])
    found = inside(trace, calls, made)
    around = pick(calls, found)
    requested = np.where(trace.mask(*CREATE_IOCTLS)[around] & (around >= 0), around, NONE)
    imports = trace.rows(IMPORT)
    import_ = latest(trace, imports, made)
    first = np.append(True, import_[1:] != import_[:-1])[: len(made)]
    imported = (import_ >= 0) & first & (pick(imports, import_) > around) & (requested == NONE)

    opens = trace.rows(OPEN_OBJECT)
    creates = np.setdiff1d(_without_errors(trace, trace.rows(*CREATE_IOCTLS)), requested)
    inner = inside(trace, creates, opens)
    missed = opens[(inner >= 0) & (trace.column("bo", opens, np.uint64) != 0)]
    made, requested = np.append(made, missed), np.append(requested, creates[inner[np.isin(opens, missed)]])
    imported = np.append(imported, np.zeros(len(missed), np.bool_))
    order = np.argsort(made)
    return made[order], requested[order], imported[order]


def _addresses(trace: DriverTrace, made: Rows) -> NDArray[np.uint64]:
    """(made,) uint64 addresses: returned by the creation, or opened; 0 if unknown."""
    returned = trace.column("retval", made, np.int64).view(np.uint64)
    known = trace.mask(CREATE_OBJECT)[made] & known_at(trace, "retval", made)
    return np.where(known, returned, trace.column("bo", made, np.uint64))


def _created_before(made: Objects) -> NDArray[np.uint64]:
    """Addresses that occur in events before an object was created there: older than the trace. Ascending."""
    trace = made.trace
    if "bo" not in trace.events:
        return np.zeros(0, np.uint64)
    rows = np.flatnonzero(trace.events["bo"].notna().to_numpy())
    at = trace.events["time_ns"].to_numpy()[rows]
    bo = trace.column("bo", rows, np.uint64)
    unknown = newest_before(made.bo, made.born, bo, at) == NONE
    return np.unique(bo[unknown & (bo != 0)])


def _handles(found: Objects) -> tuple[Rows, NDArray[np.int64], NDArray[np.float64]]:
    """Objects with a handle; open device and handle of each as one number; when the program received it, ns.

    The kernel reuses the number as soon as it is closed, during the closing call, and the object that gets it may have
    been created earlier. The times at which the program receives and closes handles are in order.
    """
    trace = found.trace
    which = np.flatnonzero(found.ioctl >= 0)
    which = which[~refused(trace, found.ioctl[which])]
    keys = _handle_key(trace, found.ioctl[which])
    which, keys = which[keys >= 0], keys[keys >= 0]
    received = end_ns(trace, found.ioctl[which])
    return which, keys, np.where(np.isinf(received), found.born[which], received)


def device_key(trace: DriverTrace, rows: Rows) -> NDArray[np.int64]:
    """(rows,) int64: the open device of each ioctl as a number; if not captured, the process."""
    pid = trace.events["pid"].to_numpy()[rows].astype(np.int64)
    if "file" not in trace.events:
        return pid
    files = np.unique(trace.events["file"].dropna().to_numpy(np.uint64))
    file = trace.column("file", rows, np.uint64)
    return np.where(file != 0, _LARGEST_PID + np.searchsorted(files, file), pid)


def _handle_key(trace: DriverTrace, rows: Rows) -> NDArray[np.int64]:
    """(rows,) int64: open device and handle as one number, negative if there is no handle."""
    handle = trace.column("handle", rows, np.int64)
    return np.where(handle < 0, NONE, device_key(trace, rows) << 32 | handle)


def _when(trace: DriverTrace, rows: Rows) -> NDArray[np.float64]:
    """(rows,) float64 ns, NaN for -1."""
    return np.append(trace.events["time_ns"].to_numpy().astype(np.float64), np.nan)[rows]

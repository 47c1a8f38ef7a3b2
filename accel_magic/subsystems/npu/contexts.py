"""What contained each recorded hit: a measured call of its thread, a handler, or an interrupt.

There are three ways to find out:

- A measured call (one with a duration) contains everything that its thread does until it returns.
- An interrupt runs on a CPU, under the thread number of whatever it interrupted. From its handler's entry on, the next
  hits on that CPU that may run in an interrupt belong to the interrupt, never to the thread.
- Handlers on the kernel's own threads (the interrupt thread, work functions) often have no measured end. The next hits
  of such a thread belong to it, until the next handler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.nesting import enclosing
from accel_magic.analysis.thread_events import inside as calls_around
from accel_magic.subsystems.npu.functions import ALWAYS_IN_INTERRUPT, in_interrupt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

NONE: Final = -1

INTERRUPT_ENTRY: Final = re.compile(r"ivpu_(hw_)?(\d\dxx_)?irq_handler")
"""The function that the kernel calls when the device interrupts."""
INTERRUPT_EXIT: Final = "ivpu_hw_btrs_global_int_enable"
MESSAGES_CAME: Final = ("ivpu_ipc_irq_handler", "ivpu_hw_ip_ipc_rx_count_get", "ivpu_hw_ip_ipc_rx_addr_get")
"""Called in interrupts, and by a thread that polls for the firmware's first message."""
POLLS: Final = "ivpu_wait_for_ready"

INTERRUPT_THREADS: Final = re.compile(r"ivpu_irq_thread_handler|ivpu_ipc_irq_(thread_handler|work_fn)")
"""Work that the interrupt defers to a thread."""
OPENERS: Final = (
    re.compile(r"ivpu_irq_thread_handler|ivpu_\w+_work(_fn)?"),
    re.compile(r"ivpu_ipc_irq_thread_handler"),
    re.compile(r"ivpu_job_done_callback"),
)
"""Handlers without a measured end, outer ones first: each lasts until the next of the same kind or an outer one."""
CLOSES_LAST: Final = "ivpu_ipc_rx_msg_del"
"""Called for each message after its callback."""


@dataclass(frozen=True)
class Contexts:
    """Where the hits of a trace ran.

    Attributes:
        inside: (events,) intp: row of the call, handler or interrupt that contains each hit, -1 if none.
        interrupt: (events,) bool: ran in the interrupt itself.
        deferred: (events,) bool: ran on a thread, in a handler of work deferred by the interrupt.
        opener: (events,) bool: is a handler or an interrupt without a measured end.

    """

    inside: NDArray[np.intp]
    interrupt: NDArray[np.bool_]
    deferred: NDArray[np.bool_]
    opener: NDArray[np.bool_]


def contexts(trace: DriverTrace) -> Contexts:
    """Find what contained each hit. Needs a trace with times."""
    events = trace.events
    time = events["time_ns"].to_numpy()
    tid = events["tid"].to_numpy()
    entries = interrupts(trace, tid)
    interrupt = entries >= 0
    threads = np.flatnonzero(~interrupt)
    duration = durations(trace)[threads]
    calls = np.flatnonzero(~np.isnan(duration))
    start = time[threads]
    end = start[calls] + duration[calls].astype(np.int64)
    found = enclosing(tid[threads][calls], start[calls], end, tid[threads], start)
    inside = np.full(len(events), NONE, np.intp)
    inside[threads] = np.where(found >= 0, threads[calls[found]], NONE) if len(calls) else NONE
    unmeasured = np.zeros(len(events), np.bool_)
    unmeasured[threads] = np.isnan(duration)
    opened, openers = _handlers(trace, tid, interrupt, unmeasured)
    # In the same call as its handler: the handler's. Otherwise in a call made by the handler, or after the handler.
    handled = np.flatnonzero(opened >= 0)
    handled = handled[inside[handled] == inside[opened[handled]]]
    inside[handled] = opened[handled]
    rows = np.arange(len(events))
    inside[interrupt] = np.where(entries[interrupt] == rows[interrupt], NONE, entries[interrupt])
    return Contexts(inside, interrupt, _deferred(trace, tid, interrupt, inside), openers | (entries == rows))


def durations(trace: DriverTrace) -> NDArray[np.float64]:
    """(events,) float64: ns, NaN if the hit was not measured."""
    if "duration_ns" not in trace.events.columns:
        return np.full(len(trace.events), np.nan)
    return trace.events["duration_ns"].to_numpy(np.float64)


def matching(trace: DriverTrace, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """(names,) bool: functions of the trace whose whole name the pattern matches."""
    return np.array([pattern.fullmatch(name) is not None for name in trace.names], np.bool_)


def interrupts(trace: DriverTrace, tid: NDArray[np.integer]) -> NDArray[np.intp]:
    """(events,) row of the interrupt's entry for hits in an interrupt, including the entry itself; -1 for others.

    `tid` is the trace's column of that name. The result is cached in the trace, because every analysis needs it; do
    not modify it.
    """
    kept: dict[str, NDArray[np.intp]] = vars(trace)
    if "interrupts" not in kept:
        kept["interrupts"] = _interrupts(trace, tid)
    return kept["interrupts"]


def _interrupts(trace: DriverTrace, tid: NDArray[np.integer]) -> NDArray[np.intp]:
    found = np.full(len(trace.events), NONE, np.intp)
    entry, inner = matching(trace, INTERRUPT_ENTRY)[trace.codes], _only_in_interrupts(trace)
    if not (entry.any() or inner.any()):
        return found
    may = np.array([in_interrupt(name) for name in trace.names], np.bool_)[trace.codes] | entry
    # Other hits on the CPU end an interrupt: then the indices of its hits are not consecutive.
    order = np.argsort(trace.events["cpu"].to_numpy(), kind="stable")
    places = np.flatnonzero(may[order])
    rows = order[places]
    first = entry[rows] | _elsewhere(trace, tid, rows, places)
    found[rows] = _begun(rows, first, entry)
    # The entry may be untraced, or its hit missed because the kernel was running another probe on this CPU.
    left = found[rows] == NONE
    rows, places = rows[left], places[left]
    new = _elsewhere(trace, tid, rows, places)
    found[rows] = _begun(rows, new | _headless(trace, rows, new, inner[rows]), inner)
    return found


def _headless(
    trace: DriverTrace, rows: NDArray[np.intp], new: NDArray[np.bool_], inner: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(rows,) bool: the first hits of interrupts without an entry."""
    count = np.cumsum(inner)
    before = np.maximum.accumulate(np.where(new, count - inner, 0))
    handler = inner & trace.names.isin(MESSAGES_CAME[:1])[trace.codes[rows]]
    after_outer = np.append(False, trace.names.isin(list(ALWAYS_IN_INTERRUPT))[trace.codes[rows[:-1]]])[: len(rows)]
    first: NDArray[np.bool_] = (inner & (count - before == 1)) | (handler & ~after_outer)
    return first


def _elsewhere(
    trace: DriverTrace, tid: NDArray[np.integer], rows: NDArray[np.intp], places: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """(rows,) bool: hits not in the same interrupt as the previous: another CPU or thread, or after its end."""
    new = np.ones(len(rows), np.bool_)
    before, this, cpu = rows[:-1], rows[1:], trace.events["cpu"].to_numpy()
    new[1:] = (np.diff(places) != 1) | (cpu[this] != cpu[before]) | (tid[this] != tid[before])
    new[1:] |= trace.names.isin([INTERRUPT_EXIT])[trace.codes[before]]
    return new


def _begun(rows: NDArray[np.intp], first: NDArray[np.bool_], entry: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(rows,) the first hit of each one's group if that is an entry, else -1."""
    if not len(rows):
        return rows
    begins = rows[np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))]
    return np.where(entry[begins], begins, NONE)


def _only_in_interrupts(trace: DriverTrace) -> NDArray[np.bool_]:
    """(events,) bool: hits that only an interrupt can make. The only thread that reads messages is one that polls."""
    only = trace.mask(*ALWAYS_IN_INTERRUPT, *MESSAGES_CAME)
    exception = trace.rows(*MESSAGES_CAME)
    only[exception] = calls_around(trace, trace.rows(POLLS), exception) == NONE
    return only


def _handlers(
    trace: DriverTrace, tid: NDArray[np.integer], interrupt: NDArray[np.bool_], unmeasured: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(events,) row of the innermost open handler of each hit, -1 if none; (events,) which hits are handlers."""
    opened = np.full(len(tid), NONE, np.intp)
    openers = np.zeros(len(tid), np.bool_)
    tables = [matching(trace, pattern) for pattern in OPENERS]
    candidates = np.flatnonzero(np.logical_or.reduce(tables)[trace.codes] & unmeasured & ~interrupt)
    if not len(candidates):
        return opened, openers
    openers[candidates] = True
    rows = np.flatnonzero(np.isin(tid, np.unique(tid[candidates])) & ~interrupt)
    rows = rows[np.argsort(tid[rows], kind="stable")]
    codes, thread, place = trace.codes[rows], tid[rows], np.arange(len(rows))
    since = np.maximum.accumulate(np.where(np.append(True, thread[1:] != thread[:-1]), place, 0))
    innermost, caller = np.full(len(rows), NONE), np.full(len(rows), NONE)
    over = np.maximum.accumulate(np.where(trace.mask(CLOSES_LAST)[rows], place + 1, 0))
    for level, table in enumerate(tables):
        own = table[codes] & openers[rows]
        if level == len(tables) - 1:
            since = np.maximum(since, over)
        last = np.maximum.accumulate(np.where(own, place, NONE))
        caller[own] = innermost[own]
        open_ = last >= since
        innermost = np.where(open_, last, innermost)
        since = np.where(open_, last, since)
    innermost = np.where(openers[rows], caller, innermost)
    opened[rows] = np.where(innermost >= 0, rows[innermost], NONE)
    return opened, openers


def _deferred(
    trace: DriverTrace, tid: NDArray[np.integer], interrupt: NDArray[np.bool_], inside: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """(events,) bool: work that interrupts deferred to threads, and everything inside it."""
    deferred = matching(trace, INTERRUPT_THREADS)[trace.codes] & ~interrupt
    within = np.flatnonzero(np.isin(tid, np.unique(tid[deferred])) & (inside >= 0) & ~deferred)
    while (found := deferred[inside[within]]).any():
        deferred[within[found]] = True
        within = within[~found]
    return deferred

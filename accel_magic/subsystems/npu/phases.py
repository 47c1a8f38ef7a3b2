"""The trace divided into phases: boot, open, allocation, submission, wait and so on, by process.

Some functions start a phase: system calls, power-management callbacks, interrupt handlers. A measured call is in its
phase until it returns; inner calls take precedence. Outside measured calls, a phase lasts until the thread starts
another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.nesting import enclosing
from accel_magic.analysis.thread_events import nullable
from accel_magic.subsystems.npu.contexts import interrupts
from accel_magic.subsystems.npu.functions import API, family_of, in_interrupt
from accel_magic.subsystems.npu.polls import BY_TRACING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]
    Codes = NDArray[np.int8]

BOOT, OPEN, QUERY, ALLOCATION = "boot", "open", "parameter query", "allocation"
MAPPING, SUBMISSION, WAIT, CLEANUP = "mapping", "submission", "wait", "cleanup"
POWER_UP, POWER_DOWN, RECOVERY = "power up", "power down", "recovery"
INTERRUPT, IDLE, OTHER = "interrupt", "idle", "other"

PHASES: Final[dict[str, str]] = {
    POWER_UP: "the NPU is switched on and set up, before and after its firmware boots",
    BOOT: "the driver waits for the firmware's first message",
    OPEN: "a program opens the device",
    QUERY: "a program reads or sets parameters of the device",
    ALLOCATION: "buffers and command queues are created",
    MAPPING: "pages of buffers are entered into the NPU's page tables",
    SUBMISSION: "jobs are submitted to the NPU",
    WAIT: "a program waits for a job",
    CLEANUP: "buffers are freed, queues and files are closed",
    INTERRUPT: "the NPU's interrupts, and the work they defer to a thread: replies and job completions",
    RECOVERY: "timeouts and aborted jobs are handled",
    POWER_DOWN: "the NPU is suspended",
    IDLE: "no function of the driver is called",
    OTHER: "calls before the first one that identifies a phase",
}
"""The phases, and what happens in each."""

BEGINS: Final = (
    (OPEN, r"ivpu_open"),
    (QUERY, r"ivpu_((get|set)_param|ms_\w+)_ioctl"),
    (ALLOCATION, r"ivpu_(bo_create(_\w+)?|bo_info|cmdq_create)_ioctl|ivpu_gem_prime_import"),
    (SUBMISSION, r"ivpu_(cmdq_)?submit_ioctl|ivpu_hw(_ip)?_db_set|ivpu_start_job_timeout_detection"),
    (WAIT, r"ivpu_bo_wait_ioctl"),
    (CLEANUP, r"drm_gem_close_ioctl|ivpu_(gem_bo_free|postclose|cmdq_destroy_ioctl|cmdq_release_all\w*)"),
    (CLEANUP, r"ivpu_job_destroy_work_fn|dma_fence_destroy"),
    (POWER_UP, r"ivpu_pm_(runtime_)?resume_cb|ivpu_(probe|resume|hw_power_up|hw_irq_enable|hw_ip_irq_clear)"),
    (BOOT, r"ivpu_wait_for_ready"),
    (POWER_DOWN, r"ivpu_pm_(runtime_)?suspend_cb|ivpu_(suspend|shutdown)"),
    # Its steps: a call that had not returned when the trace ended is not among the events.
    (POWER_DOWN, r"ivpu_(mmu_disable|jsm_pwr_d0i3_enter|prepare_for_reset|hw_power_down)"),
    (RECOVERY, r"ivpu_(pm_recovery|job_timeout|context_abort)_work(_fn)?|ivpu_pm_reset_(prepare|done)_cb"),
)
"""Functions that start a phase."""

BEGINS_IN_KERNEL: Final = (
    (INTERRUPT, r"ivpu_irq_thread_handler|ivpu_ipc_irq_(thread_handler|work_fn)"),
    (CLEANUP, r"ivpu_(rpm_put|file_priv_put|job_destroy\w*)"),
)
"""The same for kernel threads: work deferred by an interrupt, and the cleanup after a job."""

MAPS: Final = (
    r"ivpu_bo_(pin|bind)|ivpu_pgtable_alloc\w+|"
    r"ivpu_mmu_(context_map_\w+|invalidate_tlb|cmdq_\w+|cd_set|cdtab_entry_set)"
)
"""Functions that map pages; a separate phase inside allocation and submission."""

USES: Final = r"\w+_ioctl|ivpu_open"
"""Only called by programs: a process that calls one has its own track, all others are on the device's."""

IDLE_NS: Final = 10_000_000
"""Time without a call that counts as a phase. After this time without work, the driver itself considers the NPU idle
and suspends it (autosuspend of the first generation; drivers/accel/ivpu/ivpu_hw.c)."""

DEVICE: Final = "device"
"""Track of work that no process requested: interrupts, power management, cleanup by kernel threads."""
DEVICE_PID: Final = 0

_NAMES: Final = tuple(PHASES)
_CODE: Final = {name: code for code, name in enumerate(_NAMES)}
_NONE: Final = -1


@dataclass(frozen=True)
class _Calls:
    """The calls that make up the phases, by track, each in order of time.

    Attributes:
        rows: (calls,) their rows.
        track: (calls,) int64: process id, 0 for the device.
        phase: (calls,) int8: index in `PHASES`.
        fresh: (calls,) bool: is the first call of an interrupt.
        start: (calls,) int64: ns.
        end: (calls,) int64: ns; equal to the start if not measured.

    """

    rows: Rows
    track: NDArray[np.int64]
    phase: Codes
    fresh: NDArray[np.bool_]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def phases(trace: DriverTrace, idle_ns: int = IDLE_NS) -> pd.DataFrame:
    """Divide the trace into phases.

    Every process that uses the device has its own phases, in parallel with others; what no process requested is on the
    track "device", process 0. A list without times is one track.

    Args:
        trace: The trace.
        idle_ns: Time without a call that counts as idle.

    Returns:
        One row per interval of one phase, in order of time. `phase` (categorical, all of `PHASES`), `start_ns`,
        `end_ns` (Int64, NA without times; a process is in a phase until it calls the driver for something else, the
        device until its last call of the phase), `duration_ns` (Int64), `calls` (int64; 0 for "idle", and for the rest
        of another thread's call that is still running), `pid` (Int64, NA without times), `comm` (NA if not recorded),
        `first_row`, `last_row` (int64, exclusive; other tracks' events may be in between), `top`: the function called
        most, '' if none.

    """
    calls = _calls(trace)
    waits = calls.phase == _CODE[WAIT]
    measured = bool((waits & (calls.end > calls.start)).any())
    table = _intervals(trace, calls, (~waits | measured) & trace.timed, idle_ns)
    comm = trace.events["comm"].iloc[table.pop("first").to_numpy()].astype("str").to_numpy()
    device = (table["track"].to_numpy() == DEVICE_PID) & trace.timed
    table["comm"] = pd.Series(np.where(device, DEVICE, comm), table.index, dtype="str")
    table["pid"] = nullable(table.pop("track").to_numpy(), trace.timed)
    table["phase"] = pd.Categorical.from_codes(table["phase"].to_numpy(np.int8), pd.Index(_NAMES))
    for name in ("start_ns", "end_ns"):
        table[name] = nullable(table[name].to_numpy(), trace.timed)
    table["duration_ns"] = table["end_ns"] - table["start_ns"]
    names = np.append(trace.names.to_numpy(object), "")
    table["top"] = pd.Series(names[table["top"].to_numpy()], table.index, dtype="str")
    order = ["first_row", "last_row"] if not trace.timed else ["start_ns", "pid", "end_ns"]
    columns = ["phase", "start_ns", "end_ns", "duration_ns", "calls", "pid", "comm", "first_row", "last_row", "top"]
    return table[columns].sort_values(order, ignore_index=True, kind="stable")


def phase_totals(table: pd.DataFrame) -> pd.DataFrame:
    """Sum up the intervals of each phase, over all processes; simultaneous phases count for each.

    Args:
        table: Of `phases`.

    Returns:
        Index `phase`, those that occur, in the order of `PHASES`. `stretches` (intervals), `calls` (int64),
        `duration_ns` and `longest_ns` (Int64, NA without times), `processes` (int64; the device's track does not
        count).

    """
    groups = table.groupby("phase", observed=True)
    own = table.loc[table["pid"] != DEVICE_PID, ["phase", "pid"]]
    return (
        pd.DataFrame(
            {
                "stretches": groups.size(),
                "calls": groups["calls"].sum(),
                "duration_ns": groups["duration_ns"].sum(min_count=1),
                "longest_ns": groups["duration_ns"].max(),
                "processes": own.groupby("phase", observed=True)["pid"].nunique(),
            }
        )
        .fillna({"processes": 0})
        .astype({"processes": np.int64})
    )


def _calls(trace: DriverTrace) -> _Calls:
    """Assign a track and a phase to each call of the driver."""
    time = trace.events["time_ns"].to_numpy()
    duration = trace.column("duration_ns", np.arange(len(time)))
    driver = np.array([family_of(name) != API and not BY_TRACING.fullmatch(name) for name in trace.names], np.bool_)
    kept = driver[trace.codes]
    entries = np.full(len(time), _NONE, np.intp)
    tid = track = np.zeros(len(time), np.int64)
    if trace.timed:
        tid, pid = (trace.events[name].to_numpy(np.int64) for name in ("tid", "pid"))
        entries = interrupts(trace, tid)
        uses = (_table(trace, ((OTHER, USES),)) >= 0)[trace.codes] & (entries < 0)
        track = np.where(np.isin(pid, np.unique(pid[uses])) & (entries < 0), pid, DEVICE_PID)
    begins = _table(trace, BEGINS)
    in_kernel = np.where(begins >= 0, begins, _table(trace, BEGINS_IN_KERNEL))
    own = np.where((track == DEVICE_PID) & trace.timed, in_kernel[trace.codes], begins[trace.codes])
    rows = _sorted_by(tid, np.flatnonzero(kept & (entries < 0)))
    phase = np.full(len(time), _CODE[INTERRUPT], np.int8)
    phase[rows] = _phases_of(trace, own[rows], tid[rows], time[rows], duration[rows])
    # The start of an interrupt can be missed, during another hit.
    late = np.array([in_interrupt(name) for name in trace.names], np.bool_)[trace.codes]
    phase[late & (phase == _CODE[OTHER]) & (track == DEVICE_PID) & trace.timed] = _CODE[INTERRUPT]
    maps = (_table(trace, ((MAPPING, MAPS),)) >= 0)[trace.codes]
    phase[maps & np.isin(phase, [_CODE[ALLOCATION], _CODE[SUBMISSION]])] = _CODE[MAPPING]
    rows = _sorted_by(track, np.flatnonzero(kept))
    took = np.nan_to_num(duration[rows]).astype(np.int64)
    return _Calls(rows, track[rows], phase[rows], entries[rows] == rows, time[rows], time[rows] + took)


def _table(trace: DriverTrace, rules: tuple[tuple[str, str], ...]) -> Codes:
    """(names,) int8: phase of the first rule that matches each function, -1 if none."""
    found = np.full(len(trace.names), _NONE, np.int8)
    for phase, pattern in reversed(rules):
        found[np.asarray(trace.names.str.fullmatch(pattern), np.bool_)] = _CODE[phase]
    return found


def _sorted_by(key: NDArray[np.int64], rows: Rows) -> Rows:
    """Sort rows by their key, stably."""
    number, keys = pd.factorize(key[rows])
    if len(keys) < 1 << 16:
        number = number.astype(np.uint16)  # sorted by counting
    return rows[np.argsort(number, kind="stable")]


def _phases_of(
    trace: DriverTrace,
    begins: Codes,
    tid: NDArray[np.int64],
    time: NDArray[np.int64],
    duration: NDArray[np.float64],
) -> Codes:
    """(calls,) int8: phase of calls sorted by thread, from the phases that some of them start (-1 for the others)."""
    inside = np.full(len(begins), _NONE, np.intp)
    marks = np.flatnonzero((begins >= 0) & ~np.isnan(duration))
    if trace.timed and len(marks):
        ends = time[marks] + duration[marks].astype(np.int64)
        found = enclosing(tid[marks], time[marks], ends, tid, time)
        inside = np.where(found >= 0, marks[found], _NONE)
    inside[marks] = marks
    # Outside measured calls, a phase continues until the thread starts another.
    place = np.arange(len(begins))
    outer = (inside < 0) | (inside == place)
    newest = np.maximum.accumulate(np.where((begins >= 0) & outer, place, 0))
    newest = np.where((begins[newest] >= 0) & (tid[newest] == tid) & outer[newest], newest, _NONE)
    by = np.where(inside >= 0, inside, newest)
    return np.where(by >= 0, begins[by], _CODE[OTHER]).astype(np.int8)


def _intervals(trace: DriverTrace, calls: _Calls, may_idle: NDArray[np.bool_], idle_ns: int) -> pd.DataFrame:
    """Cut the tracks where the phase changes or nothing happens, and fill in the time in between.

    Args:
        trace: The trace.
        calls: Its calls.
        may_idle: (calls,) bool: nothing happens after this call unless a measured call is still running.
        idle_ns: Time without a call that counts as idle.

    """
    count = len(calls.rows)
    reached, whose = _reached(calls)
    new_track = np.diff(calls.track, prepend=_NONE) != 0
    idle = np.zeros(count, np.bool_)
    idle[1:] = (calls.start[1:] - reached[:-1] >= idle_ns) & may_idle[:-1] & ~new_track[1:]
    begin = np.flatnonzero(new_track | idle | calls.fresh | (np.diff(calls.phase, prepend=np.int8(_NONE)) != 0))
    last = np.append(begin, count)[1:] - 1
    following = np.where(np.append(new_track, True)[last + 1], last, last + 1)
    device = (calls.track[begin] == DEVICE_PID) & trace.timed
    # Own calls return; then another thread's call may still run; then there may be nothing; then the next interval.
    returned = np.maximum.reduceat(calls.end, begin) if count else calls.end
    until = np.where(following > last, calls.start[following], reached[last])
    quiet = np.minimum(reached[last], until)
    at_rest = may_idle[last] & (until - quiet >= idle_ns)
    gone_on = np.where(at_rest | device, quiet, until)
    going_on = (quiet - returned >= idle_ns) & (calls.phase[whose[last]] != calls.phase[begin])
    own = pd.DataFrame(
        {
            "phase": calls.phase[begin],
            "start_ns": calls.start[begin],
            "end_ns": np.where(going_on | device, np.minimum(returned, until), gone_on),
            "calls": last + 1 - begin,
            "first_row": calls.rows[begin],
            "last_row": calls.rows[last] + 1,
            "track": calls.track[begin],
            "first": calls.rows[begin],
            "top": _most_called(trace.codes[calls.rows], begin, last + 1 - begin, len(trace.names)),
        }
    )
    next_row = calls.rows[following]
    between = own.assign(calls=0, first_row=next_row, last_row=next_row, top=len(trace.names))
    others = between.assign(phase=calls.phase[whose[last]], start_ns=returned, end_ns=gone_on)[going_on]
    rests = between.assign(phase=np.int8(_CODE[IDLE]), start_ns=quiet, end_ns=until)[at_rest]
    table: pd.DataFrame = pd.concat([own, others, rests])
    return table


def _reached(calls: _Calls) -> tuple[NDArray[np.int64], Rows]:
    """(calls,) ns: latest return of this call and earlier ones on its track; (calls,) which call that is."""
    number = np.cumsum(np.diff(calls.track, prepend=_NONE) != 0)
    base = number * (int(calls.end.max(initial=0)) + 1)
    latest = np.maximum.accumulate(calls.end + base)
    whose = np.maximum.accumulate(np.where(calls.end + base >= latest, np.arange(len(latest)), 0))
    return latest - base, whose


def _most_called(codes: NDArray[np.int32], begin: Rows, calls: Rows, names: int) -> NDArray[np.int64]:
    """(intervals,) code of the function called most in each interval; on ties the first in `DriverTrace.names`."""
    stretch = np.repeat(np.arange(len(begin)), calls)
    pairs, counts = np.unique(stretch * max(names, 1) + codes, return_counts=True)
    order = np.lexsort((pairs, -counts, pairs // max(names, 1)))
    pairs = pairs[order]
    _, first = np.unique(pairs // max(names, 1), return_index=True)
    return np.asarray(pairs[first] % max(names, 1), np.int64)

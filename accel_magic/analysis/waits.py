"""Why threads did not run: the reason of each wait in a recording, from the system call and the kernel's stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.kernel.syscall_numbers import NUMBERS
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.recording.recording import Recording

    Ints = NDArray[np.int64]

PROCESSOR: Final = "waiting for a processor"
GIL: Final = "the GIL"
LOCK: Final = "lock"
PAGE_FAULT: Final = "page fault"
STOPPED: Final = "stopped"
ELSEWHERE: Final = "in the kernel"
"""Waits outside system calls and page faults, with unknown cause."""

WAITS: Final = {
    "reason": "str",
    "where": "str",
    "waits": "int64",
    "total_ns": "int64",
    "mean_ns": "float64",
    "max_ns": "int64",
    "threads": "int64",
}
"""Columns of every table of waits: `where` is the innermost line of the user's own code, else the innermost frame, ''
without stacks; `waits` and `threads` are counts."""

_STOPPED_STATES = 0x4 | 0x8  # TASK_STOPPED and TASK_TRACED, include/linux/sched.h
_LOCKING_COMMANDS = (7, 38)  # F_SETLKW and F_OFD_SETLKW of fcntl
_FAMILIES: Final[dict[str, str]] = {
    "sleep": "nanosleep clock_nanosleep",
    "poll": "poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2",
    LOCK: "futex futex_wait futex_waitv futex_requeue flock semop semtimedop",
    "waiting for a child": "wait4 waitid vfork",
    "waiting for a signal": "pause rt_sigsuspend rt_sigtimedwait",
}
_IO: Final = (
    "read pread64 readv preadv preadv2 write pwrite64 writev pwritev pwritev2 fsync fdatasync sync syncfs "
    "sync_file_range msync sendfile64 splice tee vmsplice copy_file_range recvfrom recvmsg recvmmsg sendto sendmsg "
    "sendmmsg connect accept accept4 io_getevents io_pgetevents io_uring_enter msgrcv msgsnd mq_timedsend "
    "mq_timedreceive getdents getdents64 open openat openat2"
)
_REASONS: Final = {name: reason for reason, names in _FAMILIES.items() for name in names.split()} | {
    name: f"IO: {name}" for name in _IO.split()
}
_NAMES: Final = {number: name for name, number in NUMBERS.items()}
_FUTEXES: Final = np.array([NUMBERS[name] for name in ("futex", "futex_wait", "futex_waitv")])
FAULTS: Final = frozenset({"exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "handle_mm_fault"})
"""Functions of the kernel that handle page faults."""
_STORAGE: Final = frozenset({"io_schedule", "io_schedule_timeout"})

# Fields of a key that combines everything that determines the reason of a wait.
_PLAIN, _IN_FAULT, _IN_STORAGE = 0, 1, 2
_RUNNABLE, _HALTED, _WAITING = 0, 1, 2
_DETAIL_BITS, _CALL_BITS, _CAUSE_BITS = 33, 16, 2


def reason(
    state: int,
    syscall: int = -1,
    arg1: int = 0,
    *,
    frames: Iterable[str] = (),
    gil: bool = False,
    file: str = "",
) -> str:
    """Return why a thread waited.

    Args:
        state: The kernel's task state; 0 if the thread was runnable.
        syscall: Number of the system call it was in, -1 if none.
        arg1: The call's second argument.
        frames: Functions of the kernel's stack, in any order.
        gil: Whether a futex call waits on the GIL's futex.
        file: The file of an ioctl, if known.

    """
    return _reason(_state_of(state), syscall, arg1, _cause_of(frozenset(frames)), gil=gil, file=file)


def _state_of(state: int) -> int:
    if state == 0:
        return _RUNNABLE
    return _HALTED if state & _STOPPED_STATES else _WAITING


def _cause_of(frames: frozenset[str]) -> int:
    if frames & FAULTS:
        return _IN_FAULT
    return _IN_STORAGE if frames & _STORAGE else _PLAIN


def _reason(state: int, syscall: int, arg1: int, cause: int, *, gil: bool, file: str) -> str:
    if state != _WAITING:
        return PROCESSOR if state == _RUNNABLE else STOPPED
    if cause == _IN_FAULT:
        return PAGE_FAULT
    if syscall < 0:
        return "IO" if cause == _IN_STORAGE else ELSEWHERE
    return GIL if gil else _of_call(_NAMES.get(syscall, f"system call {syscall}"), arg1, cause, file)


def _of_call(name: str, arg1: int, cause: int, file: str) -> str:
    if name == "ioctl":
        return f"ioctl {file}".rstrip()
    if name == "fcntl" and arg1 in _LOCKING_COMMANDS:
        return LOCK
    return _REASONS.get(name, f"IO: {name}" if cause == _IN_STORAGE else name)


def reasons(recording: Recording, events: Ints | None = None) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return why threads waited, in bulk: the reason is computed once per distinct combination.

    Without kernel stacks, page faults and storage cannot be distinguished from other waits in the kernel.

    Args:
        recording: With a point of kind `offcpu`.
        events: (N,) rows of events that are waits; None: all.

    Returns:
        (N,) int32 codes, and the reasons that they index.

    """
    rows = waits_of(recording) if events is None else events
    if not len(rows):
        return np.zeros(0, np.int32), ()
    columns = recording.events.columns
    state, syscall, arg0, arg1 = (columns[name].values[rows] for name in ("state", "syscall", "arg0", "arg1"))
    call = np.clip(syscall.astype(np.int64), -1, (1 << _CALL_BITS) - 2)
    states = np.where(state == 0, _RUNNABLE, np.where(state & _STOPPED_STATES, _HALTED, _WAITING))
    keys = states << _CAUSE_BITS | _causes(recording, rows)
    keys = (keys << _CALL_BITS | call + 1) << _DETAIL_BITS | _details(recording, rows, call, arg0, arg1)
    different, codes = np.unique(keys, return_inverse=True)
    files = dict(recording.process.devices) if recording.process is not None else {}
    numbers: dict[str, int] = {}
    table = np.array([numbers.setdefault(_of_key(int(key), files), len(numbers)) for key in different], np.int32)
    return table[codes], tuple(numbers)


def wait_column(recording: Recording) -> dict[str, EventColumn]:
    """The reasons as a column `wait` of the events, missing for other events; {} if waits were not traced."""
    if not any(point.kind == "offcpu" for point in recording.plan.points):
        return {}
    rows = waits_of(recording)
    codes, texts = reasons(recording, rows)
    every = np.full(len(recording.events), -1, np.int32)
    every[rows] = codes
    return {"wait": EventColumn(every, None, texts)}


def waits_of(recording: Recording) -> Ints:
    """Rows of the events that are waits, (N,) int64."""
    ids = [point.id for point in recording.plan.points if point.kind == "offcpu"]
    if not ids:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.isin(recording.events.columns["point"].values, ids)).astype(np.int64)


def waits_table(recording: Recording, stacks: CombinedStacks | None) -> pd.DataFrame:
    """Sum up the waits of a recording, by reason and place.

    Args:
        recording: With or without a point of kind `offcpu`; without one, the table is empty.
        stacks: Stacks of its events; None if there are none: the places are then ''.

    Returns:
        See `summed`.

    """
    from accel_magic.analysis.by_stack import where

    rows = waits_of(recording)
    if not len(rows):  # do not decode events for nothing
        texts_of_none = np.zeros(0, dtype=object)
        return summed(texts_of_none, texts_of_none, rows, rows, rows)
    codes, texts = reasons(recording, rows)
    columns = recording.events.columns
    places = np.zeros(len(rows), np.int64)
    named: tuple[str, ...] = ("",)
    if stacks is not None:
        named = (*map(where, stacks.frames), "")
        places = np.where(stacks.of_events[rows] >= 0, stacks.of_events[rows], len(stacks.frames)).astype(np.int64)
    return summed(
        np.array(texts, dtype=object)[codes],
        np.array(named, dtype=object)[places],
        np.arange(len(rows)),
        columns["tid"].values[rows],
        columns["duration_ns"].values[rows].astype(np.int64),
    )


def summed(
    reason: NDArray[Any], where: NDArray[Any], wait: NDArray[Any], tid: NDArray[Any], duration_ns: Ints
) -> pd.DataFrame:
    """Sum up waits by reason and place, the longest total first.

    Args:
        reason: (N,) text, for each piece of a wait.
        where: (N,) text, the place in the code.
        wait: (N,) wait that the piece belongs to; pieces with the same reason, place and thread count as one wait.
        tid: (N,) thread.
        duration_ns: (N,) int64.

    Returns:
        The columns `WAITS`.

    """
    import pandas as pd

    pieces = pd.DataFrame({"reason": reason, "where": where, "wait": wait, "tid": tid, "ns": duration_ns})
    whole = pieces.groupby(["reason", "where", "wait", "tid"], sort=False)["ns"].sum().reset_index()
    grouped = whole.groupby(["reason", "where"])
    lengths = grouped["ns"]
    table = pd.DataFrame(
        {
            "waits": lengths.size(),
            "total_ns": lengths.sum(),
            "mean_ns": lengths.mean(),
            "max_ns": lengths.max(),
            "threads": grouped["tid"].nunique(),
        }
    ).reset_index()
    table = table[list(WAITS)].astype(WAITS)
    return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _details(recording: Recording, rows: Ints, call: Ints, arg0: NDArray[np.uint64], arg1: NDArray[np.uint64]) -> Ints:
    """The relevant argument of a call: whether a futex is the GIL's, an ioctl's descriptor + 1, fcntl's command."""
    details = np.where(call == NUMBERS["fcntl"], (arg1 & np.uint64(0xFFFFFFFF)).astype(np.int64), 0)
    own = recording.process
    if own is None:
        return details
    mine = recording.events.columns["pid"].values[rows] == own.pid
    first, end = own.gil
    on_gil = mine & np.isin(call, _FUTEXES) & (arg0 >= np.uint64(first)) & (arg0 < np.uint64(end))
    on_file = mine & (call == NUMBERS["ioctl"])
    descriptors = (arg0 & np.uint64(0xFFFFFFFF)).astype(np.int64) + 1
    return np.where(on_gil, 1, np.where(on_file, descriptors, details))


def _causes(recording: Recording, rows: Ints) -> Ints:
    column = recording.events.columns.get("kernel_stack")
    if column is None or recording.stacks is None:
        return np.full(len(rows), _PLAIN, np.int64)
    stacks = recording.stacks
    different, codes = np.unique(stacks.rows(column.values[rows]), return_inverse=True)
    causes = [
        _cause_of(frozenset(frame.name for frame in stacks.of(int(row)))) if row >= 0 else _PLAIN for row in different
    ]
    return np.array(causes, np.int64)[codes]


def _of_key(key: int, files: dict[int, str]) -> str:
    detail = key & ((1 << _DETAIL_BITS) - 1)
    syscall = (key >> _DETAIL_BITS & ((1 << _CALL_BITS) - 1)) - 1
    cause = key >> (_DETAIL_BITS + _CALL_BITS) & ((1 << _CAUSE_BITS) - 1)
    state = key >> (_DETAIL_BITS + _CALL_BITS + _CAUSE_BITS)
    gil = bool(detail) and syscall in _FUTEXES
    file = files.get(detail - 1, "") if syscall == NUMBERS["ioctl"] else ""
    return _reason(state, syscall, detail, cause, gil=gil, file=file)

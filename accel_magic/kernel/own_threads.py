"""Threads of this process that work for the tool. Kernel traces do not count their hits.

The tool's own threads (`Thread`) are always excluded; a user's thread while it attaches, detaches or instruments
(`at_work`). Processes started by such a thread are not in scope either: see bpf/kernel/scope.bpf.c.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic import forks
from accel_magic.kernel import scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

NOBODY: Final = 0xFFFFFFFF
"""An id that no thread or process has. (0 is the id of the idle tasks, which most interrupts interrupt.)"""
_TOOLS, _WORKING = 1, 2
"""Bits of a thread's mark: it is one of the tool's; it is a user's, and at work."""


class ExcludedThreads:
    """The excluded threads in the maps of one kernel trace, kept up to date until `close`.

    Args:
        control: The control map's element, (1,), writable.
        threads: The map of the excluded threads, (1,) of `scope.IDS`, writable.
        follows: Whether the kernel updates that map when threads start; else this class does.

    """

    def __init__(self, control: NDArray[np.void], threads: NDArray[np.void], *, follows: bool) -> None:
        self._control = control
        self._marks: NDArray[np.uint8] = threads["marks"][0]
        self._left_out: set[int] = set()
        self.follows = follows
        with _lock:
            for tid in _own:
                self.mark(tid)
            self.leave_out(_working)
            _marks.append(self)

    def close(self) -> None:
        """Stop updating the maps; repeated calls are harmless."""
        with _lock:
            if self in _marks:
                _marks.remove(self)
        self._control, self._marks = self._control[:0].copy(), self._marks[:0].copy()

    def mark(self, tid: int, *, on: bool = True) -> None:
        """Mark or unmark a thread as one of the tool's. The caller holds the lock."""
        self._set(tid, _TOOLS, on=on)

    def leave_out(self, tids: Iterable[int]) -> None:
        """From now on exclude these user threads and no others. The caller holds the lock, or is one of them."""
        working = set(tids)
        self._left_out |= working  # first, so that an interrupt leaves no mark that the next call does not remove
        for tid in tuple(self._left_out):
            self._set(tid, _WORKING, on=tid in working)
        self._left_out = working

    def _set(self, tid: int, bit: int, *, on: bool) -> None:
        """Set or clear one of a thread's bits. Nobody else writes to its byte while the thread exists."""
        mark = self._marks[tid : tid + 1]  # empty after `close`
        np.bitwise_or(mark, bit, mark) if on else np.bitwise_and(mark, 0xFF ^ bit, mark)

    def let_start(self, tid: int) -> None:
        """Treat threads started by this one as the tool's; `NOBODY`: by none. The caller holds the lock."""
        self._control["starter"] = tid


_lock = threading.Lock()
_starting = threading.Lock()
_marks: list[ExcludedThreads] = []
_own: set[int] = set()
_hiders: list[Callable[[bool], object]] = []
_hidden: dict[int, list[object]] = {}
"""What hides a thread, by its id in this PID namespace: its `at_work` blocks, or that it is the tool's."""
_working: dict[int, list[object]] = {}
"""The `at_work` blocks that each thread is in."""
_local = threading.local()
_worked_ns = 0


def _forget_in_child() -> None:
    """Forget everything: a forked child has neither these threads nor its parent's traces."""
    global _lock, _starting  # their owners may not exist in this process
    _lock, _starting = threading.Lock(), threading.Lock()
    _marks.clear()
    _own.clear()
    _working.clear()
    _hidden.clear()


forks.in_child(_forget_in_child)


def hide_from(hide: Callable[[bool], object], hide_thread: Callable[[int], object]) -> None:
    """Leave the tool's threads out of traces in this process's own code, too.

    Args:
        hide: Called in a thread of the tool when it starts, and in a user's thread at the begin and end of its work.
        hide_thread: Called with the ids of the tool's threads that run already.

    """
    with _lock:
        for thread in threading.enumerate():
            if isinstance(thread, Thread) and thread.native_id is not None:
                hide_thread(thread.native_id)
        _hiders.append(hide)
    hide(bool(_hidden.get(threading.get_native_id())))


def _update_hidden() -> None:
    """Hide this thread from traces in this process's own code while it has blocks."""
    for hide in _hiders:
        hide(bool(_hidden.get(threading.get_native_id())))


def _end_hidden(block: object) -> None:
    """End a block of this thread; repeated calls are harmless."""
    native = threading.get_native_id()
    remaining = [other for other in _hidden.get(native, []) if other is not block]
    if remaining:
        _hidden[native] = remaining
    else:
        _hidden.pop(native, None)
    _update_hidden()


def thread_id() -> int | None:
    """Return the calling thread's id in kernel traces; None in a container where the kernel cannot be queried."""
    if scope.in_initial_namespace():
        return threading.get_native_id()
    known: tuple[int, int | None] | None = getattr(_local, "thread", None)
    if known is None or known[0] != threading.get_native_id():  # not queried since a fork
        try:
            known = threading.get_native_id(), scope.kernel_tid()
        except OSError:
            known = threading.get_native_id(), None
        _local.thread = known
    return known[1]


def take_all() -> None:
    """Mark all threads of this process as the tool's, including those that libraries started.

    For processes that belong entirely to the tool. In a container where the kernel cannot be queried, does nothing.
    """
    if not scope.in_initial_namespace():
        return
    with _lock:
        _own.update(int(thread.name) for thread in Path("/proc/self/task").iterdir())


class Thread(threading.Thread):
    """A daemon thread of the tool. Takes the arguments of `threading.Thread`; its name begins with `accel_magic`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options, daemon=True)
        self._known = threading.Event()

    def start(self) -> None:
        """Start it. Traces exclude it; from its first instruction if the kernel follows threads."""
        starter = thread_id()
        with _starting, _announced(NOBODY if starter is None else starter):
            super().start()
        self._known.wait()

    def run(self) -> None:
        """Register the thread and run its target."""
        _hidden[threading.get_native_id()] = [self]  # until it ends
        _update_hidden()
        tid = thread_id()
        self._register(tid, on=True)
        self._known.set()
        try:
            super().run()
        finally:
            self._register(tid, on=False)
            _hidden.pop(threading.get_native_id(), None)

    def _register(self, tid: int | None, *, on: bool) -> None:
        if tid is None:
            return
        with _lock:
            (_own.add if on else _own.discard)(tid)
            for marks in _marks:
                if not marks.follows:  # another thread may get this id
                    marks.mark(tid, on=on)


@contextlib.contextmanager
def _announced(starter: int) -> Iterator[None]:
    try:
        _announce(starter)
        yield
    finally:
        _announce(NOBODY)


def _announce(starter: int) -> None:
    with _lock:
        for marks in _marks:
            marks.let_start(starter)


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Exclude the calling thread from all traces until the block ends. Blocks nest."""
    block = object()
    try:
        try:
            _hidden.setdefault(threading.get_native_id(), []).append(block)
            _update_hidden()
            with _at_work_in_kernel(block):
                yield
        finally:
            _end_hidden(block)
    finally:  # if that was interrupted
        _end_hidden(block)


@contextlib.contextmanager
def _at_work_in_kernel(block: object) -> Iterator[None]:
    tid = thread_id()
    if tid is None:
        yield
        return
    since_ns = getattr(_local, "since_ns", None)
    try:
        try:
            _enter(tid, block)
            if since_ns is None:
                _local.since_ns = time.thread_time_ns()
            yield
        finally:  # also after an interrupt during entry
            _leave(tid, block, last=since_ns is None)
    finally:  # if that was interrupted: else the thread would be excluded from all later traces
        _leave(tid, block, last=since_ns is None)


def _enter(tid: int, block: object) -> None:
    for marks in tuple(_marks):  # before taking the lock, which reads the clock: the trace may be of that
        marks.leave_out((tid, *tuple(_working)))
    with _lock:
        _working.setdefault(tid, []).append(block)
        _update_all()


def _leave(tid: int, block: object, *, last: bool) -> None:
    """End a block of a thread; repeated calls are harmless."""
    global _worked_ns
    with _lock:
        if last:
            _worked_ns, _local.since_ns = worked_ns(), None
        remaining = [other for other in _working.get(tid, []) if other is not block]
        if remaining:
            _working[tid] = remaining
        else:
            _working.pop(tid, None)
        _update_all()


def worked_ns() -> int:
    """CPU time that user threads spent `at_work`, ns; for threads other than this one, only in finished blocks."""
    since_ns = getattr(_local, "since_ns", None)
    return _worked_ns if since_ns is None else _worked_ns + time.thread_time_ns() - since_ns


def _update_all() -> None:
    for marks in _marks:
        marks.leave_out(_working)

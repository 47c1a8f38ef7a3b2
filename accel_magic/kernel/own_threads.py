"""Threads of this process that work for the tool: what they do counts in no kernel trace that runs meanwhile.

Some always do (`Thread`); the user's own threads do for a while, when they attach, detach or instrument (`at_work`).
A process that such a thread starts is not in scope either: bpf/kernel/scope.bpf.c.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.kernel import scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

AT_WORK: Final = 2
"""Threads that each trace can leave out besides those of the tool: one that attaches, one that instruments."""
NOBODY: Final = 0xFFFFFFFF
"""No thread's and no process's id; 0 is that of the idle tasks, which most interrupts interrupt."""


class Marks:
    """Where the programs of one kernel trace look up whose hits to leave out, from now until `close`.

    Args:
        control: The control map's element, (1,), writable.
        threads: The map of the tool's threads, (1,) of `scope.BITS`, writable.
        follows: Whether the kernel keeps that map in step while threads begin; else this does.

    """

    def __init__(self, control: NDArray[np.void], threads: NDArray[np.void], *, follows: bool) -> None:
        self._control = control
        self._bits: NDArray[np.uint64] = threads["bits"][0]
        self.follows = follows
        with _lock:
            for tid in _own:
                self.mark(tid)
            self.leave_out(_working)
            _marks.append(self)

    def close(self) -> None:
        """Leave the maps alone from now on; again is harmless."""
        with _lock:
            if self in _marks:
                _marks.remove(self)
        self._control, self._bits = self._control[:0].copy(), self._bits[:0].copy()

    def mark(self, tid: int, *, on: bool = True) -> None:
        """Let a thread be one of the tool's, or no longer. The caller holds the lock."""
        bit = np.uint64(1 << (tid & 63))
        if on:
            self._bits[tid >> 6] |= bit
        else:
            self._bits[tid >> 6] &= ~bit

    def leave_out(self, tids: Iterable[int]) -> None:
        """Leave out what these threads do from now on, and no others of the user's. The caller holds the lock."""
        self._control["at_work"] = [*tids, *[NOBODY] * AT_WORK][:AT_WORK]

    def let_start(self, tid: int) -> None:
        """Take threads that this one starts for the tool's; `NOBODY` for none. The caller holds the lock."""
        self._control["starter"] = tid


_lock = threading.Lock()
_starting = threading.Lock()
_marks: list[Marks] = []
_own: set[int] = set()
_working: dict[int, list[object]] = {}
"""The blocks of `at_work` that each thread is in."""
_local = threading.local()
_worked_ns = 0


def _forget_in_child() -> None:
    """A forked child has none of these threads, and its parent's traces are not its own."""
    global _lock, _starting  # their owners may not be in this process
    _lock, _starting = threading.Lock(), threading.Lock()
    _marks.clear()
    _own.clear()
    _working.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def thread_id() -> int | None:
    """Return the calling thread's id as kernel traces have it; None in a container where nobody may ask the kernel."""
    if scope.in_initial_namespace():
        return threading.get_native_id()
    known: tuple[int, int | None] | None = getattr(_local, "thread", None)
    if known is None or known[0] != threading.get_native_id():  # asked never, or by the parent of a forked child
        try:
            known = threading.get_native_id(), scope.kernel_tid()
        except OSError:
            known = threading.get_native_id(), None
        _local.thread = known
    return known[1]


def take_all() -> None:
    """Take every thread that this process has for the tool's, also those that libraries have started.

    For a process that is nothing but the tool. In a container where nobody may ask the kernel, nothing is marked.
    """
    if not scope.in_initial_namespace():
        return
    with _lock:
        _own.update(int(thread.name) for thread in Path("/proc/self/task").iterdir())


class Thread(threading.Thread):
    """A thread of the tool, a daemon. Arguments as of `threading.Thread`; its name begins with `accel_magic`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options, daemon=True)
        self._known = threading.Event()

    def start(self) -> None:
        """Start it; no trace counts what it does, from its first instruction where the kernel follows threads."""
        starter = thread_id()
        with _starting, _announced(NOBODY if starter is None else starter):
            super().start()
        self._known.wait()

    def run(self) -> None:
        """Do its work."""
        tid = thread_id()
        self._register(tid, on=True)
        self._known.set()
        try:
            super().run()
        finally:
            self._register(tid, on=False)

    def _register(self, tid: int | None, *, on: bool) -> None:
        if tid is None:
            return
        with _lock:
            (_own.add if on else _own.discard)(tid)
            for marks in _marks:
                if not marks.follows:  # another thread may get the number
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
    """Leave out of all kernel traces what the calling thread does until the block ends. Blocks nest."""
    tid = thread_id()
    if tid is None:
        yield
        return
    block, since_ns = object(), getattr(_local, "since_ns", None)
    try:
        _enter(tid, block)
        if since_ns is None:
            _local.since_ns = time.thread_time_ns()
        yield
    finally:  # also where an interrupt came on the way in
        _leave(tid, block, last=since_ns is None)


def _enter(tid: int, block: object) -> None:
    for marks in tuple(_marks):  # first of all: taking a lock reads the clock, which may be what is traced
        marks.leave_out((tid, *tuple(_working)))
    with _lock:
        _working.setdefault(tid, []).append(block)
        _tell_all()


def _leave(tid: int, block: object, *, last: bool) -> None:
    global _worked_ns
    with _lock:
        if last:
            _worked_ns, _local.since_ns = worked_ns(), None
        left = [other for other in _working.pop(tid, []) if other is not block]
        if left:
            _working[tid] = left
        _tell_all()


def worked_ns() -> int:
    """CPU time that the user's threads have spent `at_work`, ns; of threads other than this one in ended blocks."""
    since_ns = getattr(_local, "since_ns", None)
    return _worked_ns if since_ns is None else _worked_ns + time.thread_time_ns() - since_ns


def _tell_all() -> None:
    for marks in _marks:
        marks.leave_out(_working)

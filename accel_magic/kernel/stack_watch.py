"""Looks at the stacks of a running trace now and then, so that what is gone at its end has a name all the same."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import own_threads, scope, stack_maps
from accel_magic.kernel.symbols import Processes, notes, resolve, without_names
from accel_magic.traces.stacks import USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.kernel.python_names import PythonNames
    from accel_magic.traces.stacks import RawStacks, StackTable

_INTERVAL_S: Final = 0.2
_SHARE: Final = 0.003
"""Of one CPU that looking may take: where there are many stacks it happens less often."""


class StackWatch:
    """A thread that learns what the stacks in a table are of, and the names of all of them at the end.

    Args:
        table: Descriptor of the table of stacks; must stay open until `stop`.
        frames: Frames that it has of a native stack at the most.
        python: Whether there are stacks of Python among them.
        each_look: Called in the thread after each look; None for nothing.

    """

    def __init__(self, table: int, frames: int, *, python: bool, each_look: Callable[[], None] | None = None) -> None:
        self._table, self._frames = table, frames
        self._each_look = each_look
        self._names = _names() if python else None
        self._processes = Processes()
        self._own = scope.kernel_pid(os.getpid())
        self._ended = threading.Event()
        self._thread: own_threads.Thread | None = None
        self._collected: RawStacks | None = None
        self._refusal: tuple[str, ...] = ()

    def start(self) -> None:
        """Start the thread."""
        with contextlib.suppress(OSError):  # `collect` will say so
            self._look()  # what is done once in a process, some 10 ms, must not lie in the traced time
        self._thread = own_threads.Thread(target=self._run, name="accel_magic stacks")
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def collect(self) -> None:
        """Take all stacks out of the table; the programs must have stopped. It is not needed any more then."""
        self.stop()
        try:
            self._collected = self._look()
        except OSError as error:
            self._refusal = (f"no stacks: the kernel does not show them ({error.strerror})",)

    def resolved(self) -> tuple[StackTable | None, tuple[str, ...]]:
        """Give names to what was collected; with what the user must know of them.

        This reads files of others: it may take a while, and an interrupt may end it.
        """
        if self._collected is None:
            return None, self._refusal
        table = resolve(self._collected, self._names, self._processes)
        return table, notes(table)

    def unresolved(self) -> tuple[StackTable | None, tuple[str, ...]]:
        """Give the same stacks without looking names up: native frames and the kernel's are addresses."""
        if self._collected is None:
            return None, self._refusal
        note = "frames are addresses instead of names: an interrupt came while the names were looked up"
        return without_names(self._collected, self._names), (note,)

    def _run(self) -> None:
        wait = _INTERVAL_S
        while not self._ended.wait(wait):
            before = time.thread_time()
            try:
                self._look()
            except OSError:
                return  # the last look will say so
            if self._each_look is not None:
                self._each_look()
            wait = max(_INTERVAL_S, (time.thread_time() - before) / _SHARE)

    def _look(self) -> RawStacks:
        raw = stack_maps.read(self._table, self._frames)
        if self._names is not None:
            self._names.learn(raw)
        if raw.pids is not None:
            others = raw.pids[(raw.kinds == USER) & (raw.pids != self._own)]
            self._processes.learn(np.unique(others).tolist())
        return raw


def _names() -> PythonNames:
    from accel_magic.kernel.python_names import PythonNames

    return PythonNames()

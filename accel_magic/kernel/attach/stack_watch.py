"""Collect facts about the stacks of a trace while it runs, and name them at its end."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import own_threads, scope
from accel_magic.kernel.stacks.stack_table import USER, joined
from accel_magic.kernel.symbols.mappings import Processes
from accel_magic.kernel.symbols.resolving import notes, resolve, without_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.kernel.stacks.python_names import PythonNames
    from accel_magic.kernel.stacks.stack_table import RawStacks, StackTable
    from accel_magic.kernel.symbols.mapping_events import MappingEvents

_INTERVAL_S: Final = 0.2
_SHARE: Final = 0.003
"""Share of one CPU that reading stacks may take: with many stacks, they are read less often."""


class StackWatch:
    """A thread that collects facts about a table's stacks during the trace; names all stacks at the end.

    Args:
        tables: Return the stacks recorded so far; called until `collect`.
        python: Whether they include Python stacks.
        mapped: What processes map meanwhile, for those that end.
        each_look: Called in the thread after each read, unless None.

    """

    def __init__(
        self,
        tables: Sequence[Callable[[], RawStacks]],
        *,
        python: bool,
        mapped: MappingEvents,
        each_look: Callable[[], None] | None = None,
    ) -> None:
        self._tables = tuple(tables)
        self._each_look = each_look
        self._names = _names() if python else None
        self._mapped = mapped
        self._processes = Processes(mapped.of)
        self._own = scope.kernel_pid(os.getpid())
        self._ended = threading.Event()
        self._thread: own_threads.Thread | None = None
        self._collected: RawStacks | None = None
        self._refusal: tuple[str, ...] = ()

    def start(self) -> None:
        """Start the thread."""
        with contextlib.suppress(OSError):  # `collect` will report it
            self._look()  # one-time initialization, some 10 ms, must not be in the traced time
        self._thread = own_threads.Thread(target=self._run, name="accel_magic stacks")
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def collect(self) -> None:
        """Read all stacks from the table, which is not needed afterwards. The programs must have stopped."""
        self.stop()
        try:
            self._collected = self._look()
        except OSError as error:
            self._refusal = (f"no stacks: the kernel's stack table cannot be read ({error.strerror})",)

    def resolved(self) -> tuple[StackTable | None, tuple[str, ...]]:
        """Name the frames of the collected stacks; also return notes for the user.

        This reads other users' files: it may take a while, and can be interrupted.
        """
        if self._collected is None:
            return None, self._refusal
        table = resolve(self._collected, self._names, self._processes)
        return table, notes(table)

    def unresolved(self) -> tuple[StackTable | None, tuple[str, ...]]:
        """Return the same stacks without looking up names: native and kernel frames are addresses."""
        if self._collected is None:
            return None, self._refusal
        note = "frames are addresses, not names: the name lookup was interrupted"
        return without_names(self._collected, self._names), (note,)

    def _run(self) -> None:
        wait = _INTERVAL_S
        while not self._ended.wait(wait):
            before = time.thread_time()
            try:
                self._look()
            except OSError:
                return  # the last read will report it
            if self._each_look is not None:
                self._each_look()
            wait = max(_INTERVAL_S, (time.thread_time() - before) / _SHARE)

    def _look(self) -> RawStacks:
        raw = joined([read_() for read_ in self._tables])
        if self._names is not None:
            self._names.learn(raw)
        if raw.pids is not None:
            others = raw.pids[(raw.kinds == USER) & (raw.pids != self._own)]
            self._processes.learn(np.unique(others).tolist())
        self._mapped.drain()
        return raw


def _names() -> PythonNames:
    from accel_magic.kernel.stacks.python_names import PythonNames

    return PythonNames()

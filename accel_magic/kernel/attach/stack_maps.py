"""The maps that programs use to record stacks (bpf/kernel/stacks.h): their sizes, and reading them in bulk.

The kernel records up to `kernel.perf_event_max_stack` frames of native and kernel stacks; the sizes here follow from
that.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import bpf_syscalls, features, own_threads, scope
from accel_magic.kernel.load import bpf_maps
from accel_magic.kernel.load.bpf_maps import possible_cpus, power_of_two
from accel_magic.kernel.stacks.stack_choice import most_frames
from accel_magic.kernel.stacks.stack_table import USER, RawStacks, joined
from accel_magic.kernel.symbols import Processes, notes, resolve, without_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.kernel.load.bpf_links import Descriptors
    from accel_magic.kernel.stacks.python_names import PythonNames
    from accel_magic.kernel.stacks.stack_table import StackTable
    from accel_magic.kernel.symbols.mapping_events import MappingEvents


USER_SLOTS: Final = 1024
MOST_STACKS: Final = 16384
"""Maximum number of distinct stacks; with the usual frame limit each takes 2 KiB of kernel memory."""
_TABLE_BYTES: Final = 1 << 26
"""Maximum size of the table: if stacks take more than 4 KiB each, fewer are kept."""
_FEWEST_WORDS: Final = 256
"""Words that Python stacks need."""
_USUAL_FRAMES: Final = 127
"""Used if the kernel's limit is unknown."""
_OWNER_SHIFT: Final = 8


def native_frames() -> int:
    """Maximum frames of a native or kernel stack: the kernel's configured limit."""
    allowed = features.perf_event_max_stack()
    return min(_USUAL_FRAMES if allowed is None else max(allowed, 2), most_frames())


def defines(frames: int) -> list[str]:
    """Lines of C before stacks.h, for native stacks of up to `frames` frames."""
    return [f"#define AM_STACK_FRAMES {frames}", f"#define AM_STACK_WORDS {_words(frames)}"]


def create(keep: Descriptors, frames: int) -> tuple[int, int]:
    """Create the table and the scratch memory for native stacks of up to `frames` frames; return their descriptors."""
    size = _stack(frames).itemsize
    table = keep.add(bpf_maps.create_table("am_stacks", key=8, value=size, entries=_entries(frames)))
    slots = 3 * power_of_two(possible_cpus()) + USER_SLOTS
    scratch = bpf_syscalls.map_create(bpf_syscalls.MAP_ARRAY, key=4, value=size, entries=slots, name="am_scratch")
    return table, keep.add(scratch)


def read(table: int, frames: int) -> RawStacks:
    """Read every stack of a table made for `frames` frames. Raises OSError if the kernel rejects the call."""
    dtype, most = _stack(frames), _words(frames)
    content = bpf_maps.read(bpf_maps.OpenMap(table, bpf_maps.HASH, _entries(frames), 8, dtype.itemsize))
    keys = np.ascontiguousarray(content.keys).view(np.uint64).ravel()
    stacks = np.ascontiguousarray(content.values[:, 0]).view(dtype).ravel()
    words = np.minimum(stacks["words"], most).astype(np.int64)
    used = np.arange(most) < words[:, None]
    return RawStacks(
        keys.copy(),
        (stacks["kind"] & ((1 << _OWNER_SHIFT) - 1)).astype(np.uint8),
        np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
        stacks["word"][used],
        (stacks["kind"] >> _OWNER_SHIFT).astype(np.int32),
        frames,
    )


def _words(frames: int) -> int:
    return max(power_of_two(frames), _FEWEST_WORDS)


def _stack(frames: int) -> np.dtype[np.void]:
    """`struct am_stack`."""
    return np.dtype([("kind", "<u4"), ("words", "<u4"), ("word", "<u8", (_words(frames),))])


def _entries(frames: int) -> int:
    return min(MOST_STACKS, _TABLE_BYTES // (8 * _words(frames)))


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

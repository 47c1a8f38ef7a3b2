"""Kernel launches on an accelerator, each with the Python stack that launched it."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from collections import defaultdict, deque
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from accel_magic.demangle import readable
from accel_magic.devices.cuda.driver import load
from accel_magic.devices.targets import opened, target
from accel_magic.gpu import adapters
from accel_magic.kernel import scope
from accel_magic.kernel.stacks import stack_table
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording import flame_data
from accel_magic.recording.flame_data import NOT_KNOWN, AcceleratorActivity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

    from accel_magic.devices.cuda.driver import CudaDriver
    from accel_magic.devices.device import DeviceMemory
    from accel_magic.devices.launches import Code, KernelSource, LaunchRequest
    from accel_magic.devices.targets import Asked, Target
    from accel_magic.kernel.stacks.stack_table import StackTable


MOST_LAUNCHES: Final = 200_000
_OWN: Final = re.compile(r"(.*/)?accel_magic/(gpu|flames)/.*")
_STEP: Final = 2
"""The kernel's programs give stacks odd keys (bpf/kernel/stacks.h): even ones are free."""

Place = tuple["CodeType", int]
"""A code object and the offset of its current instruction in bytes."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A launch, its thread id and the number of its stack."""

    launch: LaunchRequest
    tid: int
    stack: int


class Launches:
    """The adapters' `Observer` of a flame trace: leaves kernels unchanged and records the stack of each launch.

    The stack is taken in the launching thread at the launch itself, so it is exact.

    Args:
        requested: The requested device.

    """

    def __init__(self, requested: Asked) -> None:
        self._requested = requested
        self._undo = ExitStack()
        self._memory: DeviceMemory | None = None
        self._times: EventTimes | None = None
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._stacks: dict[tuple[Place, ...], int] = {}
        self._seen: list[_Seen] = []
        self._more = 0
        self._skipped: dict[str, str] = {}

    @cached_property
    def target(self) -> Target:
        """The device. Raises MachineError if it was requested by name and does not exist."""
        return target(self._requested)

    def attach(self) -> None:
        """Start watching the frameworks. Raises MachineError if the device cannot be used."""
        try:
            self._memory, device = self._undo.enter_context(opened(self.target))
            if device is None:
                self._times = EventTimes(load())
                self._undo.callback(self._times.close)
            self._undo.enter_context(adapters.hearing(self, device))
        except BaseException:
            self.close()
            raise

    def go(self) -> None:
        """Forget earlier launches."""
        with self._lock:
            self._seen.clear()

    def close(self) -> None:
        """Stop watching and restore the frameworks; does nothing if nothing is watched."""
        self._undo.close()

    def rewrite(self, kernel: KernelSource[Code]) -> Code:
        """Return the kernel unchanged."""
        return kernel.code

    def launching(self, launch: LaunchRequest) -> None:
        """Prepare the device for a launch."""
        if self._memory is not None:
            self._memory.launching(launch)
        if self._times is not None:
            self._times.before(launch.stream)

    def launched(self, launch: LaunchRequest) -> None:
        """Record a launch and its stack."""
        own = not launch.pid
        place = _place(sys._getframe(1)) if own else ()  # noqa: SLF001 - the documented way to reach a caller
        tid = self._tid() if own else 0
        with self._lock:
            number = len(self._seen)
            if number < MOST_LAUNCHES:
                stack = self._stacks.setdefault(place, len(self._stacks)) if own else NOT_KNOWN
                self._seen.append(_Seen(launch, tid, stack))
            else:
                self._more += 1
        if self._times is not None and own:
            self._times.after(launch.stream, number)

    def skipped(self, name: str, reason: str) -> None:
        """Record what could not be watched, and why."""
        self._skipped[name] = reason

    def withdrawn(self, source: KernelSource[Any], reason: str) -> None:
        """Do nothing: kernels are not rewritten."""

    def noted(self, note: str) -> None:
        """Do nothing: kernels are not rewritten."""

    def number(self, source: KernelSource[Any], name: str) -> int | None:  # noqa: ARG002 - the same for all
        """Return None: no programs read it."""
        return None

    def wait(self) -> None:
        """Wait for the device or an interrupt; kernels that still run then have no duration."""
        if self._memory is not None and self._seen:
            self._memory.wait()

    def seen(self, start_ns: int, table: StackTable | None) -> AcceleratorActivity:
        """Return the launches, and a stack table that includes their stacks.

        Args:
            start_ns: CLOCK_MONOTONIC that becomes time 0.
            table: The recording's stack table; None if it has none.

        """
        if not self._seen:
            return AcceleratorActivity(stacks=table, device=self.target.name, notes=self._notes())
        measured = self._times.durations() if self._times is not None else {}
        keys = _free_keys(table, len(self._stacks))
        launches = [
            flame_data.AcceleratorLaunch(
                seen.launch.time_ns - start_ns,
                seen.tid,
                keys[seen.stack] if seen.stack >= 0 else 0,
                readable(seen.launch.kernel),
                measured.get(number, NOT_KNOWN) if seen.launch.device_ns is None else seen.launch.device_ns,
            )
            for number, seen in enumerate(self._seen)
        ]
        launches.sort(key=lambda launch: launch.time_ns)
        stacks = extended(table, keys, [frames_of(places) for places in self._stacks])
        return AcceleratorActivity(tuple(launches), self._more, stacks, self.target.name, self._notes())

    def _notes(self) -> tuple[str, ...]:
        return (
            *((self.target.note,) if self.target.note else ()),
            *((NOTE,) if self._times is not None and self._seen else ()),
            *(f"launches of {name} were not watched: {why}" for name, why in self._skipped.items()),
        )

    def _tid(self) -> int:
        tid = getattr(self._thread, "tid", None)
        if tid is None:
            tid = self._thread.tid = scope.kernel_tid()
        return int(tid)


def _place(frame: FrameType | None) -> tuple[Place, ...]:
    """The current place in every frame of the calling thread, innermost first."""
    places = []
    while frame is not None:
        places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(places)


def frames_of(places: Sequence[Place]) -> tuple[Frame, ...]:
    """Frames of a stack, outermost first, without this tool's own innermost frames."""
    frames = [Frame(code.co_qualname, FrameKind.PYTHON, code.co_filename, _line(code, at)) for code, at in places]
    own = next((at for at, frame in enumerate(frames) if not _OWN.fullmatch(frame.module)), len(frames))
    return tuple(reversed(frames[own:]))


def extended(table: StackTable | None, keys: Sequence[int], found: Sequence[tuple[Frame, ...]]) -> StackTable:
    """Make a stack table with the stacks of another table and further Python stacks.

    Args:
        table: The other table; None for none.
        keys: Keys of the further stacks; not in the other table.
        found: Frames of each further stack, outermost first.

    """
    known = range(len(table.keys)) if table is not None else ()
    all_keys = np.array([*(table.keys.tolist() if table is not None else ()), *keys], np.uint64)
    kinds = np.array(
        [*(table.kinds.tolist() if table is not None else ()), *[stack_table.PYTHON] * len(keys)], np.uint8
    )
    rows = [*(table.of(row) for row in known), *found] if table is not None else list(found)
    return stack_table.table(all_keys, kinds, rows)


def _free_keys(table: StackTable | None, count: int) -> list[int]:
    taken = set(table.keys.tolist()) if table is not None else set[int]()
    keys: list[int] = []
    key = _STEP
    while len(keys) < count:
        if key not in taken:
            keys.append(key)
        key += _STEP
    return keys


def _line(code: CodeType, at: int) -> int:
    """Line of an instruction; the function's first line if its line table has none."""
    lines = (line for start, end, line in code.co_lines() if start <= at < end and line is not None)
    return next(lines, code.co_firstlineno)


MOST_PENDING: Final = 4096
"""Pairs of events waiting to be read; beyond this, the oldest are read whenever one is added."""
NOTE: Final = (
    "GPU times are between two events around each launch: on an idle stream they are a few microseconds too long"
)
_DEFAULT_EVENT = 0


class _Pair(NamedTuple):
    """Events before and after a launch."""

    launch: int
    context: int
    before: int
    after: int


class EventTimes:
    """Durations of launches, numbered by the caller. Methods may be called from any thread.

    Nothing here raises: a launch whose events fail, or that is captured into a graph, has no duration.

    Args:
        driver: The driver.

    """

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._free: defaultdict[int, list[int]] = defaultdict(list)  # by context
        self._pending: deque[_Pair] = deque()
        self._durations: dict[int, int] = {}
        self._own = threading.local()

    def before(self, stream: int) -> None:
        """Record an event in the stream; call it right before a launch, in its thread."""
        self._own.begun = self._recorded(stream)

    def after(self, stream: int, launch: int) -> None:
        """Record an event after the launch, and give the launch this number."""
        begun, self._own.begun = getattr(self._own, "begun", None), None
        ended = self._recorded(stream) if begun is not None else None
        if begun is None or ended is None:
            return
        with self._lock:
            self._pending.append(_Pair(launch, begun[0], begun[1], ended[1]))
            while len(self._pending) > MOST_PENDING and self._read(self._pending[0]):
                self._pending.popleft()

    def durations(self) -> dict[int, int]:
        """Durations in ns by launch number, for all launches that have ended."""
        with self._lock:
            self._pending = deque(pair for pair in self._pending if not self._read(pair))
            return dict(self._durations)

    def close(self) -> None:
        """Destroy the events; those of running launches stay with the driver until the process ends."""
        with self._lock:
            for events in self._free.values():
                for event in events:
                    self._driver.attempt("cuEventDestroy_v2", event)
            self._free.clear()
            self._pending.clear()

    def _recorded(self, stream: int) -> tuple[int, int] | None:
        """Record an event in the stream; return its context and the event, or None if that fails."""
        driver, capturing, context = self._driver, ctypes.c_int(), ctypes.c_void_p()
        if driver.attempt("cuStreamIsCapturing", stream, ctypes.byref(capturing)) or capturing.value:
            return None
        if driver.attempt("cuCtxGetCurrent", ctypes.byref(context)) or not context.value:
            return None
        event = self._event(context.value)
        if event is None or driver.attempt("cuEventRecord", event, stream):
            return None
        return context.value, event

    def _event(self, context: int) -> int | None:
        with self._lock:
            if self._free[context]:
                return self._free[context].pop()
        made = ctypes.c_void_p()
        failed = self._driver.attempt("cuEventCreate", ctypes.byref(made), _DEFAULT_EVENT)
        return None if failed else made.value

    def _read(self, pair: _Pair) -> bool:
        """Read a pair; False if its events are not complete yet."""
        milliseconds = ctypes.c_float()
        if self._driver.attempt("cuEventElapsedTime", ctypes.byref(milliseconds), pair.before, pair.after):
            return False
        self._durations[pair.launch] = round(milliseconds.value * 1e6)
        self._free[pair.context] += [pair.before, pair.after]
        return True

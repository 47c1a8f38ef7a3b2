"""Launches of kernels on an accelerator, each with the Python stack of the line that made it."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.demangle import readable
from accel_magic.flames import facts
from accel_magic.flames.cuda_times import NOTE, EventTimes
from accel_magic.flames.facts import NOT_KNOWN, Watched
from accel_magic.gpu import adapters
from accel_magic.gpu.cuda.driver import load
from accel_magic.gpu.targets import opened, target
from accel_magic.kernel import scope
from accel_magic.profiles.model import Frame, Kind
from accel_magic.traces import stacks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

    from accel_magic.gpu.adapters import KernelSource, Launch
    from accel_magic.gpu.devices import Memory
    from accel_magic.gpu.targets import Asked, Target
    from accel_magic.traces.stacks import StackTable

MOST_LAUNCHES: Final = 200_000
_OWN: Final = re.compile(r"(.*/)?accel_magic/(gpu|flames)/.*")
_STEP: Final = 2
"""The kernel's programs give stacks odd keys (bpf/kernel/stacks.h): even ones are free."""

Place = tuple["CodeType", int]
"""A code object and the instruction under way in it, an offset in bytes."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A launch, its thread, the number of its stack, and what tells how long the kernel took."""

    launch: Launch
    tid: int
    stack: int


class Launches:
    """The adapters' `Observer` of a flame trace: changes no kernel, remembers who launched it.

    The stack is taken in the launching thread at the launch itself, so it is exact.

    Args:
        asked: Which device kernels run on.

    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._undo = ExitStack()
        self._memory: Memory | None = None
        self._times: EventTimes | None = None
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._stacks: dict[tuple[Place, ...], int] = {}
        self._seen: list[_Seen] = []
        self._more = 0
        self._skipped: dict[str, str] = {}
        self.target: Target | None = None

    def prepare(self) -> Target:
        """Find the device. Raises MachineError where it was asked for by name and is not there."""
        self.target = target(self._asked)
        return self.target

    def attach(self) -> None:
        """Watch the frameworks from now on. Raises MachineError where the device cannot be used."""
        assert self.target is not None  # noqa: S101 - after prepare
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
        """Forget what was launched before."""
        with self._lock:
            self._seen.clear()

    def close(self) -> None:
        """Leave the frameworks as they were; harmless when nothing is watched."""
        self._undo.close()

    def rewrite(self, kernel: KernelSource) -> str:
        """Leave the kernel as it is."""
        return kernel.ptx

    def launching(self, launch: Launch) -> None:
        """Let the device be made ready."""
        if self._memory is not None:
            self._memory.launching(launch)
        if self._times is not None:
            self._times.before(launch.stream)

    def launched(self, launch: Launch) -> None:
        """Remember a launch and the stack that made it."""
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
        """Remember what could not be watched, and why."""
        self._skipped[name] = reason

    def wait(self) -> None:
        """Wait for the device, or for an interrupt: what still runs then has no duration."""
        if self._memory is not None and self._seen:
            self._memory.wait()

    def seen(self, start_ns: int, table: StackTable | None) -> Watched:
        """Give what was launched, and a table of stacks that has those of the launches too.

        Args:
            start_ns: CLOCK_MONOTONIC that becomes time 0.
            table: The recording's; None where it has none.

        """
        assert self.target is not None  # noqa: S101 - after prepare
        if not self._seen:
            return Watched(stacks=table, device=self.target.name, notes=self._notes())
        measured = self._times.durations() if self._times is not None else {}
        keys = _free_keys(table, len(self._stacks))
        launches = [
            facts.Launch(
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
        return Watched(tuple(launches), self._more, stacks, self.target.name, self._notes())

    def _notes(self) -> tuple[str, ...]:
        device = self.target.note if self.target is not None else ""
        return (
            *((device,) if device else ()),
            *((NOTE,) if self._times is not None and self._seen else ()),
            *(f"launches of {name} were not watched: {why}" for name, why in self._skipped.items()),
        )

    def _tid(self) -> int:
        tid = getattr(self._thread, "tid", None)
        if tid is None:
            tid = self._thread.tid = scope.kernel_tid()
        return int(tid)


def _place(frame: FrameType | None) -> tuple[Place, ...]:
    """Where every frame of the calling thread is, innermost first."""
    places = []
    while frame is not None:
        places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(places)


def frames_of(places: Sequence[Place]) -> tuple[Frame, ...]:
    """Frames of a stack, outermost first, without this tool's own at its inner end."""
    frames = [Frame(code.co_qualname, Kind.PYTHON, code.co_filename, _line(code, at)) for code, at in places]
    own = next((at for at, frame in enumerate(frames) if not _OWN.fullmatch(frame.module)), len(frames))
    return tuple(reversed(frames[own:]))


def extended(table: StackTable | None, keys: Sequence[int], found: Sequence[tuple[Frame, ...]]) -> StackTable:
    """Make a table that has Python stacks besides those of another.

    Args:
        table: The other; None for none.
        keys: Of the stacks, not in the other.
        found: Frames of each, outermost first.

    """
    known = range(len(table.keys)) if table is not None else ()
    all_keys = np.array([*(table.keys.tolist() if table is not None else ()), *keys], np.uint64)
    kinds = np.array([*(table.kinds.tolist() if table is not None else ()), *[stacks.PYTHON] * len(keys)], np.uint8)
    rows = [*(table.of(row) for row in known), *found] if table is not None else list(found)
    return stacks.table(all_keys, kinds, rows)


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
    """Line of an instruction, the function's first where its table has none."""
    lines = (line for start, end, line in code.co_lines() if start <= at < end and line is not None)
    return next(lines, code.co_firstlineno)

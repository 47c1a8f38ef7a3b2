"""A Python stack sampler for when BPF is not allowed: a thread that inspects all others.

Each thread's CPU clock gives how long it ran and how long it waited since the last look, so sums per thread are exact
regardless of the sampler's pace. A thread's position is less certain: the sampler can look only when the running thread
releases the GIL, which Python code does where it calls, returns or loops, and C code when it is done.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from accel_magic.errors import ProbeError, TraceStateError
from accel_magic.kernel import own_threads
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.quantities import duration_text, share_text
from accel_magic.recording.profile import Lost, Profile, ProfileBuilder, ThreadState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import CodeType, FrameType

MOST_HZ: Final = 1000
_BIAS = (
    "stacks were sampled by a thread of this process, which has to wait until the running thread releases the GIL:"
    " time in C code that holds the GIL may be attributed to the line that follows"
)
_NO_LOOK: Final = -1
_Place = tuple["CodeType", int]
"""A code object and the offset of its current instruction."""


class _Reading(NamedTuple):
    """A thread's clocks at one look, ns, and the number of the look that covers the time until then."""

    wall: int
    cpu: int
    look: int


class _Look(NamedTuple):
    """One look at one thread: time, thread id, stack, and ns it ran and waited since the previous look."""

    time_ns: int
    tid: int
    stack: int
    ran: int
    waited: int


def _cpu_clock(tid: int) -> int:
    """Clock id of a thread's CPU time (kernel ABI); unlike pthread_getcpuclockid, safe if the thread has ended."""
    return (~tid << 3) | 6


_HERE: Final = _cpu_clock.__code__.co_filename


class ThreadSampler:
    """Samples the Python stacks of all threads of this process: `start`, then `stop`, which returns the profile.

    Args:
        rate_hz: Looks per second.
        leave_out: Native ids of threads to exclude; the sampler itself is always excluded.
        threads: Put each stack under a frame for its thread.

    Raises:
        ProbeError: The rate is not within 1 to `MOST_HZ`.

    """

    def __init__(self, rate_hz: float = 99, *, leave_out: Collection[int] = (), threads: bool = False) -> None:
        if not 1 <= rate_hz <= MOST_HZ:
            raise ProbeError(
                f"{rate_hz:g} samples per second is out of range",
                fix=f"give a rate from 1 to {MOST_HZ} per second",
                code="flame.bad-rate",
            )
        self._rate_hz = rate_hz
        self._period_ns = round(1e9 / rate_hz)
        self._leave_out = set(leave_out)
        self._threads = threads
        self._ended = threading.Event()
        self._thread = own_threads.Thread(target=self._run, name="accel_magic-sampler")
        self._owner = os.getpid()
        self._tids: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._last: dict[int, _Reading] = {}
        self._stacks: dict[tuple[_Place, ...], int] = {}
        self._looks: list[_Look] = []
        self._times: list[int] = []
        self._unknown = self._own_ns = self._start_ns = 0
        self._started = ""

    def start(self) -> None:
        """Start sampling."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self._start_ns = time.monotonic_ns()
        self._look()
        self._looks = [look._replace(ran=0, waited=0) for look in self._looks]  # exclude the time before the start
        self._thread.start()

    def stop(self) -> Profile:
        """Stop sampling and return the profile, whose unit is ns.

        Raises:
            TraceStateError: Called in a forked child, where the sampler does not run.

        """
        if os.getpid() != self._owner:
            raise TraceStateError(
                "this sampler belongs to the parent process",
                why="a forked child does not have its parent's threads",
                fix="end the child inside the block with os._exit()",
                code="trace.in-child",
            )
        self._ended.set()
        self._thread.join()
        self._look()
        return self._profile(time.monotonic_ns() - self._start_ns)

    def _run(self) -> None:
        self._leave_out.add(threading.get_native_id())
        due = self._start_ns
        while True:
            due = max(due + self._period_ns, time.monotonic_ns())  # do not catch up on missed looks
            if self._ended.wait((due - time.monotonic_ns()) / 1e9):
                break
            self._times.append(time.monotonic_ns())
            self._look()
        self._own_ns = time.thread_time_ns()

    def _look(self) -> None:
        """Look at every thread once."""
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see all threads
            found = self._clock(ident)
            if found is None:
                self._unknown += 1
                continue
            tid, wall, cpu = found
            if tid in self._leave_out:
                continue
            before = self._last.get(tid)
            if before is None or before.cpu > cpu:
                # A new thread: it has run since it started, at an unknown time.
                before = _Reading(wall - cpu, 0, _NO_LOOK)
            self._last[tid] = _Reading(wall, cpu, self._take(tid, frame, before, wall, cpu))

    def _take(self, tid: int, frame: FrameType, before: _Reading, wall: int, cpu: int) -> int:
        """Store what a thread did since the previous look; returns the number of the look that covers it."""
        ran, waited = cpu - before.cpu, max(wall - before.wall - (cpu - before.cpu), 0)
        if not ran and before.look != _NO_LOOK:
            # A thread that has not run is still at the same place: extend the wait instead of adding another.
            last = self._looks[before.look]
            if not last.ran:
                self._looks[before.look] = last._replace(time_ns=wall - self._start_ns, waited=last.waited + waited)
                return before.look
            stack = last.stack
        else:
            stack = self._stack(frame)
        self._looks.append(_Look(wall - self._start_ns, tid, stack, ran, waited))
        return len(self._looks) - 1

    def _clock(self, ident: int) -> tuple[int, int, int] | None:
        """Native id of a thread, the current time and its CPU time, ns; None if `threading` does not know it."""
        for attempt in range(2):
            tid = self._tids.get(ident)
            if tid is not None:
                try:
                    return tid, time.monotonic_ns(), time.clock_gettime_ns(_cpu_clock(tid))
                except OSError:
                    del self._tids[ident]  # it has ended, and its ident was reused
            if not attempt:
                self._learn_threads()
        return None

    def _learn_threads(self) -> None:
        for thread in threading.enumerate():
            if thread.ident is not None and thread.native_id is not None:
                self._tids[thread.ident] = thread.native_id
                self._names[thread.native_id] = thread.name

    def _stack(self, frame: FrameType | None) -> int:
        """Number of a stack, without this file's frames and their callees."""
        places: list[_Place] = []
        while frame is not None:
            places.append((frame.f_code, frame.f_lasti))
            if frame.f_code.co_filename == _HERE:
                places.clear()
            frame = frame.f_back
        return self._stacks.setdefault(tuple(places), len(self._stacks))

    def _profile(self, duration_ns: int) -> Profile:
        builder = ProfileBuilder()
        lines: dict[CodeType, dict[int, int]] = {}
        stacks = [[_frame(builder, place, lines) for place in reversed(stack)] for stack in self._stacks]
        waiting = builder.frame("waiting", FrameKind.WAIT)
        for look in _attributed(self._looks):
            node = builder.stack(stacks[look.stack], self._root(builder, look.tid))
            if look.ran:
                builder.add(node, look.ran, time_ns=look.time_ns, tid=look.tid)
            if look.waited:
                began = max(look.time_ns - look.waited, 0)
                leaf = builder.node(waiting, node)
                builder.add(leaf, look.waited, time_ns=began, tid=look.tid, state=ThreadState.OFF_CPU)
        lost = (Lost(self._unknown, "samples of threads unknown to Python's threading module"),)
        return builder.build(
            unit="ns",
            origin=f"Python sampler at {self._rate_hz:g} Hz",
            duration_ns=duration_ns,
            started=self._started,
            lost=lost if self._unknown else (),
            notes=self._notes(duration_ns),
        )

    def _root(self, builder: ProfileBuilder, tid: int) -> int:
        if not self._threads:
            return -1
        return builder.node(builder.frame(f"{self._names[tid]} ({tid})", FrameKind.THREAD))

    def _notes(self, duration_ns: int) -> tuple[str, ...]:
        """Notes about the sampler's bias, its cost and the intervals between looks."""
        share = self._own_ns / max(duration_ns, 1)
        notes = [
            _BIAS,
            (
                f"the sampler used {share_text(share)} of a processor: {duration_text(self._own_ns)} in "
                f"{duration_text(duration_ns)}"
            ),
        ]
        gaps = np.diff(np.array(self._times, np.int64)) / 1e6
        if len(gaps):
            median, late = np.percentile(gaps, [50, 95])
            notes.append(
                f"the sampling interval was {median:.1f} ms (median) and {late:.1f} ms (95th percentile);"
                f" {self._period_ns / 1e6:.1f} ms was requested"
            )
        return tuple(notes)


def _attributed(looks: list[_Look]) -> Iterator[_Look]:
    """Divide the time between two looks among the stacks at both.

    If exactly one of the two stacks is a waiting place, it gets the waiting time and the other gets the running time;
    otherwise each gets half. A waiting place was seen in consecutive looks, mostly without running in between.
    """
    steps, last = [], dict[int, int]()
    waits = defaultdict[int, int](int)
    for look in looks:
        before = last.get(look.tid, look.stack)
        last[look.tid] = look.stack
        steps.append((before, look))
        if before == look.stack:
            waits[before] += look.waited - look.ran
    for before, look in steps:
        if before == look.stack:
            yield look
            continue
        there, here = waits[before] > 0, waits[look.stack] > 0
        half = _Look(look.time_ns, look.tid, before, look.ran // 2, look.waited // 2)
        if there != here:
            half = half._replace(ran=0 if there else look.ran, waited=look.waited if there else 0)
        yield half
        yield look._replace(ran=look.ran - half.ran, waited=look.waited - half.waited)


def _frame(builder: ProfileBuilder, place: _Place, lines: dict[CodeType, dict[int, int]]) -> int:
    """Number of the frame of a place; `lines` caches line numbers by code object and offset."""
    code, instruction = place
    if code not in lines:
        lines[code] = {at: line or 0 for start, end, line in code.co_lines() for at in range(start, end, 2)}
    line = lines[code].get(instruction, code.co_firstlineno)
    return builder.frame(code.co_qualname, FrameKind.PYTHON, code.co_filename, line)

"""Maps that a trace reads again and again: every so often while kernels run, or after each launch."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.gpu import map_views
from accel_magic.gpu.helpers import RINGS
from accel_magic.gpu.recording import MapHistory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.gpu.model import MapSpec
    from accel_magic.gpu.shared_memory import Shared

MAP_LIMIT: Final = 8 << 20
"""Bytes of a map; larger ones are not read over time."""
LIMIT: Final = 256 << 20
"""Bytes that are kept of all maps of a trace; from there on nothing more is read."""
LEAST_S: Final = 0.01
"""From one reading to the next."""


@dataclass
class _Watched:
    """One map that is read over time: as it was at first, as it was last, and what changed at each reading."""

    shared: Shared
    number: int
    spec: MapSpec
    first: NDArray[np.uint8]
    last: NDArray[np.uint8]
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    cells: list[NDArray[np.uint8]] = field(default_factory=list)

    @classmethod
    def of(cls, shared: Shared, number: int) -> _Watched:
        raw = shared.read(number)
        return cls(shared, number, shared.source.object.maps[number], raw, raw)

    def read(self, *, running: bool) -> NDArray[np.uint8]:
        """Copy the map, also while kernels are running. Raises MachineError where the device is gone."""
        return self.shared.read_running(self.number) if running else self.shared.read(self.number)

    def keep(self, raw: NDArray[np.uint8]) -> int:
        """Remember what has changed since the last reading; bytes that it takes."""
        now, before = (map_views.rows_of(self.spec, each) for each in (raw, self.last))
        rows = np.flatnonzero((now != before).any(axis=1))
        self.rows.append(rows)
        self.cells.append(now[rows])
        self.last = raw
        return rows.nbytes + self.cells[-1].nbytes


class History:
    """Reads the maps of a trace over time: all but rings, constants and those beyond MAP_LIMIT.

    Args:
        shared: The memory of each source.
        every_s: From one reading to the next; None: after each launch.

    Raises:
        ProbeError: `every_s` is less than LEAST_S.

    """

    def __init__(self, shared: Sequence[Shared], every_s: float | None) -> None:
        check_every(every_s)
        self._memory = shared[0].memory
        self._every_ns = None if every_s is None else int(every_s * 1e9)
        sized = [
            (each, number, spec, region.bytes)
            for each in shared
            for number, (spec, region) in enumerate(zip(each.source.object.maps, each.plan.maps, strict=True))
            if spec.type not in RINGS and not spec.read_only
        ]
        self._watched = [_Watched.of(each, number) for each, number, _, size in sized if size <= MAP_LIMIT]
        self._notes = [
            f"{each.source.name}: map {spec.name} was not read over time: its {size:,} bytes are over {MAP_LIMIT:,}"
            for each, _, spec, size in sized
            if size > MAP_LIMIT
        ]
        self._times: list[int] = []
        self._launches: list[int] = []
        self._kept = 0
        self._due_ns: int | None = None
        self._under_way = False
        self._over = False
        self._lock = threading.Lock()

    def go(self) -> None:
        """Begin: by time, the first reading is due one interval from now."""
        if self._every_ns is not None:
            self._due_ns = time.monotonic_ns() + self._every_ns

    def read_if_due(self) -> float:
        """Read where that is due; seconds until the next reading, infinite where there is none."""
        if self._due_ns is None or self._over:
            return float("inf")
        now = time.monotonic_ns()
        if now >= self._due_ns:
            assert self._every_ns is not None  # noqa: S101 - something is due only then
            self._read(-1)
            # What was missed is not made up for.
            self._due_ns += ((now - self._due_ns) // self._every_ns + 1) * self._every_ns
        return max(self._due_ns - time.monotonic_ns(), 0) / 1e9

    def launching(self) -> None:
        """Hear of a launch before it happens. What one before did that never came to `launched` is told apart."""
        if self._every_ns is None:
            if self._under_way:
                self._read(-1)
            self._under_way = True

    def launched(self, launch: int, stream: int) -> None:
        """Hear that a launch was made, by its number among all of the trace; waits until it has ended."""
        if self._every_ns is None:
            self._read(launch, stream)
            self._under_way = False

    def end(self) -> None:
        """Read once more: by time the end, by launch what came of one that was never reported."""
        if self._due_ns is not None or self._under_way:
            self._read(-1)
        self._under_way, self._due_ns = False, None

    def maps(self, start_ns: int) -> tuple[MapHistory, ...]:
        """Everything so far; times since `start_ns`, CLOCK_MONOTONIC."""
        with self._lock:
            times = np.array(self._times, np.int64) - start_ns
            launches = None if self._every_ns is not None else np.array(self._launches, np.int64)
            return tuple(
                MapHistory(
                    source=each.shared.source.name,
                    spec=each.spec,
                    first=each.first,
                    time_ns=times,
                    launch=launches,
                    changed=np.array([len(rows) for rows in each.rows], np.int64),
                    rows=np.concatenate([np.empty(0, np.int64), *each.rows]),
                    cells=np.concatenate([map_views.rows_of(each.spec, each.first)[:0], *each.cells]),
                )
                for each in self._watched
            )

    def notes(self) -> list[str]:
        """What the user should know."""
        return self._notes

    def _read(self, launch: int, stream: int | None = None) -> None:
        with self._lock:
            if self._over:
                return
            try:
                if stream is not None:
                    self._memory.finish(stream)
                now = time.monotonic_ns()
                # Kernels run while maps are read by time, not after a launch.
                raws = [each.read(running=self._every_ns is not None) for each in self._watched]
            except AccelMagicError as error:  # the user's cell goes on, and tells itself what is wrong
                self._give_up(str(error))
                return
            self._times.append(now)
            self._launches.append(launch)
            self._kept += sum(each.keep(raw) for each, raw in zip(self._watched, raws, strict=True))
            if self._kept > LIMIT:
                self._give_up("no room")

    def _give_up(self, reason: str) -> None:
        self._over = True
        self._notes.append(f"maps were no longer read over time after {len(self._times):,} readings: {reason}")


def check_every(every_s: float | None) -> None:
    """Raise ProbeError where maps are to be read more often than that makes sense."""
    if every_s is not None and not every_s >= LEAST_S:
        raise ProbeError(
            f"every={every_s} is too often to read maps",
            why=f"{LEAST_S} s is the least",
            fix="use a longer time",
            code="gpu.bad-interval",
        )

"""Maps that a trace reads repeatedly: at an interval while kernels run, or after each launch."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.maps.map_content import MapHistory
from accel_magic.gpu.program.helpers import HASHES, RINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from accel_magic.gpu.maps.shared_memory import SharedMaps
    from accel_magic.gpu.program.object_model import MapSpec


MAP_LIMIT: Final = 8 << 20
"""Bytes; larger maps are not read over time."""
LIMIT: Final = 256 << 20
"""Bytes of readings kept of all maps of a trace; reading stops at this limit."""
LEAST_S: Final = 0.01
"""Shortest interval between readings."""


@dataclass
class _Watched:
    """One map that is read over time: its first and its latest content, and the changes at each reading."""

    shared: SharedMaps
    number: int
    spec: MapSpec
    first: NDArray[np.uint8]
    last: NDArray[np.uint8]
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    cells: list[NDArray[np.uint8]] = field(default_factory=list)

    @classmethod
    def of(cls, shared: SharedMaps, number: int) -> _Watched:
        raw = shared.read(number)
        return cls(shared, number, shared.source.object.maps[number], raw, raw)

    def read(self, *, running: bool) -> NDArray[np.uint8]:
        """Copy the map, possibly while kernels run. Raises MachineError if the device no longer answers."""
        return self.shared.read_running(self.number) if running else self.shared.read(self.number)

    def keep(self, raw: NDArray[np.uint8]) -> int:
        """Store the changes since the last reading; returns their size in bytes."""
        now, before = (map_access.rows_of(self.spec, each) for each in (raw, self.last))
        rows = np.flatnonzero((now != before).any(axis=1))
        self.rows.append(rows)
        self.cells.append(now[rows])
        self.last = raw
        return rows.nbytes + self.cells[-1].nbytes


class History:
    """Reads the maps of a trace over time, except rings, constants and maps over MAP_LIMIT.

    Args:
        shared: The memory of each source.
        every_s: Interval between readings; None: read after each launch.

    Raises:
        ProbeError: `every_s` is less than LEAST_S.

    """

    def __init__(self, shared: Sequence[SharedMaps], every_s: float | None) -> None:
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
        self._launch_pending = False
        self._over = False
        self._lock = threading.Lock()

    def go(self) -> None:
        """Start; by time, the first reading is due one interval from now."""
        if self._every_ns is not None:
            self._due_ns = time.monotonic_ns() + self._every_ns

    def read_if_due(self) -> float:
        """Read if a reading is due; returns the seconds until the next one, infinite if there is none."""
        if self._due_ns is None or self._every_ns is None or self._over:
            return float("inf")
        now = time.monotonic_ns()
        if now >= self._due_ns:
            self._read(-1)
            # Missed readings are skipped.
            self._due_ns += ((now - self._due_ns) // self._every_ns + 1) * self._every_ns
        return max(self._due_ns - time.monotonic_ns(), 0) / 1e9

    def launching(self) -> None:
        """Prepare for a launch. If the last one was not reported to `launched`, its changes get their own reading."""
        if self._every_ns is None:
            if self._launch_pending:
                self._read(-1)
            self._launch_pending = True

    def launched(self, launch: int, stream: int) -> None:
        """Read after a launch, given by its number in the trace; waits until the kernel has ended."""
        if self._every_ns is None:
            self._read(launch, stream)
            self._launch_pending = False

    def end(self) -> None:
        """Take the last reading: by time always, by launch only if the last launch was not reported."""
        if self._due_ns is not None or self._launch_pending:
            self._read(-1)
        self._launch_pending, self._due_ns = False, None

    def maps(self, start_ns: int) -> tuple[MapHistory, ...]:
        """Return all readings so far; times since `start_ns`, CLOCK_MONOTONIC."""
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
                    cells=np.concatenate([map_access.rows_of(each.spec, each.first)[:0], *each.cells]),
                )
                for each in self._watched
            )

    def notes(self) -> list[str]:
        """Return notes for the user."""
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
            except AccelMagicError as error:  # the user's cell continues and will report the error itself
                self._stop(str(error))
                return
            self._times.append(now)
            self._launches.append(launch)
            self._kept += sum(each.keep(raw) for each, raw in zip(self._watched, raws, strict=True))
            if self._kept > LIMIT:
                self._stop(f"they take more than {LIMIT:,} bytes")

    def _stop(self, reason: str) -> None:
        self._over = True
        self._notes.append(f"maps were no longer read over time after {len(self._times):,} readings: {reason}")


def check_every(every_s: float | None) -> None:
    """Raise ProbeError if the interval between readings is less than LEAST_S."""
    if every_s is not None and not every_s >= LEAST_S:
        raise ProbeError(
            f"every={every_s} is too short to read maps",
            why=f"the shortest interval is {LEAST_S} s",
            fix="use a longer interval",
            code="gpu.bad-interval",
        )


_COUNTED: Final = {"i": np.int64, "u": np.int64, "f": np.float64}


def frame(history: MapHistory, threads: int) -> pd.DataFrame:
    """Decode a map's history.

    Args:
        history: The readings of the map.
        threads: Capacity of per-thread maps, in threads.

    Returns:
        By time: `time_ns` and the columns of `map_views.entries`; one row per reading and entry, without entries that
        are all zero. By launch: also `launch`; one row per launch and entry that it changed. Numbers are then
        differences, int64 or float64, and all other values those after the launch; entries that a launch deleted are
        left out; `launch` is -1 for changes outside of successful launches.

    """
    parts = [part for part in _parts(history, threads) if len(part)]
    if parts:
        return pd.concat(parts, ignore_index=True)
    empty = map_access.entries(history.spec, history.first, threads).head(0)
    return _placed(empty, 0, None if history.launch is None else 0)


def _parts(history: MapHistory, threads: int) -> Iterator[pd.DataFrame]:
    spec, raw, end = history.spec, history.first.copy(), 0
    table = map_access.rows_of(spec, raw)
    for number, changed in enumerate(history.changed):
        rows, cells = history.rows[end : end + changed], history.cells[end : end + changed]
        before = table[rows]
        table[rows] = cells
        end += changed
        moment = int(history.time_ns[number])
        if history.launch is None:
            yield _placed(map_access.entries(spec, raw, threads, untouched=False), moment, None)
        else:
            yield _placed(_added(spec, rows, before, cells, threads), moment, int(history.launch[number]))


def _placed(part: pd.DataFrame, time_ns: int, launch: int | None) -> pd.DataFrame:
    """Insert the columns of launch and time in front."""
    when = {"time_ns": time_ns} if launch is None else {"launch": launch, "time_ns": time_ns}
    part = part.rename(columns={name: f"value_{name}" for name in when})
    for place, (name, number) in enumerate(when.items()):
        part.insert(place, name, np.full(len(part), number, np.int64))
    return part


def _added(
    spec: MapSpec, rows: NDArray[np.int64], before: NDArray[np.uint8], after: NDArray[np.uint8], threads: int
) -> pd.DataFrame:
    """Return the entries at these rows after a launch, with differences for numbers."""
    if spec.type in HASHES:
        before, after = _same_keys(spec, before, after)
    old, new = (map_access.entries_at(spec, rows, cells, threads) for cells in (before, after))
    for name in new.columns[map_access.key_count(spec) :]:
        dtype = new[name].to_numpy().dtype
        if dtype.kind in _COUNTED:
            wide = _COUNTED[dtype.kind]
            new[name] = new[name].to_numpy().astype(wide) - old[name].to_numpy().astype(wide)
    return new


def _same_keys(
    spec: MapSpec, before: NDArray[np.uint8], after: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return slots that are full afterwards, and their keys' values before: zeros if the slot had another key."""
    stays = map_access.full(after)
    before, after = before[stays], after[stays]
    value_at = map_access.value_offset(spec)
    theirs = map_access.full(before) & (before[:, :value_at] == after[:, :value_at]).all(axis=1)
    before[~theirs] = 0
    before[:, :value_at] = after[:, :value_at]
    return before, after


def packed(history: MapHistory) -> bytes:
    """Concatenate the arrays of a history; `unpacked` reads them."""
    launch = np.empty(0, np.int64) if history.launch is None else history.launch
    arrays = (history.time_ns, launch, history.changed, history.rows, history.first, history.cells)
    return b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)


def unpacked(source: str, spec: MapSpec, readings: int, data: bytes, *, by_launch: bool, size: int) -> MapHistory:
    """Parse the output of `packed`.

    Args:
        source: The tool or file of the map.
        spec: Its declaration.
        readings: The number of readings.
        data: The output of `packed`.
        by_launch: Whether each reading has a launch.
        size: Bytes of the map.

    Raises:
        ValueError: The data do not fit this map.

    """
    heads = np.frombuffer(data, np.int64, readings * (3 if by_launch else 2))
    time_ns, *launch, changed = heads.reshape(-1, readings)
    total = int(changed.sum())
    rows = np.frombuffer(data, np.int64, total, heads.nbytes)
    rest = np.frombuffer(data, np.uint8, offset=heads.nbytes + rows.nbytes)
    first = rest[:size]
    table = map_access.rows_of(spec, first)
    cells = rest[size:].reshape(total, table.shape[1])
    if (changed < 0).any() or (total and not 0 <= int(rows.min()) <= int(rows.max()) < len(table)):
        raise ValueError(f"the history of map {spec.name} has rows that do not exist")
    return MapHistory(source, spec, first, time_ns, launch[0] if by_launch else None, changed, rows, cells)

"""Sources of the reader's records and counters: kernel maps, ITT collectors, a recording, or a user's program."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from accel_magic import codec
from accel_magic.kernel import buckets
from accel_magic.kernel.mapped_memory import map_file, map_value
from accel_magic.kernel.records.rings import MixedRing, RecordRing
from accel_magic.recording.reader.reader_messages import Playback, ProgramRings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.patching.patched_functions import FunctionCounts
    from accel_magic.recording.reader.reader_messages import Functions, KernelMapsToRead, Live, Tasks


BUSY_S = 0.01
"""Interval between drains while rings are filling."""
_QUIET_S = 0.05
_QUIET_SHARE = 16
"""Rings of the kernel that are less full than 1 / this after the longest pause are given as long a pause again."""
_FILLED = 0.25
"""How full the fullest ring of a thread may become during a pause."""
_HIT_NS, _HIT_WITH_NATIVE_STACK_NS = 100, 500
"""Minimum time between records of a program on one CPU: at most half of the measured time."""


class RecordSource(Protocol):
    """Interface between the reader and a source."""

    ring_count: int

    @property
    def full(self) -> bool:
        """Whether the limit on the size of kept records is reached."""

    def go(self, start_ns: int) -> None:
        """Note that the traced code starts."""

    def pause_s(self) -> float:
        """Seconds until the rings must be drained again; called before draining."""

    def drain(self, ring: int, file: int) -> int:
        """Append a ring's complete records to a file; returns their number."""

    def hits(self) -> NDArray[np.uint64]:
        """Hits by probe point, (points,); ITT tasks are added as they appear."""

    def planned_hits(self) -> NDArray[np.uint64]:
        """Hits by point of the plan, (points,), where all tasks that one ITT probe selects are one point."""

    def totals(self) -> NDArray[np.uint64]:
        """Sums by probe point, (points,); 0 for a point that sums nothing."""

    def lost(self) -> int:
        """Events lost so far, over all points."""

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        """Quantiles in ns by latency point; NaN before its first call."""

    def disable(self) -> None:
        """Stop counting: the trace's duration is over."""

    def stop_recording(self) -> None:
        """Stop recording events; counting continues."""

    def finish(self) -> None:
        """Note that no new records will arrive."""

    def waiting(self) -> bool:
        """Whether there are records left to drain."""

    def close(self) -> None:
        """Close the descriptors."""


def quiet_s(rooms: Sequence[int], hit_ns: int) -> float:
    """Seconds that nearly empty rings can be left undrained: in that time all CPUs together can fill at most half.

    Args:
        rooms: Capacity of each ring, in records.
        hit_ns: Minimum time between two records on one CPU.

    """
    cpus = os.cpu_count() or 1
    return min([_QUIET_S, *(max(room * hit_ns / 1e9 / cpus / 2, BUSY_S) for room in rooms)])


class KernelMapSource:
    """The maps of an attachment to the running kernel."""

    def __init__(self, given: KernelMapsToRead) -> None:
        layout = given.layout
        self.points, self.latencies = given.points, given.latencies
        self.ring_count = len(given.rings)
        self._descriptors = list(codec.descriptors_of(given))
        self._room = given.most_bytes
        self._control = map_value(given.control.fd, layout.control, writable=True)
        self._counters = map_value(given.counters.fd, layout.counters)
        self._histograms = None if given.histograms is None else map_value(given.histograms.fd, layout.histograms)
        self._rings = [
            RecordRing(ring.map.fd, ring.size, layout.record(index)) for index, ring in enumerate(given.rings)
        ]
        hit_ns = _HIT_WITH_NATIVE_STACK_NS if given.native_stacks else _HIT_NS
        self._quiet_s = quiet_s([ring.size // ring.record.itemsize for ring in self._rings], hit_ns)

    def go(self, start_ns: int) -> None:
        """Do nothing: the notebook's process enables the programs."""

    def pause_s(self) -> float:
        filling = any(ring.waiting > ring.size // _QUIET_SHARE for ring in self._rings)
        return BUSY_S if filling else self._quiet_s

    def drain(self, ring: int, file: int) -> int:
        count = self._rings[ring].drain(file)
        self._room -= count * self._rings[ring].record.itemsize
        return count

    @property
    def full(self) -> bool:
        return self._room <= 0

    def hits(self) -> NDArray[np.uint64]:
        total: NDArray[np.uint64] = self._counters["hits"][0].sum(axis=0)
        return total[: self.points]

    def planned_hits(self) -> NDArray[np.uint64]:
        return self.hits()

    def totals(self) -> NDArray[np.uint64]:
        total: NDArray[np.uint64] = self._counters["totals"][0].sum(axis=0)
        return total[: self.points]

    def lost(self) -> int:
        return int(self._counters["lost"][0].sum())

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        if self._histograms is None:
            return []
        counts = self._histograms["counts"][0][: self.latencies]
        return [[buckets.quantile(row, share) for share in shares] for row in counts]

    def disable(self) -> None:
        self._control["enabled"] = 0

    def stop_recording(self) -> None:
        self._control["recording"] = 0

    def finish(self) -> None:
        """Do nothing: the notebook's process has detached the programs."""

    def waiting(self) -> bool:
        return any(ring.waiting for ring in self._rings)

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


class Pace:
    """How long threads' rings are left undrained: until the fullest is `_FILLED`, if it fills as fast as before.

    Each time that the reader runs, it may take a CPU from a thread of the traced code, for which others wait then.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._pause_s = BUSY_S

    def next(self, filled: float) -> float:
        """Return the next pause, s, given the share of the fullest ring that was filled during the last one."""
        wanted = self._pause_s * (_FILLED / filled if filled else 2)
        self._pause_s = max(min(wanted, 2 * self._pause_s, self._longest_s), BUSY_S)
        return self._pause_s


class TaskSource:
    """ITT tasks of the notebook's process and its descendants."""

    ring_count = 1

    def __init__(self, given: Tasks) -> None:
        # Not needed by most traces.
        from accel_magic.collecting import collector_memory
        from accel_magic.collecting.collector_area import Area
        from accel_magic.collecting.rings import Rings
        from accel_magic.itt import task_records

        self._tasks = task_records
        self._descriptors = list(codec.descriptors_of(given))
        self._rings = Rings(Area(given.memory.fd, collector_memory.TASKS), given.record_bytes)
        self._patterns = given.patterns
        self._room = given.most_bytes
        self._pace = Pace(_QUIET_S)

    def go(self, start_ns: int) -> None:
        """Do nothing: the notebook's process enables the collectors."""

    def pause_s(self) -> float:
        return self._pace.next(self._rings.filled)

    def drain(self, ring: int, file: int) -> int:  # noqa: ARG002 - the only one
        count = self._rings.drain(file)
        self._room -= count * self._rings.record
        return count

    @property
    def full(self) -> bool:
        return self._room <= 0

    def hits(self) -> NDArray[np.uint64]:
        return self._tasks.hits(self._rings.area)

    def planned_hits(self) -> NDArray[np.uint64]:
        return self._tasks.by_pattern(self._rings.area, self.hits(), self._patterns)

    def totals(self) -> NDArray[np.uint64]:
        return np.zeros(self._patterns, np.uint64)

    def lost(self) -> int:
        return int(self._tasks.lost(self._rings.area).sum())

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        rows = self._tasks.by_pattern(self._rings.area, self._tasks.histograms(self._rings.area), self._patterns)
        return [[buckets.quantile(row, share) for share in shares] for row in rows]

    def disable(self) -> None:
        self._rings.area.control["enabled"] = 0

    def stop_recording(self) -> None:
        self._rings.area.control["recording"] = 0

    def finish(self) -> None:
        """Do nothing: the notebook's process has stopped the collectors."""

    def waiting(self) -> bool:
        return self._rings.waiting

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


class FunctionCounters:
    """The counters of patched functions. Raises OSError: their memory cannot be mapped."""

    def __init__(self, given: Functions) -> None:
        # Not needed by most traces.
        from accel_magic.collecting import collector_memory
        from accel_magic.collecting.collector_area import Area
        from accel_magic.patching import patched_functions

        self._read = patched_functions.counts
        self.area = Area(given.memory.fd, collector_memory.FUNCTIONS)
        self.area.control  # noqa: B018 - maps the memory
        self._numbers = np.array(given.numbers, np.uint32)
        self._latency = np.array(given.latency, np.bool_)

    def read(self) -> FunctionCounts:
        """Read all of them."""
        return self._read(self.area, self._numbers, self._latency)

    def sum(self, name: str) -> NDArray[np.uint64]:
        """Sum of one counter over all threads, (points,)."""
        rows = self.area.counters[: len(self.area.used_slots)][:, self._numbers]
        total: NDArray[np.uint64] = rows[name].sum(axis=0, dtype=np.uint64)
        return total


class FunctionSource:
    """Patched functions of the notebook's process and its forked children."""

    ring_count = 1

    def __init__(self, given: Functions) -> None:
        import ctypes

        from accel_magic.collecting.rings import Rings

        self._descriptors = list(codec.descriptors_of(given))
        self._counters = FunctionCounters(given)
        self._rings = Rings(self._counters.area, given.record_bytes)
        self._room = given.most_bytes
        self._adjust_clock = ctypes.CDLL(given.library).accel_magic_patching_tick
        self._adjust_clock.argtypes = [ctypes.c_void_p]
        self._pace = Pace(_QUIET_S if given.rare else BUSY_S)

    def go(self, start_ns: int) -> None:
        """Do nothing: the notebook's process enables the probes."""

    def pause_s(self) -> float:
        self._adjust_clock(self._rings.area.address)
        return self._pace.next(self._rings.filled)

    def drain(self, ring: int, file: int) -> int:  # noqa: ARG002 - the only one
        count = self._rings.drain(file)
        self._room -= count * self._rings.record
        return count

    @property
    def full(self) -> bool:
        return self._room <= 0

    def hits(self) -> NDArray[np.uint64]:
        return self._counters.sum("hits")

    def planned_hits(self) -> NDArray[np.uint64]:
        return self.hits()

    def totals(self) -> NDArray[np.uint64]:
        return self._counters.sum("sum")

    def lost(self) -> int:
        return int(self._counters.sum("lost").sum())

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        rows = self._counters.read().histograms
        return [[buckets.quantile(row, share) for share in shares] for row in rows]

    def disable(self) -> None:
        self._rings.area.control["enabled"] = 0

    def stop_recording(self) -> None:
        self._rings.area.control["recording"] = 0

    def finish(self) -> None:
        """Do nothing: the notebook's process has stopped the probes."""

    def waiting(self) -> bool:
        return self._rings.waiting

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


class Together:
    """The kernel's probes, patched functions and ITT tasks in one trace: their rings and points, in this order."""

    def __init__(self, parts: Sequence[KernelMapSource | FunctionSource | TaskSource]) -> None:
        self._parts = parts
        self.ring_count = sum(part.ring_count for part in parts)

    def go(self, start_ns: int) -> None:
        for part in self._parts:
            part.go(start_ns)

    def pause_s(self) -> float:
        return min(part.pause_s() for part in self._parts)

    def drain(self, ring: int, file: int) -> int:
        for part in self._parts:
            if ring < part.ring_count:
                return part.drain(ring, file)
            ring -= part.ring_count
        raise IndexError(ring)

    @property
    def full(self) -> bool:
        return any(part.full for part in self._parts)

    def hits(self) -> NDArray[np.uint64]:
        return np.concatenate([part.hits() for part in self._parts])

    def planned_hits(self) -> NDArray[np.uint64]:
        return np.concatenate([part.planned_hits() for part in self._parts])

    def totals(self) -> NDArray[np.uint64]:
        return np.concatenate([part.totals() for part in self._parts])

    def lost(self) -> int:
        return sum(part.lost() for part in self._parts)

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        return [row for part in self._parts for row in part.quantiles(shares)]

    def disable(self) -> None:
        for part in self._parts:
            part.disable()

    def stop_recording(self) -> None:
        for part in self._parts:
            part.stop_recording()

    def finish(self) -> None:
        for part in self._parts:
            part.finish()

    def waiting(self) -> bool:
        return any(part.waiting() for part in self._parts)

    def close(self) -> None:
        for part in self._parts:
            part.close()


def source_of(given: Live | Playback | ProgramRings) -> RecordSource:
    """Make the source of a trace."""
    if isinstance(given, Playback):
        return ReplaySource(_mapped(given), list(codec.descriptors_of(given)))
    if isinstance(given, ProgramRings):
        return ProgramSource(given)
    parts: list[KernelMapSource | FunctionSource | TaskSource] = []
    if given.kernel is not None:
        parts.append(KernelMapSource(given.kernel))
    if given.functions is not None:
        parts.append(FunctionSource(given.functions))
    if given.tasks is not None:
        parts.append(TaskSource(given.tasks))
    if not parts:
        raise ValueError("nothing to read")
    return parts[0] if len(parts) == 1 else Together(parts)


@dataclass(frozen=True)
class Played:
    """A recording to play back. Times are ns since its start.

    Attributes:
        times_ns: (samples,) int64, when the hits were sampled.
        hits: (samples, points) uint64.
        added: (n, 3) int64, rows of time, point and value in order of time: what points with a sum added.
        rings: Release times (int64) and records, both in that order, of each ring.
        latency_points: Ids of the points whose latency was measured.
        lost: Lost events by point.
        length_ns: Length of the recording.
        speed: Factor of the pace.

    """

    times_ns: NDArray[np.int64]
    hits: NDArray[np.uint64]
    added: NDArray[np.int64]
    rings: tuple[tuple[NDArray[np.int64], NDArray[np.void]], ...]
    latency_points: tuple[int, ...]
    lost: tuple[int, ...]
    length_ns: int
    speed: float


def _mapped(given: Playback) -> Played:
    points, samples = given.points, given.samples
    table = map_file(given.table.fd)
    end = samples * 8 * (1 + points)
    rings = []
    for index, played in enumerate(given.rings):
        ring, count = map_file(played.file.fd), played.count
        rings.append((ring[: count * 8].view(np.int64), ring[count * 8 :].view(given.layout.record(index))))
    return Played(
        times_ns=table[: samples * 8].view(np.int64),
        hits=table[samples * 8 : end].view(np.uint64).reshape(samples, points),
        added=table[end:].view(np.int64).reshape(-1, 3),
        rings=tuple(rings),
        latency_points=given.latency_points,
        lost=given.lost,
        length_ns=given.length_ns,
        speed=given.speed,
    )


class ReplaySource:
    """A recording, played back at its original pace times `speed`."""

    def __init__(self, played: Played, descriptors: Sequence[int] = ()) -> None:
        self._played, self._descriptors = played, descriptors
        self.ring_count = len(played.rings)
        self._position = [0] * self.ring_count
        self._latency = _ReplayedLatency(played.latency_points)
        self._start_ns = 0
        self._stopped_ns: int | None = None

    def _now(self) -> int:
        """Current playback position, ns since the recording's start."""
        if self._stopped_ns is not None:
            return self._stopped_ns
        if not self._start_ns:
            return -1
        return int((time.monotonic_ns() - self._start_ns) * self._played.speed)

    def go(self, start_ns: int) -> None:
        self._start_ns = start_ns

    def pause_s(self) -> float:
        return BUSY_S

    @property
    def full(self) -> bool:
        return False

    def drain(self, ring: int, file: int) -> int:
        records = self.take(ring)
        data = records.tobytes()
        written = 0
        while written < len(data):
            written += os.write(file, memoryview(data)[written:])
        return len(records)

    def take(self, ring: int) -> NDArray[np.void]:
        """Return a ring's records that were released since the last call."""
        release_ns, records = self._played.rings[ring]
        start, end = self._position[ring], int(np.searchsorted(release_ns, self._now(), side="right"))
        taken = records[start:end]
        self._latency.add(taken)
        self._position[ring] = max(start, end)
        return taken

    def hits(self) -> NDArray[np.uint64]:
        row = int(np.searchsorted(self._played.times_ns, self._now(), side="right")) - 1
        hits: NDArray[np.uint64] = self._played.hits[max(row, 0)]
        return hits

    def planned_hits(self) -> NDArray[np.uint64]:
        return self.hits()

    def totals(self) -> NDArray[np.uint64]:
        added = self._played.added
        come = added[: np.searchsorted(added[:, 0], self._now(), side="right")]
        sums = np.zeros(self._played.hits.shape[1], np.uint64)
        np.add.at(sums, come[:, 1], come[:, 2].astype(np.uint64))
        return sums

    def lost(self) -> int:
        return sum(self._played.lost) if self._now() >= self._played.length_ns else 0

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        return self._latency.quantiles(shares)

    def disable(self) -> None:
        self._stopped_ns = self._now()

    def stop_recording(self) -> None:
        """Do nothing: a recording is played completely; its limit was applied when it was made."""

    def finish(self) -> None:
        self._stopped_ns = self._now()

    def waiting(self) -> bool:
        return False

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


class _ReplayedLatency:
    """Histograms of the durations released so far, by latency point."""

    def __init__(self, points: tuple[int, ...]) -> None:
        self._rows = {point: np.zeros(buckets.COUNT, np.uint64) for point in points}

    def add(self, records: NDArray[np.void]) -> None:
        for point, counts in self._rows.items():
            chosen = records[records["head"]["point"] == point]
            if len(chosen):
                durations = np.ascontiguousarray(chosen["payload"]).view(np.uint8).reshape(len(chosen), -1)[:, :8]
                indices = buckets.index_of(np.ascontiguousarray(durations).view(np.int64).ravel())
                counts[:] += np.bincount(indices, minlength=buckets.COUNT).astype(np.uint64)

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        return [[buckets.quantile(row, share) for share in shares] for row in self._rows.values()]


class ProgramSource:
    """The ring buffers of a user's program; after `most_bytes` they are no longer drained, so its output fails."""

    def __init__(self, given: ProgramRings) -> None:
        self._descriptors = list(codec.descriptors_of(given))
        self._rings = [MixedRing(ring.map.fd, ring.size) for ring in given.rings]
        self._room = given.most_bytes
        self.ring_count = len(self._rings)

    @property
    def full(self) -> bool:
        """Whether the limit on the size of kept records is reached."""
        return self._room <= 0

    def go(self, start_ns: int) -> None:
        """Do nothing: the program is already running and decides itself what to record."""

    def pause_s(self) -> float:
        """Return the short interval, because the rate of the program's output is unknown."""
        return BUSY_S

    def drain(self, ring: int, file: int) -> int:
        """Append a ring's complete records to a file, unless the limit is reached; returns their number."""
        if self.full:
            return 0
        before = os.fstat(file).st_size
        count = self._rings[ring].drain(file)
        self._room -= os.fstat(file).st_size - before
        return count

    def hits(self) -> NDArray[np.uint64]:
        """Return an empty array: the program counts in its own maps."""
        return np.empty(0, np.uint64)

    def planned_hits(self) -> NDArray[np.uint64]:
        """Return an empty array."""
        return self.hits()

    def totals(self) -> NDArray[np.uint64]:
        """Return an empty array: the program sums in its own maps."""
        return np.zeros(0, np.uint64)

    def lost(self) -> int:
        """Return 0: losses are unknown, because the kernel reports failed output only to the program."""
        return 0

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:  # noqa: ARG002 - the protocol's
        """Return an empty list: the program measures durations itself."""
        return []

    def disable(self) -> None:
        """Do nothing: the program has no control map."""

    def stop_recording(self) -> None:
        """Do nothing: the program has no control map."""

    def finish(self) -> None:
        """Do nothing: the notebook's process has detached the program."""

    def waiting(self) -> bool:
        """Whether there are records left to drain."""
        return self._room > 0 and any(ring.waiting for ring in self._rings)

    def close(self) -> None:
        """Close the descriptors."""
        for fd in self._descriptors:
            os.close(fd)

"""Where the reader's records and counters come from: the kernel's maps, or a recording played back."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from accel_magic.kernel import buckets
from accel_magic.kernel.attachment import Layout
from accel_magic.kernel.mapped import map_file, map_value
from accel_magic.kernel.records.rings import MixedRing, Ring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


BUSY_S = 0.01
"""Between two looks at rings that fill."""
_QUIET_S = 0.05
_QUIET_SHARE = 64
_HIT_NS, _HIT_WITH_NATIVE_STACK_NS = 100, 500
"""No program records faster than this on one CPU: half of what was measured, or less."""


class Source(Protocol):
    """What the reader asks of either."""

    ring_count: int

    @property
    def full(self) -> bool:
        """Whether as many bytes of records are kept as may be."""

    def go(self, start_ns: int) -> None:
        """The traced code starts."""

    def pause_s(self) -> float:
        """Seconds until the rings must be drained again; asked before they are."""

    def drain(self, ring: int, file: int) -> int:
        """Append a ring's complete records to a file; returns how many."""

    def hits(self) -> NDArray[np.uint64]:
        """Hits by probe point, (points,)."""

    def totals(self) -> NDArray[np.uint64]:
        """Sums by probe point, (points,); 0 where a point adds nothing up."""

    def lost(self) -> int:
        """Events lost so far, over all points."""

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        """Quantiles in ns by latency point; NaN before its first call."""

    def disable(self) -> None:
        """Stop counting: the trace's duration is over."""

    def stop_recording(self) -> None:
        """Stop recording events; counting goes on."""

    def finish(self) -> None:
        """Nothing new comes after this."""

    def waiting(self) -> bool:
        """Whether records are still to be drained."""

    def close(self) -> None:
        """Give the descriptors back."""


def quiet_s(rooms: Sequence[int], hit_ns: int) -> float:
    """Seconds that nearly empty rings can be left alone: all CPUs together could then fill half of one at the most.

    Args:
        rooms: Records that each ring holds.
        hit_ns: Time between two records of one CPU, at the least.

    """
    cpus = os.cpu_count() or 1
    return min([_QUIET_S, *(max(room * hit_ns / 1e9 / cpus / 2, BUSY_S) for room in rooms)])


class KernelSource:
    """The maps of an attachment to the running kernel."""

    def __init__(self, message: dict[str, Any], descriptors: list[int]) -> None:
        layout = Layout.from_dict(message["layout"])
        control, counters, histograms, *rings = descriptors
        self.points = message["points"]
        self.latencies = message["latencies"]
        self.ring_count = len(rings)
        self._descriptors = descriptors
        self._room: int = message["most_bytes"]
        self._control = map_value(control, layout.control, writable=True)
        self._counters = map_value(counters, layout.counters)
        self._histograms = map_value(histograms, layout.histograms) if self.latencies else None
        self._rings = [
            Ring(fd, size, layout.record(index))
            for index, (fd, size) in enumerate(zip(rings, message["ring_sizes"], strict=True))
        ]
        hit_ns = _HIT_WITH_NATIVE_STACK_NS if {"kernel", "user"} & {*message["stacks"]} else _HIT_NS
        self._quiet_s = quiet_s([ring.size // ring.record.itemsize for ring in self._rings], hit_ns)

    def go(self, start_ns: int) -> None:
        """The notebook's process enables the programs itself."""

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
        """The notebook's process has detached the programs."""

    def waiting(self) -> bool:
        return any(ring.waiting for ring in self._rings)

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


class ReplaySource:
    """A recording, released at its own pace times `speed`.

    Descriptors: the sample times and hits and what is added up (rows of time, point, value), then for each ring its
    records in the order they are released, preceded by the times (ns since the start) at which they are.
    """

    def __init__(self, message: dict[str, Any], descriptors: list[int]) -> None:
        layout = Layout.from_dict(message["layout"])
        points, samples = message["points"], message["samples"]
        self._speed: float = message["speed"]
        self._duration_ns: int = message["recorded_duration_ns"]
        self._lost: list[int] = message["lost"]
        self._descriptors = descriptors
        table, *rings = [map_file(fd) for fd in descriptors]
        self._sample_times = table[: samples * 8].view(np.int64)
        end = samples * 8 * (1 + points)
        self._sample_hits = table[samples * 8 : end].view(np.uint64).reshape(samples, points)
        self._added = table[end:].view(np.int64).reshape(-1, 3)
        self.ring_count = len(rings)
        self._records, self._release = [], []
        for index, (ring, count) in enumerate(zip(rings, message["counts"], strict=True)):
            self._release.append(ring[: count * 8].view(np.int64))
            self._records.append(ring[count * 8 :].view(layout.record(index)))
        self._position = [0] * self.ring_count
        self._latency = _ReplayedLatency(message["latency_points"])
        self._start_ns = 0
        self._stopped_ns: int | None = None

    def _now(self) -> int:
        """Time of the recording that has come, in ns since its start."""
        if self._stopped_ns is not None:
            return self._stopped_ns
        if not self._start_ns:
            return -1
        return int((time.monotonic_ns() - self._start_ns) * self._speed)

    def go(self, start_ns: int) -> None:
        self._start_ns = start_ns

    def pause_s(self) -> float:
        return BUSY_S

    @property
    def full(self) -> bool:
        return False

    def drain(self, ring: int, file: int) -> int:
        start = self._position[ring]
        end = int(np.searchsorted(self._release[ring], self._now(), side="right"))
        if end <= start:
            return 0
        records = self._records[ring][start:end]
        data = records.tobytes()
        written = 0
        while written < len(data):
            written += os.write(file, memoryview(data)[written:])
        self._latency.add(records)
        self._position[ring] = end
        return end - start

    def hits(self) -> NDArray[np.uint64]:
        row = int(np.searchsorted(self._sample_times, self._now(), side="right")) - 1
        hits: NDArray[np.uint64] = self._sample_hits[max(row, 0)]
        return hits

    def totals(self) -> NDArray[np.uint64]:
        come = self._added[: np.searchsorted(self._added[:, 0], self._now(), side="right")]
        sums = np.zeros(self._sample_hits.shape[1], np.uint64)
        np.add.at(sums, come[:, 1], come[:, 2].astype(np.uint64))
        return sums

    def lost(self) -> int:
        return sum(self._lost) if self._now() >= self._duration_ns else 0

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:
        return self._latency.quantiles(shares)

    def disable(self) -> None:
        self._stopped_ns = self._now()

    def stop_recording(self) -> None:
        """A recording is played whole: its own limit was applied when it was made."""

    def finish(self) -> None:
        self._stopped_ns = self._now()

    def waiting(self) -> bool:
        return False

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


class _ReplayedLatency:
    """Histograms of the durations released so far, by latency point."""

    def __init__(self, points: list[int]) -> None:
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
    """The ring buffers of a user's program; past `most_bytes` they are left full, and its output fails."""

    def __init__(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self._descriptors = descriptors
        self._rings = [MixedRing(fd, size) for fd, size in zip(descriptors, message["ring_sizes"], strict=True)]
        self._room: int = message["most_bytes"]
        self.ring_count = len(self._rings)

    @property
    def full(self) -> bool:
        """Whether as many bytes of records are kept as may be."""
        return self._room <= 0

    def go(self, start_ns: int) -> None:
        """The program is at work already: it decides itself what it records."""

    def pause_s(self) -> float:
        """Nobody knows how fast the program fills its rings."""
        return BUSY_S

    def drain(self, ring: int, file: int) -> int:
        """Append a ring's complete records to a file, while there is room; returns how many."""
        if self.full:
            return 0
        before = os.fstat(file).st_size
        count = self._rings[ring].drain(file)
        self._room -= os.fstat(file).st_size - before
        return count

    def hits(self) -> NDArray[np.uint64]:
        """None: the program counts, or not, in its own maps."""
        return np.empty(0, np.uint64)

    def totals(self) -> NDArray[np.uint64]:
        """None: sums are the program's own."""
        return np.zeros(0, np.uint64)

    def lost(self) -> int:
        """Nobody knows: the kernel tells only the program when its output fails."""
        return 0

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:  # noqa: ARG002 - the protocol's
        """None: durations are the program's own."""
        return []

    def disable(self) -> None:
        """The program has no switch of ours."""

    def stop_recording(self) -> None:
        """The program has no switch of ours."""

    def finish(self) -> None:
        """The notebook's process has detached the program."""

    def waiting(self) -> bool:
        """Whether records are still to be drained."""
        return self._room > 0 and any(ring.waiting for ring in self._rings)

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in self._descriptors:
            os.close(fd)

"""Live samples: what the reader reports while a trace runs, for a live display to draw."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accel_magic import channel, codec
from accel_magic.kernel import own_threads
from accel_magic.recording.reader.reader_messages import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan, ProbePoint


class LiveLatency(NamedTuple):
    """Latency of one measured function so far: its `label`, and quantiles in ns (NaN until a first call has ended)."""

    label: str
    p50_ns: float
    p99_ns: float


@dataclass(frozen=True)
class LiveSample:
    """The counters at one moment of a running trace.

    Attributes:
        time_ns: When the counters were read, ns since the start of the trace.
        hits: (points,) uint64, hits so far by ProbePoint.id.
        recorded: Events recorded so far.
        lost: Events lost so far, over all points.
        latency: One entry per measured function, in the plan's order.
        totals: (points,) uint64, sums so far of the points that sum a value.
        behind_s: Delay from `time_ns` until the sample reached the notebook's process, seconds.

    """

    time_ns: int
    hits: NDArray[np.uint64]
    recorded: int
    lost: int
    latency: tuple[LiveLatency, ...] = ()
    totals: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    behind_s: float = 0.0


class LiveFeed:
    """A thread that forwards each sample as it arrives; it only waits and formats, the reader measures.

    Args:
        plan: What is traced; provides the labels of the latencies.
        show: Called with every batch of samples, in the thread.
        planned: What was planned, for which the display was made; samples have its points. Some of them may not have
            been attached, and the others may have other numbers now. None for `plan`.

    """

    def __init__(self, plan: Plan, show: Callable[[list[LiveSample]], None], *, planned: Plan | None = None) -> None:
        self._labels = [point.function for point in plan.latency_points]
        self._rows = _rows(plan if planned is None else planned, plan)
        self._show = show
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._thread: own_threads.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = own_threads.Thread(target=self._run, name="accel_magic live")
        self._thread.start()

    def stop(self) -> None:
        """End the thread, dropping samples it has not shown yet. Can be called repeatedly."""
        self.theirs.close()
        with contextlib.suppress(OSError):  # already stopped
            self._ours.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._ours.close()

    def _run(self) -> None:
        while True:
            try:
                batch = [self._receive()]
                while self._has_more():
                    batch.append(self._receive())
                self._show(batch)
            except OSError:
                return

    def _has_more(self) -> bool:
        return channel.readable(self._ours, 0)

    def _receive(self) -> LiveSample:
        message = codec.receive_packet(self._ours, Sample)
        return LiveSample(
            time_ns=message.time_ns,
            hits=_of_rows(message.hits, self._rows),
            recorded=message.recorded,
            lost=message.lost,
            latency=tuple(
                LiveLatency(label, *values) for label, values in zip(self._labels, message.latency, strict=True)
            ),
            totals=_of_rows(message.totals, self._rows),
            behind_s=(time.monotonic_ns() - message.sent_ns) / 1e9,
        )


def _rows(planned: Plan, traced: Plan) -> NDArray[np.intp]:
    """For each planned point, (points,), its number in the traced plan; -1 for one that is not traced."""
    numbers: dict[tuple[object, ...], list[int]] = {}
    for number, point in enumerate(traced.points):
        numbers.setdefault(_key(point), []).append(number)
    found = (numbers.get(_key(point), []) for point in planned.points)
    return np.array([same.pop(0) if same else -1 for same in found], np.intp)


def _key(point: ProbePoint) -> tuple[object, ...]:
    """What a point keeps when it gets another number, or is probed in another way."""
    return point.probe, point.kind, point.target, point.function, point.offset


def _of_rows(values: Sequence[int], rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Values of planned points, (points,) uint64; 0 for those that are not traced; empty without values."""
    return np.array([*values, 0], np.uint64)[rows] if values else np.zeros(0, np.uint64)

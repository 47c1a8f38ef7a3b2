"""Live samples on their way from the reader process to a display in this one."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING

import numpy as np

from accel_magic import channel
from accel_magic.kernel import own_threads
from accel_magic.traces.live import LiveLatency, LiveSample

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.probes.plan import Plan


class LiveFeed:
    """A thread that passes each sample on as it comes; it only waits and formats, the reader measures.

    Args:
        plan: What is traced (the labels of the latencies).
        show: Called with every batch of samples, from the thread.

    """

    def __init__(self, plan: Plan, show: Callable[[list[LiveSample]], None]) -> None:
        self._labels = [point.function for point in plan.latency_points]
        self._show = show
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._thread: own_threads.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = own_threads.Thread(target=self._run, name="accel_magic live")
        self._thread.start()

    def stop(self) -> None:
        """End the thread; samples it has not shown yet are dropped. Again is harmless."""
        self.theirs.close()
        with contextlib.suppress(OSError):  # stopped before
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
        return bool(select.select([self._ours], [], [], 0)[0])

    def _receive(self) -> LiveSample:
        message = channel.receive_packet(self._ours)
        return LiveSample(
            time_ns=message["time_ns"],
            hits=np.array(message["hits"], np.uint64),
            recorded=message["recorded"],
            lost=message["lost"],
            latency=tuple(
                LiveLatency(label, *values) for label, values in zip(self._labels, message["latency"], strict=True)
            ),
            totals=np.array(message["totals"], np.uint64),
            behind_s=(time.monotonic_ns() - message["sent_ns"]) / 1e9,
        )

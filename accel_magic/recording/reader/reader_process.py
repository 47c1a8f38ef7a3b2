"""The reader process: drains ring buffers and samples counters, however busy the notebook's process is.

Run with FD PARENT by `own_python.command`. It needs no privileges and no BCC, only the descriptors that it receives. A
trace consists of the messages `Prepare`, `Go` and `Stop`, and is identified by a number; see
`accel_magic.recording.reader.reader_messages`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from accel_magic import channel, codec
from accel_magic.codec import Descriptor
from accel_magic.recording.reader.reader_messages import (
    QUANTILES,
    Drop,
    Go,
    Prepare,
    Ready,
    Sample,
    Shortage,
    Stopped,
    StopReading,
)
from accel_magic.recording.reader.sources import source_of
from accel_magic.recording.reader.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

_SAMPLE_NS = 50_000_000
_LIVE_NS = 200_000_000
_MOST_SAMPLES = 2000
_DRAIN_DEADLINE_S = 2.0


@dataclass
class _Samples:
    """Counters over time; at `_MOST_SAMPLES`, every other sample is dropped and the interval doubles."""

    interval_ns: int = _SAMPLE_NS
    times: list[int] = field(default_factory=list)
    hits: list[np.ndarray[Any, np.dtype[np.uint64]]] = field(default_factory=list)

    def due(self, now: int) -> bool:
        return not self.times or now - self.times[-1] >= self.interval_ns

    def add(self, now: int, hits: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        if len(self.times) >= _MOST_SAMPLES:
            self.times, self.hits = self.times[::2], self.hits[::2]
            self.interval_ns *= 2
        self.times.append(now)
        self.hits.append(hits)


class ReaderTrace:
    """One trace, from `Prepare` to `Stop`. Raises OSError if this process cannot open the files that it needs."""

    def __init__(self, message: Prepare) -> None:
        self.max_events, self.duration_ns = message.max_events, message.duration_ns
        self._files: list[int] = []
        try:
            self.source = source_of(message.source)
            self.table = os.memfd_create("samples")
            self._files.append(self.table)
            self.stream = None if message.stream is None else Stream(message.stream, self.source.ring_count)
            if self.stream is None:
                for ring in range(self.source.ring_count):
                    self._files.append(os.memfd_create(f"records-{ring}"))
        except OSError:
            for descriptor in (*codec.descriptors_of(message), *self._files):
                os.close(descriptor)
            raise
        self._files.remove(self.table)
        self.live: socket.socket | None = None
        if message.live is not None:
            self.live = socket.socket(fileno=message.live.fd)
            self.live.setblocking(False)
        self.recorded = [0] * self.source.ring_count
        self.samples = _Samples()
        self.start_ns = 0
        self.end_ns = 0
        self.finished = False
        self.limit_reached = False
        self.next_live = 0

    def go(self, start_ns: int) -> None:
        """Note that the traced code is about to start."""
        self.start_ns = start_ns
        self.source.go(start_ns)
        if self.stream is not None:
            self.stream.go(start_ns)

    @property
    def files(self) -> list[int]:
        """The files that records are appended to, by ring."""
        return self._files if self.stream is None else self.stream.files

    def poll(self) -> float:
        """Do the work that is due; returns the seconds until the next call."""
        wait = self.source.pause_s()
        self.drain()
        if not self.start_ns:
            return wait
        now = time.monotonic_ns()
        if self.stream is not None:
            self.stream.poll(now)
            if self.stream.gone:
                self.source.stop_recording()  # nobody would write the records
        if self.duration_ns is not None and not self.end_ns and now >= self.start_ns + self.duration_ns:
            self.source.disable()
            self.end_ns = now
        if not self.end_ns and self.samples.due(now):
            self.samples.add(now, self.source.hits())
        if self.live is not None and now >= self.next_live:
            self.next_live = now + _LIVE_NS
            self._send_live(self.live, now)
        if self.duration_ns is not None and not self.end_ns:
            wait = min(wait, max((self.start_ns + self.duration_ns - now) / 1e9, 0.0))
        return wait

    def drain(self) -> int:
        """Move records from the rings to the files; returns their number."""
        moved = 0
        if self.stream is not None and self.stream.full and not self.finished:
            return 0
        for ring, file in enumerate(self.files):
            count = self.source.drain(ring, file)
            self.recorded[ring] += count
            moved += count
        enough = self.max_events is not None and sum(self.recorded) >= self.max_events
        if not self.limit_reached and (enough or self.source.full):
            self.source.stop_recording()
            self.limit_reached = True
        return moved

    def _send_live(self, live: socket.socket, now: int) -> None:
        """Send a sample to the display; drop it if the socket is full, since the next one has the totals."""
        sample = Sample(
            time_ns=now - self.start_ns,
            sent_ns=now,
            hits=tuple(self.source.planned_hits().tolist()),
            recorded=sum(self.recorded),
            lost=self.source.lost(),
            totals=tuple(self.source.totals().tolist()),
            latency=tuple(map(tuple, self.source.quantiles(QUANTILES))),
        )
        with contextlib.suppress(OSError):
            codec.send_packet(live, sample)

    def stop(self, end_ns: int, meanwhile: Callable[[], object]) -> Stopped:
        """Drain the rings and return the answer; `meanwhile` is called in between to serve other traces."""
        deadline = time.monotonic() + _DRAIN_DEADLINE_S
        self.finished = True
        self.source.finish()
        while self.source.waiting() and time.monotonic() < deadline:
            if not self.drain():
                time.sleep(0.0005)
            meanwhile()
        self.drain()
        hits = self.source.hits()
        self.samples.add(self.end_ns or end_ns, hits)
        table = np.zeros((len(self.samples.hits), len(hits)), np.uint64)
        for row, sample in zip(table, self.samples.hits, strict=True):
            row[: len(sample)] = sample  # tasks that appeared later had no hits
        with open(self.table, "wb", closefd=False) as file:
            file.write(np.array(self.samples.times, np.int64).tobytes())
            file.write(table.tobytes())
        stopped = Stopped(
            recorded=tuple(self.recorded),
            table=Descriptor(self.table),
            samples=len(self.samples.times),
            points=len(hits),
            end_ns=self.end_ns,
            limit_reached=self.limit_reached,
            files=tuple(map(Descriptor, self._files)),
        )
        if self.stream is not None:
            self.stream.end(msgspec.structs.replace(stopped, end_ns=self.end_ns or end_ns))
        return stopped

    def orphaned(self) -> None:
        """End a trace whose process has died: the writer gets everything that the kernel delivered."""
        if self.stream is not None and self.start_ns:
            self.source.disable()
            self.stop(time.monotonic_ns(), lambda: None)

    def close(self) -> None:
        """Release all resources."""
        if self.live is not None:
            self.live.close()
        for file in (self.table, *self._files):
            os.close(file)
        if self.stream is not None:
            self.stream.close()
        self.source.close()


def serve(connection: socket.socket, parent: int) -> None:
    """Serve requests until the notebook's process is gone."""
    traces: dict[int, ReaderTrace] = {}

    def poll() -> float:
        return time.monotonic() + min((trace.poll() for trace in traces.values()), default=1.0)

    try:
        _serve(connection, parent, traces, poll)
    finally:
        for trace in traces.values():
            trace.orphaned()


def _serve(connection: socket.socket, parent: int, traces: dict[int, ReaderTrace], poll: Callable[[], float]) -> None:
    due = time.monotonic()
    while os.getppid() == parent:
        if not channel.readable(connection, max(due - time.monotonic(), 0.0)):
            due = poll()
            continue
        try:
            _serve_one(traces, codec.receive(connection, Prepare, Go, StopReading, Drop), connection, poll)
        except ConnectionError:
            return
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            codec.send(connection, Shortage())  # the message was `Prepare`: no other opens files
        due = time.monotonic()


def _serve_one(
    traces: dict[int, ReaderTrace],
    message: Prepare | Go | StopReading | Drop,
    connection: socket.socket,
    meanwhile: Callable[[], object],
) -> None:
    """Handle one message. Raises OSError (EMFILE) if this process cannot open the files that a trace needs."""
    match message:
        case Prepare(trace=number):
            traces[number] = ReaderTrace(message)
            codec.send(connection, Ready())
        case Go(trace=number, start_ns=start_ns) if number in traces:
            traces[number].go(start_ns)
        case StopReading(trace=number, end_ns=end_ns) if number in traces:
            _hand_over(traces.pop(number), connection, end_ns, meanwhile)
        case Drop(trace=number) if number in traces:
            traces.pop(number).close()


def _hand_over(trace: ReaderTrace, connection: socket.socket, end_ns: int, meanwhile: Callable[[], object]) -> None:
    """Stop a trace and send what it read; its maps are released on return."""
    try:
        codec.send(connection, trace.stop(end_ns, meanwhile))
    finally:
        trace.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))

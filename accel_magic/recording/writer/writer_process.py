"""The writer process: encodes the records of one trace as a dataset, while the trace runs.

Run with FD by `own_python.command`. It receives finished files of records from the reader, over a socket of theirs, and
reads the kernel's counters itself. If the process that traces is killed, it writes what the reader still has, and
completes the manifest. See `accel_magic.recording.writer.writer_client`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from accel_magic import codec
from accel_magic.directories import Directory
from accel_magic.errors import AccelMagicError
from accel_magic.kernel.mapped_memory import map_file, map_value
from accel_magic.recording import dataset, kernel_counts, recording_store
from accel_magic.recording.dataset import DatasetPart, Manifest
from accel_magic.recording.reader.reader_messages import (
    Begun,
    Ended,
    Finish,
    Finished,
    Open,
    Ready,
    Records,
    Stopped,
    Written,
)
from accel_magic.recording.reader.sources import FunctionCounters
from accel_magic.recording.record_decoder import decode
from accel_magic.recording.recording import CounterSamples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.codec import Descriptor
    from accel_magic.kernel.attachment import RecordLayout
    from accel_magic.recording.kernel_counts import KernelCounts

_EVERY_NS: Final = 800_000_000
"""Interval between two manifests."""
_NICE: Final = 5
"""Traced code and the reader come first; records that wait meanwhile are bounded."""
_SHARE: Final = 10
"""A manifest of very many points or parts is replaced so rarely that this takes 1/10 of the time."""


class PartEncoder:
    """Encodes records as the parts of a dataset.

    Args:
        directory: The dataset, with its description.
        layout: Layout of the records.
        limit: Maximum number of events; None for all.

    Raises:
        RecordingError: There is no description.

    """

    def __init__(self, directory: Directory, layout: RecordLayout, limit: int | None) -> None:
        self.recording, _ = recording_store.load_description(directory, dataset.DESCRIPTION)
        self.parts: list[DatasetPart] = []
        self.recorded = np.zeros(len(self.recording.plan.points), np.uint64)
        self._directory, self._layout, self._left = directory, layout, limit

    def add(self, rings: Sequence[NDArray[np.uint8]], start_ns: int) -> None:
        """Write the records of all rings, (bytes,) uint8 each, as one part.

        Args:
            rings: Whole records.
            start_ns: Time 0, on the kernel's CLOCK_MONOTONIC.

        Raises:
            RecordingError: The part cannot be written.

        """
        events = decode(self._layout, rings, start_ns, self._left, all_columns=True)
        if not len(events):
            return
        self.parts.append(dataset.write_part(self._directory, len(self.parts), events, self.recording))
        points = events.columns["point"].values
        self.recorded += np.bincount(points, minlength=len(self.recorded)).astype(np.uint64)
        if self._left is not None:
            self._left -= len(events)


class WriterTrace:
    """Serves one trace.

    Args:
        control: Socket to the process that traces.

    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        message = codec.receive(control, Open)
        layout, histograms = message.layout, message.histograms
        self._stream: socket.socket | None = socket.socket(fileno=message.stream.fd)
        self.directory = Directory(Path(message.folder), message.directory.fd)
        self._counters = None if message.counters is None else map_value(message.counters.fd, layout.counters)
        self._histograms = None if histograms is None else map_value(histograms.fd, layout.histograms)
        self._functions = None if message.functions is None else FunctionCounters(message.functions)
        for descriptor in codec.descriptors_of((message.counters, histograms, message.functions)):
            os.close(descriptor)
        self._parts = PartEncoder(self.directory, layout, message.limit)
        self._start_ns = self._shift_ns = self._end_ns = self._next_ns = 0
        self._limit_reached = False
        self._failed = ""
        self._samples: CounterSamples | None = None
        codec.send(control, Ready())

    def serve(self) -> None:
        """Write until the trace has ended, or its process has."""
        try:
            while self._wait():
                pass
        except ConnectionError:
            self._killed()

    def _wait(self) -> bool:
        """Do the next piece of work. Raises ConnectionError: the process that traces has ended."""
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        if self._stream is not None:
            waiting.register(self._stream, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(max((self._next_ns - time.monotonic_ns()) / 1e6, 1))}
        if self._stream is not None and self._stream.fileno() in ready:
            self._take(self._stream)
        elif self._control.fileno() in ready:
            message = codec.receive(self._control, Begun, Finish, Ended)
            if isinstance(message, Ended):
                return False
            if isinstance(message, Begun):
                self._start_ns, self._shift_ns = message.start_ns, message.shift_ns
            else:
                self._finish(message)
        if time.monotonic_ns() >= self._next_ns:
            self._write_manifest("tracing")
        return True

    def _take(self, stream: socket.socket) -> None:
        """Receive and write what the reader has finished."""
        try:
            message = codec.receive(stream, Records, Stopped)
        except OSError:
            self._close_stream()
            return
        if isinstance(message, Stopped):
            self._keep_end(message)
            self._close_stream()
            return
        self._add(message.files)
        if self._failed:
            self._close_stream()  # the reader then records no more
            return
        with contextlib.suppress(OSError):  # the reader has ended, but what it sent before is still to be received
            codec.send(stream, Written(size=message.size))

    def _keep_end(self, stopped: Stopped) -> None:
        count, points = stopped.samples, stopped.points
        values = map_file(stopped.table.fd)
        os.close(stopped.table.fd)
        times = values[: count * 8].view(np.int64) - self._start_ns
        hits = values[count * 8 :].view(np.uint64).reshape(count, points)
        self._samples = CounterSamples(
            np.concatenate([[0], times[times > 0]]).astype(np.int64),
            np.concatenate([np.zeros((1, points), np.uint64), hits[times > 0]]),
        )
        self._end_ns, self._limit_reached = stopped.end_ns, stopped.limit_reached

    def _add(self, files: tuple[Descriptor, ...]) -> None:
        rings = [map_file(file.fd) for file in files]
        for file in files:
            os.close(file.fd)
        try:
            if not self._failed:
                self._parts.add(rings, self._start_ns - self._shift_ns)
        except (AccelMagicError, OSError, MemoryError) as error:
            why = error.why if isinstance(error, AccelMagicError) else str(error)
            self._failed = why or type(error).__name__

    def _finish(self, message: Finish) -> None:
        """Write the rest, and then report what was written; the process that traces writes the final manifest."""
        while self._stream is not None:
            self._take(self._stream)
        if message.rest:
            self._add(message.rest)
        self._write_manifest("tracing")
        codec.send(self._control, Finished(failed=self._failed))

    def _killed(self) -> None:
        while self._stream is not None:
            self._take(self._stream)
        if self._start_ns:
            self._write_manifest("killed")

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _read(self) -> KernelCounts:
        plan = self._parts.recording.plan
        read = kernel_counts.none()
        if self._counters is not None:
            read = kernel_counts.of_maps(self._counters, self._histograms, plan)
        return read if self._functions is None else kernel_counts.with_functions(read, self._functions.read())

    def _write_manifest(self, state: dataset.State) -> None:
        now = time.monotonic_ns()
        if self._start_ns:
            read = self._read()
            duration = (self._end_ns or now) - self._start_ns
            try:
                dataset.write_manifest(self.directory, self._manifest(state, read, duration))
            except AccelMagicError as error:
                self._failed = self._failed or error.why or error.what
        self._next_ns = now + max(_EVERY_NS, _SHARE * (time.monotonic_ns() - now))

    def _manifest(self, state: dataset.State, read: KernelCounts, duration_ns: int) -> Manifest:
        plan = self._parts.recording.plan
        if self._failed and plan.records_events and not self._limit_reached:
            lost = kernel_counts.lost_events(plan, read.hits, read.histograms, self._parts.recorded)
            read = replace(read, lost=lost)
        ends = CounterSamples(np.array([0, duration_ns], np.int64), np.stack([np.zeros_like(read.hits), read.hits]))
        return Manifest(
            state=state,
            start_ns=self._start_ns,
            duration_ns=duration_ns,
            limit_reached=self._limit_reached,
            parts=tuple(self._parts.parts),
            recorded=self._parts.recorded,
            counts=read,
            samples=ends if self._samples is None else self._samples,
        )


def main(control: socket.socket) -> None:
    """Write one dataset."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    pa.set_cpu_count(1)
    try:
        writer = WriterTrace(control)
    except ConnectionError:
        return
    except AccelMagicError as error:
        sys.exit(f"{error.what}: {error.why}")
    with dataset.in_progress(writer.directory):
        writer.serve()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))

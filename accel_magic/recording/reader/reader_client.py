"""The notebook's side of the reader process: start it, hand it an attachment, receive what it read."""

from __future__ import annotations

import atexit
import contextlib
import errno
import itertools
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from accel_magic import channel, codec, forks, own_python
from accel_magic.codec import Descriptor
from accel_magic.errors import MachineError, too_many_files, typed_shortage
from accel_magic.kernel.mapped_memory import map_file
from accel_magic.recording.reader.reader_messages import Drop, Go, Prepare, Ready, Shortage, Stopped, StopReading
from accel_magic.recording.recording import CounterSamples

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.recording.reader.reader_messages import Live, Playback, ProgramRings, Streamed

_TIMEOUT_S = 30.0
T = TypeVar("T")


@dataclass(frozen=True)
class Read:
    """Data from the reader: raw, memory-mapped records by ring, counter samples, and how the trace ended."""

    rings: tuple[NDArray[np.uint8], ...]
    recorded: tuple[int, ...]
    samples: CounterSamples
    end_ns: int
    limit_reached: bool


class Reader:
    """The reader process; one serves all traces of this process, several at a time. Thread-safe."""

    def __init__(self) -> None:
        self._helper = channel.start_process(
            own_python.command("accel_magic.recording.reader.reader_process"),
            str(os.getpid()),
            what="reader",
            environment={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self._connection = self._helper.connection
        self._connection.settimeout(_TIMEOUT_S)
        self._numbers = itertools.count(1)
        self._asking = threading.Lock()

    @property
    def pid(self) -> int:
        """Process id, so that its own hits can be excluded."""
        return self._helper.pid

    @property
    def alive(self) -> bool:
        """Whether it can take a trace."""
        return self._helper.alive

    def prepare(
        self,
        source: Live | Playback | ProgramRings,
        *,
        live: int | None = None,
        stream: Streamed | None = None,
        max_events: int | None = None,
        duration_ns: int | None = None,
    ) -> Prepared:
        """Hand over what to read; returns once it is mapped.

        Args:
            source: The maps, or the recording.
            live: Socket for samples of the counters.
            stream: Where records go while the trace runs.
            max_events: Events to record.
            duration_ns: When to stop counting.

        Raises:
            MachineError: The process has ended, or cannot open the files that the trace needs.

        """
        number = next(self._numbers)
        message = Prepare(
            trace=number,
            source=source,
            live=None if live is None else Descriptor(live),
            stream=stream,
            max_events=max_events,
            duration_ns=duration_ns,
        )
        answer = self._ask(message, lambda: codec.receive(self._connection, Ready, Shortage))
        if isinstance(answer, Shortage):
            raise too_many_files()
        return Prepared(self, number)

    def notify(self, message: Go | Drop) -> None:
        """Send a message without an answer. Raises MachineError if the process has ended."""
        with self._typed():
            codec.send(self._connection, message)

    def stop(self, number: int, end_ns: int) -> Stopped:
        """End a trace, and return what was read. Raises MachineError if the process has ended."""
        return self._ask(StopReading(trace=number, end_ns=end_ns), lambda: codec.receive(self._connection, Stopped))

    def end(self) -> None:
        """End the process."""
        self._helper.end()

    def _ask(self, message: Prepare | StopReading, receive: Callable[[], T]) -> T:
        """Send a message and return its answer. Raises MachineError if the process has ended."""
        with self._typed():
            try:
                codec.send(self._connection, message)
                return receive()
            except OSError:
                raise
            except BaseException:
                self.end()  # otherwise the pending answer would be mistaken for the next one's
                raise

    @contextlib.contextmanager
    def _typed(self) -> Any:
        with self._asking:
            try:
                yield
            except OSError as error:
                if error.errno == errno.EMFILE:  # in this process, while receiving: the reader is fine
                    raise too_many_files() from None
                why, killed = self._helper.last_words(), self._helper.process.returncode == -signal.SIGKILL
                self.end()
                raise MachineError(
                    "the reader process ended unexpectedly",
                    why=f"{why}; the kernel may have been out of memory" if killed else why,
                    fix="trace again with a lower --max-events, or with --mode count"
                    if killed
                    else "trace again; if it happens again, please report it with this message",
                    code="reader.ended",
                ) from None

    def forget(self) -> None:
        """In a forked child: drop the connection; the process belongs to the parent."""
        self._helper.forget()


@dataclass(frozen=True)
class Prepared:
    """One trace in the reader process: `go`, then `stop`; or `drop`."""

    reader: Reader
    number: int

    def go(self, start_ns: int) -> None:
        """Announce that the traced code starts now; `start_ns` is on CLOCK_MONOTONIC."""
        self.reader.notify(Go(trace=self.number, start_ns=start_ns))

    def stop(self, start_ns: int, end_ns: int) -> Read:
        """End the trace and return everything read. Times are CLOCK_MONOTONIC ns."""
        stopped = self.reader.stop(self.number, end_ns)
        try:
            with typed_shortage():
                table, *rings = [map_file(file.fd) for file in (stopped.table, *stopped.files)]
        finally:
            for descriptor in codec.descriptors_of(stopped):
                os.close(descriptor)
        count, points = stopped.samples, stopped.points
        times = table[: count * 8].view(np.int64) - start_ns
        hits = table[count * 8 :].view(np.uint64).reshape(count, points).copy()
        return Read(
            rings=tuple(rings),
            recorded=stopped.recorded,
            samples=_with_start(times, hits),
            end_ns=stopped.end_ns,
            limit_reached=stopped.limit_reached,
        )

    def drop(self) -> None:
        """Drop a trace that will not be stopped, so that the reader releases its maps. Can be called repeatedly."""
        if self.reader.alive:
            with contextlib.suppress(MachineError):  # it has just ended, which released the maps
                self.reader.notify(Drop(trace=self.number))


def _with_start(times: NDArray[np.int64], hits: NDArray[np.uint64]) -> CounterSamples:
    """Prepend a row of zeros at time 0, and drop samples at or before it."""
    keep = times > 0
    times, hits = times[keep], hits[keep]
    zeros = np.zeros((1, hits.shape[1]), np.uint64)
    return CounterSamples(np.concatenate([[0], times]).astype(np.int64), np.concatenate([zeros, hits]))


_lock = threading.Lock()
_reader: Reader | None = None


def shared() -> Reader:
    """Return the process's reader, starting it on first use."""
    global _reader  # noqa: PLW0603 - one for the life of the process
    with _lock:
        if _reader is None or not _reader.alive:
            _reader = Reader()
        return _reader


def end() -> None:
    """End the shared reader; the next trace starts a new one."""
    global _reader  # noqa: PLW0603
    if _reader is not None:
        _reader.end()
        _reader = None


def _forget_in_child() -> None:
    global _reader  # noqa: PLW0603
    if _reader is not None:
        _reader.forget()
        _reader = None


atexit.register(end)
forks.in_child(_forget_in_child)

"""The notebook's side of the reader process: start it, hand it an attachment, take back what it read."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic import channel
from accel_magic.errors import MachineError, too_many_files, typed_shortage
from accel_magic.traces.mapped import map_file
from accel_magic.traces.recording import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Read:
    """What the reader took: records by ring (raw, mapped), counter samples, and how it ended."""

    rings: tuple[NDArray[np.uint8], ...]
    recorded: tuple[int, ...]
    samples: Samples
    end_ns: int
    limit_reached: bool


class Reader:
    """The reader process; one serves all traces of this process, one after the other."""

    def __init__(self) -> None:
        self._process, self._connection = channel.start_process(
            [sys.executable, "-m", "accel_magic.traces.reader_process"],
            str(os.getpid()),
            what="reader",
            environment=_environment(),
        )
        self._connection.settimeout(_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """Process id, for leaving its own hits out."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can take a trace."""
        return self._process.poll() is None

    def prepare(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Hand over an attachment or a recording; returns when it is mapped."""
        self._ask({"do": "prepare", **message}, descriptors)

    def go(self, start_ns: int) -> None:
        """Tell that the traced code starts now."""
        with self._typed():
            channel.send(self._connection, {"do": "go", "start_ns": start_ns})

    def stop(self, start_ns: int, end_ns: int) -> Read:
        """Take everything that was read. Times are CLOCK_MONOTONIC ns."""
        answer, descriptors = self._ask({"do": "stop", "end_ns": end_ns})
        try:
            with typed_shortage():
                table, *rings = [map_file(fd) for fd in descriptors]
        finally:
            for fd in descriptors:
                os.close(fd)
        count, points = answer["samples"], answer["points"]
        times = table[: count * 8].view(np.int64) - start_ns
        hits = table[count * 8 :].view(np.uint64).reshape(count, points).copy()
        return Read(
            rings=tuple(rings),
            recorded=tuple(answer["recorded"]),
            samples=_with_start(times, hits),
            end_ns=answer["end_ns"],
            limit_reached=answer["limit_reached"],
        )

    def drop(self) -> None:
        """Let go of a trace that was prepared and will not be stopped: its maps would live on in the reader."""
        with contextlib.suppress(OSError):  # it has ended, and the maps with it
            channel.send(self._connection, {"do": "drop"})

    def end(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        with self._typed():
            channel.send(self._connection, message, descriptors)
            return channel.receive(self._connection)

    @contextlib.contextmanager
    def _typed(self) -> Any:
        try:
            yield
        except OSError as error:
            self.end()
            if error.errno == errno.EMFILE:
                raise too_many_files() from None
            raise MachineError(
                "the reader process ended unexpectedly",
                why=f"{error}; the kernel may have killed it for lack of memory",
                fix="trace again with a lower --max-events, or with --mode count",
            ) from None
        except BaseException:
            self.end()  # in the middle of a message: the stream is out of step
            raise

    def forget(self) -> None:
        """In a forked child: drop the connection and leave the process to its owner."""
        self._connection.close()


def _environment() -> dict[str, str]:
    """The reader must find this package where this process found it, and needs only one thread."""
    package_parent = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _with_start(times: NDArray[np.int64], hits: NDArray[np.uint64]) -> Samples:
    """Put a row of zeros at time 0 where the first sample came later, and drop samples out of order."""
    keep = times > 0
    times, hits = times[keep], hits[keep]
    zeros = np.zeros((1, hits.shape[1]), np.uint64)
    return Samples(np.concatenate([[0], times]).astype(np.int64), np.concatenate([zeros, hits]))


_lock = threading.Lock()
_reader: Reader | None = None


def shared() -> Reader:
    """The process's reader, started on first use."""
    global _reader  # noqa: PLW0603 - one for the life of the process
    with _lock:
        if _reader is None or not _reader.alive:
            _reader = Reader()
        return _reader


def end() -> None:
    """End the shared reader; the next trace starts another."""
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
os.register_at_fork(after_in_child=_forget_in_child)

"""From the reader to the writer of a dataset: finished files of records, as descriptors, and how much is under way."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from accel_magic import channel, codec
from accel_magic.codec import Descriptor
from accel_magic.recording.reader.reader_messages import Records, Written

if TYPE_CHECKING:
    from accel_magic.recording.reader.reader_messages import Stopped, Streamed

_PART_BYTES: Final = 16 << 20
"""Records that make a part by their size."""
_INTERVAL_NS: Final = 1_000_000_000
_LONGEST_INTERVAL_NS: Final = 60 * _INTERVAL_NS
_INTERVALS: Final = 60
"""A part is made after 1/60 of the time traced so far (1 s to 60 s), so that long, quiet traces have few files."""


class Stream:
    """Collects the records of a trace in files, and hands full ones to the writer.

    Args:
        streamed: The socket to the writer, and how much may be in memory, here or at the writer; beyond that, rings are
            no longer drained, and the kernel counts what does not fit into them.
        rings: Number of rings.

    Raises:
        OSError: The files cannot be opened; the socket stays open.

    """

    def __init__(self, streamed: Streamed, rings: int) -> None:
        self.gone = False
        """Whether the writer has ended or failed."""
        self.files = _new_files(rings)
        self._connection = socket.socket(fileno=streamed.writer.fd)
        self._connection.settimeout(10)
        self._most_bytes = streamed.most_bytes
        self._under_way = 0
        self._start_ns = self._handed_ns = 0

    def go(self, start_ns: int) -> None:
        """Note that the traced code starts."""
        self._start_ns = self._handed_ns = start_ns

    @property
    def full(self) -> bool:
        """Whether the writer is so far behind that no more records may be taken."""
        return not self.gone and self._under_way + self._held() >= self._most_bytes

    def poll(self, now: int) -> None:
        """Hand over the files if they are full, or old."""
        self._listen()
        held = self._held()
        interval = min(max((now - self._start_ns) // _INTERVALS, _INTERVAL_NS), _LONGEST_INTERVAL_NS)
        if held >= _PART_BYTES or (held and not self._under_way and now - self._handed_ns >= interval):
            self._hand_over(held)
            self._handed_ns = now

    def end(self, stopped: Stopped) -> None:
        """Hand over the rest, and report the end of the trace with its counter samples."""
        held = self._held()
        if held:
            self._hand_over(held)
        self._send(stopped)

    def close(self) -> None:
        """Release everything."""
        for file in self.files:
            os.close(file)
        self._connection.close()

    def _held(self) -> int:
        return sum(os.fstat(file).st_size for file in self.files)

    def _hand_over(self, held: int) -> None:
        handed = self.files
        self.files = _new_files(len(handed))
        self._under_way += held
        self._send(Records(size=held, files=tuple(map(Descriptor, handed))))
        for file in handed:
            os.close(file)

    def _send(self, message: Records | Stopped) -> None:
        if self.gone:
            return
        try:
            codec.send(self._connection, message)
        except OSError:
            self.gone = True

    def _listen(self) -> None:
        """Receive which files have been written."""
        try:
            while not self.gone and channel.readable(self._connection, 0):
                self._under_way -= codec.receive(self._connection, Written).size
        except OSError:
            self.gone = True


def _new_files(rings: int) -> list[int]:
    files: list[int] = []
    try:
        for ring in range(rings):
            files.append(os.memfd_create(f"records-{ring}"))  # noqa: PERF401 - those made are closed after an error
    except OSError:
        for file in files:
            os.close(file)
        raise
    return files

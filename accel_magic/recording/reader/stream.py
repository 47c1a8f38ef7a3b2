"""From the reader to the writer of a dataset: finished files of records, as descriptors, and how much is under way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from accel_magic import channel

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

_PART_BYTES: Final = 16 << 20
"""Records that make a part by their size."""
_INTERVAL_NS: Final = 1_000_000_000
_LONGEST_INTERVAL_NS: Final = 60 * _INTERVAL_NS
_INTERVALS: Final = 60
"""A part is made after 1/60 of the time traced so far (1 s to 60 s), so that long, quiet traces have few files."""


class Stream:
    """Collects the records of a trace in files, and hands full ones to the writer.

    Args:
        connection: Socket to the writer.
        rings: Number of rings.
        most_bytes: Records that may be in memory, here or at the writer; beyond that, rings are no longer drained, and
            the kernel counts what does not fit into them.

    """

    def __init__(self, connection: socket.socket, rings: int, most_bytes: int) -> None:
        self.gone = False
        """Whether the writer has ended or failed."""
        self._connection = connection
        self._connection.settimeout(10)
        self._most_bytes = most_bytes
        self._under_way = 0
        self._start_ns = self._handed_ns = 0
        self.files = _new_files(rings)

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

    def end(self, message: dict[str, Any], table: int) -> None:
        """Hand over the rest, and report the end of the trace with its counter samples."""
        held = self._held()
        if held:
            self._hand_over(held)
        self._send({**message, "end": True}, [table])

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
        self._send({"bytes": held}, handed)
        for file in handed:
            os.close(file)

    def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        if self.gone:
            return
        try:
            channel.send(self._connection, message, descriptors)
        except OSError:
            self.gone = True

    def _listen(self) -> None:
        """Receive which files have been written."""
        try:
            while not self.gone and channel.readable(self._connection, 0):
                message, _ = channel.receive(self._connection)
                self._under_way -= message["bytes"]
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

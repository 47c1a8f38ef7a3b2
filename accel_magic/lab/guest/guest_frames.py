"""The stream between the host and the guest's agent: frames of a kind, a process number and a payload.

Standard library only: the guest's side runs without site packages.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

HEAD = struct.Struct("<BII")
LARGEST = 1 << 24
"""Maximum payload, in bytes; a larger frame is an error."""


class GuestFrameKind(IntEnum):
    """Kind of a frame. The payload is bytes of a stream, or a value in JSON."""

    START = 1
    """To the guest: a `Command`."""
    INPUT = 2
    """To the guest: bytes for standard input; an empty payload closes it."""
    SIGNAL = 3
    """To the guest: number of a signal, for the process group."""
    RESIZE = 4
    """To the guest: rows and columns of the terminal."""
    SHUTDOWN = 5
    """To the guest: end all processes and power off."""
    RESUME = 6
    """To a guest restored from a snapshot: a `Resumption`; answered by READY."""
    READY = 16
    """To the host: `GuestFacts`."""
    OUTPUT = 17
    """To the host: bytes of standard output."""
    ERROR = 18
    """To the host: bytes of standard error."""
    EXIT = 19
    """To the host: exit status, or minus the number of the signal."""
    REFUSED = 20
    """To the host: why the process could not be started."""


class Command(NamedTuple):
    """A command to start.

    Attributes:
        argv: Program and arguments; the program is looked up in the `PATH` of `env`.
        cwd: Working folder.
        env: All its environment variables.
        terminal: Rows and columns of its terminal; None for three streams.
        user: Ids of its user and group; None: root.

    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    terminal: tuple[int, int] | None
    user: tuple[int, int] | None


class Resumption(NamedTuple):
    """What a guest that is restored from a snapshot becomes.

    Attributes:
        time_ns: The time, in ns since 1970.
        seed: Random bytes for its kernel, in hexadecimal.
        configuration: Shell variables that its init reads.
        keep: Numbers of the snapshot's processes that go on; the others are killed.

    """

    time_ns: int
    seed: str
    configuration: str
    keep: list[int]


class GuestFacts(NamedTuple):
    """A guest that has started: release of its kernel (uname -r), and seconds since that started or was restored."""

    release: str
    uptime_s: float


def pack(kind: GuestFrameKind, process: int = 0, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    return HEAD.pack(kind, process, len(payload)) + payload


class Unpacker:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[GuestFrameKind, int, bytes]]:
        """Add bytes; returns the frames that are complete.

        Raises:
            ValueError: The bytes are not a valid frame.

        """
        self._data += data
        frames = []
        while len(self._data) >= HEAD.size:
            kind, process, size = HEAD.unpack_from(self._data)
            if size > LARGEST:
                raise ValueError(f"frame too large: {size} bytes")
            if len(self._data) < HEAD.size + size:
                break
            frames.append((GuestFrameKind(kind), process, bytes(self._data[HEAD.size : HEAD.size + size])))
            del self._data[: HEAD.size + size]
        return frames

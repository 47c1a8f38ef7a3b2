"""The protocol between a traced process and the notebook; the fields are documented in common/wire.h."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

VERSION: Final = 2


RECORDS: Final = 65_536
"""Capacity of the ring of launches."""


_HEAD: Final = struct.Struct("<IIQQQ")


_MOST: Final = _HEAD.size + 65_536


class MessageKind(IntEnum):
    """The kind of a message."""

    HELLO = 1
    ADDRESS = 2
    IMAGE = 3
    LOADED = 4
    FUNCTION = 5
    LEFT = 6
    RING = 16
    ALLOCATE = 17
    SHARE = 18
    FREE = 19
    READY = 20
    REFUSED = 21
    ORIGINAL = 22
    REPLACED = 23
    NUMBERED = 24


OF_LEVEL_ZERO: Final = 2
"""In a greeting: the process uses Level Zero."""


class Language(IntEnum):
    """What an image of OpenCL is."""

    IL = 0
    SOURCE = 1


class Left(IntEnum):
    """Why a kernel of OpenCL or Level Zero is not traced."""

    AS_BINARY = 1
    LINKED = 2
    TOO_MANY_LANES = 3

    @property
    def reason(self) -> str:
        """The reason in words."""
        return _REASONS[self]


_REASONS: Final = {
    Left.AS_BINARY: "its program was loaded as a binary of unknown source: turn off what keeps compiled programs",
    Left.LINKED: "its program was linked from several ones (clLinkProgram)",
    Left.TOO_MANY_LANES: "the programs look at 32 lanes, and its sub-groups have more",
}


class Kept(IntEnum):
    """How a process's memory is connected to the notebook's file."""

    COPIED = 0
    MAPPED = 1
    ALLOCATED = 2


LAUNCH: Final = np.dtype(
    [
        ("turn", "<u8"),
        ("function", "<u4"),
        ("thread", "<u4"),
        ("grid", "<u4", 3),
        ("block", "<u4", 3),
        ("shared", "<u4"),
        ("number", "<u4"),
        ("stream", "<u8"),
        ("before", "<u8"),
        ("after", "<u8"),
        ("lanes", "<u4"),
        ("unused", "<u4"),
    ]
)


RING: Final = np.dtype(
    [
        *(
            (name, "<u8")
            for name in (
                "reserved",
                "consumed",
                "lost",
                "graphs",
                "captured",
                "linked",
                "elsewhere",
                "originals",
                "wanted",
                "answered",
                "taken_ns",
                "gone",
                "closed",
                "overlapping",
            )
        ),
        ("unused", "<u8", 2),
        ("launches", LAUNCH, RECORDS),
    ]
)


@dataclass(frozen=True, slots=True)
class NativeMessage:
    """One message; the receiver must close its descriptor."""

    kind: int
    number: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    text: str = ""
    descriptor: int = -1

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        if self.descriptor >= 0:
            os.close(self.descriptor)


def send(connection: socket.socket, message: NativeMessage) -> None:
    """Send a message; its descriptor stays open. Raises OSError if the connection is closed."""
    data = _HEAD.pack(message.kind, message.number, message.a, message.b, message.c) + message.text.encode()
    socket.send_fds(connection, [data], [message.descriptor] if message.descriptor >= 0 else [])


def receive(connection: socket.socket) -> NativeMessage | None:
    """Receive a message; None if the connection is closed. Raises OSError, or ValueError for an invalid message."""
    data, descriptors, _, _ = socket.recv_fds(connection, _MOST, 1)
    if not data:
        return None
    if len(data) < _HEAD.size:
        raise ValueError("a message is too short")
    text = data[_HEAD.size :].decode(errors="replace")
    kind, number, a, b, c = _HEAD.unpack(data[: _HEAD.size])
    return NativeMessage(kind, number, a, b, c, text, descriptors[0] if descriptors else -1)

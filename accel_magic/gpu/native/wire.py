"""What a traced process and the notebook say to each other: the same as shim/wire.h, which explains the fields."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

VERSION: Final = 1


RECORDS: Final = 65_536
"""Launches that have room until the notebook takes them."""


_HEAD: Final = struct.Struct("<IIQQQ")


_MOST: Final = _HEAD.size + 65_536


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    ADDRESS = 2
    IMAGE = 3
    LOADED = 4
    FUNCTION = 5
    RING = 16
    ALLOCATE = 17
    SHARE = 18
    FREE = 19
    READY = 20
    REFUSED = 21
    ORIGINAL = 22
    REPLACED = 23


class Kept(IntEnum):
    """How a process's memory and the notebook's file of it belong together."""

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
        ("unused", "<u4"),
        ("stream", "<u8"),
        ("before", "<u8"),
        ("after", "<u8"),
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
            )
        ),
        ("unused", "<u8", 3),
        ("launches", LAUNCH, RECORDS),
    ]
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message; a descriptor that came with it is the receiver's to close."""

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


def send(connection: socket.socket, message: Message) -> None:
    """Send a message; its descriptor stays open. Raises OSError when the other side is gone."""
    data = _HEAD.pack(message.kind, message.number, message.a, message.b, message.c) + message.text.encode()
    socket.send_fds(connection, [data], [message.descriptor] if message.descriptor >= 0 else [])


def receive(connection: socket.socket) -> Message | None:
    """Receive a message; None when the other side is gone. Raises OSError or ValueError for what is none."""
    data, descriptors, _, _ = socket.recv_fds(connection, _MOST, 1)
    if not data:
        return None
    if len(data) < _HEAD.size:
        raise ValueError("a message is too short")
    text = data[_HEAD.size :].decode(errors="replace")
    kind, number, a, b, c = _HEAD.unpack(data[: _HEAD.size])
    return Message(kind, number, a, b, c, text, descriptors[0] if descriptors else -1)

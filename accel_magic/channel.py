"""Messages and file descriptors between this package's processes: a 4-byte length, then JSON, over a Unix socket."""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DESCRIPTORS = 250
_LARGEST_PACKET = 1 << 20


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message; the descriptors travel with its head."""
    data = json.dumps(message).encode()
    head = struct.pack("<I", len(data))
    if descriptors:
        socket.send_fds(connection, [head], list(descriptors))
        connection.sendall(data)
    else:
        connection.sendall(head + data)


def send_packet(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message over a SOCK_SEQPACKET socket: all of it, or OSError and nothing."""
    connection.send(json.dumps(message).encode())


def receive_packet(connection: socket.socket) -> dict[str, Any]:
    """Receive what `send_packet` sent. Raises ConnectionError when the other side is gone."""
    data = connection.recv(_LARGEST_PACKET)
    if not data:
        raise ConnectionError("the other process has ended")
    message: dict[str, Any] = json.loads(data)
    return message


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one message and its descriptors, open in this process.

    Raises:
        ConnectionError: The other side is gone.

    """
    head, descriptors, _, _ = socket.recv_fds(connection, 4, _MOST_DESCRIPTORS)
    if len(head) < 4:
        raise ConnectionError("the other process has ended")
    (size,) = struct.unpack("<I", head)
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the other process has ended")
        data += part
    return json.loads(data), list(descriptors)

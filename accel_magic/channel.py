"""Messages and file descriptors between this package's processes: a 4-byte length, then JSON, over a Unix socket."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import subprocess
from typing import TYPE_CHECKING, Any

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DESCRIPTORS = 250
_LARGEST_PACKET = 1 << 20


def start_process(
    command: Sequence[str], *arguments: str, what: str, environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a helper process and return it with our end of the socket between us.

    Args:
        command: The program and its first arguments; the descriptor of its end of the socket follows.
        *arguments: What follows that.
        what: The helper's name, for the error.
        environment: Its environment variables; None for ours.

    Raises:
        MachineError: It cannot be started.

    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # the interrupt that ends a cell is not for it
                env=environment,
            )
        except OSError as error:
            ours.close()
            raise MachineError(
                f"the {what} process cannot be started",
                why=f"{command[0]}: {error.strerror}",
                fix="make sure that this user may run it, and that no limit on processes is reached (ulimit -u)",
            ) from None
    return process, ours


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
        OSError: EMFILE, where this process may not have all of the descriptors; the stream is then out of step.

    """
    head, descriptors, flags, _ = socket.recv_fds(connection, 4, _MOST_DESCRIPTORS)
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, "this process may not open the files that were sent to it")
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

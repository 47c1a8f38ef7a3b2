"""Sockets for our libraries in other processes: a name and no file, so that nothing is left of a killed process.

A name without a file has no permissions either: anybody on this machine may connect, so who does is looked at.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from typing import Final

_WAITING: Final = 128
_CREDENTIALS: Final = struct.Struct("iII")
"""struct ucred: process, user, group."""


def listen(kind: socket.SocketKind) -> tuple[socket.socket, str]:
    """Listen at a new name.

    Args:
        kind: SOCK_STREAM or SOCK_SEQPACKET.

    Returns:
        The socket, and its name as the libraries want it: `@` for the zero that such names begin with.

    """
    listening = socket.socket(socket.AF_UNIX, kind)
    name = f"@accel_magic-{os.getpid()}-{secrets.token_hex(8)}"
    try:
        listening.bind(address(name))
        listening.listen(_WAITING)
    except BaseException:
        listening.close()
        raise
    return listening, name


def address(name: str) -> str:
    """Give what to bind or connect to."""
    return name.replace("@", "\0", 1)


def stranger(connection: socket.socket) -> int | None:
    """Give the process id of another user's process at the other end; None of one of this user or root."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(found)
    return None if user in (os.geteuid(), 0) else int(pid)

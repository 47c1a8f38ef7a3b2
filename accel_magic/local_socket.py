"""Abstract Unix sockets for our libraries in other processes; a killed process leaves no file behind.

Abstract names have no permissions: any process on this machine may connect, so the peer's credentials are checked.
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
    """Listen on a new name.

    Args:
        kind: SOCK_STREAM or SOCK_SEQPACKET.

    Returns:
        The socket, and its name in the form that the libraries expect: `@` instead of the leading NUL.

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
    """Return the address to bind or connect to."""
    return name.replace("@", "\0", 1)


def stranger(connection: socket.socket) -> int | None:
    """Return the peer's process id if it belongs to another user; None if it is this user's or root's."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(found)
    return None if user in (os.geteuid(), 0) else int(pid)

"""Unix sockets between this package's processes, in folders that only their user and root may enter.

Abstract names have no permissions: any process of the machine may connect to one, and fill the queue of connections.
The peer's credentials are checked as well: another user may make a folder of the same name after one was removed.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import directories

if TYPE_CHECKING:
    from accel_magic.directories import Directory

_WAITING: Final = 128
_FILE: Final = "socket"
_CREDENTIALS: Final = struct.Struct("iII")
"""struct ucred: process, user, group."""


def listen_in(folder: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> tuple[socket.socket, str]:
    """Listen in a folder that only this user may enter.

    Args:
        folder: An absolute path.
        kind: SOCK_STREAM or SOCK_SEQPACKET.

    Returns:
        The socket, and its path.

    """
    place = folder.resolve()
    listening = socket.socket(socket.AF_UNIX, kind)
    try:
        with directories.opened(place) as opened:
            listening.bind(_in(opened))
        listening.listen(_WAITING)
    except BaseException:
        listening.close()
        raise
    return listening, str(place / _FILE)


def connect_in(connection: socket.socket, path: str) -> None:
    """Connect to a socket of `listen_in`. Raises OSError: nobody listens there, or there is a link on the path."""
    with directories.opened(Path(path).parent) as opened:
        connection.connect(_in(opened))


def _in(folder: Directory) -> str:
    """Return an address in a folder; paths of sockets may have 107 bytes only."""
    return f"/proc/self/fd/{folder.descriptor}/{_FILE}"


def stranger(connection: socket.socket) -> int | None:
    """Return the peer's process id if it belongs to another user; None if it is this user's or root's."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(found)
    return None if user in (os.geteuid(), 0) else int(pid)

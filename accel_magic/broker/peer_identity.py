"""Who is at the other end of a connection, as the kernel says."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
from dataclasses import dataclass
from typing import Final

_CREDENTIALS: Final = struct.Struct("iII")
"""struct ucred: process, user, group."""
_SO_PEERGROUPS: Final = 59
_SO_PEERPIDFD: Final = 77
_MOST_GROUPS: Final = 256
"""As many as Python's getsockopt can return."""


@dataclass(frozen=True)
class Peer:
    """The process that connected, with the rights that it had then.

    Attributes:
        pid: Process id.
        uid: User id.
        groups: Group ids, the supplementary ones included.

    """

    pid: int
    uid: int
    groups: tuple[int, ...]


def of(connection: socket.socket) -> Peer:
    """Ask the kernel for the peer of a connected Unix socket. Raises OSError."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(found)
    groups = b""
    with contextlib.suppress(OSError):  # a user in more groups is judged by the first
        groups = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MOST_GROUPS)
    return Peer(pid, uid, (gid, *struct.unpack(f"{len(groups) // 4}I", groups)))


def watch(connection: socket.socket) -> int:
    """Return a descriptor that is readable once the process that connected has ended. Raises OSError if it is gone."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise
    return os.pidfd_open(of(connection).pid)  # before Linux 6.5; may be a later process of the same user


def has_ended(watched: int) -> bool:
    """Whether the process of a descriptor from `watch` has ended; its id may then be another's."""
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(0))

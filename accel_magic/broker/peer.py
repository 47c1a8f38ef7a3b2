"""Who is at the other end of a connection, as the kernel says."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CREDENTIALS: Final = struct.Struct("iII")
"""struct ucred: process, user, group."""
_SO_PEERGROUPS: Final = 59
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

    def still_there(self) -> bool:
        """Whether a process with this id runs, and belongs to the user: not one of somebody else with a reused id."""
        try:
            return Path(f"/proc/{self.pid}").stat().st_uid in (self.uid, 0) and _runs_as(self.pid, self.uid)
        except OSError:
            return False


def _runs_as(pid: int, uid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    (users,) = [line.split()[1:] for line in lines if line.startswith("Uid:")]
    return set(users) == {str(uid)}


def of(connection: socket.socket) -> Peer:
    """Ask the kernel for the peer of a connected Unix socket. Raises OSError."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(found)
    groups = b""
    with contextlib.suppress(OSError):  # a user in more groups is judged by the first
        groups = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MOST_GROUPS)
    return Peer(pid, uid, (gid, *struct.unpack(f"{len(groups) // 4}I", groups)))


def watch(pid: int) -> int:
    """Return a descriptor that is readable once a process has ended. Raises OSError if there is none."""
    return os.pidfd_open(pid)

"""One line of JSON for each request that changes something or is refused."""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime
from typing import TYPE_CHECKING, Any

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.broker.peer import Peer


def opened(path: str) -> int:
    """Open a file to append lines to, which only root or this user may own.

    Raises:
        MachineError: It cannot be opened, or belongs to somebody else.

    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o640)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        os.close(descriptor)
        raise _unusable(path, "it is not a file that only root, or this user, can write to")
    return descriptor


def _unusable(path: str, why: str) -> MachineError:
    return MachineError(f"cannot write to {path}", why=why, fix="name another file", code="broker.no-audit")


class Audit:
    """Writes lines to a descriptor, each with one call, so that lines of several processes never mix.

    Args:
        descriptor: Of a file, or of the standard error that the journal keeps.

    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def note(self, peer: Peer, what: str, **values: Any) -> None:
        """Write a line: time, user, process, what happened, and the given values, as JSON in ASCII."""
        at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        line = json.dumps({"time": at, "uid": peer.uid, "pid": peer.pid, "what": what, **values})
        os.write(self._descriptor, line.encode() + b"\n")

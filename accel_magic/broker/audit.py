"""One line of JSON for each request that changes something or is refused."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.broker.peer_identity import Peer


_EACH_S: Final = 1.0
_AT_ONCE: Final = 20
"""Refusals of a user that are written: one per `_EACH_S` in the long run, and this many at once after a pause."""


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


class Refusals:
    """Notes what was refused, which a user can cause thousands of times per second: what is too much is only counted.

    Args:
        audit: Where it is noted.

    Attributes:
        audit: The same.

    """

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self._until_s: defaultdict[int, float] = defaultdict(float)
        self._left_out: defaultdict[int, int] = defaultdict(int)

    def until_s(self, uid: int) -> float:
        """Time up to which a user's lines are used up, on CLOCK_MONOTONIC."""
        return self._until_s[uid]

    def used_up(self, uid: int, until_s: float) -> None:
        """Take over what another process has used up of a user's lines."""
        self._until_s[uid] = max(self._until_s[uid], until_s)

    def note(self, peer: Peer, what: str, why: str) -> None:
        """Write a line, or count it."""
        now = time.monotonic()
        until_s = max(self._until_s[peer.uid], now - _AT_ONCE * _EACH_S) + _EACH_S
        if until_s > now:
            self._left_out[peer.uid] += 1
            return
        self._until_s[peer.uid] = until_s
        self.note_left_out(peer)
        self.audit.note(peer, what, decision="refused", why=why)

    def note_left_out(self, peer: Peer) -> None:
        """Write how many lines of a user were left out since the last one."""
        if left_out := self._left_out.pop(peer.uid, 0):
            self.audit.note(peer, "left out", decision="refused", times=left_out)

    def forget_left_out(self) -> None:
        """Leave what was left out until now to the process that this one was forked from."""
        self._left_out.clear()

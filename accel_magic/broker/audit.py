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
    from accel_magic.broker.peer import Peer


_REFUSALS_PER_S: Final = 1.0
_REFUSALS_AT_ONCE: Final = 20
"""Lines about refused connections of a user; further ones are only counted."""


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


class Pace:
    """How often something may happen.

    Args:
        per_s: Times per second, in the long run.
        at_once: Times without any pause, after a long one.

    """

    def __init__(self, per_s: float, at_once: int) -> None:
        self._each_s, self._ahead_s = 1 / per_s, at_once / per_s
        self._next = 0.0

    def take(self) -> float:
        """Note that it happens now; return after how long it should, s."""
        now = time.monotonic()
        self._next = max(self._next, now - self._ahead_s) + self._each_s
        return max(0.0, self._next - now)

    def may(self) -> bool:
        """Whether it may happen now; it is noted if so."""
        if max(self._next, time.monotonic() - self._ahead_s) + self._each_s > time.monotonic():
            return False
        self.take()
        return True


class Refusals:
    """Notes refused connections, of which a user can cause thousands per second.

    Args:
        audit: Where they are noted.

    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._paces: defaultdict[int, Pace] = defaultdict(lambda: Pace(_REFUSALS_PER_S, _REFUSALS_AT_ONCE))
        self._left_out: defaultdict[int, int] = defaultdict(int)

    def note(self, peer: Peer, why: str) -> None:
        """Write a line about a refused connection, or count it."""
        if not self._paces[peer.uid].may():
            self._left_out[peer.uid] += 1
            return
        self.note_left_out(peer)
        self._audit.note(peer, "connect", decision="refused", why=why)

    def note_left_out(self, peer: Peer) -> None:
        """Write how many refused connections of a user were not written since the last line."""
        if left_out := self._left_out.pop(peer.uid, 0):
            self._audit.note(peer, "connect", decision="refused", why="not written singly", times=left_out)

"""One line of JSON for each request that changes something or is refused."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_magic.broker.peer import Peer


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

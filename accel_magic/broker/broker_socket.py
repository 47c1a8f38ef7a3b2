"""The broker's socket: whether it is needed, and connecting to it.

Without a broker, a process imports nothing else of this package.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import Final

from accel_magic.errors import MachineError
from accel_magic.kernel import features

SOCKET: Final = Path("/run/accel_magic/broker.sock")
VARIABLE: Final = "ACCEL_MAGIC_BROKER"
"""Environment variable: path of another broker's socket; empty for none."""
TIMEOUT_S: Final = 120.0
"""The broker may have to start the compiler, and to load thousands of programs."""
_TIMEVAL: Final = struct.Struct("ll")
"""struct timeval: seconds, microseconds."""


def path() -> Path | None:
    """Return the path of the broker's socket; None if there is none."""
    named = os.environ.get(VARIABLE)
    found = SOCKET if named is None else Path(named)
    with contextlib.suppress(OSError):  # this user may not enter its folder
        return found if named != "" and found.is_socket() else None
    return None


def needed() -> bool:
    """Whether this process has to trace through the broker: it has no privilege, and there is a broker."""
    return path() is not None and features.platform_error() is None and features.privilege_error() is not None


def connect(where: Path) -> socket.socket:
    """Connect this process to the broker at a socket. Raises OSError."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The kernel's own time limit: with Python's, connecting fails at once while others wait to be accepted.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(TIMEOUT_S), 0))
        made.connect(str(where))
    except BaseException:
        made.close()
        raise
    return made


def refused(where: Path, error: OSError) -> MachineError:
    """Error for a failure to connect."""
    if isinstance(error, PermissionError):
        return MachineError(
            "the broker does not admit this user",
            why=f"only members of its group can connect to {where}",
            fix="ask the administrator to run: usermod --append --groups accel-magic USER; then log in again",
            code="broker.not-admitted",
        )
    return unreachable(where, str(error.strerror or error))


def unreachable(where: Path, why: str) -> MachineError:
    """Error for a broker that cannot be used."""
    return MachineError(
        "the broker cannot be used",
        why=f"{where}: {why}",
        fix="ask the administrator to look at: systemctl status accel-magic-broker",
        code="broker.unreachable",
    )

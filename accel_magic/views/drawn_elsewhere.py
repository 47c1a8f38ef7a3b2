"""Results drawn by a process on another machine: the lab's guest has those of its notebook drawn by the host.

Under emulation, tables and figures take seconds that a processor needs a tenth of a second for. The process
(`results/drawing_server.py`) is started by the connection, and imports what it needs while the cell is being traced.

A request is the recording as `recording/handover.py` writes it; the answer is the result's representations by MIME
type, in JSON, without BokehJS; empty if the recording cannot be drawn there.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Final

from accel_magic import channel
from accel_magic.views.figures import bokehjs

if TYPE_CHECKING:
    from accel_magic.recording.recording import Recording

VARIABLE: Final = "ACCEL_MAGIC_DRAWING"
"""Environment variable: HOST:PORT where each connection starts such a process. The lab sets it."""
LARGEST: Final = 32 << 20
"""Most bytes of a request; larger recordings are drawn here."""
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 30.0

_lock = threading.Lock()
_connection: socket.socket | None = None


def prepare() -> None:
    """Start the process that draws, if there is one to be started; it gets ready in the background."""
    global _connection  # noqa: PLW0603 - one per process
    address = os.environ.get(VARIABLE, "")
    with _lock:
        if not address or _connection is not None:
            return
        host, _, port = address.rpartition(":")
        try:
            _connection = socket.create_connection((host, int(port)), timeout=_CONNECT_S)
        except (OSError, ValueError):
            _connection = None


def stop() -> None:
    """End the process that was prepared."""
    global _connection  # noqa: PLW0603
    with _lock:
        if _connection is not None:
            _connection.close()
            _connection = None


def bundle(recording: Recording) -> dict[str, str] | None:
    """Return a result's representations by MIME type; None if it must be drawn here."""
    if not os.environ.get(VARIABLE) or not bokehjs.has_kernel():
        return None
    prepare()
    try:
        drawn = None if _connection is None else _ask(_connection, recording)
    except (OSError, ValueError, TypeError):  # nobody is there, or the events are decoded: they are drawn here
        drawn = None
    finally:
        stop()
    if not drawn:
        return None
    return {**drawn, "text/html": f"{bokehjs.scripts()}{drawn['text/html']}"}


def _ask(connection: socket.socket, recording: Recording) -> dict[str, str] | None:
    from accel_magic.recording import handover

    request = b"".join(handover.parts(recording))
    if len(request) > LARGEST:
        return None
    connection.settimeout(_ANSWER_S)
    channel.send_bytes(connection, request)
    answer, _ = channel.receive_bytes(connection)
    drawn: dict[str, str] = json.loads(answer)
    return drawn

"""The processes that a live trace needs: the compiler or the broker's session, and the reader."""

from __future__ import annotations

import contextlib

from accel_magic.broker import broker_socket
from accel_magic.errors import MachineError
from accel_magic.kernel import features
from accel_magic.kernel.bcc import compiler
from accel_magic.recording.reader import reader_client


def warm_up() -> None:
    """Start the compiler (or the broker's session) and the reader early, in parallel with other work.

    Raises:
        MachineError: This is not Linux.

    """
    features.require_linux()
    if broker_socket.needed():
        from accel_magic.broker import broker_client

        with contextlib.suppress(MachineError):  # reported by the trace
            broker_client.connection()
    else:
        compiler.start()
    reader_client.shared()

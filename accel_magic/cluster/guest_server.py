"""Serves calls in a lab's guest, one after the other: `python -m accel_magic.cluster.guest_server`.

A request is a pickled `RemoteCall`, because the guest trusts the machine that runs it. The reverse is not true: an
answer is a message that is checked there (`agent_messages.value_of`). Each is preceded by its length.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import BinaryIO, Final

from accel_magic import codec
from accel_magic.cluster.remote import call_failed
from accel_magic.codec import Failure

SIZE: Final = struct.Struct("<I")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    while head := requests.read(SIZE.size):
        (size,) = SIZE.unpack(head)
        try:
            data = pickle.loads(requests.read(size))()  # noqa: S301 - from the machine that runs this one
        except Exception as error:  # noqa: BLE001 - reported where the call came from
            data = codec.encoded(Failure.of(call_failed(f"{type(error).__name__}: {error}")))
        answers.write(SIZE.pack(len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # prints must not get between the answers
        serve(sys.stdin.buffer, output)

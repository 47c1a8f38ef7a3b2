"""Serves calls in a lab's guest, one after the other: `python -m accel_magic.cluster.guest_server`.

A request is a pickled function, because the guest trusts the machine that runs it. The reverse is not true: answers are
JSON, and `decoded` accepts nothing else. Each is preceded by its length.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import struct
import sys
from typing import Any, BinaryIO, Final

from accel_magic.cluster.clock import Reading

SIZE: Final = struct.Struct("<I")
_BYTES, _READING = "$bytes", "$reading"


def encoded(value: object) -> bytes:
    """Encode what a call returns: JSON with byte strings and readings of clocks."""
    return json.dumps(value, default=_tagged).encode()


def _tagged(value: object) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, Reading):
        return {_READING: value.to_json()}
    raise TypeError(f"{type(value).__name__} cannot be an answer")


def decoded(data: bytes) -> Any:
    """Decode an answer. Raises ValueError if it is malformed."""
    try:
        return json.loads(data, object_hook=_untagged)
    except (RecursionError, TypeError) as error:
        raise ValueError(f"malformed: {error}") from None


def _untagged(found: dict[str, Any]) -> Any:
    if found.keys() == {_BYTES}:
        return base64.b64decode(found[_BYTES], validate=True)
    return Reading.from_json(found[_READING]) if found.keys() == {_READING} else found


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    while head := requests.read(SIZE.size):
        (size,) = SIZE.unpack(head)
        try:
            data = encoded(pickle.loads(requests.read(size))())  # noqa: S301 - from the machine that runs this one
        except Exception as error:  # noqa: BLE001 - reported where the call came from
            data = encoded({"failed": f"{type(error).__name__}: {error}"})
        answers.write(SIZE.pack(len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # prints must not get between the answers
        serve(sys.stdin.buffer, output)

"""The messages between the mock CUDA driver's library and its server; `driver/mock_cuda.h` is the other side."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

VARIABLE: Final = "ACCEL_MAGIC_MOCK_CUDA"
"""Environment variable with the path of the server's socket."""
EVERYTHING: Final = 2**64 - 1
"""In place of a stream: all streams."""
REQUEST: Final = struct.Struct("=II6Q")
REPLY: Final = struct.Struct("=iIII4Q")
PARAMETER: Final = struct.Struct("=II")
GREETING: Final = struct.Struct("=64s16s")
ATTRIBUTE: Final = struct.Struct("=ii")
_MOST: Final = 1 << 30
"""Bytes of the largest image that is accepted."""


class DriverOperation(IntEnum):
    """The operation of a request."""

    HELLO = 1
    ALLOCATE = 2
    FREE = 3
    LOAD = 4
    UNLOAD = 5
    FUNCTION = 6
    NAMES = 7
    VARIABLE = 8
    LAUNCH = 9
    WAIT = 10
    STREAM = 11
    CLOSE = 12
    RECORD = 13
    EVENT = 14
    FORGET = 15
    SHARE = 16
    RESET = 17
    IMAGE = 18
    DESTROY = 19


class CudaResult(IntEnum):
    """Results of CUDA's driver API that the server returns."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NO_BINARY_FOR_GPU = 209
    INVALID_PTX = 218
    INVALID_HANDLE = 400
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_TIMEOUT = 702
    ASSERT = 710
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    UNKNOWN = 999


@dataclass(frozen=True)
class DriverRequest:
    """One request; `enum operation` in mock_cuda.h defines the meaning of `numbers` and `data`."""

    operation: DriverOperation
    numbers: tuple[int, ...]
    data: bytes = b""
    descriptor: int = -1


@dataclass(frozen=True)
class Reply:
    """One reply.

    Attributes:
        result: The call's result.
        numbers: Up to four.
        data: Data for the library.
        printed: Kernels' output, for the process's stdout.
        said: Error messages, for its stderr.
        descriptor: Descriptor of a file to pass; -1 for none.

    """

    result: CudaResult = CudaResult.SUCCESS
    numbers: tuple[int, ...] = ()
    data: bytes = b""
    printed: bytes = b""
    said: bytes = b""
    descriptor: int = -1


def receive(connection: socket.socket) -> DriverRequest | None:
    """Read the next request; None if the other end has closed or does not speak this protocol.

    The caller must close the request's descriptor, if any.
    """
    head, descriptors = _pull_with_files(connection, REQUEST.size)
    if head is None:
        return None
    operation, size, *numbers = REQUEST.unpack(head)
    known = size <= _MOST and operation in set(DriverOperation)
    data = _pull(connection, size) if known else None
    if data is None:
        return None
    return DriverRequest(DriverOperation(operation), tuple(numbers), data, descriptors[0] if descriptors else -1)


def send(connection: socket.socket, reply: Reply) -> None:
    """Send a reply. Raises OSError if the other end has closed."""
    numbers = (*reply.numbers, 0, 0, 0, 0)[:4]
    head = REPLY.pack(reply.result, len(reply.data), len(reply.printed), len(reply.said), *numbers)
    whole = head + reply.printed + reply.said + reply.data
    sent = 0
    if reply.descriptor >= 0:
        sent = socket.send_fds(connection, [whole], [reply.descriptor])
    connection.sendall(whole[sent:])


def _pull_with_files(connection: socket.socket, size: int) -> tuple[bytes | None, list[int]]:
    try:
        first, descriptors, _, _ = socket.recv_fds(connection, size, 1)
    except OSError:
        return None, []
    rest = _pull(connection, size - len(first)) if first else None
    return (None if rest is None else first + rest), descriptors


def _pull(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            part = connection.recv(min(size - len(data), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)

"""Receives a session's requests in a thread with its own table of descriptors, because closing a file can take forever.

A file that a caller sends may be in a file system of the caller's own, which then decides when closing it returns, also
while a process ends. Only files that the kernel alone serves get into the session's table. The table with the others
belongs to a thread, so that the session ends, and with it everything that it has attached, while the thread waits.
"""

from __future__ import annotations

import ctypes
import os
import queue
import socket
import threading
from typing import TYPE_CHECKING, Final

from accel_magic import channel
from accel_magic.broker import broker_messages, mounts

if TYPE_CHECKING:
    from accel_magic.errors import ProbeError

_READ_S: Final = 20.0
"""Time for one message."""
_CLOSE_RANGE: Final = 436
_UNSHARE: Final = 2
_NO_FILE: Final = 0x7FFF_FFFF


class FileRefusedError(Exception):
    """A file of a request is refused; the connection cannot be used any more.

    Attributes:
        error: What the caller is told.

    """

    def __init__(self, error: ProbeError) -> None:
        super().__init__(error.why)
        self.error = error


class Intake:
    """The requests of one connection.

    Make it before anything is attached: the thread's table keeps a copy of each descriptor that is open then.

    Args:
        connection: A stream socket.
        pid: The process that connected.

    """

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection, self._pid = connection, pid
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="accel_magic broker intake", daemon=True).start()

    def receive(self) -> tuple[bytes, list[int]]:
        """Receive the bytes of one request, the first of which has come, and its files.

        Raises:
            FileRefusedError: The broker opens no such file.
            TimeoutError: It did not come in time.
            ConnectionError: The other side is gone.
            ValueError: It has too many bytes.
            OSError: It has too many files.

        """
        self._requests.put(None)
        try:
            received = self._received.get(timeout=2 * _READ_S)
        except queue.Empty:  # the thread closes the files of what was no message
            raise TimeoutError from None
        if isinstance(received, Exception):
            raise received
        _, files, _, _ = socket.recv_fds(self._ours, 1, channel.MOST_DESCRIPTORS)
        return received, list(files)

    def _run(self) -> None:
        try:
            _unshare_descriptors()
            while True:
                self._requests.get()
                self._receive_one()
        except Exception as error:  # noqa: BLE001 - raised where the request is waited for
            self._received.put(error)

    def _receive_one(self) -> None:
        data, files = channel.receive_bytes(
            self._connection, largest=broker_messages.LARGEST_REQUEST, timeout_s=_READ_S
        )
        refused = mounts.refusal(files, self._pid)
        if refused is not None:
            raise FileRefusedError(refused)  # the thread ends, and its table with the files
        socket.send_fds(self._theirs, [b"."], files)
        self._received.put(data)
        for file in files:
            os.close(file)


def _unshare_descriptors() -> None:
    """Give this thread its own copy of the table of descriptors. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)  # close_range, because a service's filter may forbid unshare
    if libc.syscall(_CLOSE_RANGE, ctypes.c_uint(_NO_FILE), ctypes.c_uint(_NO_FILE), ctypes.c_uint(_UNSHARE)):
        raise OSError(ctypes.get_errno(), "close_range")

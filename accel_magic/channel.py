"""Messages and file descriptors between this package's processes: a 4-byte length, then JSON, over a Unix socket."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, Any

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DESCRIPTORS = 250
_LARGEST_PACKET = 1 << 20
_LAST_WORDS = 2000
_END_S = 1.0


@dataclass(frozen=True)
class Helper:
    """A helper process of this one.

    Attributes:
        process: The process.
        connection: Our end of the socket between us.
        errors: The file in memory that has what it prints to its standard error.

    """

    process: subprocess.Popen[bytes]
    connection: socket.socket
    errors: FileIO

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def last_words(self) -> str:
        """Say how it ended, with the last line that it printed; waits for the end that its socket has announced."""
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "it does not answer"
        how = f"it ended with status {status}" if status >= 0 else f"{signal.strsignal(-status) or -status} ended it"
        file = self.errors.fileno()
        printed = os.pread(file, _LAST_WORDS, max(os.fstat(file).st_size - _LAST_WORDS, 0)).decode(errors="replace")
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        return f"{how}: {lines[-1]}" if lines else how

    def end(self) -> None:
        """End the process; again is harmless."""
        self.forget()
        self.process.kill()
        self.process.wait()

    def forget(self) -> None:
        """Drop the connection, in a forked child: the process is its owner's to end."""
        self.connection.close()
        self.errors.close()


def start_process(
    command: Sequence[str], *arguments: str, what: str, environment: dict[str, str] | None = None
) -> Helper:
    """Start a helper process.

    Args:
        command: The program and its first arguments; the descriptor of its end of the socket follows.
        *arguments: What follows that.
        what: The helper's name, for the error.
        environment: Its environment variables; None for ours.

    Raises:
        MachineError: It cannot be started.

    """
    ours, theirs = socket.socketpair()
    errors = FileIO(os.memfd_create(f"errors of the {what}"), "r+")
    with theirs:
        try:
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # the interrupt that ends a cell is not for it
                env=environment,
            )
        except OSError as error:
            ours.close()
            errors.close()
            raise MachineError(
                f"the {what} process cannot be started",
                why=f"{command[0]}: {error.strerror}",
                fix="make sure that this user may run it, and that no limit on processes is reached (ulimit -u)",
                code="helper.not-started",
            ) from None
    return Helper(process, ours, errors)


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message; the descriptors travel with its head."""
    data = json.dumps(message).encode()
    head = struct.pack("<I", len(data))
    if descriptors:
        socket.send_fds(connection, [head], list(descriptors))
        connection.sendall(data)
    else:
        connection.sendall(head + data)


def send_packet(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message over a SOCK_SEQPACKET socket: all of it, or OSError and nothing."""
    connection.send(json.dumps(message).encode())


def receive_packet(connection: socket.socket) -> dict[str, Any]:
    """Receive what `send_packet` sent. Raises ConnectionError when the other side is gone."""
    data = connection.recv(_LARGEST_PACKET)
    if not data:
        raise ConnectionError("the other process has ended")
    message: dict[str, Any] = json.loads(data)
    return message


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one message and its descriptors, open in this process.

    Raises:
        ConnectionError: The other side is gone.
        OSError: EMFILE, where this process may not have all of the descriptors; the stream is then out of step.

    """
    head, descriptors, flags, _ = socket.recv_fds(connection, 4, _MOST_DESCRIPTORS)
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, "this process may not open the files that were sent to it")
    if len(head) < 4:
        raise ConnectionError("the other process has ended")
    (size,) = struct.unpack("<I", head)
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the other process has ended")
        data += part
    return json.loads(data), list(descriptors)

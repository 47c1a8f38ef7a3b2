"""Messages and file descriptors between processes: a 4-byte length, then the bytes, over a Unix socket."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from io import FileIO
from typing import IO, TYPE_CHECKING, Final

from accel_magic.errors import MachineError, too_many_files, typed_shortage

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_DESCRIPTORS: Final = 250
"""Descriptors of a message; the kernel allows 253."""
_LARGEST_PACKET = 1 << 20
_LARGEST_PART = 1 << 20
_LAST_WORDS = 2000
_END_S = 1.0
_GONE = "the other process has ended"


@dataclass(frozen=True)
class HelperProcess:
    """A helper process.

    Attributes:
        process: The process.
        connection: Our end of the socket pair.
        errors: In-memory file that receives its standard error.

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
        """Whether it is running."""
        return self.process.poll() is None

    def last_words(self) -> str:
        """Describe how it ended and the last line that it printed; waits briefly for it to exit."""
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "it does not respond"
        how = f"exit status {status}" if status >= 0 else f"killed by signal: {signal.strsignal(-status) or -status}"
        file = self.errors.fileno()
        printed = os.pread(file, _LAST_WORDS, max(os.fstat(file).st_size - _LAST_WORDS, 0)).decode(errors="replace")
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        return f"{how}: {lines[-1]}" if lines else how

    def end(self) -> None:
        """Kill the process; can be called repeatedly."""
        self.forget()
        self.process.kill()
        self.process.wait()

    def forget(self) -> None:
        """Close the connection in a forked child; the process belongs to the parent."""
        self.connection.close()
        self.errors.close()


def start_process(
    command: Sequence[str], *arguments: str, what: str, environment: dict[str, str] | None = None
) -> HelperProcess:
    """Start a helper process.

    Args:
        command: The program and its first arguments; the descriptor of its end of the socket is appended.
        *arguments: Further arguments, after the descriptor.
        what: The helper's name, for error messages.
        environment: Its environment variables; None to inherit ours.

    Raises:
        MachineError: It cannot be started.

    """
    with typed_shortage():
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
                start_new_session=True,  # interrupting a cell must not interrupt it
                env=environment,
            )
        except OSError as error:
            ours.close()
            errors.close()
            if error.errno == errno.EMFILE:
                raise too_many_files() from None
            raise MachineError(
                f"the {what} process cannot be started",
                why=f"{command[0]}: {error.strerror}",
                fix="make sure that this user may run it and that the process limit is not reached (ulimit -u)",
                code="helper.not-started",
            ) from None
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError):  # it holds the descriptors of all traces, so it gets the hard limit
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, most))
    return HelperProcess(process, ours, errors)


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """The standard input and output of a process. Raises ValueError: they are not pipes."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process was started without pipes")
    return process.stdin, process.stdout


def send_bytes(connection: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send bytes with their length."""
    head = struct.pack("<I", len(data))
    if descriptors:
        socket.send_fds(connection, [head], list(descriptors))
        connection.sendall(data)
    else:
        connection.sendall(head + data)


def receive_packet(connection: socket.socket) -> bytes:
    """Receive a packet of a SOCK_SEQPACKET socket. Raises ConnectionError if the other side is gone."""
    data = connection.recv(_LARGEST_PACKET)
    if not data:
        raise ConnectionError(_GONE)
    return data


def receive_bytes(
    connection: socket.socket, *, largest: int | None = None, timeout_s: float | None = None
) -> tuple[bytes, list[int]]:
    """Receive bytes that were sent with their length, and their descriptors, open in this process.

    Args:
        connection: A stream socket.
        largest: Maximum bytes; None: any number.
        timeout_s: Maximum time for all of them once the first has come; None: only the socket's own limit.

    Raises:
        ConnectionError: The other side is gone.
        TimeoutError: They did not come in time.
        ValueError: There are more than allowed.
        OSError: EMFILE if this process cannot hold all of the descriptors. Whatever is raised, it holds none of them.

    """
    head, descriptors, flags, _ = socket.recv_fds(connection, 4, MOST_DESCRIPTORS)
    own_limit_s, until = connection.gettimeout(), None if timeout_s is None else time.monotonic() + timeout_s
    try:
        data = _content(connection, head, largest, until)
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # noqa: TRY301 - the others must be closed
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    finally:
        if until is not None:
            connection.settimeout(own_limit_s)
    return data, list(descriptors)


def _content(connection: socket.socket, head: bytes, largest: int | None, until: float | None) -> bytes:
    if not head:
        raise ConnectionError(_GONE)
    (size,) = struct.unpack("<I", head + _exactly(connection, 4 - len(head), until))
    if largest is not None and size > largest:
        raise ValueError(f"{size} bytes, at most {largest} are allowed")
    return _exactly(connection, size, until)


def _exactly(connection: socket.socket, size: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(min(size - len(data), _LARGEST_PART))
        if not part:
            raise ConnectionError(_GONE)
        data += part
    return bytes(data)


def readable(connection: socket.socket, wait_s: float) -> bool:
    """Whether data is available to receive, waiting up to `wait_s` seconds."""
    waiting = select.poll()  # select(2) supports descriptors up to 1,023 only
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(wait_s * 1000))

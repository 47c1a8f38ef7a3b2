"""Host side of the connection to the guest's agent: runs commands in the guest like child processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic import codec
from accel_magic.lab.guest.guest_frames import Command, GuestFacts, GuestFrameKind, Resumption, Unpacker, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PIECE = 1 << 16


class GuestGoneError(Exception):
    """The guest has ended, or never started; `str` gives the reason.

    Args:
        reason: Finds the reason. It waits until QEMU ends, so it is called only when the text is read.

    """

    def __init__(self, reason: Callable[[], str] = str) -> None:
        super().__init__()
        self._reason = reason

    def __str__(self) -> str:
        return self._reason()


@dataclass(frozen=True)
class Completed:
    """A command that has ended.

    `status` is its exit status, or minus the number of the signal that ended it; the streams are bytes.
    """

    command: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode(errors="replace")


class GuestProcess:
    """One command in the guest."""

    def __init__(
        self, connection: GuestConnection, number: int, command: Sequence[str], on_output: Callable[[int, bytes], None]
    ) -> None:
        self._connection = connection
        self.command = tuple(command)
        self.number = number
        self.on_output = on_output
        self._ended = threading.Event()
        self._status: int | None = None
        self._failure = ""

    def poll(self) -> int | None:
        """Exit status, or minus the signal number if a signal ended it; None while it runs."""
        return self._status

    @property
    def ended(self) -> bool:
        """Whether it has ended, or the guest has."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the command ends; returns its exit status.

        Raises:
            TimeoutError: It has not ended within `timeout` seconds.
            GuestGoneError: The guest ended first.
            FileNotFoundError: The command does not exist or cannot be executed.

        """
        if not self._ended.wait(timeout):
            raise TimeoutError(f"the command did not end within {timeout:g} s")
        if self._failure:
            raise FileNotFoundError(self._failure)
        if self._status is None:
            raise GuestGoneError(self._connection.reason)
        return self._status

    def write(self, data: bytes) -> None:
        """Send bytes to its standard input."""
        for start in range(0, len(data), _PIECE):
            self._connection.send(GuestFrameKind.INPUT, self.number, data[start : start + _PIECE])

    def close_input(self) -> None:
        """Close its standard input."""
        self._connection.send(GuestFrameKind.INPUT, self.number)

    def send_signal(self, number: int) -> None:
        """Send a signal to the command and its child processes."""
        if self._status is None:
            self._connection.send(GuestFrameKind.SIGNAL, self.number, json.dumps(int(number)).encode())

    def resize(self, rows: int, columns: int) -> None:
        """Resize its terminal."""
        self._connection.send(GuestFrameKind.RESIZE, self.number, json.dumps([rows, columns]).encode())

    def end(self, status: int | None, failure: str = "") -> None:
        """Record that it ended; called by the connection's thread."""
        self._status, self._failure = status, failure
        self._ended.set()


class GuestConnection:
    """The stream to one guest's agent, read by a dedicated thread.

    Args:
        stream: Connected to the guest's port; closed by this object.
        reason: Finds out why the guest ended; for the text of `GuestGoneError`.
        processes: The largest number of a process that the agent of a restored guest may have.

    """

    def __init__(self, stream: socket.socket, reason: Callable[[], str] = str, processes: int = 0) -> None:
        self._stream = stream
        self.reason = reason
        self._processes: dict[int, GuestProcess] = {}
        self._numbers = itertools.count(processes + 1)
        self._sending = threading.Lock()
        self._known = threading.Lock()
        self.ready = threading.Event()
        """Set once the agent runs, or when the guest has ended."""
        self.gone = threading.Event()
        self.guest = GuestFacts("", 0.0)
        """What the agent reports about the guest; empty until `ready`."""
        threading.Thread(target=self._read, name="accel_magic lab", daemon=True).start()

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        env: dict[str, str],
        terminal: tuple[int, int] | None,
        on_output: Callable[[int, bytes], None],
        user: tuple[int, int] | None = None,
    ) -> GuestProcess:
        """Start a command in the guest.

        Args:
            command: Program and arguments; the program is looked up in the `PATH` of `env`.
            cwd: Working folder.
            env: All its environment variables.
            terminal: Rows and columns of its terminal; None for three streams.
            on_output: Called with its output, in the connection's thread.
            user: Ids of its user and group; None: root.

        Raises:
            GuestGoneError: The guest has ended.

        """
        with self._known:
            if self.gone.is_set():
                raise GuestGoneError(self.reason)
            number = next(self._numbers)
            process = self._processes[number] = GuestProcess(self, number, command, on_output)
        self.send(GuestFrameKind.START, number, json.dumps(Command([*command], cwd, env, terminal, user)).encode())
        return process

    def adopt(self, number: int, command: Sequence[str]) -> GuestProcess:
        """Return a process that a restored guest already has; its output is discarded until `on_output` is set."""
        with self._known:
            if self.gone.is_set():
                raise GuestGoneError(self.reason)
            process = self._processes[number] = GuestProcess(self, number, command, lambda *_: None)
        return process

    def resume(self, resumption: Resumption) -> None:
        """Let a restored guest go on; `ready` is set when it has. Raises GuestGoneError if it has ended."""
        self.send(GuestFrameKind.RESUME, 0, json.dumps(resumption).encode())

    def send(self, kind: GuestFrameKind, process: int = 0, payload: bytes = b"") -> None:
        """Send one frame. Raises GuestGoneError if the guest has ended."""
        try:
            with self._sending:
                self._stream.sendall(pack(kind, process, payload))
        except OSError:
            raise GuestGoneError(self.reason) from None

    def close(self) -> None:
        """Ask the guest to power off and close the stream."""
        with contextlib.suppress(GuestGoneError):
            self.send(GuestFrameKind.SHUTDOWN)

    def _read(self) -> None:
        frames = Unpacker()
        try:
            while data := self._stream.recv(_PIECE):
                for kind, number, payload in frames.feed(data):
                    self._take(kind, number, payload)
        except (OSError, ValueError):  # the guest has ended, or sent something invalid
            pass
        finally:
            self._stream.close()
            with self._known:
                self.gone.set()
                left, self._processes = list(self._processes.values()), {}
            self.ready.set()
            for process in left:
                process.end(None)

    def _take(self, kind: GuestFrameKind, number: int, payload: bytes) -> None:
        if kind is GuestFrameKind.READY:
            self.guest = codec.from_json(payload, GuestFacts)
            self.ready.set()
        elif process := self._processes.get(number):
            if kind in (GuestFrameKind.OUTPUT, GuestFrameKind.ERROR):
                process.on_output(1 if kind is GuestFrameKind.OUTPUT else 2, payload)
            elif kind is GuestFrameKind.EXIT:
                process.end(codec.from_json(payload, int))
                del self._processes[number]  # after the payload was understood: whoever waits must learn of its end
            elif kind is GuestFrameKind.REFUSED:
                process.end(None, codec.from_json(payload, str))
                del self._processes[number]


def listen(path: str) -> socket.socket:
    """Listen for QEMU on a Unix socket that only this user may connect to."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101 - a socket
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener

"""A command that is stopped before its first instruction, so that probes can be attached before it runs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from accel_magic.broker import broker_socket
from accel_magic.errors import MachineError
from accel_magic.kernel import scope
from accel_magic.probes.globs import near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

_TRACEME: Final = 0
_CONTINUE: Final = 7
_DETACH: Final = 17
_SET_OPTIONS: Final = 0x4200
_EXIT_KILL: Final = 1 << 20
"""Requests and one option of ptrace(2)."""


class StoppedCommand:
    """A child process, stopped by the kernel after its program was loaded and before its first instruction.

    The kernel stops a traced process right after `execve`; detaching from it lets it run. The context manager kills
    a command that was never released. Start it, release it and wait for it in one thread, because the kernel accepts
    ptrace requests only from the thread that traces it.

    Args:
        words: Program and arguments; the program is looked up on PATH.
        blocked: The signals that are blocked when the program starts.

    Raises:
        MachineError: The command cannot be run, or this process may not trace its own children.

    """

    def __init__(self, words: Sequence[str], blocked: Iterable[signal.Signals] = ()) -> None:
        self._name = words[0]
        self._stopped = True
        libc = ctypes.CDLL(None, use_errno=True)
        self._ptrace = libc.ptrace
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._ptrace.restype = ctypes.c_long
        blocked = tuple(blocked)
        broker = broker_socket.path() if broker_socket.needed() else None
        ours, theirs = socket.socketpair()
        ids, report = os.pipe()

        def before_exec() -> None:
            """Run in the child before its program is loaded."""
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            if broker is not None:
                _hand_over_connection(broker, theirs)
            os.write(report, str(scope.kernel_pid(os.getpid())).encode())
            self._request(_TRACEME)

        try:
            self._process = subprocess.Popen(list(words), preexec_fn=before_exec)  # noqa: PLW1509 - no threads yet
            os.close(report)
            report = -1
            scope.learn(self.pid, int(os.read(ids, 32)))
            if broker is not None:
                from accel_magic.broker import broker_client

                broker_client.trace_instead(self.pid, broker, _handed_over(broker, ours))
        except MachineError:
            self.close()
            raise
        except (OSError, subprocess.SubprocessError) as error:
            raise self._failed(error) from None
        finally:
            ours.close()
            theirs.close()
            os.close(ids)
            if report >= 0:
                os.close(report)
        try:
            self._wait_for_program()
        except OSError as error:
            self.close()
            raise self._failed(error) from None

    @property
    def pid(self) -> int:
        """Process id, as this process sees it."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, or minus the number of the signal that killed it; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait until it has ended; returns its `status`."""
        return self._process.wait()

    def go(self) -> None:
        """Release the command."""
        self._stopped = False
        with contextlib.suppress(ProcessLookupError):  # it was killed while it was stopped
            self._request(_DETACH)

    def send(self, number: int) -> None:
        """Send it a signal; does nothing if it has ended."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Kill the command if it was never released."""
        if self._stopped:
            self._stopped = False
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_program(self) -> None:
        """Wait until it is stopped right after `execve`; forward signals that arrive before."""
        while True:
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._stopped = False
                raise ProcessLookupError(0, f"it ended with status {self._process.returncode} before it began")
            if os.WSTOPSIG(status) == signal.SIGTRAP:
                # If this process is killed, the command must not run untraced.
                self._request(_SET_OPTIONS, _EXIT_KILL)
                return
            self._request(_CONTINUE, os.WSTOPSIG(status))

    def _request(self, request: int, value: int = 0) -> None:
        pid = 0 if request == _TRACEME else self.pid
        if self._ptrace(request, pid, None, value) == -1:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _failed(self, error: Exception) -> MachineError:
        if isinstance(error, subprocess.SubprocessError):
            return MachineError(
                "the command cannot be stopped before its first instruction",
                why="this process may not trace its own children (ptrace was refused)",
                fix="start the command in another terminal and trace it with --scope PID",
                code="command.ptrace",
            )
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return MachineError(
            f"{self._name} cannot be run",
            why=why,
            fix=_program_like(self._name) or "give the path of an executable program",
            code="command.cannot-run",
        )


def _program_like(name: str) -> str:
    """Fix of a program that does not exist: one of a similar name in its folder, or of this name in this folder."""
    path = Path(name)
    try:
        programs = [each.name for each in path.parent.iterdir() if each.is_file() and os.access(each, os.X_OK)]
    except OSError:
        return ""
    found = near(path.name, programs, 1)
    return f"write ./{path.with_name(found[0])} instead of {name}" if found and not path.is_absolute() else ""


def _hand_over_connection(broker: Path, parent: socket.socket) -> None:
    """In the child: connect to the broker, which traces only who connects, and send the parent the socket."""
    try:
        connected = broker_socket.connect(broker)
    except OSError as error:
        parent.send(str(error.errno or 0).encode())
    else:
        socket.send_fds(parent, [b"0"], [connected.fileno()])


def _handed_over(broker: Path, child: socket.socket) -> socket.socket:
    """The socket that the child sent. Raises MachineError if it could not connect."""
    said, files, _, _ = socket.recv_fds(child, 32, 1)
    if not files:
        number = int(said)
        raise broker_socket.refused(broker, OSError(number, os.strerror(number)))
    return socket.socket(fileno=files[0])

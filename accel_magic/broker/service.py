"""The broker's service: accepts connections, and gives each a process of its own."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.broker import peer as peers
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.broker.audit import Audit
    from accel_magic.broker.peer import Peer
    from accel_magic.broker.policy import Policy

SOCKET: Final = Path("/run/accel_magic/broker.sock")
_WAITING: Final = 128
_FIRST_INHERITED: Final = 3
"""The first descriptor that systemd passes, LISTEN_FDS in all."""


def listen(path: Path) -> socket.socket:
    """Return the socket that systemd passed, or one at a path, which any user may connect to.

    Raises:
        MachineError: The path cannot be used.

    """
    if os.environ.get("LISTEN_FDS") == "1" and os.environ.get("LISTEN_PID") == str(os.getpid()):
        return socket.socket(fileno=_FIRST_INHERITED)
    if _answers(path):
        raise MachineError(
            f"another broker listens at {path}",
            fix="end it first, or use another path: accel-magic broker run --socket PATH",
            code="broker.running",
        )
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_socket():
            path.unlink()
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise MachineError(
            f"the broker cannot listen at {path}",
            why=str(error.strerror or error),
            fix="use another path: accel-magic broker run --socket PATH",
            code="broker.no-socket",
        ) from None
    return listening


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probing:
        return not probing.connect_ex(str(path))


class Service:
    """Serves until it is terminated.

    Args:
        listening: The socket.
        policy: What is allowed.
        audit: Where requests are noted.

    """

    def __init__(self, listening: socket.socket, policy: Policy, audit: Audit) -> None:
        self._listening, self._policy, self._audit = listening, policy, audit
        self._sessions: dict[int, int] = {}
        """User by process id of the session."""

    def run(self) -> None:
        """Accept connections. Returns after SIGTERM or SIGINT; sessions that run then go on until their users end."""
        ending, told = socket.socketpair()
        for one in (told, ending):
            one.setblocking(False)
        signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._listening.setblocking(False)
        gc.freeze()  # sessions share this memory
        import select

        waiting = select.poll()
        for one in (self._listening, ending):
            waiting.register(one, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if ending.fileno() in ready and {*ending.recv(4096)} & {signal.SIGTERM, signal.SIGINT}:
                return
            self._reap()
            if self._listening.fileno() in ready:
                with contextlib.suppress(OSError):  # the caller is gone
                    connection, _ = self._listening.accept()
                    with connection:
                        self._admit(connection, (ending, told))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._sessions.pop(pid, None)

    def _admit(self, connection: socket.socket, ours: tuple[socket.socket, ...]) -> None:
        peer = peers.of(connection)
        refusal = self._refusal(peer)
        if refusal:
            self._audit.note(peer, "connect", decision="refused", why=refusal)
            return
        pid = os.fork()
        if pid:
            self._sessions[pid] = peer.uid
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for one in (self._listening, *ours):
                one.close()
            connection.setblocking(True)
            self._serve(connection, peer)
            status = 0
        except Exception:  # noqa: BLE001 - a defect: the journal keeps it, and the caller sees a closed connection
            traceback.print_exc()
        finally:
            os._exit(status)

    def _serve(self, connection: socket.socket, peer: Peer) -> None:
        from accel_magic.broker.session import Session  # numpy and the engine, only in the session's process

        Session(connection, peer, self._policy, self._audit).serve()

    def _refusal(self, peer: Peer) -> str:
        limits, running = self._policy.limits, Counter(self._sessions.values())
        if not self._policy.admits(peer.uid, peer.groups):
            return "user"
        if running[peer.uid] >= limits.processes or running.total() >= limits.all_processes:
            return "processes"
        return "" if peer.pid else "namespace"

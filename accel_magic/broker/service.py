"""The broker's service: accepts connections, and gives each a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import grp
import os
import select
import signal
import socket
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import codec
from accel_magic.broker import broker_policy, peer_identity, trace_registry, usage_table
from accel_magic.broker.audit import Refusals
from accel_magic.errors import MachineError
from accel_magic.kernel.bcc import compiler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.broker.audit import Audit
    from accel_magic.broker.broker_policy import BrokerPolicy
    from accel_magic.broker.peer_identity import Peer
    from accel_magic.broker.usage_table import Share

SOCKET: Final = Path("/run/accel_magic/broker.sock")
_WAITING: Final = 128
_LIMITS: Final = {"processes": "this user", "all_processes": "all users"}
"""Limits for which a connection is refused, and whose processes they count."""
_ENDING: Final = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
)
"""Signals that end the service: those that would end it anyway, without removing its socket."""
_FIRST_INHERITED: Final = 3
"""The first descriptor that systemd passes, LISTEN_FDS in all."""


@contextlib.contextmanager
def listening(path: Path, group: str | None = None) -> Iterator[socket.socket]:
    """Listen at the socket that systemd passed, or at one at a path, which is removed afterwards.

    Args:
        path: Of the socket, if systemd passed none.
        group: Its group, whose members may then connect to it; None: any user may.

    Raises:
        MachineError: The path, the group or the passed socket cannot be used.

    """
    if os.environ.get("LISTEN_FDS") == "1" and os.environ.get("LISTEN_PID") == str(os.getpid()):
        with _passed() as passed:
            yield passed
        return
    with _made(path, group) as made:
        own = _identity(path)
        try:
            yield made
        finally:
            if own is not None and _identity(path) == own:
                path.unlink()


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _made(path: Path, group: str | None) -> socket.socket:
    """Return a new socket that listens at a path."""
    number = -1 if group is None else _group(group)
    if _answers(path):
        raise MachineError(
            f"another broker listens at {path}",
            fix="end it first, or use another path: accel-magic broker run --socket PATH",
            code="broker.running",
        )
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_socket():
            path.unlink()
        _bind(made, path, 0o666 if group is None else 0o660)
        os.chown(path, -1, number, follow_symlinks=False)
        made.listen(_WAITING)
    except OSError as error:
        made.close()
        raise MachineError(
            f"the broker cannot listen at {path}",
            why=str(error.strerror or error),
            fix="use another path: accel-magic broker run --socket PATH",
            code="broker.no-socket",
        ) from None
    return made


def _bind(listening: socket.socket, path: Path, mode: int) -> None:
    """Create the socket's file with its mode: by its path, it could be replaced before the mode is set."""
    before = os.umask(~mode & 0o777)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)


def _passed() -> socket.socket:
    """The socket that systemd passed."""
    try:
        listening = socket.socket(fileno=_FIRST_INHERITED)
        kind = listening.family, listening.type, listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        listening.set_inheritable(False)
    except OSError:
        kind = None
    if kind != (socket.AF_UNIX, socket.SOCK_STREAM, 1):
        raise MachineError(
            "the socket that was passed to the broker cannot be used",
            why="descriptor 3 is not a listening Unix stream socket",
            fix="correct the socket unit: accel-magic broker install",
            code="broker.no-socket",
        )
    for name in ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):  # not for helper processes
        os.environ.pop(name, None)
    return listening


def _group(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise MachineError(
            f"there is no group {name}", fix=f"create it: groupadd --system {name}", code="broker.no-group"
        ) from None


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probing:
        return not probing.connect_ex(str(path))


@dataclass
class _Session:
    """A session that runs.

    Attributes:
        peer: Who connected.
        share: What its traces use.
        reports: Where it sends the list of its traces.
        traces: The last one, which nobody has checked.

    """

    peer: Peer
    share: Share
    reports: socket.socket
    traces: bytes = b""


class Service:
    """Serves until it is terminated. Once it is made, signals end `run` instead of the process.

    Args:
        policy: What is allowed.
        audit: Where requests are noted.

    """

    def __init__(self, policy: BrokerPolicy, audit: Audit) -> None:
        self._policy = policy
        self._refusals = Refusals(audit)
        self._usage = usage_table.UsageTable(policy.limits.all_processes)
        self._sessions: dict[int, _Session] = {}
        """By process id."""
        self._waiting = select.poll()
        self._signals, self._written_signals = socket.socketpair()
        for one in (self._signals, self._written_signals):
            one.setblocking(False)
        signal.set_wakeup_fd(self._written_signals.fileno(), warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def run(self, listening: socket.socket) -> None:
        """Accept connections until a signal ends it; sessions that run then go on until their users end."""
        listening.setblocking(False)
        _preload()
        for one in (listening, self._signals):
            self._waiting.register(one, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in self._waiting.poll()}
            if self._signals.fileno() in ready and {*self._signals.recv(4096)} & _ENDING:
                return
            for session in self._sessions.values():
                if session.reports.fileno() in ready:
                    self._take(session)
            self._reap()
            if listening.fileno() in ready:
                with contextlib.suppress(OSError):  # the caller is gone
                    connection, _ = listening.accept()
                    with connection:
                        self._admit(connection, (listening, self._signals, self._written_signals))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if session := self._sessions.pop(pid, None):
                    self._close(session)
                    self._refusals.used_up(session.peer.uid, session.share.refusals_until_s)
                    self._refusals.note_left_out(session.peer)
                    session.share.give_back()

    def _take(self, session: _Session) -> None:
        """Receive the list of a session's traces, after which the poll reports its next one."""
        try:
            session.traces = session.reports.recv(trace_registry.LARGEST)
        except OSError:
            session.traces = b""
        if not session.traces:
            self._close(session)

    def _close(self, session: _Session) -> None:
        if session.reports.fileno() >= 0:
            self._waiting.unregister(session.reports)
            session.reports.close()

    def _admit(self, connection: socket.socket, ours: tuple[socket.socket, ...]) -> None:
        peer = peer_identity.of(connection)
        refusal = self._refusal(peer)
        if refusal:
            self._refusals.note(peer, "connect", refusal)
            connection.setblocking(False)
            codec.send(connection, codec.Failure.of(self._refused(refusal)))
            return
        theirs, reports = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        share = self._usage.take(peer.uid)
        pid = os.fork()
        if pid:
            reports.close()
            theirs.setblocking(False)
            self._sessions[pid] = _Session(peer, share, theirs)
            self._waiting.register(theirs, select.POLLIN)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_ENDING, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for one in (*ours, theirs):
                one.close()
            for session in self._sessions.values():
                session.reports.close()
            connection.setblocking(True)
            self._serve(connection, peer, share, reports)
            status = 0
        except Exception:  # noqa: BLE001 - a defect: the journal keeps it, and the caller sees a closed connection
            traceback.print_exc()
        finally:
            os._exit(status)

    def _serve(self, connection: socket.socket, peer: Peer, share: Share, reports: socket.socket) -> None:
        from accel_magic.broker.broker_session import BrokerSession

        compiler.start()
        seen = [each for each in self._sessions.values() if _is_ours(peer) or each.peer.uid == peer.uid]
        others = tuple((each.peer, each.traces) for each in seen)
        self._sessions.clear()
        self._refusals.forget_left_out()
        BrokerSession(connection, peer, self._policy, self._refusals, share, reports=reports, others=others).serve()

    def _refusal(self, peer: Peer) -> str:
        limits, sessions = self._policy.limits, Counter(each.peer.uid for each in self._sessions.values())
        if not _is_ours(peer) and not self._policy.admits(peer.uid, peer.groups):
            return "user"
        if sessions[peer.uid] >= limits.processes:
            return "processes"
        if sessions.total() >= limits.all_processes:
            return "all_processes"
        return "" if peer.pid else "namespace"

    def _refused(self, why: str) -> MachineError:
        if why == "user":
            return MachineError(
                "the broker does not admit this user",
                why=f"[users] in {broker_policy.FILE} does not name the user or one of the user's groups",
                fix="ask the administrator to add you there, or to a group that it names",
                code="broker.not-admitted",
            )
        if why == "namespace":
            return MachineError(
                "this container cannot be traced through the broker",
                why="the broker does not see its processes",
                fix="start the container with the host's process ids: docker run --pid=host",
                code="broker.container",
            )
        return self._too_many(why)

    def _too_many(self, limit: str) -> MachineError:
        return MachineError(
            f"too many processes of {_LIMITS[limit]} use the broker",
            why=f"the limit {limit} is {getattr(self._policy.limits, limit)}",
            fix="end another one, for example by shutting down a notebook's kernel",
            code="broker.limit",
        )


def _preload() -> None:
    """Import what sessions need, so that they start at once, with shared memory, and give back what is free."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of numpy: processes that fork should have no other threads
    import accel_magic.broker.broker_session  # noqa: F401

    gc.collect()
    gc.freeze()
    ctypes.CDLL(None).malloc_trim(0)


def _is_ours(peer: Peer) -> bool:
    """Whether a peer is root or the broker's own user, who see all traces."""
    return peer.uid in (0, os.geteuid())

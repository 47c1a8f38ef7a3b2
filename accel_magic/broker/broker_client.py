"""Tracing through the broker: the same plan and attachment as from `KernelEngine`, without privilege here."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import structs

from accel_magic import codec, forks, terminal
from accel_magic.broker import broker_messages
from accel_magic.broker.broker_messages import (
    AttachedTrace,
    AttachRequest,
    Detached,
    DetachRequest,
    FilePlaces,
    FilePoint,
    Hello,
    Planned,
    PlanRequest,
    PythonFrames,
    Statistics,
    StatisticsRequest,
    Welcome,
)
from accel_magic.broker.broker_socket import SOCKET, TIMEOUT_S, connect, path, refused, unreachable
from accel_magic.codec import Descriptor, Failure, Message
from accel_magic.errors import MachineError, ProbeError, TraceStateError
from accel_magic.kernel.attachment import Attachment
from accel_magic.kernel.load.bpf_links import Descriptors
from accel_magic.kernel.stacks import python_layout
from accel_magic.probes.matching import check_limits, no_stacks, user_places

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from accel_magic.broker.broker_messages import Request
    from accel_magic.broker.broker_policy import BrokerPolicy
    from accel_magic.probes.matching import ChooseStacks, Expansion
    from accel_magic.probes.plan import Plan, TraceRequest

A = TypeVar("A", bound=Message)

NAME: Final = "the broker"
_GONE: Final = "the broker's session ended during the trace: nothing was counted after that"
_PLANNED: Final = 4


class BrokerConnection:
    """A connection to the broker, for the process that connected.

    Args:
        where: Path of its socket.
        pid: The process that is traced through it.
        connected: The socket, if that process has connected; else it is this one, and connects.

    """

    def __init__(self, where: Path, pid: int, connected: socket.socket | None = None) -> None:
        self._where, self.pid = where, pid
        self._lock = threading.Lock()
        try:
            self._socket = connect(where) if connected is None else connected
        except OSError as error:
            raise refused(where, error) from None
        self._socket.settimeout(TIMEOUT_S)
        self.planned: list[tuple[TraceRequest, int]] = []

    def ask(self, request: Request, kind: type[A]) -> A:
        """Send a request and wait for the answer.

        Args:
            request: The request.
            kind: Class of its answer.

        Raises:
            MachineError: The broker is gone, or does not answer, or the request cannot be sent.
            AccelMagicError: The answer is an error.

        """
        with self._lock:
            try:
                with contextlib.suppress(BrokenPipeError):  # the broker may have refused it already
                    codec.send(self._socket, request)
                answer = codec.receive(
                    self._socket, kind, Failure, largest=broker_messages.LARGEST_ANSWER, timeout_s=TIMEOUT_S
                )
            except (UnicodeEncodeError, OverflowError) as error:  # of encoding, so that nothing was sent
                raise broker_messages.rejected(str(error)) from None
            except BaseException as error:
                self.close()
                if isinstance(error, OSError):
                    raise unreachable(self._where, str(error) or "it does not answer") from None
                raise
        if isinstance(answer, Failure):
            if answer.last:
                self.close()
            raise answer.error()
        return answer

    @cached_property
    def policy(self) -> BrokerPolicy:
        """What the broker allows; asked for once, and before anything else. Raises MachineError."""
        return self.ask(Hello(version=broker_messages.VERSION), Welcome).policy

    @property
    def closed(self) -> bool:
        """Whether it cannot be used any more: closed here, or by the broker after a long time without requests."""
        if self._socket.fileno() < 0:
            return True
        ended = select.poll()
        ended.register(self._socket, select.POLLRDHUP)
        return bool(ended.poll(0))

    def close(self) -> None:
        """Close it; the broker then ends its side of all traces."""
        self._socket.close()


_connections: dict[Path, BrokerConnection] = {}
_instead: list[BrokerConnection] = []


def trace_instead(pid: int, where: Path, connected: socket.socket) -> None:
    """From now on, trace another process and its descendants instead of this one.

    The broker asks the kernel who connected, so that process must have done it, before it handed over the socket.

    Args:
        pid: The process.
        where: Path of the broker's socket.
        connected: The socket.

    """
    _instead[:] = [BrokerConnection(where, pid, connected)]


def traced_pid() -> int:
    """Process that is traced through the broker: this one, if none was given to `trace_instead`."""
    return _instead[0].pid if _instead else os.getpid()


def connection() -> BrokerConnection:
    """Return the connection to the broker, established on first use. Raises MachineError."""
    if _instead:
        return _instead[0]
    where = path()
    if where is None:
        raise unreachable(SOCKET, "there is no such socket")
    if where in _connections and _connections[where].closed:
        _connections.pop(where).close()
    if where not in _connections:
        _connections[where] = BrokerConnection(where, os.getpid())
    return _connections[where]


def _forget_in_child() -> None:
    for one in (*_connections.values(), *_instead):
        one.close()
    _connections.clear()
    _instead.clear()


forks.in_child(_forget_in_child)


@contextlib.contextmanager
def _opened(
    request: TraceRequest, instead: Mapping[str, Sequence[Path]] | None = None
) -> Iterator[tuple[dict[int, FilePlaces], tuple[Descriptor, ...]]]:
    """Find the places in user-space files, with this process's rights; they and the files, open until the end."""
    found = user_places(request.texts, traced_pid(), instead)
    paths: dict[str, int] = {}
    places = {number: _given(each, paths) for number, each in found.items()}
    if len(paths) > broker_messages.MOST_FILES:
        raise ProbeError(
            f"the probes are in {len(paths)} files",
            why=f"at most {broker_messages.MOST_FILES} are possible through the broker",
            fix="name fewer libraries",
            code="broker.limit",
        )
    with contextlib.ExitStack() as keep:
        files = []
        for one in paths:
            try:
                files.append(Descriptor(os.open(one, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)))
            except OSError as error:
                raise ProbeError(
                    f"{one} cannot be opened", why=str(error.strerror), code="probe.unreadable-file"
                ) from None
            keep.callback(os.close, files[-1].fd)
        yield places, tuple(files)


def _given(found: Expansion | ProbeError, paths: dict[str, int]) -> FilePlaces:
    if isinstance(found, ProbeError):
        return FilePlaces(error=(found.what, found.why, found.fix, found.code))
    points = tuple(
        FilePoint(
            terminal.one_line(point.target),
            point.function,
            point.offset,
            paths.setdefault(point.target, len(paths)),
            point.semaphore,
            point.aliases,
            point.usdt_arguments,
        )
        for point in found.points
    )
    return FilePlaces(points, tuple(found.skipped), tuple(found.notes))


def plan(
    request: TraceRequest, instead: Mapping[str, Sequence[Path]] | None = None, stacks: ChooseStacks = no_stacks
) -> Plan:
    """Have the broker match probes.

    Args:
        request: What to trace.
        instead: Files to look into instead of the library with a name, in a preset's probes.
        stacks: Chooses the stacks of the events.

    Raises:
        AccelMagicError: The broker cannot be used, or does not allow it, or a probe is invalid or matches nothing.

    """
    check_limits(request)
    broker = connection()  # its session starts while this process looks into the files
    with _opened(request, instead) as (places, files):
        _ = broker.policy
        answer = broker.ask(PlanRequest(request=request, places=places, files=files), Planned)
    broker.planned = [*broker.planned, (request, answer.number)][-_PLANNED:]
    kinds, notes = stacks(request, answer.plan.points)
    return replace(answer.plan, request=request, stacks=kinds, notes=(*answer.plan.notes, *notes), through=NAME)


class BrokerEngine:
    """Attaches plans through the broker, as `KernelEngine` does by itself.

    Args:
        tracers: Helper processes whose hits never count.

    """

    def __init__(self, tracers: tuple[int, ...] = ()) -> None:
        self._tracers = tracers

    def attach(self, requested: Plan) -> Attachment:
        """Have the broker match the plan's probes again and attach them. Raises AccelMagicError."""
        request = requested.request
        python = None
        if "python" in requested.stacks:
            known = python_layout.layout()
            python = PythonFrames(fields=known.fields(), hops=known.hops)
        broker = connection()
        asked = AttachRequest(request=request, stacks=requested.stacks, python=python, tracers=self._tracers)
        for earlier, number in reversed(broker.planned):
            if earlier == request:
                try:
                    return _attached(broker, broker.ask(structs.replace(asked, planned=number), AttachedTrace))
                except TraceStateError as error:
                    if error.code != "broker.no-plan":
                        raise
                break
        with _opened(request) as (places, files):
            _ = broker.policy
            return _attached(broker, broker.ask(structs.replace(asked, places=places, files=files), AttachedTrace))


def _attached(broker: BrokerConnection, answer: AttachedTrace) -> Attachment:
    held = Descriptors()
    for descriptor in codec.descriptors_of(answer):
        held.add(descriptor)
    notes: list[str] = []

    def statistics() -> Statistics:
        """What the broker knows of the running trace; zeros if it is gone."""
        try:
            return broker.ask(StatisticsRequest(trace=answer.trace), Statistics)
        except MachineError:
            return Statistics(misses=0, run_ns=0)

    def detach() -> tuple[str, ...]:
        try:
            ended = broker.ask(DetachRequest(trace=answer.trace), Detached)
        except MachineError:
            notes.append(_GONE)
            return ()
        notes.extend(ended.notes)
        return ended.left

    def fd(map_: Descriptor | None) -> int:
        return -1 if map_ is None else map_.fd

    return Attachment(
        plan=answer.plan,
        skipped=answer.skipped,
        layout=answer.layout,
        control_fd=answer.control.fd,
        counters_fd=answer.counters.fd,
        histograms_fd=fd(answer.histograms),
        own_threads_fd=answer.own_threads.fd,
        stacks_fd=fd(answer.stacks),
        waits_fd=fd(answer.waits),
        thread_counts_fd=fd(answer.thread_counts),
        ring_fds=tuple(ring.fd for ring in answer.rings),
        ring_sizes=answer.ring_sizes,
        misses=lambda: statistics().misses,
        run_ns=lambda: statistics().run_ns,
        notes=lambda: tuple(notes),
        detach=detach,
        close=held.close,
    )

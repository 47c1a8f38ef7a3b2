"""The broker's side of one connection: a process of its own, which holds the privilege for one user's traces."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from accel_magic import codec
from accel_magic._version import __version__
from accel_magic.broker import breakpoint_checks, broker_messages, peer_identity, trace_registry
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
    RunningTrace,
    Statistics,
    StatisticsRequest,
    Status,
    StatusRequest,
    TraceToAnswer,
    Welcome,
)
from accel_magic.broker.intake import FileRefusedError, Intake
from accel_magic.broker.session_traces import Running, RunningTraces
from accel_magic.broker.trace_registry import ListedTrace, TraceList
from accel_magic.broker.usage_table import Claim
from accel_magic.codec import Descriptor, Failure, Message, MessageError
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, TraceStateError
from accel_magic.kernel import scope
from accel_magic.kernel.attach.kernel_engine import Caller, KernelEngine
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.stacks import python_layout
from accel_magic.probes.matching import Expansion, make_plan
from accel_magic.probes.plan import USER_KINDS, ProbePoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.broker.audit import Refusals
    from accel_magic.broker.broker_messages import ProbesRequest, Request
    from accel_magic.broker.broker_policy import BrokerPolicy
    from accel_magic.broker.peer_identity import Peer
    from accel_magic.broker.usage_table import Share
    from accel_magic.kernel.attachment import Attachment
    from accel_magic.probes.plan import Plan, ProbeSpec

_MOST_PLANNED: Final = 4
_SEND_S: Final = 20.0
"""Time for the caller to take an answer."""
_IDLE_S: Final = 600.0
"""Time without a request after which a connection without traces is closed; the client then makes a new one."""
_WORK_S: Final = 60.0
"""CPU time for one request; the session ends after it."""
_LAST_S: Final = 20.0
"""Time for requests about traces of a process that has ended, from whoever traced it."""
_MOST_SHOWN: Final = 10_000
"""Traces in the answer to `status`."""
_REPORT_S: Final = 1.0
"""Time for the service to take a list of traces."""
_MEMORY: Final = 4 << 30
"""Address space of a session."""


@dataclass(frozen=True)
class _KeptPlan:
    """A plan that was made, so that attaching it need not make it again; the session keeps its files open."""

    message: PlanRequest
    plan: Plan
    files: list[int]


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


class BrokerSession:
    """Answers one user's requests until the connection closes; everything is then detached.

    Args:
        connection: The socket.
        peer: Who connected.
        policy: What is allowed.
        refusals: Where requests are noted.
        share: Where the session publishes what its traces use.
        reports: Where the service receives the list of running traces.
        others: Peer and list of each other session whose traces this user may see.

    """

    def __init__(
        self,
        connection: socket.socket,
        peer: Peer,
        policy: BrokerPolicy,
        refusals: Refusals,
        share: Share,
        *,
        reports: socket.socket,
        others: tuple[tuple[Peer, bytes], ...] = (),
    ) -> None:
        self._connection, self._peer, self._policy = connection, peer, policy
        self._refusals, self._audit, self._share = refusals, refusals.audit, share
        self._reports, self._others = reports, others
        self._reports.settimeout(_REPORT_S)
        self._planned: dict[int, _KeptPlan] = {}
        self._ended = False

    def serve(self) -> None:
        """Answer requests until the peer's process ends or sends something that is not a request.

        Its children may have inherited the socket, and its id may be given to another process: when it ends, its traces
        are detached, and only their numbers can still be asked for, by the process that it gave the socket to.
        """
        try:
            self._watched = peer_identity.watch(self._connection)
        except OSError:  # it has ended already
            return
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        intake = Intake(self._connection, self._peer.pid)
        self._running = RunningTraces(self._policy.limits, self._share, self._watched, self._note_limit)
        try:
            while self._waited():
                try:
                    data, files = intake.receive()
                except (ConnectionError, TimeoutError):
                    return
                except FileRefusedError as refused:
                    self._note_refusal("message", refused.error.code)
                    self._send(Failure.of(refused.error, last=True))
                    return
                except (OSError, ValueError) as error:
                    self._note_refusal("message", str(error))
                    return
                signal.setitimer(signal.ITIMER_PROF, _WORK_S)
                try:
                    answer = self._answer(data, files)
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                self._send(answer)
        except (TimeoutError, ConnectionError):
            return
        finally:
            for number, _ in self._running:
                self._end(number)
            self._running.close()
            self._refusals.note_left_out(self._peer)
            compiler.stop()
            with contextlib.suppress(OSError):  # the intake may keep it open
                self._connection.shutdown(socket.SHUT_RDWR)

    def _send(self, answer: Message) -> None:
        self._connection.settimeout(_SEND_S)
        codec.send(self._connection, answer)
        self._connection.settimeout(None)

    def _note_refusal(self, what: str, why: str) -> None:
        self._refusals.note(self._peer, what, why)
        self._share.publish_refusals(self._refusals.until_s(self._peer.uid))

    def _note_limit(self, trace: int, limit: str) -> None:
        self._audit.note(self._peer, "limit", trace=trace, why=limit)

    def _waited(self) -> bool:
        """Wait for a request. False if none comes any more."""
        connection = select.poll()
        connection.register(self._connection, select.POLLIN)
        if not self._ended:
            connection.register(self._watched, select.POLLIN)
        while True:
            wait_s = _LAST_S if self._ended else _IDLE_S
            ready = {descriptor for descriptor, _ in connection.poll(math.ceil(1000 * wait_s))}
            if self._watched in ready:
                self._ended = True
                connection.unregister(self._watched)
                self._running.process_ended()
            if self._connection.fileno() in ready:
                return True
            if not len(self._running) or (not ready and self._ended):
                return False

    def _answer(self, data: bytes, files: list[int]) -> Message:
        kind = "message"
        try:
            request = codec.received(data, files, *broker_messages.REQUESTS)
            kind = str(request.__struct_config__.tag)
            try:
                broker_messages.check(request)
                return self._answered(request)
            finally:
                for file in codec.descriptors_of(request):
                    os.close(file)
        except MessageError as error:
            self._note_refusal(kind, str(error))
            return Failure.of(broker_messages.rejected(str(error)))
        except AccelMagicError as error:
            self._note_refusal(kind, error.code)
            return Failure.of(error)

    def _answered(self, request: Request) -> Message:
        match request:
            case Hello():
                return self._hello(request)
            case PlanRequest():
                return self._plan(request)
            case AttachRequest():
                return self._attach(request)
            case StatisticsRequest():
                attachment = self._running[self._number(request)].attachment
                return Statistics(misses=attachment.misses(), run_ns=attachment.run_ns())
            case DetachRequest():
                return self._end(self._number(request))
            case StatusRequest():
                return self._status()
        raise AssertionError(request)

    def _hello(self, hello: Hello) -> Welcome:
        if hello.version != broker_messages.VERSION:
            raise MachineError(
                "the broker is of another version",
                why=f"it is of accel_magic {__version__}",
                fix="ask the administrator to update it, or install that version",
                code="broker.other-version",
            )
        return Welcome(policy=self._policy)

    def _plan(self, message: PlanRequest) -> Planned:
        kept = [os.dup(file.fd) for file in message.files]
        try:
            plan = self._made(message, kept)
        except BaseException:
            _close(kept)
            raise
        number = max(self._planned, default=0) + 1
        self._planned[number] = _KeptPlan(message, plan, kept)
        while len(self._planned) > _MOST_PLANNED:
            _close(self._planned.pop(min(self._planned)).files)
        return Planned(number=number, plan=_shown(plan, _paths(message)))

    def _plan_to_attach(self, message: AttachRequest) -> tuple[Plan, ProbesRequest]:
        """The plan with the number in the message, if its request is the same, or else a new one; and what asked."""
        if message.planned is None:
            return self._made(message, [file.fd for file in message.files]), message
        known = self._planned.get(message.planned)
        if known is None or known.message.request != message.request:
            raise TraceStateError("the broker does not have this plan any more", code="broker.no-plan")
        self._require_caller()
        return known.plan, known.message

    def _require_caller(self) -> None:
        """Raise unless the process that connected still runs, with its user's rights and no others."""
        pid = self._peer.pid
        plain, elsewhere = scope.only_rights_of(pid, self._peer.uid), scope.has_other_ids(pid)
        if peer_identity.has_ended(self._watched):  # tested last: its id may be another process's by then
            raise TraceStateError("the process that asked has ended", code="broker.caller-ended")
        if not plain:
            raise MachineError(
                "this process cannot be traced through the broker",
                why="it has other rights than its user's: of another user or group, or capabilities, such as those of "
                "root in a container",
                fix="trace as an ordinary user, also inside the container",
                code="broker.other-rights",
            )
        if elsewhere:
            raise MachineError(
                "this container cannot be traced through the broker",
                why="it has its own process ids, but BPF programs see those of the host",
                fix="start the container with the host's ids: docker run --pid=host",
                code="broker.container",
            )

    def _made(self, message: ProbesRequest, files: list[int]) -> Plan:
        """Match a request's probes, and check them against the policy."""
        request = message.request
        self._require_caller()
        if request.scope not in ("", "self", str(self._peer.pid)):
            raise ProbeError(
                f"--scope {request.scope} is not allowed through the broker",
                why="it traces only the process that asks, with its threads and descendants",
                fix="use --scope self",
                code="broker.not-allowed",
            )
        places = _Given(message.places, files)
        plan = make_plan(replace(request, scope="self"), pid=self._peer.pid, places=places)
        added = Claim.of(plan)
        self._policy.require_room(added, self._share.claimed() + added)
        return self._policy.allow(plan)

    @contextlib.contextmanager
    def _claimed(self, plan: Plan) -> Iterator[None]:
        """Publish what a trace takes of the user's limits before it is attached, and check it."""
        added = Claim.of(plan)
        self._share.publish(self._running.claim + added)
        try:
            self._policy.require_room(added, self._share.claimed())
            yield
        finally:
            self._share.publish(self._running.claim)

    def _attach(self, message: AttachRequest) -> AttachedTrace:
        plan, planned = self._plan_to_attach(message)
        plan = replace(plan, stacks=message.stacks)
        python = _python(message.python, self._peer.pid) if "python" in plan.stacks else ()
        limits = self._policy.limits
        if len(self._running) >= limits.traces:
            raise TraceStateError(
                "the broker runs too many traces of this process",
                why=f"at most {limits.traces} are allowed at once",
                fix="end another trace first",
                code="broker.too-many-traces",
            )
        breakpoint_checks.check(point for point in plan.points if point.kind in USER_KINDS)
        with self._claimed(plan):
            attachment = self._attached(plan, Caller(self._peer.uid, self._peer.pid, python), message.tracers)
            number = self._running.add(Running(attachment, plan.request.texts))
        self._report()
        probes, filter_ = plan.request.texts, plan.request.filter
        self._audit.note(self._peer, "attach", decision="allowed", trace=number, probes=probes, filter=filter_)
        # The links stay here: whoever had one could keep the probes attached, whatever the limits are.
        return AttachedTrace(
            trace=number,
            plan=_shown(attachment.plan, _paths(planned)),
            skipped=attachment.skipped,
            layout=attachment.layout,
            control=Descriptor(attachment.control_fd),
            counters=Descriptor(attachment.counters_fd),
            own_threads=Descriptor(attachment.own_threads_fd),
            histograms=_map(attachment.histograms_fd),
            stacks=_map(attachment.stacks_fd),
            waits=_map(attachment.waits_fd),
            thread_counts=_map(attachment.thread_counts_fd),
            rings=tuple(map(Descriptor, attachment.ring_fds)),
            ring_sizes=attachment.ring_sizes,
        )

    def _attached(self, plan: Plan, caller: Caller, tracers: tuple[int, ...]) -> Attachment:
        attachment = KernelEngine(tracers, caller).attach(plan.with_points(plan.kernel_points))
        try:
            self._require_caller()
        except AccelMagicError:
            attachment.close()
            raise
        return attachment

    def _number(self, request: TraceToAnswer) -> int:
        if request.trace not in dict(self._running):
            raise MessageError("no such trace")
        return request.trace

    def _end(self, number: int) -> Detached:
        running = self._running[number]
        duration_s, hits = round(running.duration_s, 3), running.hits
        answer = self._running.end(number)
        self._audit.note(self._peer, "detach", trace=number, duration_s=duration_s, hits=hits)
        self._report()
        return answer

    def _report(self) -> None:
        """Send the list of running traces to the service, which may have ended."""
        traces = [ListedTrace.of(number, running.started, running.probes) for number, running in self._running]
        with contextlib.suppress(OSError):
            codec.send_packet(self._reports, TraceList(traces=tuple(traces[: trace_registry.MOST])))

    def _status(self) -> Status:
        traces: list[RunningTrace] = []
        for peer, data in self._others:
            with contextlib.suppress(MessageError):  # of a session that has no list yet, or sent something else
                traces += [RunningTrace(peer.uid, peer.pid, one) for one in codec.decoded(data, TraceList).traces]
        return Status(traces=tuple(traces[:_MOST_SHOWN]))


def _map(fd: int) -> Descriptor | None:
    """A map of an attachment, in which -1 is none."""
    return None if fd < 0 else Descriptor(fd)


class _Given:
    """Places in user-space files as the caller's process found them, in the files that it sent."""

    def __init__(self, places: Mapping[int, FilePlaces], files: list[int]) -> None:
        self._places, self._files = places, files

    def __call__(self, number: int, spec: ProbeSpec) -> Expansion:
        given = self._places.get(number)
        if given is None:
            raise MessageError(f"no places for probe {number}")
        if given.error is not None:
            what, why, fix, _ = given.error
            raise ProbeError(what, why=why, fix=fix, code="broker.no-places")
        points = [self._point(point, spec) for point in given.points]
        return Expansion(points, list(given.skipped), list(given.notes))

    def _point(self, point: FilePoint, spec: ProbeSpec) -> ProbePoint:
        file = self._files[point.file]
        breakpoint_checks.check_file(file)
        return ProbePoint(
            0,
            spec.text,
            spec.kind,
            f"/proc/self/fd/{file}",
            point.function,
            latency=spec.latency,
            offset=point.offset,
            usdt_arguments=point.usdt_arguments if spec.kind == "usdt" else (),
            semaphore=point.semaphore if spec.kind == "usdt" else 0,
            aliases=point.aliases,
        )


def _paths(message: ProbesRequest) -> dict[tuple[str, int], str]:
    """The path of each place, as the caller named it, by function and offset."""
    given = message.places.values()
    return {(point.function, point.offset): point.target for places in given for point in places.points}


def _shown(plan: Plan, paths: dict[tuple[str, int], str]) -> Plan:
    """Replace descriptors by the caller's paths."""
    return plan.with_points(
        replace(point, target=paths.get((point.function, point.offset), point.target)) for point in plan.points
    )


def _python(frames: PythonFrames | None, pid: int) -> tuple[str, ...]:
    """Check the caller's Python layout; return the constants for the programs."""
    if frames is None or frames.fields.keys() != {*python_layout.FIELDS}:
        raise MessageError("no layout of Python")
    if not 0 < frames.fields["frame_words"] <= python_layout.MOST_FRAME_WORDS:
        raise MessageError("not a layout of Python")
    return tuple(python_layout.defines(frames.fields, frames.hops, pid))

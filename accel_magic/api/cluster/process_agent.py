"""The agent of one worker: a process of its own, which traces the worker and its children for a client elsewhere.

`python -m accel_magic.api.cluster.process_agent WORKER SILENCE_S FOLDER [BROKER DESCRIPTOR]`, started by
`cluster.remote.start_agent`, prints its socket's path and continues in the background, so that it outlives the worker.
Only processes of the same user (or root) on this machine are served. It ends when asked to, or when it has heard
nothing from the client for SILENCE_S seconds: then it detaches, and completes its dataset. Events are written to the
dataset while it traces, so those until then remain if it is killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic import channel, codec, local_socket, machine, scratch
from accel_magic.api.trace_options import DEFAULT_MAX_EVENTS, Options
from accel_magic.cluster.agent_messages import (
    AgentRequest,
    AttachRequest,
    Beat,
    End,
    Go,
    Halt,
    Returned,
    Sample,
    StartedAgent,
    Stop,
    StoppedTrace,
)
from accel_magic.cluster.node_samples import NodeCounters
from accel_magic.codec import Failure
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, RecordingError, TraceStateError
from accel_magic.recording import result_files

if TYPE_CHECKING:
    from accel_magic.api.flame_trace import FlameTrace
    from accel_magic.api.gputrace import GpuTrace
    from accel_magic.api.probe_trace import Trace
    from accel_magic.cluster.folders import PartDescription
    from accel_magic.recording.live_samples import LiveSample
    from accel_magic.recording.recording import Recording

SILENCE_S: Final = 30.0
"""Time without a word from the client after which an agent ends."""
_MESSAGE_S: Final = 20.0


class AttachProbes(AttachRequest, frozen=True):
    """Match probes and attach them.

    Attributes:
        probes: As on the `%%ktrace` line.
        options: The other options.
        live: Whether samples are wanted meanwhile.
        run: Name of the trace, the same on all workers.
        name: Name of the worker.

    """

    probes: tuple[str, ...]
    options: Options
    live: bool
    run: str
    name: str


_REQUESTS: Final[tuple[type[AgentRequest], ...]] = (AttachProbes, Beat, Go, Sample, Halt, Stop, End)


@dataclass(frozen=True)
class _Place:
    """Where a recording is written, its description when it began, and the probe of each point."""

    part: Path
    described: PartDescription
    probes: tuple[str, ...]


class ProcessAgent:
    """Traces one worker.

    Args:
        worker: Its process id.
        folder: Where to write the recording.
        temporary: That folder, if it is a temporary one.

    """

    def __init__(self, worker: int, folder: Path, temporary: scratch.Scratch | None) -> None:
        self._worker, self._folder, self._temporary = worker, folder, temporary
        self._process = os.pidfd_open(worker)
        self._trace: Trace | GpuTrace | FlameTrace | None = None
        self._newest: LiveSample | None = None
        self._summary: Any = None
        self._recording: _Place | None = None
        self._ended = False

    def serve(self, listening: socket.socket, silence_s: float) -> None:
        """Answer requests until asked to end, or until nothing was heard for a while."""
        waiting = select.poll()
        waiting.register(listening, select.POLLIN)
        last_received = time.monotonic()
        try:
            while not self._ended and (left := last_received + silence_s - time.monotonic()) > 0:
                if waiting.poll(1000 * left):
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError, ValueError):  # the other side has ended
                        if local_socket.stranger(connection) is None:
                            self._answer(connection)
                            last_received = time.monotonic()
            self._over()
        finally:
            self._abort()

    def _over(self) -> None:
        """Nothing was heard: detach, and keep what was recorded."""
        if not self._ended and self._trace is not None and self._trace.running:
            self._stop()

    def _abort(self) -> None:
        if self._trace is not None:
            self._trace.abort()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_MESSAGE_S)
        request = codec.received(*channel.receive_bytes(connection), *_REQUESTS)
        if not isinstance(request, Beat):
            codec.send(connection, self.answer(request))

    def answer(self, request: AgentRequest) -> Returned[Any] | Failure:
        """Handle a request."""
        try:
            return Returned(value=self._value(request))
        except AccelMagicError as error:
            return Failure.of(error)
        except Exception as error:  # noqa: BLE001 - reported to the client
            return Failure.of(
                MachineError(
                    "the agent failed",
                    why=f"{type(error).__name__}: {error}",
                    fix="report this to accel_magic, with the traced block",
                    code="cluster.agent-failed",
                )
            )

    def _value(self, request: AgentRequest) -> Any:
        match request:
            case AttachRequest():
                self._attach(request)
            case Go():
                self._attached().go()
            case Sample():
                return self._sample()
            case Halt():
                self._attached().halt()
            case Stop():
                return self._stop()
            case End():
                self._end()
            case _:
                raise no_request(request)
        return None

    @property
    def _worker_ended(self) -> bool:
        ended = select.poll()
        ended.register(self._process, select.POLLIN)
        return bool(ended.poll(0))

    def _attach(self, request: AttachRequest) -> None:
        """Match the probes and attach them."""
        if not isinstance(request, AttachProbes):
            raise no_request(request)
        import pyarrow as pa  # noqa: F401 - its allocator's thread must exist before take_all()

        from accel_magic.api.probe_trace import Trace
        from accel_magic.cluster import clock, folders
        from accel_magic.cluster.folders import PartDescription
        from accel_magic.cluster.node import Node
        from accel_magic.engine.helper_processes import warm_up
        from accel_magic.kernel import own_threads

        warm_up()  # the helper processes start while the probes are matched
        own_threads.take_all()
        options = request.options
        if self._temporary is not None and options.mode == "auto" and options.max_events is None:
            options = replace(options, max_events=DEFAULT_MAX_EVENTS)  # nobody has given a folder with space for more
        node = Node(os.uname().nodename or "unknown", job=request.run, name=request.name)
        place = folders.place(self._folder, node, request.run)
        trace = Trace(request.probes, options, save=f"{place}/", pid=self._worker)
        plan = trace.prepare()
        if plan.task_points:
            raise ProbeError(
                f"{plan.task_points[0].probe}: ITT tasks cannot be traced on workers",
                why="they are recorded by libraries inside the process that traces",
                fix="trace in the task itself: with accel_magic.trace(...), and return what you need of the result",
                code="cluster.no-tasks",
            )
        folders.make(self._folder, node, request.run)
        described = PartDescription(node, "tracing", (clock.read(),), tuple(machine.describe().items()))
        folders.write(place, described)
        trace.attach(self._keep if request.live else None)
        self._trace, self._recording = trace, _Place(place, described, tuple(point.probe for point in plan.points))

    def _attached(self) -> Trace | GpuTrace | FlameTrace:
        if self._trace is None:
            raise _traces_nothing()
        return self._trace

    def _keep(self, samples: list[LiveSample]) -> None:
        self._newest = samples[-1]

    def _sample(self) -> NodeCounters:
        """The newest counters."""
        sample = self._newest
        probes = () if self._recording is None else self._recording.probes
        hits = dict.fromkeys(probes, 0)
        if sample is None:
            return NodeCounters(hits=hits, worker_ended=self._worker_ended)
        for probe, count in zip(probes, sample.hits.tolist(), strict=True):
            hits[probe] += count
        return NodeCounters(sample.time_ns, hits, sample.recorded, sample.lost, self._worker_ended)

    def _stop(self) -> Any:
        """Detach, and complete the dataset; again, return the same."""
        if self._summary is None:
            worker_ended = self._worker_ended
            trace = self._attached()
            with contextlib.suppress(RecordingError):  # not all events could be written: a note says so
                trace.stop()
            self._summary = self._written(trace.result, worker_ended)
        return self._summary

    def _written(self, result: Any, worker_ended: bool) -> Any:
        """Complete the description of the recording; describe where it is."""
        from accel_magic.cluster import clock, folders
        from accel_magic.recording import dataset

        recording: Recording = result.recording
        if self._recording is None:
            raise _traces_nothing()
        part, described = self._recording.part, self._recording.described
        folders.write(part, replace(described, state="ended", readings=(*described.readings, clock.read())))
        return StoppedTrace(
            temporary="" if self._temporary is None else str(self._folder),
            path=str(part),
            counts_path=str(part / dataset.DESCRIPTION),
            event_count=recording.event_count,
            worker_ended=worker_ended,
        )

    def _end(self) -> None:
        """End without a result, unless it was stopped."""
        self._ended = True
        if self._summary is None and self._temporary is not None:
            self._temporary.remove()


def main(worker: int, silence_s: float, folder: str, broker: str = "", descriptor: str = "") -> None:
    """Continue in the background, print how to reach the agent, and serve.

    Args:
        worker: Process id of the worker.
        silence_s: Time without a word from the client after which the agent ends.
        folder: Where to write the recording; "" for a new temporary folder.
        broker: Path of the broker's socket, if the worker can be traced only through it.
        descriptor: The worker's connection to it.

    """
    if os.fork():
        os._exit(0)  # its child is not a child of the worker
    if broker:
        from accel_magic.broker import broker_client

        broker_client.trace_instead(worker, Path(broker), socket.socket(fileno=int(descriptor)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    agent = None
    try:
        place, temporary = folder_for(folder)
        own, listening, name = _listening()
        agent = ProcessAgent(worker, place, temporary)
        data = codec.encoded(Returned(value=StartedAgent(name, os.getpid())))
    except AccelMagicError as error:
        data = codec.encoded(Failure.of(error))
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # whoever started this waits for their end
        os.dup2(nothing, stream)
    if agent is not None:
        try:
            with listening:
                agent.serve(listening, silence_s)
        finally:
            own.remove()


def _listening() -> tuple[scratch.Scratch, socket.socket, str]:
    """Listen in a folder that only this user can enter, so nobody else can fill the queue of connections."""
    try:
        own = scratch.make("agent")
        return (own, *local_socket.listen_in(own.path))
    except OSError as error:
        raise _no_folder(str(error)) from None


def no_request(request: object) -> TypeError:
    """Make the error for what this agent is never sent."""
    return TypeError(f"{type(request).__name__} is not a request to this agent")


def _traces_nothing() -> TraceStateError:
    return TraceStateError("this agent traces nothing", fix="attach first", code="trace.not-running")


def folder_for(given: str) -> tuple[Path, scratch.Scratch | None]:
    """Make an agent's folder; a temporary one if none is given. Raises MachineError."""
    try:
        if not given:
            made = scratch.make("cluster")
            return made.path.resolve(), made
        with result_files.made(result_files.followed(given)) as folder:
            return folder.path, None
    except RecordingError as error:
        raise _no_folder(error.why) from None
    except OSError as error:
        raise _no_folder(str(error)) from None


def _no_folder(why: str) -> MachineError:
    return MachineError(
        "the agent has no folder for its recording or its socket",
        why=why,
        fix="give a folder that workers can write to: folder=; temporary folders are made in TMPDIR, or /tmp",
        code="cluster.no-folder",
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])

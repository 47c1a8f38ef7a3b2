"""A trace on the workers of a cluster, around a block here."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from accel_magic.api.block import Block
from accel_magic.api.cluster.agent import SILENCE_S
from accel_magic.api.cluster.nodes import ClusterRecordings, NodeRecording, recording_of
from accel_magic.cluster import remote
from accel_magic.cluster.adapters import CALL_S, NodeGoneError, adapter_of
from accel_magic.cluster.remote import Call
from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.kernel import own_threads
from accel_magic.probes import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from accel_magic.api.trace import Options
    from accel_magic.cluster.adapters import Adapter, NodeName
    from accel_magic.recording.recording import Outcome
    from accel_magic.recording.session import Show

_BEATS: Final = 6
"""Heartbeats in the time after which an agent ends without one."""
_END_S: Final = 30.0
_SCOPES: Final = ("self", "all")


@dataclass
class _Traced:
    """One node of a running trace: its agent, once it has been started, or why it is not traced."""

    node: NodeName
    agent: dict[str, Any] | None = None
    error: AccelMagicError | None = None
    answer: Any = field(default=None, repr=False)

    @property
    def socket(self) -> str:
        """Name of the agent's socket."""
        assert self.agent is not None  # noqa: S101 - after it was started
        return str(self.agent["socket"])


class ClusterTrace(Block[ClusterRecordings]):
    """One trace on all workers of a cluster.

    Each worker gets an agent on its machine: a process that attaches the probes with the worker and its children as
    the scope `self`. While the trace runs, a thread per worker sends heartbeats: an agent that hears nothing for
    `silence_s` detaches, keeps its file and ends. A worker that ends does not end its agent.

    Args:
        probes: As on the `%%ktrace` line.
        options: The other options; the scope is `self` (the default, also of kernel functions) or `all`, which counts
            each machine once per worker.
        on: A `distributed.Client`, an `ipyparallel.Client` or a `DirectView`.
        save: Not supported.
        require_all: Raise if a worker cannot be traced; otherwise the result names it.
        folder: Folder on the nodes for the recordings, which then stay there. None: a temporary folder, removed with
            the result.
        silence_s: Time without a heartbeat after which an agent ends.

    """

    KIND = "ktrace"

    def __init__(
        self,
        probes: tuple[str, ...],
        options: Options,
        on: Any,
        *,
        save: str | Path | None = None,
        require_all: bool = False,
        folder: str | Path | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        if save is not None:
            raise ProbeError(
                "save= cannot be used with on=",
                why="each node has a recording of its own",
                fix="use folder= to keep the recordings on the nodes, or save each node's result",
                code="cluster.no-save",
            )
        if options.scope not in (None, *_SCOPES):
            raise ProbeError(
                f"scope={options.scope!r} cannot be used with on=",
                why="a process id means another process on each node",
                fix="use scope='self' (each worker and its children) or scope='all'",
                code="cluster.scope",
            )
        super().__init__(None)
        self.probes, self.options = probes, options
        self._on, self._require_all, self._folder, self._silence_s = on, require_all, folder, silence_s
        self._adapter: Adapter = adapter_of(on)
        self._traced: list[_Traced] = []
        self._started = ""
        self._times_ns = [0, 0]

    def again(self) -> ClusterTrace:
        """Make another trace with the same arguments."""
        return ClusterTrace(
            self.probes,
            self.options,
            self._on,
            require_all=self._require_all,
            folder=self._folder,
            silence_s=self._silence_s,
        )

    def _warm_up(self) -> None:
        """Nothing is traced here."""

    def prepare(self) -> list[NodeName]:
        """Find the workers. Raises ProbeError or MachineError: a probe is malformed, or there is no worker."""
        grammar.parse_all(self.probes)
        nodes = self._adapter.nodes()
        if not nodes:
            raise MachineError(
                "the cluster has no workers",
                fix="start some, and wait until they have connected: client.wait_for_workers(1) or "
                "client.wait_for_engines(1)",
                code="cluster.no-workers",
            )
        self._traced = [_Traced(node, error=node.error) for node in nodes]
        return nodes

    def _attach(self, show: Show | None) -> None:  # noqa: ARG002 - nothing is shown live
        self._undo.callback(self._end_agents)
        folder = "" if self._folder is None else str(self._folder)
        start = Call(remote.start_agent, (folder, self._silence_s, self._adapter.queues))
        healthy = [traced for traced in self._traced if traced.error is None]
        answers = self._adapter.call_each({traced.node: start for traced in healthy})
        for traced in healthy:
            answer = answers[traced.node]
            if isinstance(answer, AccelMagicError):
                traced.error = answer
            else:
                traced.agent = answer
        self._undo.callback(self._beats().set)
        options = {**asdict(self.options), "scope": self.options.scope or "self"}
        self._ask({"kind": "attach", "probes": self.probes, "options": options})
        self._check_attached()

    def _check_attached(self) -> None:
        """Raise if no worker can be traced, or if all are required and one cannot."""
        failed = [(traced.node, traced.error) for traced in self._traced if traced.error is not None]
        if not failed or (len(failed) < len(self._traced) and not self._require_all):
            return
        _, first = failed[0]
        kind = type(first) if all(type(error) is type(first) for _, error in failed) else MachineError
        if not issubclass(kind, ProbeError):
            kind = MachineError
        raise kind(
            f"{len(failed)} of {len(self._traced)} workers cannot be traced",
            why="; ".join(dict.fromkeys(f"{error.what}: {error.why}".rstrip(": ") for _, error in failed)),
            fix=first.fix,
            code="cluster.not-traced",
        )

    def go(self) -> None:
        """Start counting on all nodes, at nearly the same time."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self._ask({"kind": "go"})
        self._times_ns = [time.monotonic_ns(), 0]

    def halt(self) -> None:
        """Stop counting on all nodes."""
        if self._traced and not self._times_ns[1]:
            self._times_ns[1] = time.monotonic_ns()
            self._ask({"kind": "halt"}, math.inf if self._adapter.queues else CALL_S)

    def _finish(self, outcome: Outcome, value: object) -> ClusterRecordings:  # noqa: ARG002 - the block's, not theirs
        self._each(lambda traced: Call(remote.ask_to_stop, (traced.socket,)))
        return self._result_of([self._recording(traced) for traced in self._traced], value)

    def _result_of(self, nodes: list[NodeRecording], value: object) -> ClusterRecordings:
        """Make the result from what was recorded on each node."""
        return ClusterRecordings(nodes, self._started, (self._times_ns[1] - self._times_ns[0]) / 1e9, value)

    def _recording(self, traced: _Traced) -> NodeRecording:
        node, stopped = traced.node, traced.answer
        if traced.agent is None or traced.error is not None:
            return NodeRecording(node.name, node.host, node.pid, node.kernel, error=traced.error)
        route = _Route(self._adapter, node, stopped["path"])
        recording = recording_of(stopped["counts"], stopped["event_count"], route.read)
        if stopped["temporary"]:
            weakref.finalize(recording, route.remove, stopped["temporary"]).atexit = False
        return NodeRecording(
            node.name,
            node.host,
            node.pid,
            node.kernel,
            start_ns=stopped["start_ns"],
            path=stopped["path"],
            bytes=stopped["bytes"],
            recording=recording,
            error=_worker_ended(node) if stopped["worker_ended"] else None,
        )

    def _ask(self, message: dict[str, Any], timeout_s: float = CALL_S) -> None:
        """Send a request to the agents of all nodes that are traced, in parallel."""
        self._each(lambda traced: Call(remote.ask, (traced.socket, message)), timeout_s)

    def _each(self, call: Callable[[_Traced], Call], timeout_s: float = CALL_S) -> None:
        """Call a function near the agent of each node that is traced, and keep its answer or error."""
        asked = [traced for traced in self._traced if traced.agent is not None and traced.error is None]
        answers = _routed(self._adapter, {traced.node: call(traced) for traced in asked}, timeout_s)
        for traced in asked:
            answer = answers[traced.node]
            if isinstance(answer, AccelMagicError):
                traced.error = answer
            else:
                traced.answer = answer

    def _end_agents(self) -> None:
        """End all agents; what is still attached is detached."""
        alive = [traced for traced in self._traced if traced.agent is not None]
        self._traced = []
        _routed(
            self._adapter,
            {traced.node: Call(remote.ask, (traced.socket, {"kind": "end"})) for traced in alive},
            _END_S,
        )

    def _beats(self) -> threading.Event:
        """Send heartbeats to all agents, a thread for each, until the event that is returned is set."""
        over = threading.Event()
        names: dict[str, list[str]] = {}
        alive = [traced for traced in self._traced if traced.agent is not None]
        for traced in alive:
            names.setdefault(traced.node.place, []).append(traced.socket)
        for traced in alive:
            beat = (self._adapter, traced.node, tuple(names[traced.node.place]), self._silence_s / _BEATS, over)
            own_threads.Thread(target=_beat, args=beat, name="accel_magic heartbeat").start()
        return over


def _beat(adapter: Adapter, node: NodeName, names: tuple[str, ...], every_s: float, over: threading.Event) -> None:
    """Reach all agents on a node's machine through its worker, again and again: one of the workers may be busy."""
    while not over.wait(every_s):
        try:
            adapter.call(node, remote.beat, names)
        except NodeGoneError:
            return  # the other workers there go on
        except AccelMagicError:
            continue


def _routed(adapter: Adapter, calls: dict[NodeName, Call], timeout_s: float = CALL_S) -> dict[NodeName, Any]:
    """Make calls; those for workers that have ended, through other workers of the same machine."""
    answers = adapter.call_each(calls, timeout_s)
    gone = [node for node, answer in answers.items() if isinstance(answer, NodeGoneError)]
    if not gone:
        return answers
    others = adapter.nodes()
    for node in gone:
        for other in others:
            if other.error is None and other.place == node.place:
                answers[node] = adapter.call_each({other: calls[node]}, timeout_s)[other]
                if not isinstance(answers[node], NodeGoneError):
                    break
    return answers


@dataclass(frozen=True)
class _Route:
    """The way to a node's file."""

    adapter: Adapter
    node: NodeName
    path: str

    def read(self) -> Iterator[bytes]:
        """Read the file, in parts. Raises AccelMagicError."""
        offset = 0
        while True:
            part = _routed(self.adapter, {self.node: Call(remote.read, (self.path, offset))})[self.node]
            if isinstance(part, AccelMagicError):
                raise part
            if not part:
                return
            yield part
            offset += len(part)

    def remove(self, folder: str) -> None:
        """Remove a folder there, if the cluster still runs."""
        own_threads.Thread(target=self._remove, args=(folder,), name="accel_magic cleanup").start()

    def _remove(self, folder: str) -> None:
        with contextlib.suppress(Exception):  # of any kind: the client may be closed
            _routed(self.adapter, {self.node: Call(remote.remove, (folder,))}, _END_S)


def _worker_ended(node: NodeName) -> NodeGoneError:
    return NodeGoneError(
        f"{node.name}: the worker ended while it was traced",
        why=f"process {node.pid} on {node.host} was killed, or ended",
        fix="its counts until then are in the result; look into its log",
        code="cluster.worker-ended",
    )

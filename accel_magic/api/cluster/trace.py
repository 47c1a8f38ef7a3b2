"""A trace on the workers of a cluster, around a block here."""

from __future__ import annotations

import math
import threading
import time
import weakref
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from accel_magic.api.block import Block
from accel_magic.api.cluster.agent import SILENCE_S
from accel_magic.api.cluster.beats import Beats
from accel_magic.api.cluster.clocks import Clocks
from accel_magic.api.cluster.fetching import recording_of
from accel_magic.api.cluster.live import LiveNodes, Watched
from accel_magic.api.cluster.routes import END_S, Route, routed
from accel_magic.api.cluster.workers import Workers, workers_of
from accel_magic.cluster import remote
from accel_magic.cluster.adapters import CALL_S, NodeGoneError, adapter_of
from accel_magic.cluster.folders import Problem
from accel_magic.cluster.node import Node
from accel_magic.cluster.remote import Call
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, RecordingError
from accel_magic.kernel import own_threads
from accel_magic.probes import grammar
from accel_magic.results.cluster import ClusterResult, NodeTrace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accel_magic.api.trace import Options
    from accel_magic.cluster.adapters import Adapter, NodeName
    from accel_magic.recording.recording import Outcome
    from accel_magic.recording.session import Show

_BEATS: Final = 6
"""Heartbeats in the time after which an agent ends without one."""


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


class ClusterTrace(Block[ClusterResult]):
    """One trace on all workers of a cluster.

    Each worker gets an agent on its machine: a process that attaches the probes with the worker and its children as
    the scope `self`. While the trace runs, a thread sends heartbeats: an agent that hears nothing for
    `silence_s` detaches, keeps its file (a temporary one until the next trace there) and
    ends. A worker that ends does not end its agent.

    Args:
        probes: As on the `%%ktrace` line.
        options: The other options; the scope is `self` (the default, also of kernel functions), or `all`: one worker of
            each machine traces everything there. In labs it is `all`.
        on: A `distributed.Client`, an `ipyparallel.Client` or a `DirectView`, or a `Lab` or a list of some.
        save: Write the result of all workers together to this Parquet file; this fetches their events.
        nodes: Trace only workers whose name or host matches this pattern (`*`, `?`, `[abc]`). None: all.
        require_all: Raise if a worker cannot be traced; otherwise the result names it.
        folder: Folder on the nodes for the recordings, which then stay there. None: a temporary folder, removed with
            the result.
        silence_s: Time without a heartbeat after which an agent ends; None: 30 s, in labs more.

    """

    KIND = "ktrace"
    of_nodes = True

    def __init__(
        self,
        probes: tuple[str, ...],
        options: Options,
        on: Any,
        *,
        save: str | Path | None = None,
        nodes: str | None = None,
        require_all: bool = False,
        folder: str | Path | None = None,
        silence_s: float | None = None,
    ) -> None:
        super().__init__(save)
        self._adapter: Adapter = adapter_of(on)
        scope = self._adapter.scopes[0] if options.scope is None else options.scope
        if scope not in self._adapter.scopes:
            raise ProbeError(
                f"scope={scope!r} cannot be used with on=",
                why="everything in a lab is traced, because nothing else runs there"
                if scope == "self"
                else "a process id means another process on each node",
                fix=f"use scope={' or scope='.join(map(repr, self._adapter.scopes))}",
                code="cluster.scope",
            )
        self.probes, self.options = probes, replace(options, scope=scope)
        self._on, self._nodes = on, nodes
        self._require_all, self._folder = require_all, folder
        self._silence_s = self._adapter.slowness * SILENCE_S if silence_s is None else silence_s
        self._traced: list[_Traced] = []
        self._clocks = Clocks(self._adapter)
        self._counting = False
        self._show: Callable[[list[Any]], None] | None = None
        self._shown = threading.Event()
        """Set when nothing more is shown."""

    def again(self) -> ClusterTrace:
        """Make another trace with the same arguments."""
        return ClusterTrace(
            self.probes,
            self.options,
            self._on,
            save=self._save,
            nodes=self._nodes,
            require_all=self._require_all,
            folder=self._folder,
            silence_s=self._silence_s,
        )

    def _warm_up(self) -> None:
        """Nothing is traced here."""

    def prepare(self) -> list[NodeName]:
        """Find the workers. Raises ProbeError or MachineError: a probe is malformed, or there is no such worker."""
        grammar.parse_all(self.probes)
        nodes = workers_of(self._adapter, self._nodes)
        if self.options.scope == "all":
            machines: dict[str | NodeName, NodeName] = {}
            for node in nodes:
                machines.setdefault(node.boot or node, node)
            nodes = list(machines.values())
        self._traced = [_Traced(node, error=node.error) for node in nodes]
        return nodes

    def _attach(self, show: Show | None) -> None:
        self._show = show
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
        self._ask({"kind": "attach", "probes": self.probes, "options": asdict(self.options), "live": show is not None})
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
        errors = self._clocks.start([traced.node for traced in self._asked()])
        for traced in self._asked():
            traced.error = errors.get(traced.node)
        self._counting = True
        self._ask({"kind": "go"})
        if self._show is not None:
            self._start_showing(self._show)

    def _start_showing(self, show: Callable[[list[Any]], None]) -> None:
        self._shown = over = threading.Event()
        self._undo.callback(over.set)
        watched = [
            Watched(traced.node, "" if traced.agent is None else traced.socket, traced.error) for traced in self._traced
        ]
        nodes = LiveNodes(self._adapter, self._workers(), watched, show)
        own_threads.Thread(target=nodes.run, args=(time.monotonic(), over), name="accel_magic live").start()

    def halt(self) -> None:
        """Stop counting on all nodes."""
        self._shown.set()
        if self._counting:
            self._counting = False
            self._ask({"kind": "halt"}, math.inf if self._adapter.queues else CALL_S)
            self._clocks.end()

    def _finish(self, outcome: Outcome, value: object) -> ClusterResult:  # noqa: ARG002 - the block's, not theirs
        self._each(lambda traced: Call(remote.ask_to_stop, (traced.socket,)))
        return ClusterResult([self._part(traced) for traced in self._traced], value)

    def _part(self, traced: _Traced) -> NodeTrace:
        """What was recorded of a worker, or why nothing was."""
        node, stopped = traced.node, traced.answer
        described, pid = Node(node.host, name=node.name), node.pid or None
        if traced.agent is None or traced.error is not None:
            return NodeTrace(described, None, None, _problem(traced.error), pid=pid)
        route = Route(self._adapter, node, stopped["path"])
        try:
            recording = recording_of(stopped["counts"], stopped["event_count"], route.read)
        except RecordingError as error:
            return NodeTrace(described, None, None, _problem(error), stopped["path"], pid)
        if stopped["temporary"]:
            weakref.finalize(recording, route.remove, stopped["temporary"]).atexit = False
        ended = _problem(_worker_ended(node)) if stopped["worker_ended"] else None
        return NodeTrace(described, recording, self._clocks.line(node), ended, stopped["path"], pid)

    def _ask(self, message: dict[str, Any], timeout_s: float = CALL_S) -> None:
        """Send a request to the agents of all nodes that are traced, in parallel."""
        self._each(lambda traced: Call(remote.ask, (traced.socket, message)), timeout_s)

    def _each(self, call: Callable[[_Traced], Call], timeout_s: float = CALL_S) -> None:
        """Call a function near the agent of each node that is traced, and keep its answer or error."""
        asked = self._asked()
        answers = routed(self._adapter, {traced.node: call(traced) for traced in asked}, timeout_s)
        for traced in asked:
            answer = answers[traced.node]
            if isinstance(answer, AccelMagicError):
                traced.error = answer
            else:
                traced.answer = answer

    def _asked(self) -> list[_Traced]:
        """The nodes that are traced."""
        return [traced for traced in self._traced if traced.agent is not None and traced.error is None]

    def _end_agents(self) -> None:
        """End all agents; what is still attached is detached."""
        alive = [traced for traced in self._traced if traced.agent is not None]
        self._traced = []
        routed(
            self._adapter,
            {traced.node: Call(remote.ask, (traced.socket, {"kind": "end"})) for traced in alive},
            END_S,
        )

    def _workers(self) -> Workers:
        return Workers(self._adapter, [traced.node for traced in self._traced])

    def _beats(self) -> threading.Event:
        """Send heartbeats to all agents until the event that is returned is set."""
        over = threading.Event()
        agents: dict[str, list[str]] = {}
        for traced in self._traced:
            if traced.agent is not None:
                agents.setdefault(traced.node.place, []).append(traced.socket)
        beats = Beats(self._adapter, self._workers(), agents)
        send = (self._silence_s / _BEATS, over)
        own_threads.Thread(target=beats.send, args=send, name="accel_magic heartbeat").start()
        return over


def _problem(error: AccelMagicError | None) -> Problem | None:
    return None if error is None else Problem(error.what, error.why or "", error.fix or "", error.code)


def _worker_ended(node: NodeName) -> NodeGoneError:
    return NodeGoneError(
        f"{node.name}: the worker ended while it was traced",
        why=f"process {node.pid} on {node.host} was killed, or ended",
        fix="its counts until then are in the result; look into its log",
        code="cluster.worker-ended",
    )

"""A trace of probes on the workers of a cluster, around a block here."""

from __future__ import annotations

import secrets
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.api.cluster import process_agent
from accel_magic.api.cluster.agent_counters import LiveNodes, WatchedNode
from accel_magic.api.cluster.cluster_block import OnWorkers, problem_of
from accel_magic.api.cluster.fetching import recording_of
from accel_magic.api.cluster.process_agent import AttachProbes
from accel_magic.api.cluster.routes import Route, routed
from accel_magic.cluster import remote
from accel_magic.cluster.adapters import CALL_S, NodeGoneError
from accel_magic.cluster.agent_messages import Returned, StartedAgent, StoppedTrace
from accel_magic.cluster.node import Node
from accel_magic.cluster.remote import RemoteCall
from accel_magic.errors import ProbeError, RecordingError
from accel_magic.kernel import own_threads
from accel_magic.probes import grammar
from accel_magic.recording import result_files
from accel_magic.results.cluster_result import ClusterResult, NodeTrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.api.cluster.cluster_block import TracedNode
    from accel_magic.api.trace_options import Options
    from accel_magic.cluster.adapters import NodeName
    from accel_magic.cluster.agent_messages import AgentRequest
    from accel_magic.engine.session import Show


class ClusterTrace(OnWorkers[ClusterResult]):
    """One trace of probes on all workers of a cluster.

    Each worker's agent is a process on its machine, which attaches the probes with the worker and its children as
    the scope `self`. A worker that ends does not end its agent.

    Args:
        probes: As on the `%%ktrace` line.
        options: The other options; the scope is `self` (the default, also of kernel functions), or `all`: one worker of
            each machine traces everything there. In labs it is `all`.
        on: A `distributed.Client`, an `ipyparallel.Client` or a `DirectView`, or a `Lab` or a list of some.
        save: Write the result of all workers together to this Parquet file; this fetches their events. Any path that
            does not end in `.parquet` is a `folder`.
        folder: Folder on the nodes for the datasets, which then stay there; `accel_magic.open` opens one that all nodes
            share. None: a temporary folder, removed with the result.
        **more: Other arguments of `OnWorkers`.

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
        folder: str | Path | None = None,
        **more: Any,
    ) -> None:
        if save is not None:
            result_files.check_ending(save)
        if save is not None and result_files.names_folder(save):
            if folder is not None:
                raise ProbeError(
                    f"save={str(save)!r} and folder= both name a folder for the recordings",
                    fix="give one of them, or save='FILE.parquet' for one file of all workers together",
                    code="cluster.two-folders",
                )
            folder, save = Path(save).expanduser().absolute(), None
        super().__init__(on, save=save, folder=folder, **more)
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
        self._show: Show | None = None
        self._shown = threading.Event()
        """Set when nothing more is shown."""

    def again(self) -> ClusterTrace:
        """Make another trace with the same arguments."""
        return ClusterTrace(self.probes, self.options, self._on, **self._again())

    def _check_request(self) -> None:
        grammar.parse_all(self.probes)

    def _chosen(self, nodes: list[NodeName]) -> list[NodeName]:
        if self.options.scope != "all":
            return nodes
        machines: dict[str | NodeName, NodeName] = {}
        for node in nodes:
            machines.setdefault(node.boot or node, node)
        return list(machines.values())

    def _start_call(self) -> RemoteCall:
        arguments = (process_agent.__name__, self._folder_text, self._silence_s, self._adapter.queues)
        return RemoteCall(remote.start_agent, arguments, Returned[StartedAgent])

    def _request(self, node: NodeName, *, live: bool) -> AttachProbes:
        return AttachProbes(probes=self.probes, options=self.options, live=live, run=self._run, name=node.name)

    def _attach(self, show: Show | None) -> list[TracedNode]:
        self._show = show
        self._run = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
        return super()._attach(show)

    def go(self) -> None:
        """Start counting on all nodes, at nearly the same time."""
        super().go()
        if self._show is not None:
            self._start_showing(self._show)

    def _start_showing(self, show: Callable[[list[Any]], None]) -> None:
        self._shown = over = threading.Event()
        self._undo.callback(over.set)
        watched = [
            WatchedNode(traced.node, "" if traced.agent is None else _socket(traced), traced.error)
            for traced in self._traced
        ]
        nodes = LiveNodes(self._adapter, self._workers(), watched, show)
        own_threads.Thread(target=nodes.run, args=(time.monotonic(), over), name="accel_magic live").start()

    def halt(self) -> None:
        """Stop counting on all nodes."""
        self._shown.set()
        super().halt()

    def _ask_call(self, traced: TracedNode, request: AgentRequest) -> RemoteCall:
        return RemoteCall(remote.ask, (_socket(traced), request, Returned[None]))

    def _stop_call(self, traced: TracedNode) -> RemoteCall:
        return RemoteCall(remote.ask_to_stop, (_socket(traced),), Returned[StoppedTrace])

    def _beat_call(self, node: NodeName) -> RemoteCall | None:
        """Each worker reaches all agents of its machine, because it may outlive another one."""
        agents = (traced for traced in self._traced if traced.agent is not None and traced.node.place == node.place)
        names = tuple(map(_socket, agents))
        return RemoteCall(remote.beat, (names,)) if names else None

    def _send(self, calls: dict[NodeName, RemoteCall], timeout_s: float = CALL_S) -> dict[NodeName, Any]:
        return routed(self._adapter, calls, timeout_s)

    def _made(self, traced: list[TracedNode], value: object) -> ClusterResult:
        return ClusterResult([self._part(one) for one in traced], value)

    def _part(self, traced: TracedNode) -> NodeTrace:
        """What was recorded of a worker, or why nothing was."""
        node = traced.node
        described, pid = Node(node.host, name=node.name), node.pid or None
        if traced.agent is None or traced.error is not None:
            return NodeTrace(described, None, None, problem_of(traced.error), pid=pid)
        stopped: StoppedTrace = traced.answer
        route = Route(self._adapter, node, stopped.path)
        try:
            recording = recording_of(stopped.counts, stopped.event_count, route.read)
        except RecordingError as error:
            return NodeTrace(described, None, None, problem_of(error), stopped.path, pid)
        if stopped.temporary:
            weakref.finalize(recording, route.remove, stopped.temporary).atexit = False
        ended = problem_of(_worker_ended(node)) if stopped.worker_ended else None
        return NodeTrace(described, recording, self._clocks.line(node), ended, stopped.path, pid)


def _socket(traced: TracedNode) -> str:
    """Name of the socket of a node's agent."""
    agent: StartedAgent = traced.agent
    return agent.socket


def _worker_ended(node: NodeName) -> NodeGoneError:
    return NodeGoneError(
        f"{node.name}: the worker ended while it was traced",
        why=f"process {node.pid} on {node.host} was killed, or ended",
        fix="its counts until then are in the result; look into its log",
        code="cluster.worker-ended",
    )

"""The base of all traces on the workers of a cluster, around a block here."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from accel_magic.api.block import Block
from accel_magic.api.cluster.clocks import ClockComparisons
from accel_magic.api.cluster.heartbeats import Beats
from accel_magic.api.cluster.process_agent import SILENCE_S
from accel_magic.api.cluster.routes import END_S
from accel_magic.api.cluster.workers import Workers, workers_of
from accel_magic.cluster.adapters import CALL_S, adapter_of
from accel_magic.cluster.agent_messages import End, Go, Halt
from accel_magic.cluster.folders import Problem
from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.kernel import own_threads
from accel_magic.result_bases.base import Result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accel_magic.cluster.adapters import ClusterAdapter, NodeName
    from accel_magic.cluster.agent_messages import AgentRequest, AttachRequest
    from accel_magic.cluster.remote import RemoteCall
    from accel_magic.engine.session import Show
    from accel_magic.recording.recording import Outcome

ResultT = TypeVar("ResultT", bound=Result)

_NAMED: Final = 4
"""Nodes that are named for one reason."""
_BEATS: Final = 6
"""Heartbeats in the time after which an agent ends without one."""


@dataclass
class TracedNode:
    """One node of a running trace: its agent, once it has been started, or why it is not traced."""

    node: NodeName
    agent: Any = None
    error: AccelMagicError | None = None
    answer: Any = field(default=None, repr=False)


class OnWorkers(Block[ResultT, list[TracedNode]], Generic[ResultT]):
    """One trace on all workers of a cluster.

    Each worker gets an agent that traces it. While the trace runs, a thread sends heartbeats: an agent that hears
    nothing for `silence_s` detaches, keeps its file (a temporary one until the next trace there) and ends.

    Args:
        on: A `distributed.Client`, an `ipyparallel.Client` or a `DirectView`, or a `Lab` or a list of some.
        save: Write the result of all workers together to this Parquet file.
        nodes: Trace only workers whose name or host matches this pattern (`*`, `?`, `[abc]`). None: all.
        require_all: Raise if a worker cannot be traced; otherwise the result names it.
        folder: Folder on the nodes for the recordings, which then stay there. None: a temporary folder, removed with
            the result.
        silence_s: Time without a heartbeat after which an agent ends; None: 30 s, in labs more.

    """

    def __init__(
        self,
        on: Any,
        *,
        save: str | Path | None = None,
        nodes: str | None = None,
        require_all: bool = False,
        folder: str | Path | None = None,
        silence_s: float | None = None,
    ) -> None:
        super().__init__(save)
        self._on, self._nodes = on, nodes
        self._require_all, self._folder = require_all, folder
        self._adapter: ClusterAdapter = adapter_of(on)
        self._silence_s = self._adapter.slowness * SILENCE_S if silence_s is None else silence_s
        self._traced: list[TracedNode] = []
        self._clocks = ClockComparisons(self._adapter)
        self._counting = False

    @abstractmethod
    def _check_request(self) -> None:
        """Check here what would fail on every worker. Raises ProbeError."""

    @abstractmethod
    def _start_call(self) -> RemoteCall:
        """Call that starts an agent; its value identifies the agent in the other calls."""

    @abstractmethod
    def _request(self, node: NodeName, *, live: bool) -> AttachRequest:
        """Request to attach; `live`: whether samples are wanted meanwhile."""

    @abstractmethod
    def _ask_call(self, traced: TracedNode, request: AgentRequest) -> RemoteCall:
        """Call that sends a request to a node's agent."""

    @abstractmethod
    def _stop_call(self, traced: TracedNode) -> RemoteCall:
        """Call that stops a node's trace."""

    @abstractmethod
    def _beat_call(self, node: NodeName) -> RemoteCall | None:
        """Call that sends heartbeats to the agents that a worker reaches; None if it reaches none."""

    @abstractmethod
    def _send(self, calls: dict[NodeName, RemoteCall], timeout_s: float = CALL_S) -> dict[NodeName, Any]:
        """Make calls, in parallel; each node's value or error."""

    @abstractmethod
    def _made(self, traced: list[TracedNode], value: object) -> ResultT:
        """Make the result of the nodes' answers to `_stop_call`."""

    @property
    def _folder_text(self) -> str:
        return "" if self._folder is None else str(self._folder)

    def _again(self) -> dict[str, Any]:
        """Arguments of another trace like this one."""
        return {
            "save": self._save,
            "nodes": self._nodes,
            "require_all": self._require_all,
            "folder": self._folder,
            "silence_s": self._silence_s,
        }

    def _warm_up(self) -> None:
        """Nothing is traced here."""

    def prepare(self) -> list[NodeName]:
        """Find the workers. Raises ProbeError or MachineError: an argument is wrong, or there is no such worker."""
        self._check_request()
        nodes = self._chosen(workers_of(self._adapter, self._nodes))
        self._traced = [TracedNode(node, error=node.error) for node in nodes]
        return nodes

    def _chosen(self, nodes: list[NodeName]) -> list[NodeName]:
        """Those of the cluster's workers that get an agent."""
        return nodes

    def _attach(self, show: Show | None) -> list[TracedNode]:
        self._undo.callback(self._end_agents)
        start = self._start_call()
        healthy = [traced for traced in self._traced if traced.error is None]
        answers = self._adapter.call_each({traced.node: start for traced in healthy})
        for traced in healthy:
            answer = answers[traced.node]
            if isinstance(answer, AccelMagicError):
                traced.error = answer
            else:
                traced.agent = answer
        self._undo.callback(self._beats().set)
        self._each(lambda traced: self._ask_call(traced, self._request(traced.node, live=show is not None)))
        self._check_attached()
        return self._traced

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
            why=_reasons([(node.name, error) for node, error in failed]),
            fix=first.fix,
            code="cluster.not-traced",
        )

    def go(self) -> None:
        """Start counting on all nodes, at nearly the same time."""
        errors = self._clocks.start([traced.node for traced in self._requested()])
        for traced in self._requested():
            traced.error = errors.get(traced.node)
        self._counting = True
        self._ask(Go())

    def halt(self) -> None:
        """Stop counting on all nodes."""
        if self._counting:
            self._counting = False
            self._ask(Halt(), math.inf if self._adapter.queues else CALL_S)
            self._clocks.end()

    def _finish(self, attached: list[TracedNode], outcome: Outcome, value: object) -> ResultT:  # noqa: ARG002 - the block's
        self._each(self._stop_call)
        return self._made(attached, value)

    def _ask(self, request: AgentRequest, timeout_s: float = CALL_S) -> None:
        """Send a request to the agents of all nodes that are traced, in parallel."""
        self._each(lambda traced: self._ask_call(traced, request), timeout_s)

    def _each(self, call: Callable[[TracedNode], RemoteCall], timeout_s: float = CALL_S) -> None:
        """Call a function for the agent of each node that is traced, and keep its answer or error."""
        requested = self._requested()
        answers = self._send({traced.node: call(traced) for traced in requested}, timeout_s)
        for traced in requested:
            answer = answers[traced.node]
            if isinstance(answer, AccelMagicError):
                traced.error = answer
            else:
                traced.answer = answer

    def _requested(self) -> list[TracedNode]:
        """The nodes that are traced."""
        return [traced for traced in self._traced if traced.agent is not None and traced.error is None]

    def _end_agents(self) -> None:
        """End all agents; what is still attached is detached."""
        alive = [traced for traced in self._traced if traced.agent is not None]
        self._traced = []
        self._send({traced.node: self._ask_call(traced, End()) for traced in alive}, END_S)

    def _workers(self) -> Workers:
        return Workers(self._adapter, [traced.node for traced in self._traced])

    def _beats(self) -> threading.Event:
        """Send heartbeats to all agents until the event that is returned is set."""
        over = threading.Event()
        beats = Beats(self._adapter, self._workers(), self._beat_call)
        send = (self._silence_s / _BEATS, over)
        own_threads.Thread(target=beats.send, args=send, name="accel_magic heartbeat").start()
        return over


def _reasons(failed: list[tuple[str, AccelMagicError]]) -> str:
    """Why nodes cannot be traced: each reason once, after the names of its nodes."""
    names: dict[str, list[str]] = {}
    for name, error in failed:
        text = f"{error.what}: {error.why}".rstrip(": ").removeprefix(f"{name}: ")
        names.setdefault(text, []).append(name)
    return "; ".join(f"{', '.join(of[:_NAMED])}{', ...' * (len(of) > _NAMED)}: {text}" for text, of in names.items())


def problem_of(error: AccelMagicError | None) -> Problem | None:
    """Describe an error in a result."""
    return None if error is None else Problem(error.what, error.why or "", error.fix or "", error.code)

"""GPU and flame traces on the workers of a cluster: each runs inside its worker."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from accel_magic import scratch
from accel_magic.api.cluster import worker_agents
from accel_magic.api.cluster.cluster_block import OnWorkers, problem_of
from accel_magic.api.cluster.fetching import copy, most_bytes
from accel_magic.api.cluster.worker_agents import AttachFlame, AttachGpu, WrittenRecording
from accel_magic.api.open import open_result
from accel_magic.cluster import remote
from accel_magic.cluster.adapters import CALL_S
from accel_magic.cluster.agent_messages import Returned, Stop
from accel_magic.cluster.node import Node
from accel_magic.cluster.remote import RemoteCall
from accel_magic.errors import AccelMagicError, ProbeError, RecordingError
from accel_magic.gpu import programs
from accel_magic.kernel.attach.function_bindings import parse_bindings
from accel_magic.result_bases.base import Result
from accel_magic.results.cluster_results import NodeResult
from accel_magic.results.flame_cluster_result import FlameClusterResult
from accel_magic.results.flame_result import FlameResult, SampledResult
from accel_magic.results.gpu_cluster_result import GpuClusterResult
from accel_magic.results.gpu_result import GpuResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.api.cluster.cluster_block import TracedNode
    from accel_magic.api.flame_options import FlameOptions
    from accel_magic.api.gpu_options import GpuOptions
    from accel_magic.cluster.adapters import NodeName
    from accel_magic.cluster.agent_messages import AgentRequest

OwnT = TypeVar("OwnT", bound=Result)
ResultT = TypeVar("ResultT", bound=Result)


class InWorkers(OnWorkers[ResultT], Generic[ResultT, OwnT]):
    """A trace that runs inside each worker: a thread there attaches, stops and writes its recording.

    With a worker that ends, its part is lost. Arguments as for `OnWorkers`.
    """

    def __init__(self, on: Any, **more: Any) -> None:
        super().__init__(on, **more)
        if "self" not in self._adapter.scopes:
            raise ProbeError(
                f"%%{self.KIND} cannot trace labs",
                why="it traces the processes that are the cluster's workers, and a lab has none",
                fix="trace the lab's kernel: accel_magic.trace(..., on=lab)",
                code="cluster.no-workers-in-labs",
            )

    @abstractmethod
    def _is_own(self, result: object) -> OwnT | None:
        """Return a node's result if it is of the right kind."""

    def _start_call(self) -> RemoteCall:
        arguments = (self._folder_text, self._silence_s, self._adapter.queues)
        return RemoteCall(worker_agents.start, arguments, Returned[str])

    def _ask_call(self, traced: TracedNode, request: AgentRequest) -> RemoteCall:
        return RemoteCall(worker_agents.ask, (traced.agent, request))

    def _stop_call(self, traced: TracedNode) -> RemoteCall:
        return RemoteCall(worker_agents.ask, (traced.agent, Stop()), Returned[WrittenRecording])

    def _beat_call(self, node: NodeName) -> RemoteCall | None:
        agent = next((traced.agent for traced in self._traced if traced.node == node), None)
        return None if agent is None else RemoteCall(worker_agents.beat, (agent,))

    def _send(self, calls: dict[NodeName, RemoteCall], timeout_s: float = CALL_S) -> dict[NodeName, Any]:
        return self._adapter.call_each(calls, timeout_s)

    def _part(self, traced: TracedNode) -> NodeResult[OwnT]:
        """Fetch what a worker recorded, or say why there is nothing."""
        node, pid = Node(traced.node.host, name=traced.node.name), traced.node.pid or None
        if traced.agent is not None and traced.error is None:
            written: WrittenRecording = traced.answer
            try:
                result = self._fetched(traced.node, written.path)
            except AccelMagicError as error:
                traced.error = error
            else:
                path = written.path if written.kept else ""
                return NodeResult(node, result, self._clocks.line(traced.node), None, written.start_ns, path, pid)
        return NodeResult(node, None, None, problem_of(traced.error), pid=pid)

    def _read(self, node: NodeName, path: str) -> Iterator[bytes]:
        """Read a file of a node, in parts. Raises AccelMagicError."""
        offset = 0
        while part := self._send({node: RemoteCall(remote.read, (path, offset), Returned[bytes])})[node]:
            if isinstance(part, AccelMagicError):
                raise part
            yield part
            offset += len(part)

    def _fetched(self, node: NodeName, remote_path: str) -> OwnT:
        with scratch.folder("cluster") as folder:
            path = folder / "part.parquet"
            copy(self._read(node, remote_path), path, most_bytes(folder))
            result = self._is_own(open_result(path))
        if result is None:
            raise RecordingError(
                f"{node.name}: its recording is of another kind",
                why="a file on the node was replaced",
                fix="trace again, with another folder=",
                code="cluster.damaged",
            )
        return result


class GpuClusterTrace(InWorkers[GpuClusterResult, GpuResult]):
    """One GPU trace on all workers of a cluster.

    Args:
        names: Tools, program files as the workers find them, and bindings.
        options: The options.
        on: A `distributed.Client`, an `ipyparallel.Client` or a `DirectView`.
        **more: Arguments of `OnWorkers`, except `save`.

    """

    KIND = "gputrace"

    def __init__(self, names: tuple[str, ...], options: GpuOptions, on: Any, **more: Any) -> None:
        if more.get("save") is not None:
            raise ProbeError(
                "a GPU trace of many nodes cannot be saved to one file",
                why="a file holds the recording of one process",
                fix="use folder= to keep the files on the nodes, or result.part(NODE).to_parquet(path)",
                code="cluster.no-file",
            )
        super().__init__(on, **more)
        self.names, self.options = names, options

    def again(self) -> GpuClusterTrace:
        """Make another trace with the same arguments."""
        return GpuClusterTrace(self.names, self.options, self._on, **self._again())

    def _check_request(self) -> None:
        names, bindings = programs.without_bindings(self.names)
        if not names:
            raise ProbeError(
                "no GPU program given",
                fix="name a tool or a file: threadhist, mine.bpf.c",
                code="gpu.no-program-given",
            )
        parse_bindings(bindings)

    def _request(self, node: NodeName, *, live: bool) -> AttachGpu:  # noqa: ARG002 - nothing is shown live
        return AttachGpu(names=self.names, options=self.options)

    def _is_own(self, result: object) -> GpuResult | None:
        return result if isinstance(result, GpuResult) else None

    def _made(self, traced: list[TracedNode], value: object) -> GpuClusterResult:
        return GpuClusterResult([self._part(one) for one in traced], value)


class FlameClusterTrace(InWorkers[FlameClusterResult, "FlameResult | SampledResult"]):
    """One profile of all workers of a cluster and their children.

    Args:
        options: The options.
        on: A `distributed.Client`, an `ipyparallel.Client` or a `DirectView`.
        **more: Arguments of `OnWorkers`; `save` writes the merged profile.

    """

    KIND = "flame"

    def __init__(self, options: FlameOptions, on: Any, **more: Any) -> None:
        super().__init__(on, **more)
        self.options = options

    def again(self) -> FlameClusterTrace:
        """Make another trace with the same arguments."""
        return FlameClusterTrace(self.options, self._on, **self._again())

    def _check_request(self) -> None:
        self.options.words()

    def _request(self, node: NodeName, *, live: bool) -> AttachFlame:  # noqa: ARG002 - nothing is shown live
        return AttachFlame(options=self.options)

    def _is_own(self, result: object) -> FlameResult | SampledResult | None:
        return result if isinstance(result, FlameResult | SampledResult) else None

    def _made(self, traced: list[TracedNode], value: object) -> FlameClusterResult:
        return FlameClusterResult([self._part(one) for one in traced], value)

"""Agents in the workers themselves, for traces that only work inside the traced process.

GPU programs are inserted by adapters that hook into the process's frameworks, and only the process itself can name its
Python frames. An agent is a thread of the worker. The functions here are called by the client through an adapter.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_magic import forks
from accel_magic.api.cluster.process_agent import ProcessAgent, folder_for, no_request
from accel_magic.cluster import remote
from accel_magic.cluster.agent_messages import AttachRequest, Returned
from accel_magic.codec import Failure
from accel_magic.errors import MachineError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic import scratch
    from accel_magic.api.flame_options import FlameOptions
    from accel_magic.api.flame_trace import FlameTrace
    from accel_magic.api.gpu_options import GpuOptions
    from accel_magic.api.gputrace import GpuTrace
    from accel_magic.cluster.agent_messages import AgentRequest

_agents: dict[str, Inside] = {}
"""The agents of this process, by name."""
forks.in_child(_agents.clear)


class AttachGpu(AttachRequest, frozen=True):
    """Attach GPU programs: tools, files and bindings, and the options."""

    names: tuple[str, ...]
    options: GpuOptions


class AttachFlame(AttachRequest, frozen=True):
    """Begin a profile."""

    options: FlameOptions


@dataclass(frozen=True)
class WrittenRecording:
    """What an agent has recorded.

    Attributes:
        path: Its file.
        kept: Whether the file stays.
        start_ns: CLOCK_MONOTONIC of its start.

    """

    path: str
    kept: bool
    start_ns: int


class _Request:
    """A request, and its answer once there is one."""

    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.answer: Returned[Any] | Failure = Returned(value=None)
        self.answered = threading.Event()


class Inside(ProcessAgent):
    """Traces the process that it is in.

    Args:
        folder: Where to write the recording.
        temporary: That folder, if it is a temporary one.

    """

    def __init__(self, folder: Path, temporary: scratch.Scratch | None) -> None:
        super().__init__(os.getpid(), folder, temporary)
        self.name = uuid.uuid4().hex
        self.ended, self._alive = os.pipe()
        """A descriptor that can be read when the agent has ended."""
        self._requested: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._last_received = time.monotonic()

    def beat(self) -> None:
        """The client is there."""
        self._last_received = time.monotonic()

    def ask(self, request: AgentRequest) -> Any:
        """Handle a request in the agent's thread. Returns its value, or raises its AccelMagicError."""
        requested = _Request(request)
        with self._closing:
            if self.name not in _agents:
                raise _gone()
            self._requested.put(requested)
        requested.answered.wait()
        if isinstance(requested.answer, Failure):
            raise requested.answer.error()
        return requested.answer.value

    def run(self, silence_s: float) -> None:
        """Handle requests until asked to end, or until nothing was heard for a while."""
        try:
            while not self._ended and (left := self._last_received + silence_s - time.monotonic()) > 0:
                try:
                    requested = self._requested.get(timeout=left)
                except queue.Empty:
                    continue
                requested.answer = self.answer(requested.request)
                requested.answered.set()
                self.beat()
            self._over()
        finally:
            try:
                self._abort()
            finally:
                self._close()

    def _close(self) -> None:
        with self._closing:
            _agents.pop(self.name, None)
        if self._temporary is not None:
            self._temporary.remove()
        os.close(self._process)
        os.close(self._alive)
        while not self._requested.empty():
            late = self._requested.get()
            late.answer = Failure.of(_gone())
            late.answered.set()

    def _attach(self, request: AttachRequest) -> None:
        """Prepare the trace and attach it."""
        trace = self._trace_of(request)
        trace.newest = False
        trace.prepare()
        trace.attach()
        self._trace = trace

    @staticmethod
    def _trace_of(request: AttachRequest) -> GpuTrace | FlameTrace:
        match request:
            case AttachGpu():
                from accel_magic.api.gputrace import GpuTrace

                return GpuTrace(request.names, request.options)
            case AttachFlame():
                from accel_magic.api.flame_trace import FlameTrace
                from accel_magic.engine.helper_processes import warm_up

                warm_up()  # the helper processes start while the probes are matched
                return FlameTrace(request.options)
            case _:
                raise no_request(request)

    def _written(self, result: Any, worker_ended: bool) -> Any:  # noqa: ARG002 - it ends with its worker
        start_ns = self._attached().start_ns
        path = result.to_parquet(self._folder / f"{os.uname().nodename}-{os.getpid()}-{start_ns}.parquet")
        self._trace = None  # its result may be large
        return WrittenRecording(str(path), self._temporary is None, start_ns)

    def _end(self) -> None:
        self._ended = True


def _gone() -> MachineError:
    return MachineError(
        "the worker's agent has ended",
        why="it had not heard from the client for too long",
        fix="trace again; with folder=, the recording of an agent that ended by itself is in that folder",
        code="cluster.agent-gone",
    )


def start(folder: str, silence_s: float, queues: bool) -> str:
    """Start an agent in this process.

    Args:
        folder: Where it writes its recording; "" for a temporary folder.
        silence_s: It ends when it has heard nothing for this long.
        queues: Calls wait here until the running task has ended, so the client cannot be heard meanwhile.

    Returns:
        Its name.

    Raises:
        MachineError: It has no folder.

    """
    agent = Inside(*folder_for(folder))
    _agents[agent.name] = agent
    own_threads.Thread(target=agent.run, args=(silence_s,), name="accel_magic agent").start()
    if queues:
        remote.keep_alive(agent.beat, agent.ended, silence_s / 6)
    else:
        os.close(agent.ended)
    return agent.name


def ask(name: str, request: AgentRequest) -> Any:
    """Send a request to an agent in this process, and return the value in its answer.

    Raises:
        AccelMagicError: The agent's error; code `cluster.agent-gone` if it has ended.

    """
    agent = _agents.get(name)
    if agent is None:
        raise _gone()
    return agent.ask(request)


def beat(name: str) -> None:
    """Report to an agent in this process that the client is there."""
    agent = _agents.get(name)
    if agent is not None:
        agent.beat()

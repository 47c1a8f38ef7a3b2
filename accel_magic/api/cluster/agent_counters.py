"""Counters of all agents while a trace runs, twice a second, from a thread."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from accel_magic.cluster import remote
from accel_magic.cluster.agent_messages import Returned, value_of
from accel_magic.cluster.node_samples import ClusterSample, NodeCounters, NodeSample
from accel_magic.cluster.remote import RemoteCall

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from accel_magic.api.cluster.workers import Workers
    from accel_magic.cluster.adapters import ClusterAdapter, NodeName
    from accel_magic.errors import AccelMagicError

EVERY_S: Final = 0.5
TIMEOUT_S: Final = 1.0
"""Time after which another worker of the machine is asked."""
SILENT_S: Final = 3.0
_SAMPLES: Final = Returned[dict[str, NodeCounters]]


@dataclass
class WatchedNode:
    """One node of the trace.

    Attributes:
        node: The node.
        socket: Its agent's; "" if it has none.
        error: Why it is not traced.
        newest: Its newest counters.
        last_received: `time.monotonic()` of them; 0.0 if there were none.

    """

    node: NodeName
    socket: str
    error: AccelMagicError | None
    newest: NodeCounters = field(default_factory=NodeCounters)
    last_received: float = 0.0


@dataclass
class _Machine:
    """Where agents can be reached: their sockets, and the calls there that have not been answered."""

    sockets: tuple[str, ...]
    requested: dict[str | int, tuple[float, Any]] = field(default_factory=dict)
    best: str | int | None = None
    """The worker that answered last."""


class LiveNodes:
    """Asks for the counters. Agents on this machine are asked directly; others through any worker of their machine.

    A worker that can only answer when it is idle is asked at most once until it does.

    Args:
        adapter: The cluster.
        workers: Its workers, by where they are.
        watched: The nodes of the trace.
        show: Called with each sample.

    """

    def __init__(
        self,
        adapter: ClusterAdapter,
        workers: Workers,
        watched: Sequence[WatchedNode],
        show: Callable[[list[ClusterSample]], None],
    ) -> None:
        self._adapter, self._workers, self._watched, self._show = adapter, workers, watched, show
        self._by_socket = {one.socket: one for one in watched if one.socket}
        by_place: dict[str, list[str]] = {}
        for one in self._by_socket.values():
            by_place.setdefault(one.node.place, []).append(one.socket)
        self._here = tuple(by_place.pop(remote.place(), ()))
        self._machines = {place: _Machine(tuple(sockets)) for place, sockets in by_place.items()}

    def run(self, start: float, over: threading.Event) -> None:
        """Ask and show until `over` is set; `start` is `time.monotonic()` of the start of the trace."""
        while not over.wait(EVERY_S * self._adapter.slowness):
            with contextlib.suppress(Exception):  # of any kind: the cluster may be down for a moment
                self._ask()
            sample = self.sample(start)
            if not over.is_set():
                self._show([sample])

    def _ask(self) -> None:
        if self._here:
            self._keep(remote.samples(self._here))
        if self._machines:
            present = self._workers.by_place()
            for place, machine in self._machines.items():
                self._ask_machine(machine, present.get(place, []))

    def _ask_machine(self, machine: _Machine, workers: Sequence[NodeName]) -> None:
        now, there = time.monotonic(), dict.fromkeys(node.address for node in workers)
        for address, (_, answer) in list(machine.requested.items()):
            if address not in there:
                del machine.requested[address]
            elif answer.wait(0):
                del machine.requested[address]
                machine.best = address
                with contextlib.suppress(Exception):  # the worker may have ended
                    self._keep(value_of(answer.get(), _SAMPLES))
        if any(now - requested < TIMEOUT_S * self._adapter.slowness for requested, _ in machine.requested.values()):
            return
        free = [address for address in there if address not in machine.requested]
        if free:
            address = machine.best if machine.best in free else free[0]
            machine.requested[address] = (
                now,
                self._adapter.submit(address, RemoteCall(remote.samples, (machine.sockets,), _SAMPLES)),
            )

    def _keep(self, samples: dict[str, NodeCounters]) -> None:
        for socket, new in samples.items():
            one = self._by_socket[socket]
            if new.time_ns >= one.newest.time_ns:
                one.newest, one.last_received = new, time.monotonic()

    def sample(self, start: float) -> ClusterSample:
        """Return what is known now; `start` is `time.monotonic()` of the start of the trace."""
        now = time.monotonic()
        return ClusterSample(int((now - start) * 1e9), tuple(self._node(one, now, start) for one in self._watched))

    def _node(self, one: WatchedNode, now: float, start: float) -> NodeSample:
        name, host = one.node.name, one.node.host
        if one.error is not None:
            problem = ": ".join(filter(None, (one.error.what.removeprefix(f"{name}: "), one.error.why)))
            return NodeSample(name, host, "untraced", problem=problem, fix=one.error.fix or "")
        if now - max(one.last_received, start) > SILENT_S * self._adapter.slowness:
            if self._adapter.queues and one.socket not in self._here:
                return NodeSample(name, host, "busy", one.newest, "it is traced; its counts come when it is idle")
            return NodeSample(name, host, "silent", one.newest, "its agent does not answer")
        if not one.last_received:
            return NodeSample(name, host, "starting")
        return NodeSample(name, host, "ended" if one.newest.worker_ended else "tracing", one.newest)

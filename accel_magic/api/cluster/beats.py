"""Heartbeats: agents end if they hear nothing from the client for a while."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from accel_magic.cluster import remote
from accel_magic.cluster.remote import Call

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from accel_magic.api.cluster.workers import Workers
    from accel_magic.cluster.adapters import Adapter


class Beats:
    """Heartbeats for all agents. Each worker reaches all agents of its machine, because it may outlive another one.

    Args:
        adapter: The cluster.
        workers: Its workers, by where they are.
        agents: Sockets of the agents, by place.

    """

    def __init__(self, adapter: Adapter, workers: Workers, agents: Mapping[str, Sequence[str]]) -> None:
        self._adapter, self._workers, self._agents = adapter, workers, agents
        self._sent: dict[str | int, Any] = {}

    def send(self, every_s: float, over: threading.Event) -> None:
        """Send them until `over` is set."""
        while not over.wait(every_s):
            with contextlib.suppress(Exception):  # of any kind: the cluster may be down for a moment
                self._send()

    def _send(self) -> None:
        for place, workers in self._workers.by_place().items():
            names = self._agents.get(place)
            for node in workers if names else ():
                sent = self._sent.get(node.address)
                if sent is not None and not sent.wait(0):
                    continue  # it is busy
                if sent is not None:
                    with contextlib.suppress(Exception):
                        sent.get()
                self._sent[node.address] = self._adapter.submit(node.address, Call(remote.beat, (tuple(names or ()),)))

"""Heartbeats: agents end if they hear nothing from the client for a while."""

from __future__ import annotations

import contextlib
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from accel_magic.api.cluster.workers import Workers
    from accel_magic.cluster.adapters import ClusterAdapter, NodeName
    from accel_magic.cluster.remote import RemoteCall


class Beats:
    """Heartbeats for all agents.

    Args:
        adapter: The cluster.
        workers: Its workers, by where they are.
        call: Call that sends heartbeats from a worker to the agents that it reaches; None if it reaches none.

    """

    def __init__(
        self, adapter: ClusterAdapter, workers: Workers, call: Callable[[NodeName], RemoteCall | None]
    ) -> None:
        self._adapter, self._workers, self._call = adapter, workers, call
        self._sent: dict[str | int, Any] = {}

    def send(self, every_s: float, over: threading.Event) -> None:
        """Send them until `over` is set."""
        while not over.wait(every_s):
            with contextlib.suppress(Exception):  # of any kind: the cluster may be down for a moment
                self._send()

    def _send(self) -> None:
        for node in chain.from_iterable(self._workers.by_place().values()):
            sent, call = self._sent.get(node.address), self._call(node)
            if call is None or (sent is not None and not sent.wait(0)):
                continue  # or it is busy
            if sent is not None:
                with contextlib.suppress(Exception):
                    sent.get()
            self._sent[node.address] = self._adapter.submit(node.address, call)

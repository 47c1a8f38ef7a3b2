"""The workers of a cluster: which ones a trace is about, and where they are."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from accel_magic.errors import AccelMagicError, MachineError, ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.cluster.adapters import ClusterAdapter, NodeName


def workers_of(adapter: ClusterAdapter, pattern: str | None) -> list[NodeName]:
    """List a cluster's workers.

    Args:
        adapter: The cluster.
        pattern: Only workers whose name or host matches (`*`, `?`, `[abc]`). None: all.

    Returns:
        At least one worker.

    Raises:
        MachineError: The cluster has none, or does not answer.
        ProbeError: None matches.

    """
    try:
        nodes = adapter.nodes()
    except AccelMagicError:
        raise
    except Exception as error:  # of the cluster's own kinds
        raise MachineError(
            "the cluster cannot be asked for its workers",
            why=f"{type(error).__name__}: {error}",
            fix="its client is closed, or its scheduler has ended: create another client",
            code="cluster.unreachable",
        ) from error
    if not nodes:
        raise MachineError(
            "the cluster has no workers",
            fix="start some, and wait until they have connected: client.wait_for_workers(1) or "
            "client.wait_for_engines(1)",
            code="cluster.no-workers",
        )
    if pattern is None:
        return nodes
    chosen = [node for node in nodes if fnmatchcase(node.name, pattern) or fnmatchcase(node.host, pattern)]
    if not chosen:
        known = dict.fromkeys(f"{node.name} on {node.host or 'an unknown host'}" for node in nodes)
        raise ProbeError(
            f"no worker matches {pattern!r}",
            why=f"the cluster has {len(nodes)}: {', '.join(list(known)[:10])}{', ...' * (len(known) > 10)}",
            fix="give a pattern for names or hosts, e.g. --nodes 'gpu*'",
            code="cluster.no-such-worker",
        )
    return chosen


class Workers:
    """The current workers of a cluster. For one thread.

    Args:
        adapter: The cluster.
        known: Workers that have been described already.

    """

    def __init__(self, adapter: ClusterAdapter, known: Iterable[NodeName]) -> None:
        self._adapter = adapter
        self._known = {node.address: node for node in known}

    def by_place(self) -> dict[str, list[NodeName]]:
        """Return the workers that run now and have this package, by place: each can reach all agents of its place."""
        present = self._adapter.addresses()
        new = {address: name for address, name in present.items() if address not in self._known}
        if new:  # workers that replace others
            self._known |= {node.address: node for node in self._adapter.described(new)}
        places: dict[str, list[NodeName]] = {}
        for address in present:
            node = self._known[address]
            if node.error is None:
                places.setdefault(node.place, []).append(node)
        return places

"""Calls to a worker that may have ended: another worker of its machine can make them as well."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from accel_magic.cluster import remote
from accel_magic.cluster.adapters import CALL_S, NodeGoneError
from accel_magic.cluster.agent_messages import Returned
from accel_magic.cluster.remote import RemoteCall
from accel_magic.errors import AccelMagicError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.cluster.adapters import ClusterAdapter, NodeName

END_S: Final = 30.0
"""How long ending and removing may take."""


def routed(
    adapter: ClusterAdapter, calls: dict[NodeName, RemoteCall], timeout_s: float = CALL_S
) -> dict[NodeName, Any]:
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
class Route:
    """The way to a folder of a node."""

    adapter: ClusterAdapter
    node: NodeName
    path: str

    def read(self, name: str) -> Iterator[bytes]:
        """Read a file of the folder, in parts. Raises AccelMagicError."""
        offset, path = 0, f"{self.path}/{name}"
        while True:
            part = routed(self.adapter, {self.node: RemoteCall(remote.read, (path, offset), Returned[bytes])})[
                self.node
            ]
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
            routed(self.adapter, {self.node: RemoteCall(remote.remove, (folder,))}, END_S)

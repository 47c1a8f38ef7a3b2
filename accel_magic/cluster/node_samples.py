"""What the nodes of a running trace report, for a live display to draw."""

# Classes of fields are needed when the program runs.
# ruff: noqa: TC003

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=0)]
State = Literal["starting", "tracing", "busy", "silent", "ended", "untraced"]
"""How a node is.

- `starting`: nothing has come yet
- `busy`: no worker of its machine has been idle for a while; `silent`: nothing has come for another reason
- `ended`: the worker has ended, and its counts are kept
- `untraced`: it has a problem, and no counts
"""


@dataclass(frozen=True)
class NodeCounters:
    """The counters of one node.

    Attributes:
        time_ns: When they were read, ns since the start of the trace there.
        hits: Hits so far by probe.
        recorded: Events recorded so far.
        lost: Events lost so far.
        worker_ended: Whether the traced worker has ended.

    """

    time_ns: Count = 0
    hits: Mapping[str, Count] = field(default_factory=dict)
    recorded: Count = 0
    lost: Count = 0
    worker_ended: bool = False

    @property
    def total(self) -> int:
        """Hits of all probes."""
        return sum(self.hits.values())


@dataclass(frozen=True)
class NodeSample:
    """One node at one moment.

    Attributes:
        name: Its name.
        host: Its host.
        state: How it is.
        counted: Its newest counters.
        problem: Why it is busy, silent or not traced; "" otherwise.
        fix: What to do about it.

    """

    name: str
    host: str
    state: State
    counted: NodeCounters = field(default_factory=NodeCounters)
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True)
class ClusterSample:
    """All nodes at one moment.

    Attributes:
        time_ns: ns since the start of the trace.
        nodes: The nodes, in the order of their names.

    """

    time_ns: int
    nodes: tuple[NodeSample, ...]

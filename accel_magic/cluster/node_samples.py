"""What the nodes of a running trace report, for a live display to draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    time_ns: int = 0
    hits: Mapping[str, int] = field(default_factory=dict)
    recorded: int = 0
    lost: int = 0
    worker_ended: bool = False

    @property
    def total(self) -> int:
        """Hits of all probes."""
        return sum(self.hits.values())


def counted(answer: Any) -> NodeCounters:
    """Check what an agent answered.

    Raises:
        ValueError: It is not the counters of a node.

    """
    try:
        hits = {str(probe): _number(count) for probe, count in answer["hits"].items()}
        numbers = [_number(answer[name]) for name in ("time_ns", "recorded", "lost")]
        return NodeCounters(numbers[0], hits, numbers[1], numbers[2], bool(answer["worker_ended"]))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not the counters of a node: {error!r}") from None


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ValueError(f"not a count: {value!r}")
    return value


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

"""What all results of many processes have in common: their nodes, clocks and parts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd

from accel_magic.errors import ResultError
from accel_magic.recording.gpu_data import GpuRecording
from accel_magic.recording.recording import Recording
from accel_magic.result_bases.base import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.cluster.clock import ClockLine
    from accel_magic.cluster.folders import Problem
    from accel_magic.cluster.node import Node

_NODE_COLUMNS: Final = {
    "node": "str",
    "host": "str",
    "rank": "Int64",
    "local_rank": "Int64",
    "job": "str",
    "pid": "Int64",
    "kernel": "str",
    "device": "str",
    "hits": "Int64",
    "events": "Int64",
    "lost": "Int64",
    "missed": "Int64",
    "clock_error_ns": "Int64",
    "problem": "str",
    "fix": "str",
}


class NodePart(Protocol):
    """A node's part of a trace. Attributes as in `NodeResult`."""

    @property
    def node(self) -> Node:
        """The node."""

    @property
    def clock(self) -> ClockLine | None:
        """Its clock; None if nothing was recorded."""

    @property
    def problem(self) -> Problem | None:
        """Why nothing was recorded, or that the node ended before the trace did."""

    @property
    def pid(self) -> int | None:
        """Process id of a cluster's worker; None if unknown."""


PartT = TypeVar("PartT", bound=NodePart)
OwnT = TypeVar("OwnT", bound=Result)


@dataclass(frozen=True)
class NodeResult(Generic[OwnT]):
    """A node's part of a trace that has a result of its own.

    Attributes:
        node: The node.
        result: What it recorded; None if it could not be traced.
        clock: Its clock; None without a result.
        problem: Why there is no result.
        start_ns: The node's CLOCK_MONOTONIC at which the result's times begin.
        path: The recording's file on the node's machine; "" if it was not kept.
        pid: Process id of the worker; None if unknown.

    """

    node: Node
    result: OwnT | None
    clock: ClockLine | None
    problem: Problem | None = None
    start_ns: int = 0
    path: str = ""
    pid: int | None = None

    def moments(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert times since the result's start to the reference's clock, ns; without a clock, to the node's."""
        moments = times_ns + self.start_ns
        return moments if self.clock is None else self.clock.to_reference(moments)

    def moment(self, time_ns: int) -> int:
        """Convert one such time."""
        return int(self.moments(np.array([time_ns], np.int64))[0])


class OfNodes(Result, Generic[PartT, OwnT]):
    """Base class of the results of many processes.

    Attributes:
        parts: Each node's part, whether it was traced or not.

    """

    parts: tuple[PartT, ...]

    @abstractmethod
    def _own(self, part: PartT) -> OwnT | None:
        """Return a node's own result; None if it has none."""

    def _traced(self) -> list[tuple[PartT, OwnT]]:
        """The nodes that have a result, with it."""
        found = ((part, self._own(part)) for part in self.parts)
        return [(part, own) for part, own in found if own is not None]

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per node.

        `node` (its name), `host`, `rank`, `local_rank`, `job`, `pid`, `kernel`, `device`, `hits`, `events`, `lost`,
        `missed`, `clock_error_ns` (NA: unknown), `problem` and `fix` (why it has no recording, or that it ended early;
        "" otherwise). Hits are those of the node's `counts`: launches of a GPU trace, samples and waits of a flame
        trace.
        """
        rows = [_row(part, self._own(part)) for part in self.parts]
        return pd.DataFrame(rows, columns=list(_NODE_COLUMNS)).astype(_NODE_COLUMNS)

    @cached_property
    def clock(self) -> pd.DataFrame:
        """One row per node with a recording: `node`, `offset_ns`, `drift`, `error_ns` (NA: unknown), `how`.

        How its CLOCK_MONOTONIC is mapped to that of the first node, or of the notebook.
        """
        rows = [
            (part.node.name, part.clock.offset_ns, part.clock.drift, part.clock.error_ns, part.clock.how)
            for part in self.parts
            if part.clock is not None
        ]
        table = pd.DataFrame(rows, columns=["node", "offset_ns", "drift", "error_ns", "how"])
        return table.astype({"offset_ns": "int64", "drift": "float64", "error_ns": "Int64"})

    def part(self, node: str | int) -> OwnT:
        """Return one node's own result, by its name or rank. Times are relative to its own start.

        Raises:
            ResultError: There is no such node, or it has no recording.

        """
        chosen = next((one for one in self.parts if node in (one.node.name, one.node.rank)), None)
        if chosen is None:
            names = ", ".join(one.node.name for one in self.parts[:10])
            raise ResultError(f"there is no node {node!r}", fix=f"name one of: {names}", code="cluster.no-node")
        own, problem = self._own(chosen), chosen.problem
        if own is None:
            what, why = (problem.what, problem.why) if problem else ("", "")
            raise ResultError(
                f"{chosen.node.name} has no recording", why=f"{what}: {why}", fix="see nodes", code="cluster.no-node"
            )
        return own


def none_traced(parts: Sequence[NodePart]) -> ResultError:
    """Error for a result of nodes of which none has a recording."""
    whys = dict.fromkeys(part.problem.what for part in parts if part.problem)
    return ResultError(
        "no node was traced", why="; ".join(whys), fix="see each node's problem", code="cluster.none-traced"
    )


def _row(part: NodePart, own: Result | None) -> dict[str, Any]:
    node, problem = part.node, part.problem
    row: dict[str, Any] = dict.fromkeys(_NODE_COLUMNS, None)
    row |= {"node": node.name, "host": node.host, "rank": node.rank, "local_rank": node.local_rank, "job": node.job}
    row |= {"pid": part.pid, "kernel": "", "device": "", "problem": "", "fix": ""}
    if own is not None:
        row |= {"kernel": own.machine.get("kernel", ""), "device": own.machine.get("device", ""), **_counted(own)}
        row["clock_error_ns"] = None if part.clock is None else part.clock.error_ns
    if problem is not None:
        row |= {"problem": ": ".join(filter(None, (problem.what, problem.why))), "fix": problem.fix}
    return row


def _counted(own: Result) -> dict[str, Any]:
    recording = getattr(own, "recording", None)
    if isinstance(recording, Recording):  # without reading its events
        hits, events = int(recording.hits.sum()), recording.event_count
        return {"hits": hits, "events": events, "lost": recording.events_lost, "missed": recording.missed}
    losses = own.losses
    missed = int(losses.loc[losses["kind"] == "missed", "count"].sum())
    device = {"device": recording.device} if isinstance(recording, GpuRecording) else {}
    hits, events = int(own.counts["hits"].sum()), len(own.events)
    return {"hits": hits, "events": events, "lost": own.lost, "missed": missed, **device}

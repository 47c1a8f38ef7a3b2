"""ClusterResult: one trace of many processes on many machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic import subsystems
from accel_magic.analysis.by_node import together
from accel_magic.analysis.findings import combined
from accel_magic.analysis.frames import events_frame
from accel_magic.cluster import clock, folders
from accel_magic.cluster.clock import order
from accel_magic.cluster.folders import Problem
from accel_magic.cluster.recording_merge import NodeRecording, merged
from accel_magic.errors import RecordingError, ResultError
from accel_magic.recording import dataset
from accel_magic.recording.recording import EventColumn, Events
from accel_magic.results.cluster_results import OfNodes, none_traced
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.subsystem import NodesTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.banners import Replayed
    from accel_magic.cluster.clock import ClockLine, Order, Reading
    from accel_magic.cluster.folders import FolderPart
    from accel_magic.cluster.node import Node
    from accel_magic.probes.plan import ProbePoint
    from accel_magic.recording.recording import Recording
    from accel_magic.result_bases.base import Result
    from accel_magic.result_bases.comparison import TraceComparison
    from accel_magic.results.queries import EventSource
    from accel_magic.subsystems.subsystem import NodesTables, Subsystem
    from accel_magic.views.diagnosis import Diagnosis
    from accel_magic.views.tables import TraceTables

_NODES_ABOUT: Final = 8
"""Nodes whose devices' work is shown with the result."""
_PER_NODE: Final = ("counts", "latency", "waits")


@dataclass(frozen=True)
class NodeTrace:
    """A node's part of a trace.

    Attributes:
        node: The node.
        recording: What it recorded; None if it could not be traced or its recording is missing.
        clock: Its clock; None without a recording.
        problem: Why there is no recording, or that the node ended before the trace did.
        path: The recording's folder on the node's machine; "" if there is none.
        pid: Process id of a cluster's worker; None if unknown.

    """

    node: Node
    recording: Recording | None
    clock: ClockLine | None
    problem: Problem | None = None
    path: str = ""
    pid: int | None = None

    def replayed(self, label: Replayed) -> NodeTrace:
        """This part, labeled as a replay."""
        return self if self.recording is None else replace(self, recording=replace(self.recording, replayed=label))


class ClusterResult(OfNodes[NodeTrace, TraceResult], TraceResult):
    """A trace of many processes as one: counts and latencies are sums over all nodes, events are on one clock.

    Everything that a TraceResult has is that of all nodes together; `part` has each node's own.

    Args:
        parts: The nodes, at least one with a recording.
        value: The value of the traced cell's last expression.

    Raises:
        ResultError: No node has a recording.

    """

    KIND = "a trace of many nodes"

    def __init__(self, parts: Sequence[NodeTrace], value: object = None) -> None:
        self.parts = tuple(map(_with_times_in_range, parts))
        traced = [
            NodeRecording(part.node, part.recording, part.clock)
            for part in self.parts
            if part.recording is not None and part.clock is not None
        ]
        if not traced:
            raise none_traced(self.parts)
        self._of_nodes: dict[str, NodesTables] = {}
        super().__init__(merged(traced), value)

    def _own(self, part: NodeTrace) -> TraceResult | None:
        return None if part.recording is None else TraceResult(part.recording)

    @cached_property
    def by_node(self) -> pd.DataFrame:
        """Hits by `probe` and `function` (the index, most hits first) and node (a column each, Int64).

        NA where a node has no such place; nodes without a recording have no column.
        """
        columns = {part.node.name: own.counts["hits"] for part, own in self._traced()}
        return pd.DataFrame(columns).reindex(self.counts.index).astype("Int64")

    def per_node(self, table: str = "counts") -> pd.DataFrame:
        """Return a table of every node, one below the other.

        Args:
            table: `"counts"`, `"latency"` or `"waits"`.

        Returns:
            The columns `node`, `host` and `rank` (Int64), then the table's index and columns, as in each `part`.

        Raises:
            ResultError: There is no such table.

        """
        if table not in _PER_NODE:
            raise ResultError(
                f"there is no table {table!r} per node",
                fix=f"use one of {', '.join(_PER_NODE)}",
                code="cluster.no-table",
            )
        tables = [(part.node, getattr(own, table)) for part, own in self._traced()]
        return together(
            [
                (node, one if one.index.name is None and one.index.nlevels == 1 else one.reset_index())
                for node, one in tables
            ]
        )

    def compare(self, other: Result) -> TraceComparison:
        """Compare with `other` (the baseline): all nodes together; if it has nodes too, also each with its counterpart.

        Nodes correspond if they have the same rank, or, without ranks, the same name.

        Raises:
            ResultError: `other` is not a trace.

        """
        from accel_magic.result_bases.comparison import ClusterComparison, compare_traces

        family_of = subsystems.family_of
        whole = compare_traces(self.recording, self._check_kind(other, TraceResult).recording, family_of)
        if not isinstance(other, ClusterResult):
            return whole
        counterparts = {_identity(part): part.recording for part in other.parts}
        pairs = [
            (part.node, compare_traces(part.recording, baseline, family_of).table.reset_index())
            for part in self.parts
            if part.recording is not None and (baseline := counterparts.get(_identity(part))) is not None
        ]
        nodes = together(pairs) if pairs else pd.DataFrame()
        return ClusterComparison(**vars(whole), nodes=nodes)

    def _with_tables(self) -> list[Subsystem]:
        every = subsystems.registered().values()
        return [subsystem for subsystem in every if (subsystem.tables or subsystem.of_nodes) is not None]

    def tables_of(self, subsystem: str) -> Any:
        """The tables of a subsystem about many nodes; those of others as of a `TraceResult`, if one node was traced.

        Raises:
            ResultError: Several nodes were traced, and the subsystem is not about many: use `part`.
            KeyError: No subsystem with this name has tables.

        """
        make = subsystems.registered()[subsystem].of_nodes
        if make is None:
            return self._only(subsystem).tables_of(subsystem)
        if subsystem not in self._of_nodes:
            self._of_nodes[subsystem] = make(self._trace_of_nodes)
        return self._of_nodes[subsystem]

    def diagnose(self) -> Diagnosis:
        """Look for problems on every node; titles begin with its name.

        Returns:
            Findings with evidence and advice, most severe first; their places are in the node's own `part`.

        """
        from accel_magic.views.diagnosis import Diagnosis

        found = [_of_node(name, result.diagnose(), self.recording) for name, result in self._results.items()]
        whole = combined(found, self.recording)
        return Diagnosis.of(replace(whole, checked=tuple(dict.fromkeys(whole.checked))))

    @cached_property
    def _results(self) -> dict[str, TraceResult]:
        """The results of the nodes that have a recording, by name."""
        return {part.node.name: own for part, own in self._traced()}

    def _only(self, analysis: str) -> TraceResult:
        """The result of the only node. Raises ResultError if there are several."""
        (name, result), *others = self._results.items()
        if others:
            raise ResultError(
                "several nodes cannot be analyzed together",
                why="their drivers number jobs and buffers independently",
                fix=f"analyze each: part({name!r}).{analysis}; diagnose() has the findings of all",
                code="cluster.analyzed-per-node",
            )
        return result

    @cached_property
    def _trace_of_nodes(self) -> NodesTrace:
        lost = {
            part.node.name: frozenset(
                point.probe for point in part.recording.plan.points if part.recording.lost[point.id]
            )
            for part in self.parts
            if part.recording is not None
        }
        clocks = {part.node.name: part.clock for part in self.parts if part.clock is not None}
        return NodesTrace(self.plan.points, lost, clocks, self._events_of)

    def _events_of(self, chosen: Callable[[ProbePoint], bool]) -> pd.DataFrame:
        """All events; if they are too many to load, those of the chosen points."""
        if dataset.is_loadable(self.recording):
            return self.events
        parts = [
            NodeRecording(
                part.node,
                dataset.of_points(part.recording, [point.id for point in part.recording.plan.points if chosen(point)]),
                part.clock,
            )
            for part in self.parts
            if part.recording is not None and part.clock is not None
        ]
        return events_frame(merged(parts), None)

    def order(self, first: int, second: int) -> Order:
        """Tell which of two events came first: "before", "after", or "unknown" if the clocks do not tell.

        Args:
            first: Row of an event in `events`.
            second: Row of another one.

        """
        rows = self.events.iloc[[first, second]]
        (a, b), (name, other) = rows["time_ns"].tolist(), rows["node"].tolist()
        if name == other:
            return "before" if a < b else "after" if a > b else "unknown"
        return order(a, self._error_ns(name), b, self._error_ns(other))

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """As those of one trace, but the `timeline` has a row per node, with the error of its clock."""
        from accel_magic.views.timeline.node_timeline import timeline

        errors = {part.node.name: None if part.clock is None else part.clock.error_ns for part, _ in self._traced()}
        return {**super()._figures(), "timeline": lambda: timeline(self.events, errors)}

    def _error_ns(self, name: str) -> int | None:
        clock = next(part.clock for part in self.parts if part.node.name == name)
        return None if clock is None else clock.error_ns

    def to_perfetto(self, path: str | Path) -> Path:
        """Write the events as trace JSON for ui.perfetto.dev: each node's processes have numbers of their own.

        Subsystems about many nodes add tracks beside each process's threads.
        Events that are too many to load are written piece by piece, without these and without stacks.

        Raises:
            RecordingError: The file cannot be written.

        """
        from accel_magic.results.perfetto import export

        if not dataset.is_loadable(self.recording):
            return export(self._apart(), path)
        bases = {name: number << 22 for number, name in enumerate(self.events["node"].cat.categories)}
        tracks = (
            lines
            for subsystem in subsystems.registered().values()
            if subsystem.of_nodes is not None
            for lines in self.tables_of(subsystem.name).tracks(bases)
        )
        return export(self._apart(), path, self.combined_stacks, more=tracks)

    def _apart(self) -> Recording:
        """The recording with process ids that differ between nodes: node n has those from n * 2**22 on."""
        return replace(self.recording, load_events=_Apart(self.recording))

    def _sources(self) -> list[EventSource]:
        from accel_magic.results.queries import EventSource, NodePlace

        start = self.recording.start_ns
        return [
            EventSource(part.recording, NodePlace(part.node.host, part.node.rank, part.node.name, part.clock, start))
            for part in self.parts
            if part.recording is not None and part.clock is not None
        ]

    def _query_tables(self) -> dict[str, pd.DataFrame]:
        return {**super()._query_tables(), "nodes": self.nodes}

    def between(self, start_s: float, end_s: float) -> ClusterResult:
        """The events of a stretch of time, of all nodes, as a result of its own; see `TraceResult.between`.

        The edges are as exact as the clocks.
        """
        from accel_magic.recording.time_slice import between

        edges = [self.recording.start_ns + time for time in self._stretch(start_s, end_s)]
        parts = []
        for part in self.parts:
            piece = part
            if part.recording is not None and part.clock is not None:
                own = [_on_clock(part.clock, edge) - part.recording.start_ns for edge in edges]
                piece = replace(part, recording=between(part.recording, own[0], own[1]))
            parts.append(piece)
        return ClusterResult(parts, self.value)

    def _title(self) -> str:
        return f"trace of {len(self.parts)} nodes"

    def _tables(self) -> TraceTables:
        some = list(self._results.items())[:_NODES_ABOUT]
        return replace(super()._tables(), nodes={name: one._tables() for name, one in some})  # noqa: SLF001

    def summary(self) -> str:
        """Return plain text: the nodes, then headline, counts and latencies of all together."""
        from accel_magic.views.cluster_view import text

        return text(self.nodes, super().summary())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Text and static HTML in one bundle."""
        from accel_magic.views.cluster_view import html

        bundle = super()._repr_mimebundle_(include, exclude)
        return {**bundle, "text/plain": self.summary(), "text/html": html(self.nodes, bundle["text/html"])}


def _of_node(name: str, found: Diagnosis, recording: Recording) -> Diagnosis:
    """Name the node in the findings about it."""
    items = tuple(replace(one, title=f"{name}: {one.title}") for one in found.items)
    unchecked = {f"{name}: {rule}": lacks for rule, lacks in found.unchecked.items()}
    return replace(found, items=items, unchecked=unchecked, recording=recording)


@dataclass(frozen=True)
class _Apart:
    """Events of many nodes, with process ids that differ between nodes."""

    recording: Recording

    def __call__(self) -> Events:
        return _renumbered(self.recording.events)

    def check(self) -> None:
        """Check that the events can be loaded together. Raises ResultError: they are too many."""
        if isinstance(self.recording.load_events, dataset.Batched):
            self.recording.load_events.check()

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Events]:
        """Read the events piece by piece."""
        return map(_renumbered, dataset.batches(self.recording, names))


def _renumbered(events: Events) -> Events:
    columns = dict(events.columns)
    base = columns["node"].values.astype(np.int64) << 22
    for name in ("pid", "tid"):
        column = columns[name]
        columns[name] = EventColumn((column.values + base).astype(np.int64), column.valid)
    return Events(columns)


def _on_clock(line: ClockLine, time_ns: int) -> int:
    """The time on a node's clock that is mapped to this one, within 1 ns."""
    own = time_ns
    for _ in range(4):  # each step is more exact by the drift, at most 1e-2
        own += time_ns - int(line.to_reference(np.array([own], np.int64))[0])
    return own


def _identity(part: NodeTrace) -> str | int:
    return part.node.name if part.node.rank is None else part.node.rank


def gathered(folder: Path) -> ClusterResult:
    """Open what `accel-magic run` wrote: the recordings of all processes of a job.

    Clocks of processes that share one are the same; those of others are compared by the time of day.

    Raises:
        RecordingError: The folder has no recordings of nodes, or those of several runs.
        ResultError: No node has a recording.

    """
    found = folders.read(folder)
    reference = next((part.described.readings for part in found if part.recording and part.described.readings), ())
    return ClusterResult([_node_trace(part, reference) for part in found])


def _node_trace(part: FolderPart, reference: tuple[Reading, ...]) -> NodeTrace:
    node, problem = part.described.node, part.problem
    if part.recording is None:
        return NodeTrace(node, None, None, problem)
    try:
        recording = dataset.load(part.recording)
        line = _line(part.described.readings, reference)
    except RecordingError as error:
        return NodeTrace(node, None, None, Problem(error.what, error.why or "", error.fix or "", error.code))
    except ValueError as error:
        return NodeTrace(node, None, None, Problem("its clock makes no sense", str(error), code="cluster.damaged"))
    return NodeTrace(node, recording, line, problem, path=str(part.recording))


def _with_times_in_range(part: NodeTrace) -> NodeTrace:
    """The same part, or one with a problem if its clock or recording has times that no clock shows."""
    if part.recording is None or part.clock is None:
        return part
    try:
        NodeRecording(part.node, part.recording, part.clock).check()
    except (ValueError, OverflowError) as error:
        problem = Problem("its times make no sense", str(error), "trace again", "cluster.damaged")
        return NodeTrace(part.node, None, None, problem, part.path, part.pid)
    return part


def _line(own: tuple[Reading, ...], reference: tuple[Reading, ...]) -> ClockLine:
    if not own or not reference:
        raise ValueError("it has no readings of its clocks")
    if clock.same_clock(own[0], reference[0]):
        return clock.same_machine()
    last = (own[-1], reference[-1]) if len(own) == len(reference) == 2 else None
    return clock.by_wall_clock(own[0], reference[0], last)

"""GpuClusterResult: one GPU trace of many processes."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from accel_magic.analysis.by_node import together
from accel_magic.results.cluster_results import NodeResult, OfNodes, none_traced
from accel_magic.results.gpu_result import GpuResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from accel_magic.recording.profile import Lost

_OWN = "each node's own result has it: result.part(NODE)"


class GpuClusterResult(OfNodes[NodeResult[GpuResult], GpuResult]):
    """A GPU trace of many processes: the tables of all nodes, with the columns `node`, `host` and `rank`.

    `part` has each node's own result. Numbers of kernels, places and launches in the tables are the node's own.

    Args:
        parts: The nodes, at least one with a result.
        value: The value of the traced cell's last expression.

    Raises:
        ResultError: No node has a result.

    """

    KIND = "a GPU trace of many nodes"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **GpuResult.LACKS,
            "figure": ("figures show the device of one node", "draw a node's own: result.part(NODE).figure()"),
            "compare": (
                "nodes have kernels and devices of their own",
                "compare nodes: result.part(A).compare(other.part(B))",
            ),
            "diagnose": ("the rules apply to one device", _OWN),
            "to_parquet": (
                "a file holds the recording of one process",
                "save a node's own: result.part(NODE).to_parquet(path); folder= keeps the files on the nodes",
            ),
            "to_perfetto": ("a file shows one device", _OWN),
        }
    )

    def __init__(self, parts: Sequence[NodeResult[GpuResult]], value: object = None) -> None:
        super().__init__(value)
        self.parts = tuple(parts)
        if not self._traced():
            raise none_traced(parts)

    def _own(self, part: NodeResult[GpuResult]) -> GpuResult | None:
        return part.result

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded; what differs between nodes is joined by commas."""
        machines = [own.machine for _, own in self._traced()]
        names = dict.fromkeys(name for machine in machines for name in machine)
        found = {name: dict.fromkeys(one[name] for one in machines if name in one) for name in names}
        return {name: ", ".join(values) for name, values in found.items()}

    @property
    def started(self) -> str:
        """Wall-clock start of the first node, ISO 8601 with time zone."""
        return min(own.started for _, own in self._traced())

    @cached_property
    def _first_ns(self) -> int:
        """When the first node began, on the notebook's clock."""
        return min(part.moment(0) for part, _ in self._traced())

    @cached_property
    def duration_s(self) -> float:
        """From the first node's start to the last one's end, in seconds."""
        return (max(part.moment(own.recording.duration_ns) for part, own in self._traced()) - self._first_ns) / 1e9

    def _together(self, table: Callable[[GpuResult], pd.DataFrame]) -> pd.DataFrame:
        return together([(part.node, table(own)) for part, own in self._traced()])

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Launches (`hits`) and instrumented places (`sites`) of each kernel on all nodes, by `name`, most first."""
        table = pd.concat([own.counts for _, own in self._traced()]).groupby(level="name").sum()
        return table.sort_values("hits", ascending=False, kind="stable")

    @cached_property
    def by_node(self) -> pd.DataFrame:
        """Launches by kernel (the index, most launches first) and node (a column each, Int64).

        NA where a node has no such kernel; nodes without a result have no column.
        """
        columns = {part.node.name: own.counts["hits"] for part, own in self._traced()}
        return pd.DataFrame(columns).reindex(self.counts.index).astype("Int64")

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """Kernels of all nodes: `node`, `host`, `rank`, and the columns of `GpuResult.kernels`."""
        return self._together(lambda own: own.kernels)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """Launches of all nodes in order of time: `node`, `host`, `rank`, and the columns of `GpuResult.launches`.

        `launch` is the row in the node's own launches; `time_ns` is on the notebook's clock, since the first node's
        start, and as exact as the node's `clock_error_ns`.
        """
        return self._in_order(lambda own: own.launches.assign(launch=np.arange(len(own.launches))))

    @cached_property
    def events(self) -> pd.DataFrame:
        """Host calls and launches of all nodes: `node`, `host`, `rank`, and the columns of `GpuResult.events`.

        `time_ns` is that of `launches`; `launch` is a row of the node's own launches.
        """
        return self._in_order(lambda own: own.events)

    def _in_order(self, table: Callable[[GpuResult], pd.DataFrame]) -> pd.DataFrame:
        """Rows of all nodes in order of time."""
        tables = []
        for part, own in self._traced():
            one = table(own)
            times = part.moments(one["time_ns"].to_numpy(np.int64)) - self._first_ns
            tables.append((part.node, one.assign(time_ns=times)))
        return together(tables).sort_values("time_ns", kind="stable", ignore_index=True)

    @cached_property
    def tools(self) -> dict[str, pd.DataFrame]:
        """Main table of each tool by name: `node`, `host`, `rank`, and the tool's columns."""
        return self._named(lambda own: own.tools)

    @cached_property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The programs' maps by name: `node`, `host`, `rank`, and the columns of `GpuResult.maps`."""
        return self._named(lambda own: own.maps)

    def _named(self, tables: Callable[[GpuResult], Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
        found: dict[str, list[Any]] = {}
        for part, own in self._traced():
            for name, table in tables(own).items():
                found.setdefault(name, []).append((part.node, table))
        return {name: together(each) for name, each in found.items()}

    def _losses(self) -> Iterator[Lost]:
        for part, own in self._traced():
            yield from (loss._replace(why=f"{part.node.name}: {loss.why}") for loss in own._losses())  # noqa: SLF001

    def _title(self) -> str:
        return f"GPU trace of {len(self.parts)} nodes"

    def summary(self) -> str:
        """Return plain text: the nodes, launches by kernel and node, and the tools' tables."""
        from accel_magic.views import cluster_view
        from accel_magic.views.gpu.gpu_cluster_view import text

        return cluster_view.text(self.nodes, text(self._analyses(), self.by_node, self.tools))

    def _analyses(self) -> dict[str, Any]:
        return {part.node.name: own.gpu for part, own in self._traced()}

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views import cluster_view
        from accel_magic.views.gpu.gpu_cluster_view import html

        whole = html(self._analyses(), self.by_node, self.tools)
        return {"text/plain": self.summary(), "text/html": cluster_view.html(self.nodes, whole)}

"""FlameClusterResult: one flame graph of many processes."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from accel_magic.analysis.by_node import together
from accel_magic.analysis.flame import nodes
from accel_magic.analysis.flame.nodes import NodeProfile
from accel_magic.errors import ResultError
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.cluster_results import NodeResult, OfNodes, none_traced
from accel_magic.results.flame_result import FlameResult, SampledResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from accel_magic.recording.profile import Profile

Own: TypeAlias = FlameResult | SampledResult


class FlameClusterResult(OfNodes[NodeResult[Own], Own], ProfileResult):
    """A profile of many processes: each node's stacks are under a root of its own, HOST/NAME.

    Everything that a ProfileResult has is that of all nodes together; `part` has each node's own result.

    Args:
        parts: The nodes, at least one with a result.
        value: The value of the traced cell's last expression.

    Raises:
        ResultError: No node has a result.

    """

    KIND = "a flame trace of many nodes"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            **ProfileResult.LACKS,
            "plan": ("each node has a plan of its own", "see result.part(NODE).plan"),
        }
    )

    def __init__(self, parts: Sequence[NodeResult[Own]], value: object = None) -> None:
        self.parts = tuple(parts)
        profiles = [
            NodeProfile(part.node, own.profile, part.start_ns, part.clock)
            for part, own in self._traced()
            if part.clock is not None
        ]
        if not profiles:
            raise none_traced(parts)
        super().__init__(nodes.together(profiles), value)

    def _own(self, part: NodeResult[Own]) -> Own | None:
        return part.result

    @cached_property
    def by_node(self) -> pd.DataFrame:
        """Time by node: `node`, `host`, `rank`, `samples`, `cpu_ns`, `off_cpu_ns`, `accelerator_ns`.

        Times are sums over the node's threads, and equal those of its own result.
        """
        threads = self.threads
        sums = threads.groupby("node", sort=False)[["samples", "cpu_ns", "off_cpu_ns", "accelerator_ns"]].sum()
        return self.nodes[["node", "host", "rank"]].merge(sums, on="node")

    @cached_property
    def threads(self) -> pd.DataFrame:
        """Threads of all nodes, busiest first: `node`, `host`, `rank`, and the columns of the nodes' own `threads`."""
        table = together([(part.node, own.threads) for part, own in self._traced()])
        return table.sort_values(["cpu_ns", "off_cpu_ns"], ascending=False, kind="stable", ignore_index=True)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """Waits of all nodes, most time first: `node`, `host`, `rank`, and the columns of `FlameResult.waits`.

        Nodes that used the thread sampler have none.

        Raises:
            ResultError: All nodes used it.

        """
        table = self._of_kernels(lambda own: own.waits)
        return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)

    @cached_property
    def spans(self) -> pd.DataFrame:
        """Measured functions of all nodes, most time first: `node`, `host`, `rank`, the columns of `FlameResult.spans`.

        Nodes that used the thread sampler have none.

        Raises:
            ResultError: All nodes used it.

        """
        table = self._of_kernels(lambda own: own.spans)
        return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)

    def _of_kernels(self, table: Callable[[FlameResult], pd.DataFrame]) -> pd.DataFrame:
        """Join the tables of the nodes whose kernel sampled them."""
        tables = [(part.node, table(own)) for part, own in self._traced() if isinstance(own, FlameResult)]
        if not tables:
            raise ResultError(
                "no node recorded waits by reason, or measured functions",
                why="all nodes used the thread sampler, which sees neither",
                fix="profile with BPF; the notes say why the nodes could not use it: result.profile.notes",
                code="flame.thread-sampler",
            )
        return together(tables)

    def _apart(self) -> Profile:
        return nodes.apart(self.profile, [part.node for part, _ in self._traced()])

    def to_speedscope(self, path: str | Path) -> Path:
        """Write speedscope JSON with one profile per thread, for www.speedscope.app.

        Thread ids of node n begin at n * 2**22, because threads of different nodes may have the same id.
        """
        from accel_magic.formats import speedscope

        return speedscope.write(self._apart(), path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write Chrome/Perfetto trace JSON with stacks as slices per thread, numbered as in `to_speedscope`.

        Raises:
            ResultError: The samples have no times.
            RecordingError: The file cannot be written.

        """
        from accel_magic.formats import chrome

        return chrome.write(self._apart(), path)

    def _title(self) -> str:
        return f"flame trace of {len(self.parts)} nodes"

    def summary(self) -> str:
        """Return plain text: the nodes, then headline and frames with most weight of all together."""
        from accel_magic.views.cluster_view import text

        return text(self.nodes, super().summary())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Text and static HTML in one bundle."""
        from accel_magic.views.cluster_view import html

        bundle = super()._repr_mimebundle_(include, exclude)
        return {**bundle, "text/plain": self.summary(), "text/html": html(self.nodes, bundle["text/html"])}

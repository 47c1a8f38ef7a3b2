"""The live row of a trace on many nodes: totals, and a cell per node; removed when the cell ends."""

from __future__ import annotations

import re
from collections import deque
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from accel_magic.quantities import count_text, duration_text, exact_text, rate_text, shortened
from accel_magic.views.cluster_view import named
from accel_magic.views.live.trace_row import SHORTEST_STEP_NS, SPARKLINE, STALLED, STYLE, TraceRow, sparkline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.cluster.node_samples import ClusterSample, NodeSample

TOP_NODES: Final = 24
TOP_PROBES: Final = 6
TOP_PROBLEMS: Final = 4
"""The maximum number of nodes, probes, and different problems in the row."""
FIX_WIDTH: Final = 160
RATE_WINDOW_NS: Final = 1_000_000_000
_HISTORY: Final = 8
_SCHEME: Final = re.compile("^[a-z]+://")
"""The name of a Dask worker is its address by default."""
_STATES: Final = {"starting": "starting", "busy": "busy", "silent": "no answer", "ended": "worker ended"}

_STYLE: Final = """<style>
.am-live .am-nodes{flex-basis:100%;display:grid;grid-template-columns:repeat(auto-fill,minmax(20em,1fr));gap:3px 6px}
.am-live .am-node{display:flex;gap:8px;align-items:baseline;overflow:hidden;white-space:nowrap;padding:0 6px;
border:1px solid var(--jp-border-color2,#bdbdbd);border-radius:3px}
.am-live .am-node b,.am-live .am-node i{overflow:hidden;text-overflow:ellipsis}.am-live .am-node i{flex-shrink:9}
.am-live .am-node .am-right{margin-left:auto}
.am-live .am-node .am-num{min-width:4.6em}
.am-live .am-quiet{border-style:dashed}
.am-live .am-wide{flex-basis:100%}
</style>"""


class _Rates:
    """Hits/s of one series of counters over the last second.

    Rates are by the time of the counters, not of their arrival: those of a busy node arrive late.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque([(0, 0)], _HISTORY)

    def add(self, time_ns: int, hits: int) -> None:
        """Add the counters at a time; ignored if it follows the last too closely."""
        if time_ns - self._samples[-1][0] >= SHORTEST_STEP_NS:
            self._samples.append((time_ns, hits))

    def rate(self) -> float:
        """Return the rate."""
        now, hits = self._samples[-1]
        older = [sample for sample in self._samples if sample[0] < now]
        if not older:
            return 0.0
        then, before = next((sample for sample in reversed(older) if now - sample[0] >= RATE_WINDOW_NS), older[0])
        return max(hits - before, 0) / (now - then) * 1e9


class ClusterRow(TraceRow):
    """The row. Open and close it in the main thread; update it from one thread.

    Args:
        count: Number of nodes.

    """

    def __init__(self, count: int) -> None:
        super().__init__(f'{STYLE}<div class="am-live"><i>attaching on {count} node{"s" * (count != 1)}…</i></div>')
        self._nodes: dict[str, _Rates] = {}
        self._probes: dict[str, _Rates] = {}
        self._totals: deque[tuple[int, int]] = deque([(0, 0)], SPARKLINE + 1)

    def update(self, *samples: ClusterSample) -> None:
        """Show the last of `samples`."""
        for sample in samples:
            self._add(sample)
        if samples:
            nodes = {name: rates.rate() for name, rates in self._nodes.items()}
            probes = {name: rates.rate() for name, rates in self._probes.items()}
            self.draw(render(samples[-1], nodes, probes, self._over_time()))

    def _add(self, sample: ClusterSample) -> None:
        for node in sample.nodes:
            self._nodes.setdefault(node.name, _Rates()).add(node.counted.time_ns, node.counted.total)
        for probe, hits in _by_probe(sample.nodes).items():
            self._probes.setdefault(probe, _Rates()).add(sample.time_ns, hits)
        if sample.time_ns - self._totals[-1][0] >= SHORTEST_STEP_NS:
            self._totals.append((sample.time_ns, sum(node.counted.total for node in sample.nodes)))

    def _over_time(self) -> tuple[float, ...]:
        return tuple(
            max(after - before, 0) / (end - start) * 1e9 for (start, before), (end, after) in pairwise(self._totals)
        )


def _by_probe(nodes: Iterable[NodeSample]) -> dict[str, int]:
    hits: dict[str, int] = {}
    for node in nodes:
        for probe, count in node.counted.hits.items():
            hits[probe] = hits.get(probe, 0) + count
    return hits


def render(
    sample: ClusterSample, rates: Mapping[str, float], probes: Mapping[str, float], over_time: tuple[float, ...]
) -> str:
    """Draw the row as self-contained HTML.

    Args:
        sample: The newest sample.
        rates: Hits/s of each node, by its name.
        probes: Hits/s of each probe, over all nodes.
        over_time: Hits/s of all nodes between the last samples, oldest first.

    """
    traced = [node for node in sample.nodes if node.state != "untraced"]
    lost = sum(node.counted.lost for node in traced)
    parts = [
        f"<span><b>{duration_text(sample.time_ns)}</b></span>",
        f'<span><b class="am-num">{rate_text(sum(rates.values()))}</b> <i>hits</i> {sparkline(over_time)}</span>',
        f"<span>{count_text(sum(node.counted.total for node in traced))} <i>hits</i></span>",
        f"<span>{count_text(sum(node.counted.recorded for node in traced))} <i>events</i></span>",
        f"<span{_alarm(lost)}>{exact_text(lost)} lost</span>",
        f"<span>{len(traced)} of {len(sample.nodes)} <i>node{'s' * (len(sample.nodes) != 1)}</i></span>",
        *_probes(probes),
        f'<span class="am-stalled">{STALLED}</span>',
        _nodes(traced, rates),
        *_problems(sample.nodes),
    ]
    return f'{STYLE}{_STYLE}<div class="am-live">{"".join(parts)}</div>'


def _probes(rates: Mapping[str, float]) -> list[str]:
    if len(rates) < 2:
        return []
    busiest = sorted(rates, key=lambda probe: -rates[probe])[:TOP_PROBES]
    shown = [
        f'<span title="{escape(probe)}"><i>{escape(shortened(probe, 36))}</i> {rate_text(rates[probe])}</span>'
        for probe in rates
        if probe in busiest
    ]
    more = len(rates) - len(busiest)
    return [*shown, *([f"<span><i>and {more} more</i></span>"] if more else [])]


def _nodes(traced: Sequence[NodeSample], rates: Mapping[str, float]) -> str:
    """Draw a cell per node: those with problems and the busiest ones, if there are many, in their usual order."""
    first = sorted(traced, key=lambda node: (not _is_unusual(node), -node.counted.total))[:TOP_NODES]
    chosen = {node.name for node in first}
    several = len({node.host for node in traced}) > 1
    top = max((rates.get(node.name, 0.0) for node in traced), default=0.0)
    cells = [_cell(node, rates.get(node.name, 0.0), top, several) for node in traced if node.name in chosen]
    more = len(traced) - len(chosen)
    rest = [f'<span class="am-more"><i>and {more} more</i></span>'] if more else []
    return f'<span class="am-nodes">{"".join([*cells, *rest])}</span>'


def _is_unusual(node: NodeSample) -> bool:
    return bool(node.counted.lost) or node.state in ("busy", "silent", "ended")


def _cell(node: NodeSample, rate: float, top: float, several: bool) -> str:
    """Draw one node; the bar behind it is its rate, relative to the highest."""
    share = 100 * rate / top if top > 0 else 0
    hint = "\n".join(
        [f"{node.name} on {node.host}", *(f"{probe}: {count:,}" for probe, count in node.counted.hits.items())]
        + [text for text in (node.problem, node.fix) if text]
    )
    state = _STATES.get(node.state, "")
    style = f"background:linear-gradient(90deg,rgba(46,134,200,.25) {share:.0f}%,transparent {share:.0f}%)"
    parts = [
        f'<span class="am-node{" am-quiet" * bool(state)}" style="{style}" title="{escape(hint)}">',
        f"<b>{'node ' * node.name.isdecimal()}{escape(shortened(_SCHEME.sub('', node.name), 24))}</b>",
        f"<i>{escape(shortened(node.host, 16))}</i>" * (several and not _SCHEME.match(node.name)),
        f'<span class="am-right am-num">{count_text(node.counted.total)}</span>',
        f'<span class="am-alarm">{count_text(node.counted.lost)} lost</span>' * bool(node.counted.lost),
        f'<span class="am-late">{state}</span>' if state else f'<span class="am-num">{rate_text(rate)}</span>',
        "</span>",
    ]
    return "".join(parts)


def _problems(nodes: Iterable[NodeSample]) -> list[str]:
    """Name the nodes that are not traced, with the reason and the fix; those with the same reason together."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        if node.state == "untraced":
            by_reason.setdefault((node.problem, node.fix), []).append(node.name)
    lines = [_problem(problem, fix, names) for (problem, fix), names in list(by_reason.items())[:TOP_PROBLEMS]]
    left = sum(len(names) for names in list(by_reason.values())[TOP_PROBLEMS:])
    return [*lines, *([f'<span class="am-wide am-alarm">and {left} more nodes</span>'] if left else [])]


def _problem(problem: str, fix: str, names: Sequence[str]) -> str:
    short = fix if len(fix) <= FIX_WIDTH else f"{fix[:FIX_WIDTH]}…"
    parts = [
        f'<span class="am-wide" title="{escape(fix)}">',
        f'<span class="am-alarm">not traced: {escape(named(names))}</span> {escape(problem)}',
        f"; <i>fix:</i> {escape(short)}" * bool(fix),
        "</span>",
    ]
    return "".join(parts)


def _alarm(lost: int) -> str:
    return ' class="am-alarm"' if lost else ""

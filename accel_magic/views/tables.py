"""The tables of a result as formatted cells: the text and the HTML view only lay them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from accel_magic.views.format import duration_text, exact_text, rate_text, ratio_text
from accel_magic.views.names import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.traces.compare import Comparison
    from accel_magic.traces.result import TraceResult

    Formats = Mapping[str, tuple[str, Callable[..., str]]]


MANY = 10


@dataclass(frozen=True)
class Table:
    """Formatted cells: the first `names` columns are names (to the left), the others numbers (to the right).

    `rows` is cut at the limit asked for; `more` counts the rows left out, `silent` those left out for having no hit.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int
    more: int = 0
    silent: int = 0


def counts_table(result: TraceResult, limit: int) -> Table:
    """Hits and rates per probe point, most hits first; lost events where there were any."""
    formats: Formats = {"hits": ("hits", exact_text), "rate": ("rate", rate_text)}
    if result.lost:
        formats = {**formats, "lost": ("lost", exact_text)}
    return _table(result.counts, formats, limit, "hits")


def latency_table(result: TraceResult, limit: int) -> Table:
    """Latencies per measured function, most calls first; calls still under way where there were any."""
    frame = result.latency.sort_values("count", ascending=False, kind="stable")
    formats: Formats = {
        "count": ("calls", exact_text),
        **{name: (name, duration_text) for name in ("mean", "p50", "p90", "p99", "max")},
    }
    if frame["unfinished"].any():
        formats = {**formats, "unfinished": ("unfinished", exact_text)}
    return _table(frame, formats, limit, "count")


def comparison_table(comparison: Comparison, limit: int) -> Table:
    """Both traces' hits, how the rate changed, and the same for p50 and p99 where either trace measured them."""
    formats: Formats = {
        "hits": ("hits", _count_or_nothing),
        "baseline_hits": ("baseline", _count_or_nothing),
        "rate_ratio": ("rate ratio", ratio_text),
    }
    for name in ("p50", "p99"):
        if comparison.table[[name, f"baseline_{name}"]].notna().any(axis=None):
            formats = {
                **formats,
                name: (name, duration_text),
                f"baseline_{name}": ("baseline", duration_text),
                f"{name}_ratio": (f"{name} ratio", ratio_text),
            }
    return _table(comparison.table, formats, limit)


def _table(frame: pd.DataFrame, formats: Formats, limit: int, count: str = "") -> Table:
    """Lay out the first `limit` rows of a frame indexed by (probe, function).

    Among many rows (a glob may match hundreds) those whose `count` is 0 say nothing, and only their number is given.
    """
    total = len(frame)
    if count and total > MANY:
        frame = frame[frame[count] > 0]
    shown = frame.head(limit)
    cells = [[text(value) for value in shown[column]] for column, (_, text) in formats.items()]
    probes, functions = ([str(name) for name in shown.index.get_level_values(level)] for level in ("probe", "function"))
    return Table(
        heads=("probe", "function", *(head for head, _ in formats.values())),
        rows=tuple(zip(probes, map(readable, functions), *cells, strict=True)),
        names=2,
        more=len(frame) - len(shown),
        silent=total - len(frame),
    )


def _count_or_nothing(count: int) -> str:
    return "-" if pd.isna(count) else exact_text(count)

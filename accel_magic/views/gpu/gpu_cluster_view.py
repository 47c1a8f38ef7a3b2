"""A GPU trace of many nodes as text and static HTML, below the table of the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.banners import banners_of
from accel_magic.views.element import element_html
from accel_magic.views.gpu.gpu_summary import TOP, gpu_headline, gpu_notes
from accel_magic.views.tables import aligned, frame_table
from accel_magic.views.trace_html import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.analysis.gpu import GpuAnalysis
    from accel_magic.views.tables import FormattedTable

_NODES = 32


def text(nodes: Mapping[str, GpuAnalysis], by_node: pd.DataFrame, tools: Mapping[str, pd.DataFrame]) -> str:
    """Banners, each node's headline, and tables in aligned columns.

    Args:
        nodes: The nodes that have a result, by name.
        by_node: Launches by kernel and node.
        tools: The tools' tables of all nodes, by name.

    """
    lines = list(_banners(nodes))
    for name, gpu in list(nodes.items())[:_NODES]:
        lines.append(f"{name}: {', '.join(note.text for note in gpu_headline(gpu))}")
        lines += [f"note: {name}: {note}" for note in gpu_notes(gpu)]
    for title, table in _tables(by_node, tools, TOP):
        lines += ["", title, *aligned(table)]
    return terminal.page(lines)


def html(nodes: Mapping[str, GpuAnalysis], by_node: pd.DataFrame, tools: Mapping[str, pd.DataFrame]) -> str:
    """The same as one self-contained HTML element."""
    shown = [(name, gpu_headline(gpu), gpu_notes(gpu)) for name, gpu in list(nodes.items())[:_NODES]]
    tables = _tables(by_node, tools, LIMIT)
    return element_html(tables, banners=_banners(nodes), template="gpu_nodes", nodes=shown)


def _banners(nodes: Mapping[str, GpuAnalysis]) -> dict[str, None]:
    return dict.fromkeys(line for gpu in nodes.values() for line in banners_of(gpu.recording))


def _tables(
    by_node: pd.DataFrame, tools: Mapping[str, pd.DataFrame], limit: int
) -> Iterator[tuple[str, FormattedTable]]:
    yield "launches by kernel and node", frame_table(by_node.rename_axis("kernel").reset_index(), limit)
    for name, table in tools.items():
        shown = table.drop(columns="rank") if table["rank"].isna().all() else table
        yield f"{name}, {len(table):,} rows", frame_table(shown, limit)

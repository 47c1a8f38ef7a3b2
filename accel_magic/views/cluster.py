"""The nodes of a trace of many machines, above what they counted together."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import pandas as pd

from accel_magic import terminal
from accel_magic.views.format import NOTHING, duration_text, exact_text
from accel_magic.views.tables import STYLE, Table, aligned, comparison_table, table_html

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = 32
_NO_COUNTERPART: Final = "no node has a counterpart in the baseline, by rank or by name"


def text(nodes: pd.DataFrame, whole: str) -> str:
    """Nodes, then what all of them counted."""
    return terminal.page([headline(nodes), "", *aligned(nodes_table(nodes)), "", *whole.splitlines()])


def html(nodes: pd.DataFrame, whole: str) -> str:
    """The same as HTML; `whole` is an element of its own."""
    head = escape(headline(nodes))
    return "\n".join(
        [
            '<div class="accel-magic">',
            STYLE,
            f'<div class="am-line">{head}</div>',
            f'<div class="am-tables"><div>{table_html(nodes_table(nodes))}</div></div>',
            "</div>",
            whole,
        ]
    )


def comparison_text(nodes: pd.DataFrame, whole: str) -> str:
    """The comparison of all nodes together, then of each with its counterpart.

    Args:
        nodes: As `ClusterComparison.nodes`.
        whole: What the comparison of all together shows.

    """
    lines = ["by node", *aligned(_compared(nodes))] if len(nodes) else [_NO_COUNTERPART]
    return terminal.page([*whole.splitlines(), "", *lines])


def comparison_html(nodes: pd.DataFrame, whole: str) -> str:
    """The same as HTML; `whole` is an element of its own."""
    head = "by node" if len(nodes) else _NO_COUNTERPART
    table = table_html(_compared(nodes)) if len(nodes) else ""
    line = f'<div class="am-line"><span>{head}</span></div>'
    return f'{whole}\n<div class="accel-magic">{line}<div class="am-tables">{table}</div></div>'


def _compared(nodes: pd.DataFrame) -> Table:
    return comparison_table(nodes.drop(columns=["host", "rank", "probe"]).set_index(["node", "function"]), TOP)


def headline(nodes: pd.DataFrame) -> str:
    """How many nodes were traced, and what is missing."""
    lacking = int(nodes["hits"].isna().sum())
    hosts = nodes["host"].nunique()
    words = [f"{len(nodes) - lacking} of {len(nodes)} nodes traced, on {hosts} host{'s' * (hosts != 1)}"]
    if lacking:
        words.append(f"{lacking} without a recording")
    return ", ".join(words)


def nodes_table(nodes: pd.DataFrame) -> Table:
    """One row per node: what it counted and how well its clock is known, and what is wrong with it."""
    rows = [
        (
            str(row["node"]),
            str(row["host"]),
            _cell(row["hits"], exact_text),
            _cell(row["events"], exact_text),
            _cell(row["lost"], exact_text),
            NOTHING if pd.isna(row["hits"]) else _cell(row["clock_error_ns"], duration_text, "unknown"),
            "; ".join(filter(None, (row["problem"], row["fix"]))),
        )
        for row in nodes.head(TOP).to_dict("records")
    ]
    heads = ("node", "host", "hits", "events", "lost", "clock error", "problem")
    return Table(heads, tuple(rows), 2, max(len(nodes) - TOP, 0))


def _cell(value: object, shown: Callable[..., str], unknown: str = NOTHING) -> str:
    return unknown if pd.isna(value) else shown(value)  # type: ignore[call-overload]

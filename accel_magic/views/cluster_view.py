"""The nodes of a trace of many machines, above what they counted together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from accel_magic import terminal
from accel_magic.quantities import duration_text, exact_text, shortened
from accel_magic.views.element import element_html
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable, aligned, comparison_table

if TYPE_CHECKING:
    from collections.abc import Sequence

TOP: Final = 32
NAMED: Final = 8
"""The maximum number of nodes in a table, and of nodes that are named for one problem."""
_NO_COUNTERPART: Final = "no node has a counterpart in the baseline, by rank or by name"


def text(nodes: pd.DataFrame, whole: str) -> str:
    """Nodes, those with problems first, then what all of them counted."""
    problems = [
        line
        for one in _problems(nodes)
        for line in (f"{one.state}: {one.names}", f"  {one.problem}", *([f"  fix: {one.fix}"] if one.fix else []))
    ]
    return terminal.page(
        [
            headline(nodes),
            *(["", *problems] if problems else []),
            "",
            *aligned(nodes_table(nodes)),
            "",
            *whole.splitlines(),
        ]
    )


def html(nodes: pd.DataFrame, whole: str) -> str:
    """The same as HTML; `whole` is an element of its own."""
    tables = [("", nodes_table(nodes))]
    above = element_html(tables, [Note(headline(nodes))], template="cluster", problems=_problems(nodes))
    return f"{above}\n{whole}"


@dataclass(frozen=True)
class _Problem:
    """A problem of one or more nodes, whose names are in one text."""

    state: str
    names: str
    problem: str
    fix: str


def _problems(nodes: pd.DataFrame) -> list[_Problem]:
    """The problems of nodes, each once; of nodes that were not traced first."""
    found: dict[tuple[bool, str, str], list[str]] = {}
    for row in nodes[nodes["problem"] != ""].to_dict("records"):
        problem = str(row["problem"]).removeprefix(f"{row['node']}: ")
        found.setdefault((not pd.isna(row["hits"]), problem, str(row["fix"])), []).append(str(row["node"]))
    return [
        _Problem("incomplete" if traced else "not traced", named(names), problem, fix)
        for (traced, problem, fix), names in sorted(found.items(), key=lambda item: item[0][0])
    ]


def named(names: Sequence[str]) -> str:
    """Names of nodes as one text, cut if they are many."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(shortened(name, 24) for name in names[:NAMED]) + more


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
    below = element_html([_compared(nodes)] if len(nodes) else [], [Note("by node" if len(nodes) else _NO_COUNTERPART)])
    return f"{whole}\n{below}"


def _compared(nodes: pd.DataFrame) -> FormattedTable:
    return comparison_table(nodes.drop(columns=["host", "rank", "probe"]).set_index(["node", "function"]), TOP)


def headline(nodes: pd.DataFrame) -> str:
    """How many nodes were traced, and what is missing."""
    missing = int(nodes["hits"].isna().sum())
    hosts = nodes["host"].nunique()
    traced = f"{len(nodes) - missing} of {len(nodes)} node{'s' * (len(nodes) != 1)} traced"
    words = [f"{traced}, on {hosts} host{'s' * (hosts != 1)}"]
    if missing:
        words.append(f"{missing} without a recording")
    return ", ".join(words)


def nodes_table(nodes: pd.DataFrame) -> FormattedTable:
    """One row per node that was traced, of many nodes only the busiest: its counts, and how well its clock is known."""
    traced = nodes[nodes["hits"].notna()]
    shown = traced.loc[traced["hits"].astype("int64").nlargest(TOP, keep="first").index.sort_values()]
    rows = [
        (
            str(row["node"]),
            str(row["host"]),
            exact_text(row["hits"]),
            exact_text(row["events"]),
            exact_text(row["lost"]),
            "unknown" if pd.isna(row["clock_error_ns"]) else duration_text(row["clock_error_ns"]),
        )
        for row in shown.to_dict("records")
    ]
    heads = ("node", "host", "hits", "events", "lost", "clock error")
    return FormattedTable(heads, tuple(rows), 2, len(traced) - len(shown))

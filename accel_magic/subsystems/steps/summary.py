"""Which rank is late, as text and static HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from accel_magic import terminal
from accel_magic.quantities import NOTHING, duration_text, exact_text
from accel_magic.views.element import element_html
from accel_magic.views.tables import FormattedTable, aligned

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from accel_magic.subsystems.steps.lateness import Lateness

TOP: Final = 32


def text(shown: Lateness) -> str:
    """Who is late, how many steps matched, and a row per rank."""
    return terminal.page([headline(shown), *_about(shown), "", *aligned(_table(shown))])


def html(shown: Lateness) -> str:
    """The same as one self-contained element."""
    return element_html([("", _table(shown))], headline(shown), notes=_about(shown))


def headline(shown: Lateness) -> str:
    """Who is late, and by how much: a rank that is late more often than not, if there is one."""
    late = shown.table[shown.table["late"] > 0]
    what = shown.matched.by
    if not len(late):
        unknown = int(shown.table["unknown"].sum())
        known = "" if not unknown else f"; the clocks do not tell for {exact_text(unknown)} calls"
        return f"no rank is late by {duration_text(shown.late_ns)} or more at any {what} that matched{known}"
    usual = late[(late["late"] * 2 > late["matched"]) & (late["p50_late_ns"] >= shown.late_ns)]
    first = (usual if len(usual) else late).iloc[0]
    number = f"{exact_text(int(first['late']))} of {exact_text(int(first['matched']))} {what}s"
    cause = "" if pd.isna(first["cause"]) else f", more time in: {first['cause']}"
    if not len(usual):
        most = f"{name(first)} has the most late time, {duration_text(first['total_late_ns'])} at {number}{cause}"
        return f"no rank is late at most {what}s; {most}"
    return f"{name(first)} is late at {number}, by {duration_text(first['p50_late_ns'])} (p50 of all){cause}"


def name(rank: Mapping[Hashable, Any] | pd.Series[Any]) -> str:
    """Name of a rank."""
    return f"{rank['node']} (pid {rank['pid']})"


def _about(shown: Lateness) -> list[str]:
    return [str(shown.matched), *shown.notes]


def _table(shown: Lateness) -> FormattedTable:
    columns = {
        "mean_late_ns": "mean late",
        "p50_late_ns": "p50",
        "max_late_ns": "max",
        "total_late_ns": "total",
        "cpu_ns": "more CPU",
        "waiting_ns": "more waiting",
        "driver_ns": "more driver",
        "fault_ns": "more faults",
        "waited_for_late_ns": "waited for the last",
        "transfer_ns": "transfer",
    }
    table = shown.table
    given = {column: head for column, head in columns.items() if column in table and table[column].notna().any()}
    unknown = bool(table["unknown"].any())
    heads = ("rank", "host", "cause", "late", *(("unknown",) if unknown else ()), *given.values())
    rows = [
        (
            name(row),
            str(row["host"]),
            NOTHING if pd.isna(row["cause"]) else str(row["cause"]),
            f"{exact_text(int(row['late']))} of {exact_text(int(row['matched']))}",
            *((exact_text(int(row["unknown"])),) if unknown else ()),
            *(NOTHING if pd.isna(row[column]) else _duration(float(row[column])) for column in given),
        )
        for row in table.head(TOP).to_dict("records")
    ]
    return FormattedTable(heads, tuple(rows), 3, max(len(table) - TOP, 0))


def _duration(ns: float) -> str:
    return f"-{duration_text(-ns)}" if ns < 0 else duration_text(ns)

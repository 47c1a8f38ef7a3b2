"""A result as plain text: what a terminal and a plain script show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.views.format import duration_text, exact_text, shortened
from accel_magic.views.headline import banners, headline
from accel_magic.views.tables import Table, comparison_table, counts_table, latency_table

if TYPE_CHECKING:
    from accel_magic.traces.compare import Comparison
    from accel_magic.traces.result import TraceResult

TOP = 20
NAME_WIDTH = 44


def summary(result: TraceResult) -> str:
    """Headline, the most frequent functions and the measured latencies, in aligned columns."""
    lines = list(banners(result.recording.machine, result.recording.replayed))
    lines.append(", ".join(note.text for note in headline(result)))
    lines += [f"note: {note}" for note in result.plan.notes]
    lines += ["", *aligned(counts_table(result, TOP))]
    if len(result.latency):
        lines += ["", "latency", *aligned(latency_table(result, TOP))]
    return "\n".join(lines)


def comparison_text(comparison: Comparison) -> str:
    """Both traces' lengths, then the table of changes."""
    return "\n".join([comparison_line(comparison), "", *aligned(comparison_table(comparison, TOP))])


def comparison_line(comparison: Comparison) -> str:
    """What is compared, in one line."""
    lengths = (duration_text(seconds * 1e9) for seconds in (comparison.duration_s, comparison.baseline_duration_s))
    return "{} beside a baseline of {}; ratios are this trace over the baseline".format(*lengths)


def aligned(table: Table) -> list[str]:
    """Lines with the names to the left and the numbers to the right, and one for the rows left out."""
    cells = [
        table.heads,
        *((*(shortened(name, NAME_WIDTH) for name in row[: table.names]), *row[table.names :]) for row in table.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < table.names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    if table.more:
        lines.append(f"and {exact_text(table.more)} more")
    if table.silent:
        lines.append(f"and {exact_text(table.silent)} without a hit")
    return lines

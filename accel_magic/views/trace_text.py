"""A result as plain text, for terminals and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.banners import banners_of
from accel_magic.quantities import duration_text, exact_text
from accel_magic.views.device_notes import about, answers
from accel_magic.views.headline import headline
from accel_magic.views.tables import (
    aligned,
    comparison_families_table,
    comparison_table,
    counts_table,
    latency_table,
    stacks_table,
    waits_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.views.tables import TraceTables

TOP = 20


def summary(shown: TraceTables) -> str:
    """Headline, the most frequent functions and the measured latencies, in aligned columns."""
    lines = list(banners_of(shown.recording))
    lines.append(", ".join(note.text for note in headline(shown.recording, shown.stacks_lost)))
    lines += [f"note: {note}" for note in shown.recording.notes]
    lines += about(shown)
    for table in answers(shown):
        lines += ["", *aligned(table)]
    lines += ["", *aligned(counts_table(shown.counts, TOP))]
    if len(shown.latency):
        lines += ["", "latency", *aligned(latency_table(shown.latency, TOP))]
    if len(shown.waits):
        lines += ["", "waits", *aligned(waits_table(shown.waits, TOP))]
    if shown.stacks is not None:
        lines += ["", "stacks", *aligned(stacks_table(shown.stacks, TOP))]
    return terminal.page(lines)


def comparison_text(
    table: pd.DataFrame,
    families: pd.DataFrame,
    lengths_s: tuple[float, float],
    banners: tuple[str, ...],
    leading: tuple[str, ...] = (),
) -> str:
    """What subsystems say, both durations, then the tables of changes: by family if there are any, then by function.

    Args:
        table: As `TraceComparison.table`.
        families: As `TraceComparison.families`.
        lengths_s: Durations of the trace and of its baseline.
        banners: The banners of both.
        leading: Lines of subsystems.

    """
    lines = [*banners, *leading, comparison_line(table, lengths_s), ""]
    if len(families):
        lines += [*aligned(comparison_families_table(families, TOP)), ""]
    return terminal.page([*lines, *aligned(comparison_table(table, TOP))])


def comparison_line(table: pd.DataFrame, lengths_s: tuple[float, float]) -> str:
    """One line about what is compared."""
    lengths = (duration_text(seconds * 1e9) for seconds in lengths_s)
    sure = int(table["significant"].sum())
    functions = f"{exact_text(sure)} of {exact_text(len(table))} functions changed significantly"
    line = "{} compared with a baseline of {}; ratios are this trace / baseline".format(*lengths)
    return f"{line}; {functions}"

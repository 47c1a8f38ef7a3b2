"""A result as a bundle of text and static HTML, which also works in a saved notebook without a server or network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.banners import banners_of
from accel_magic.views.device_notes import about, answers
from accel_magic.views.element import element_html
from accel_magic.views.figures.bokehjs import figures_html, has_kernel
from accel_magic.views.headline import Note, headline
from accel_magic.views.tables import (
    comparison_families_table,
    comparison_table,
    counts_table,
    latency_table,
    stacks_table,
    waits_table,
)
from accel_magic.views.trace_text import comparison_line, summary

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

    from accel_magic.views.tables import TraceTables

LIMIT = 500
"""The most rows of a table in the HTML; the data frames hold the others."""


def bundle(shown: TraceTables) -> dict[str, str]:
    """Both representations of a result, as `_repr_mimebundle_` returns them.

    Outside a notebook the figures, and BokehJS, are omitted.
    """
    return {"text/plain": summary(shown), "text/html": result_html(shown, figures=has_kernel())}


def result_html(shown: TraceTables, *, figures: bool = True) -> str:
    """Headline, tables and, if asked for, figures, as one self-contained element."""
    recording = shown.recording
    leading, counted = answers(shown), [counts_table(shown.counts, LIMIT)]
    if len(shown.latency):
        counted.append(latency_table(shown.latency, LIMIT))
    if len(shown.waits):
        counted.append(waits_table(shown.waits, LIMIT))
    stacks = [] if shown.stacks is None else [stacks_table(shown.stacks, LIMIT)]
    folds = bool(leading) and shown.only_presets
    return element_html(
        [*leading, *stacks] if folds else [*leading, *counted, *stacks],
        headline(recording, shown.stacks_lost),
        banners=banners_of(recording),
        notes=recording.notes,
        template="trace",
        about=about(shown),
        folded=counted if folds else [],
        functions=len(shown.counts),
        figures=_figures_html(shown) if figures else "",
    )


def comparison_html(
    table: pd.DataFrame,
    families: pd.DataFrame,
    lengths_s: tuple[float, float],
    banners: tuple[str, ...],
    leading: tuple[str, ...] = (),
) -> str:
    """Tables of a comparison as one self-contained element; arguments as in `trace_text.comparison_text`."""
    tables = [comparison_table(table, LIMIT)]
    if len(families):
        tables.insert(0, comparison_families_table(families, LIMIT))
    return element_html(tables, [Note(line) for line in (*leading, comparison_line(table, lengths_s))], banners=banners)


def _figures_html(shown: TraceTables) -> Markup:
    """Hits, latency if measured, and rate, side by side; preceded by BokehJS if it has not been sent yet."""
    from accel_magic.views.figures import trace_figures  # Bokeh takes a while to import

    recording = shown.recording
    any_hits, any_calls = bool(recording.hits.any()), bool(shown.latency["count"].any())
    kinds = [
        (trace_figures.hits, any_hits),
        (trace_figures.latency, any_calls),
        (trace_figures.rate, any_hits and recording.timed),
    ]
    return figures_html([draw(recording) for draw, there in kinds if there])

"""A result as one bundle of text and static HTML, right in a saved notebook with no server and no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from accel_magic.banners import banners_of
from accel_magic.views.figures.bokehjs import figure_html, has_kernel, scripts
from accel_magic.views.format import exact_text
from accel_magic.views.headline import Note, headline
from accel_magic.views.npu.result import brief
from accel_magic.views.tables import (
    Table,
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

    from accel_magic.views.tables import TraceTables

TOP = 15
LIMIT = 500
"""Rows of a table in the HTML at most; the frames hold the others."""

STYLE = """<style>
.accel-magic { font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); color: inherit; max-width: 1240px }
.accel-magic .am-line { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 4px 0 6px }
.accel-magic .am-line > :first-child, .accel-magic .am-line > :nth-child(2) { font-weight: 600 }
.accel-magic .am-alarm { color: var(--jp-error-color1, #d32f2f); font-weight: 600 }
.accel-magic .am-banner { background: #e69f00; color: #000; font-weight: 600; padding: 3px 10px; border-radius: 3px }
.accel-magic .am-note { opacity: .75; margin: 0 0 4px }
.accel-magic .am-brief { margin: 0 0 2px }
.accel-magic .am-brief + .am-tables { margin-top: 8px }
.accel-magic .am-tables { display: flex; flex-wrap: wrap; gap: 12px 32px; align-items: flex-start }
.accel-magic .am-table { min-width: 0; max-width: 100% }
.accel-magic .am-scroll { max-height: 380px; max-width: 100%; overflow: auto }
.accel-magic .am-scroll table { border: 0; border-collapse: collapse; margin: 0; table-layout: auto; font-size: 12px }
.accel-magic .am-scroll th, .accel-magic .am-scroll td { border: 0; padding: 1px 14px 1px 0; text-align: right;
  vertical-align: baseline; white-space: nowrap; font-variant-numeric: tabular-nums; max-width: none; color: inherit }
.accel-magic .am-scroll th { font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, .5) }
.accel-magic .am-scroll td { border-bottom: 1px solid rgba(128, 128, 128, .15) }
.accel-magic .am-scroll .am-name { text-align: left; font-family: var(--jp-code-font-family, monospace);
  max-width: 320px; overflow: hidden; text-overflow: ellipsis }
.accel-magic .am-scroll .am-name:first-child { max-width: max(180px, 15vw) }
.accel-magic summary { cursor: pointer; opacity: .75; font-size: 12px; padding: 2px 0 }
.accel-magic .am-figures { display: flex; flex-wrap: wrap; gap: 8px 16px; margin-top: 8px }
.accel-magic .accel-magic-figure { flex: 1 1 280px; min-width: 250px; max-width: 520px;
  font-size: 11px; opacity: .6 }
.accel-magic .accel-magic-figure[data-drawn] { opacity: 1; min-height: 240px }
</style>"""


def bundle(shown: TraceTables) -> dict[str, str]:
    """Both representations of a result, as `_repr_mimebundle_` returns them.

    The figures, and BokehJS where this kernel has not sent it yet, are left out where no notebook shows them.
    """
    return {"text/plain": summary(shown), "text/html": result_html(shown, figures=has_kernel())}


def result_html(shown: TraceTables, *, figures: bool = True) -> str:
    """Headline, tables and, if asked for, figures, as one self-contained element."""
    recording = shown.recording
    tables = [table_html(counts_table(shown.counts, LIMIT))]
    if len(shown.latency):
        tables.append(table_html(latency_table(shown.latency, LIMIT)))
    if len(shown.waits):
        tables.append(table_html(waits_table(shown.waits, LIMIT)))
    if shown.stacks is not None:
        tables.append(table_html(stacks_table(shown.stacks, LIMIT)))
    return "\n".join(
        [
            '<div class="accel-magic">',
            STYLE,
            *(f'<div class="am-banner">{escape(banner)}</div>' for banner in banners_of(recording)),
            f'<div class="am-line">{"".join(map(note_html, headline(recording, shown.stacks_lost)))}</div>',
            *(f'<div class="am-note">{escape(note)}</div>' for note in recording.plan.notes),
            *(f'<div class="am-brief">{escape(line)}</div>' for line in brief(recording, shown.npu)),
            f'<div class="am-tables">{"".join(tables)}</div>',
            *([_figures_html(shown)] if figures else []),
            "</div>",
        ]
    )


def comparison_html(
    table: pd.DataFrame, families: pd.DataFrame, lengths_s: tuple[float, float], banners: tuple[str, ...]
) -> str:
    """Tables of a comparison, as one self-contained element; arguments as of `text.comparison_text`."""
    tables = [table_html(comparison_table(table, LIMIT))]
    if len(families):
        tables.insert(0, table_html(comparison_families_table(families, LIMIT)))
    return "\n".join(
        [
            '<div class="accel-magic">',
            STYLE,
            *(f'<div class="am-banner">{escape(banner)}</div>' for banner in banners),
            f'<div class="am-line"><span>{escape(comparison_line(table, lengths_s))}</span></div>',
            f'<div class="am-tables">{"".join(tables)}</div>',
            "</div>",
        ]
    )


def _figures_html(shown: TraceTables) -> str:
    """Hits, latency where measured, and rate, side by side; BokehJS before them when it is still to be sent."""
    from accel_magic.views.figures import trace as figures  # Bokeh takes a while to import

    recording = shown.recording
    any_hits, any_calls = bool(recording.hits.any()), bool(shown.latency["count"].any())
    kinds = [(figures.hits, any_hits), (figures.latency, any_calls), (figures.rate, any_hits and recording.timed)]
    drawn = [figure_html(draw(recording)) for draw, there in kinds if there]
    return f'{scripts()}<div class="am-figures">{"".join(drawn)}</div>' if drawn else ""


def note_html(note: Note) -> str:
    """One item of the headline."""
    alarm = ' class="am-alarm"' if note.alarm else ""
    hint = f' title="{escape(note.hint)}"' if note.hint else ""
    return f"<span{alarm}{hint}>{escape(note.text)}</span>"


def table_html(table: Table) -> str:
    """Lay out the first rows; the rest, where there is any, folded away below."""
    first, rest = table.rows[:TOP], table.rows[TOP:]
    parts = [_rows_html(table, first)]
    if rest:
        parts.append(f"<details><summary>{exact_text(len(rest) + table.more)} more</summary>{_rows_html(table, rest)}")
        if table.more:
            parts.append(f'<div class="am-note">and {exact_text(table.more)} more in the data frame</div>')
        parts.append("</details>")
    if table.silent:
        parts.append(f'<div class="am-note">and {exact_text(table.silent)} without a hit</div>')
    return f'<div class="am-table">{"".join(parts)}</div>'


def _rows_html(table: Table, rows: tuple[tuple[str, ...], ...]) -> str:
    kinds = [' class="am-name"' if column < table.names else "" for column in range(len(table.heads))]
    head = "".join(f"<th{kind}>{escape(text)}</th>" for kind, text in zip(kinds, table.heads, strict=True))
    # A name may be cut to its column's width: the whole of it is in its title.
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} title="{escape(cell)}">{escape(cell)}</td>' if kind else f"<td>{escape(cell)}</td>"
            for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="am-scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

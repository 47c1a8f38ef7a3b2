"""An NPU trace at a glance: what the driver did, as text and as HTML."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from accel_magic import terminal
from accel_magic.banners import banners_of
from accel_magic.views.findings import findings_html, findings_text
from accel_magic.views.format import NOTHING, duration_text, exact_text, rate_text, share_text
from accel_magic.views.npu_brief import sentences
from accel_magic.views.static import STYLE, table_html
from accel_magic.views.tables import Table
from accel_magic.views.text import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.analysis.findings import Findings
    from accel_magic.analysis.npu import Npu


def summary(npu: Npu) -> str:
    """Sentences about jobs, buffers, messages and polls, the families, the phases, then the findings."""
    recording = npu.recording
    lines = [
        *banners_of(recording),
        *sentences(npu),
        "",
        *aligned(families_table(npu.families)),
        "",
        *aligned(phases_table(npu.phase_totals)),
    ]
    return f"{terminal.page(lines)}\n\n{findings_text(_within(npu.findings))}"


def html(npu: Npu) -> str:
    """Lay out the same as one self-contained element."""
    recording = npu.recording
    shown = banners_of(recording)
    tables = (families_table(npu.families), phases_table(npu.phase_totals))
    return "\n".join(
        [
            '<div class="accel-magic">',
            STYLE,
            *(f'<div class="am-banner">{escape(banner)}</div>' for banner in shown),
            *(f"<div>{escape(sentence)}</div>" for sentence in sentences(npu)),
            f'<div class="am-tables">{"".join(map(table_html, tables))}</div>',
            findings_html(_within(npu.findings)),
            "</div>",
        ]
    )


def _within(findings: Findings) -> Findings:
    """The same findings without banners of their own: these stand above all of this already."""
    return replace(findings, recording=None)


def families_table(families: pd.DataFrame) -> Table:
    """Hits, share and rate of each family that had hits."""
    formats = {"hits": exact_text, "share": share_text, "rate": rate_text, "functions": exact_text}
    return _table("family", families[families["hits"] > 0], formats)


def phases_table(totals: pd.DataFrame) -> Table:
    """Stretches, calls and time of each phase."""
    return _table("phase", totals, {"stretches": exact_text, "calls": exact_text, "duration_ns": duration_text})


def _table(head: str, frame: pd.DataFrame, formats: Mapping[str, Callable[..., str]]) -> Table:
    columns = [
        [NOTHING if pd.isna(value) else text(value) for value in frame[name].tolist()] for name, text in formats.items()
    ]
    heads = (head, *("time" if name == "duration_ns" else name for name in formats))
    return Table(heads, tuple(zip(map(str, frame.index), *columns, strict=True)), names=1)

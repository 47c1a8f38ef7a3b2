"""Stalls of an Intel GPU as tables, text and HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic import terminal
from accel_magic.quantities import exact_text, share_text
from accel_magic.recording.profile import UNKNOWN
from accel_magic.views.element import element_html
from accel_magic.views.figures.bokehjs import has_kernel
from accel_magic.views.flame.profile_view import profile_html, profile_text
from accel_magic.views.tables import FormattedTable, aligned
from accel_magic.views.trace_html import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from accel_magic.recording.profile import Profile
    from accel_magic.subsystems.iaprof.stalls import StallTables

    Formats = Mapping[str, tuple[str, Callable[..., str]]]

TOP: Final = 10


def tables(stalls: StallTables, limit: int) -> list[tuple[str, FormattedTable]]:
    """Tables of a profile's stalls with their titles; reasons with their meaning."""
    reasons = stalls.by_reason
    reasons = reasons[reasons["samples"] > 0].sort_values("samples", ascending=False, kind="stable")
    judged: Formats = {
        "samples": ("samples", exact_text),
        "share": ("share", share_text),
        "active_share": ("active", share_text),
        "stall_share": ("stalled by top reason", share_text),
    }
    return [
        (
            "Reasons",
            _table(
                reasons,
                {"reason": ("reason", str), "short": ("the sampled instruction", str)},
                {"samples": ("samples", exact_text), "share": ("share", share_text)},
                limit,
            ),
        ),
        (
            "Kernels",
            _table(stalls.by_kernel, {"symbol": ("kernel", named), "stall": ("top reason", str)}, judged, limit),
        ),
        (
            "Instructions",
            _table(
                stalls.by_instruction,
                {
                    "symbol": ("kernel", named),
                    "offset": ("offset", hex),
                    "instruction": ("instruction", named),
                    "stall": ("top reason", str),
                },
                judged,
                limit,
            ),
        ),
    ]


def tables_text(stalls: StallTables) -> str:
    """Show the tables as plain text."""
    return "\n\n".join(terminal.page([title, *aligned(table)]) for title, table in tables(stalls, TOP))


def tables_html(stalls: StallTables) -> str:
    """Show the tables as one self-contained element."""
    return element_html(tables(stalls, LIMIT))


def result_text(profile: Profile, frames: pd.DataFrame, stalls: StallTables) -> str:
    """Show a result as plain text; the titles of findings come last, their details are in `result.diagnose()`.

    Args:
        profile: What iaprof recorded, as a profile.
        frames: As `Profile.frame_table`.
        stalls: Where execution units waited.

    """
    found = [f"{finding.severity}: {finding.title}  [{finding.id}]" for finding in stalls.findings]
    text = profile_text(profile, frames, tables=_shown(profile, stalls, TOP))
    return f"{text}\n\n{terminal.page(found)}" if found else text


def bundle(profile: Profile, frames: pd.DataFrame, stalls: StallTables) -> dict[str, str]:
    """Both representations of a result; the graph only in a notebook. Arguments as in `result_text`."""
    rows = tuple((finding.severity, finding.title, finding.id) for finding in stalls.findings)
    found = [("Findings", FormattedTable(heads=("severity", "finding", "rule"), rows=rows, names=3))] if rows else []
    shown = [*found, *_shown(profile, stalls, LIMIT)]
    html = profile_html(profile, frames, tables=shown, figures=has_kernel())
    return {"text/plain": result_text(profile, frames, stalls), "text/html": html}


def _shown(profile: Profile, stalls: StallTables, limit: int) -> list[tuple[str, FormattedTable]]:
    return tables(stalls, limit) if profile.total else []


def _table(frame: pd.DataFrame, names: Formats, numbers: Formats, limit: int) -> FormattedTable:
    shown = frame.head(limit)
    formats = {**names, **numbers}
    return FormattedTable(
        heads=tuple(head for head, _ in formats.values()),
        rows=tuple(
            zip(
                *([text(value) for value in shown[column].tolist()] for column, (_, text) in formats.items()),
                strict=True,
            )
        ),
        names=len(names),
        more=len(frame) - len(shown),
    )


def named(text: str) -> str:
    """The name of a kernel or an instruction; `UNKNOWN` if it has none."""
    return text or UNKNOWN

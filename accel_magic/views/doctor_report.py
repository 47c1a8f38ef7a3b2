"""The doctor's report as plain text and HTML."""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING, Protocol

from accel_magic import terminal
from accel_magic._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH = 110
_COLUMN = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
# The theme's own colors, if there is a theme, so that dark notebooks stay readable.
_COLORS = {
    "ok": "var(--jp-success-color1, #2e7d32)",
    "warning": "var(--jp-warn-color1, #b26a00)",
    "missing": "var(--jp-error-color1, #c62828)",
    "info": "inherit",
}


class ShownCheck(Protocol):
    """One check of the report."""

    @property
    def name(self) -> str:
        """What was checked."""

    @property
    def status(self) -> str:
        """`ok`, `info`, `warning` or `missing`."""

    @property
    def detail(self) -> str:
        """What was found."""

    @property
    def fix(self) -> str:
        """The command that fixes it; '' if there is nothing to fix."""


def text(verdict: str, checks: Sequence[ShownCheck]) -> str:
    """Lay out the report in columns: status, name, detail wrapped at 110 columns; the fix below."""
    names = max((len(check.name) for check in checks), default=0)
    lines = [f"accel_magic {__version__}: {verdict}", ""]
    for check in checks:
        head = f"{check.status:<8} {check.name:<{names}}  "
        lines += _wrapped(check.detail, head, len(head))
        if check.fix:
            lines += _wrapped(f"fix: {check.fix}", " " * len(head), len(head) + 5)
    return terminal.page(lines)


def html(verdict: str, checks: Sequence[ShownCheck]) -> str:
    """Draw one table without scripts or external resources."""
    rows = "\n".join(_row(check) for check in checks)
    titles = "".join(f'<th style="{_COLUMN}">{title}</th>' for title in ("", "check", "found", "fix"))
    return (
        f'<div class="accel-magic-doctor"><p><strong>accel_magic {escape(__version__)}:</strong> '
        f"{escape(verdict)}</p>\n"
        f'<table style="border-collapse:collapse">\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n'
        "</table></div>"
    )


def _wrapped(words: str, first: str, indent: int) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _row(check: ShownCheck) -> str:
    fix = f"<code>{escape(check.fix)}</code>" if check.fix else ""
    status = f'<td style="{_COLUMN};color:{_COLORS[check.status]};font-weight:bold">{check.status}</td>'
    cells = "".join(f'<td style="{_COLUMN}">{cell}</td>' for cell in (escape(check.name), escape(check.detail), fix))
    return f"<tr>{status}{cells}</tr>"

"""The doctor's report as plain text and HTML."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Protocol

from accel_magic import terminal
from accel_magic._version import __version__
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH = 110


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
    return render("doctor", version=__version__, verdict=verdict, checks=checks)


def _wrapped(words: str, first: str, indent: int) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )

"""The doctor's report as plain text and HTML."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Protocol

from accel_magic import terminal
from accel_magic._version import __version__
from accel_magic.quantities import counted_text
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Row = tuple[str, str, str, str]

_WIDTH = 110
_WIDEST_NAME = 32
_TO_FIX = ("missing", "warning")


class ShownUse(Protocol):
    """One use, in the report's first table."""

    @property
    def magic(self) -> str:
        """What users type."""

    @property
    def how(self) -> str:
        """`live`, `simulated`, `replay` or `no`."""

    @property
    def detail(self) -> str:
        """What it measures here, or why it does not."""

    @property
    def fix(self) -> str:
        """What makes it work, or work live; '' if there is nothing."""


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


def text(verdict: str, uses: Sequence[ShownUse], checks: Sequence[ShownCheck], *, complete: bool) -> str:
    """Lay out the report in columns, wrapped at 110 columns, with fixes below: how each use works, then the checks.

    Args:
        verdict: The first line.
        uses: How each use works.
        checks: All checks.
        complete: List them all; else only those that prevent or limit something.

    """
    shown = checks if complete else _to_fix(uses, checks)
    lines = [f"accel_magic {__version__}: {verdict}", ""]
    lines += _columns(_of_uses(uses))
    if shown:
        lines += [""] if uses else []
        lines += _columns(_of_checks(shown))
    if rest := len(checks) - len(shown):
        lines += ["", f"{counted_text(rest, 'more check')}: accel-magic doctor --all, %accel_doctor --all"]
    return terminal.page(lines)


def html(verdict: str, uses: Sequence[ShownUse], checks: Sequence[ShownCheck], *, complete: bool) -> str:
    """Draw tables without scripts or external resources; arguments as of `text`, but the other checks are folded."""
    shown = [] if complete else _to_fix(uses, checks)
    rest = [check for check in checks if check not in shown]
    return render(
        "doctor",
        version=__version__,
        verdict=verdict,
        uses=_of_uses(uses),
        shown=_of_checks(shown),
        rest=_of_checks(rest),
        title=counted_text(len(rest), "check" if complete else "more check"),
        complete=complete,
    )


def _to_fix(uses: Sequence[ShownUse], checks: Sequence[ShownCheck]) -> list[ShownCheck]:
    """Checks that prevent or limit something that no use already shows with the same reason."""
    told = {use.detail for use in uses}
    return [check for check in checks if check.status in _TO_FIX and check.detail not in told]


def _of_uses(uses: Sequence[ShownUse]) -> list[_Row]:
    return [(use.how, use.magic, use.detail, use.fix) for use in uses]


def _of_checks(checks: Sequence[ShownCheck]) -> list[_Row]:
    return [(check.status, check.name, check.detail, check.fix) for check in checks]


def _columns(rows: Sequence[_Row]) -> list[str]:
    """Columns: status, name, detail; the fix below."""
    statuses, names = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    names = min(names, _WIDEST_NAME)
    lines = []
    for status, name, detail, fix in rows:
        head = f"{status:<{statuses}}  {name:<{names}}  "
        if len(name) > names:
            lines.append(head.rstrip())
            head = " " * (statuses + names + 4)
        lines += _wrapped(detail, head, statuses + names + 4)
        if fix:
            lines += _wrapped(f"fix: {fix}", " " * (statuses + names + 4), statuses + names + 9)
    return lines


def _wrapped(words: str, first: str, indent: int) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )

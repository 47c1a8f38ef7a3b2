"""Text for a terminal: control characters are shown as escapes.

Names of processes, files, functions and kernels are untrusted, and so is all text in a recording.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMANDS: Final = re.compile(
    "["
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # control characters except tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u2028\u2029"  # line breaks
    "\ud800-\udfff"  # surrogates, from bytes that are not valid text
    "]"
)


def one_line(text: str) -> str:
    r"""Escape a text into one line: `\x1b` for the escape character, `\n` for a line break."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def page(lines: Iterable[str]) -> str:
    """Join lines; line breaks within a line are escaped."""
    return "\n".join(map(one_line, lines))


def block(text: str) -> str:
    """Escape a text but keep its line breaks, such as an error message or program output."""
    return page(text.split("\n"))

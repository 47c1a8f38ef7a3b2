"""Text for a terminal: characters that would command it are shown by their escapes instead.

Names of processes, files, functions and kernels come from anybody, and so does all text in a recording.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMANDS: Final = re.compile(
    "["
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # control characters, but for the tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of the text that follows
    "\u2028\u2029"  # line breaks
    "\ud800-\udfff"  # bytes that were no text, which no terminal's encoding has
    "]"
)


def one_line(text: str) -> str:
    r"""Show a text in one line: `\x1b` for the character that begins a terminal's commands, `\n` for a line break."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def page(lines: Iterable[str]) -> str:
    """Put lines below each other; what looks like a line break within one is shown by its escape."""
    return "\n".join(map(one_line, lines))


def block(text: str) -> str:
    """Show a text whose line breaks are its own, such as an error's or a program's."""
    return page(text.split("\n"))

"""PTX tokens as regular expressions, and removal of comments."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from accel_magic.errors import ProgramError

IDENTIFIER: Final = r"[A-Za-z_$%][\w$%]*"


TRIVIA: Final = re.compile(r"(?:[\s]+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
"""Whitespace and comments."""


COMMENT: Final = re.compile(r"\"[^\"\n]*\"|//[^\n]*|/\*.*?\*/", re.DOTALL)


WORD: Final = re.compile(IDENTIFIER)


TOKEN: Final = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<name>[A-Za-z_$%][\w$%]*)"
    r"|(?P<float>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w)"
    r"|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|0[0-7]*U?(?!\d)|[1-9]\d*U?)"
    r"|(?P<string>\"[^\"\n]*\")"
    r"|(?P<directive>\.[A-Za-z_][\w$]*(?:::\w+)*)"
    r"|(?P<mark><<|>>|<=|>=|==|!=|&&|\|\||::|[-+*/%&|^~!?:,;()\[\]{}<>=@.])"
)


class Text:
    """A PTX text with the offsets of its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, at: int) -> int:
        """Return the line of an offset, from 1."""
        return bisect_right(self._starts, at)

    def error(self, at: int, what: str) -> ProgramError:
        """Make the error for text at an offset."""
        line = self.line(at)
        shown = self.text[self._starts[line - 1] :].split("\n", 1)[0]
        return unreadable(line, what, shown)


def unreadable(line: int, what: str, shown: str) -> ProgramError:
    """Make the error for text that is not PTX.

    Args:
        line: Its line in the PTX.
        what: What is wrong.
        shown: The text.

    """
    return ProgramError(
        f"PTX line {line} cannot be read: {what}",
        why=" ".join(shown.split())[:200],
        fix="check the PTX with ptxas; if ptxas accepts it, please report this line",
        code="gpu.ptx.unreadable",
    )


def without_comments(text: str) -> str:
    """Replace each comment by a space; strings are kept."""
    if "/" not in text:
        return text
    return COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)


def tokens(text: str, line: int) -> list[tuple[str, str]]:
    """Split a statement without comments into (kind, text); kinds are the groups of `TOKEN`.

    Raises:
        ProgramError: It contains something that is not a PTX token.

    """
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise unreadable(line, f"{text[at]!r} is unexpected", text)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append((kind, match[0]))
        at = match.end()
    return found

"""Recognize texts written by `kernel/attach/plan_source.py`: the compiler process accepts no others.

Uses only the standard library, because it runs under the Python that BCC was packaged for.

Our texts consist of constants, includes of our templates, and programs that select one of their parts. The allowed
content of a constant is listed here: no strings, no directives, no continuation lines, and no word that makes C,
clang or BCC open a file, declare a map or emit assembly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST = 4 << 20
"""Maximum characters of a text. The text for all 2,305 tracepoints of Linux 6.18, with a filter, has 80,000."""

_NAME = r"(?:AM|am)_[A-Za-z0-9_]+"
_REGISTERS = "di si dx cx ax bx bp sp ip r8 r9 r10 r11 r12 r13 r14 r15"
_TYPES = "u8 u16 u32 u64 s8 s16 s32 s64 void"
_HELPERS = "bpf_get_attach_cookie bpf_get_current_pid_tgid"
_OTHERS = f"ctx cookie duration payload started saved wait state syscall arguments stacks {_HELPERS}"
_WORDS = "|".join(f"{_REGISTERS} {_TYPES} {_OTHERS}".split())
_NUMBER = r"(?:0x[0-9a-f]+|[0-9]+)(?:U?LL)?"
_MARK = r"[-(){}\[\]<>=+*/%&|^!~,;.]|(?<![%<]):|\?(?!\?)"  # no digraphs or trigraphs for # or [
_TOKEN = rf"(?:(?:{_NAME}|{_WORDS}|{_NUMBER})\b|{_MARK})"
_LINES = re.compile(
    rf"""
      \#define\ AM_[A-Z0-9_]+ (?:\(ctx\))? (?:\ +{_TOKEN}(?:\ *{_TOKEN})*)?
    | \#undef\ AM_[A-Z0-9_]+
    | \#include\ "(?P<included>[a-z_]+(?:\.[a-z]+)+)"
    # A program that calls the part given by its cookie.
    | AM_PROGRAM\({_NAME}\)\(void\ \*ctx\)
    | \{{ | \}}
    | \tu64\ cookie\ =\ bpf_get_attach_cookie\(ctx\);
    | \tswitch\ \(cookie\ >>\ 32\)\ \{{
    | \tcase\ [0-9]+:\ return\ {_NAME}\(ctx,\ cookie\);
    | \t\}}
    | \treturn\ 0;
    |
    """,
    re.VERBOSE | re.ASCII,
)


def foreign_line(text: str, templates: Collection[str]) -> str | None:
    """Return the first line that cannot be from one of our texts, or None.

    Args:
        text: C text.
        templates: Names of the files that it may include.

    """
    for line in text.split("\n"):
        found = _LINES.fullmatch(line)
        if found is None or (found["included"] and found["included"] not in templates):
            return line
    return None

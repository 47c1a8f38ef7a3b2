"""Glob patterns over names, and names that look like a mistyped one."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WILD = re.compile(r"[*?\[\]]")
_CLOSE_LOOK = 300  # names worth difflib's slow comparison
_GRAM = 2
_ENOUGH = 0.7  # share of the pieces
_READABLE = 80


def is_glob(pattern: str) -> bool:
    """Whether `pattern` has a wildcard: `*`, `?` or `[...]`."""
    return _WILD.search(pattern) is not None


def matcher(pattern: str) -> Callable[[str], bool]:
    """Make a test for whole names, upper and lower case apart."""
    if not is_glob(pattern):
        return pattern.__eq__
    match = re.compile(fnmatch.translate(pattern)).match
    return lambda name: match(name) is not None


def near(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of `names` that look most like `wanted` (a name or a glob), best first.

    Quick over 100,000 names: difflib sees only those that share most pairs of letters with `wanted`.
    """
    stem = _WILD.sub("", wanted).lower()
    if not stem:
        return []
    pieces = {stem[at : at + _GRAM] for at in range(max(len(stem) - _GRAM + 1, 1))}
    by_folded: dict[str, str] = {}
    shared: Counter[str] = Counter()
    for name in names:
        folded = name.lower()
        score = sum(piece in folded for piece in pieces)
        if score or len(stem) <= _GRAM + 1:
            by_folded.setdefault(folded, name)
            # Among equals the one closer in length: a long name holds many pieces by chance.
            shared[folded] = score * 1000 - min(abs(len(folded) - len(stem)), 999)
    likely = shared.most_common(_CLOSE_LOOK)
    close = difflib.get_close_matches(stem, [name for name, _ in likely], count, cutoff=0.55)
    # Names much longer than the stem (C++ symbols, globs) are never alike as a whole: many pieces must do.
    readable = [(name, score) for name, score in likely if len(name) <= _READABLE]
    holding = [name for name, score in readable[:count] if score >= _ENOUGH * 1000 * len(pieces)]
    return [by_folded[name] for name in close or holding]


def suggestion(wanted: str, names: Iterable[str]) -> str:
    """`did you mean a, b or c?`, or '' where nothing is near."""
    found = near(wanted, names)
    if not found:
        return ""
    *head, last = found
    return f"did you mean {', '.join(head)} or {last}?" if head else f"did you mean {last}?"

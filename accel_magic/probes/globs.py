"""Glob patterns over names, and suggestions for mistyped names."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_WILD = re.compile(r"[*?\[\]]")
_CLOSE_LOOK = 300  # names compared by difflib, which is slow
_GRAM = 2
_ENOUGH = 0.7  # share of the pieces that must occur
_READABLE = 80


def is_glob(pattern: str) -> bool:
    """Whether `pattern` has a wildcard: `*`, `?` or `[...]`."""
    return _WILD.search(pattern) is not None


def matcher(pattern: str) -> Callable[[str], bool]:
    """Make a case-sensitive test for whole names."""
    if not is_glob(pattern):
        return pattern.__eq__
    match = re.compile(fnmatch.translate(pattern)).match
    return lambda name: match(name) is not None


def near(requested: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Find up to `count` of `names` most similar to `requested` (a name or a glob), best first.

    Fast for 100,000 names: difflib compares only those that share the most letter pairs with `requested`.
    """
    stem = _WILD.sub("", requested).lower()
    if not stem:
        return []
    pieces = {stem[at : at + _GRAM] for at in range(max(len(stem) - _GRAM + 1, 1))}
    names = list(names)
    few = len(names) <= _CLOSE_LOOK  # two letters in the wrong order share no pair
    by_folded: dict[str, str] = {}
    shared: Counter[str] = Counter()
    for name in names:
        folded = name.lower()
        score = sum(piece in folded for piece in pieces)
        if score or few or len(stem) <= _GRAM + 1:
            by_folded.setdefault(folded, name)
            # Ties go to the name closest in length: a long name contains many pieces by chance.
            shared[folded] = score * 1000 - min(abs(len(folded) - len(stem)), 999)
    likely = shared.most_common(_CLOSE_LOOK)
    close = difflib.get_close_matches(stem, [name for name, _ in likely], count, cutoff=0.55)
    # Names much longer than the stem (C++ symbols, globs) never match as a whole; many shared pieces are enough.
    readable = [(name, score) for name, score in likely if len(name) <= _READABLE]
    holding = [name for name, score in readable[:count] if score >= _ENOUGH * 1000 * len(pieces)]
    return [by_folded[name] for name in close or holding]


def suggestion(requested: str, names: Iterable[str]) -> str:
    """Return `did you mean a, b or c?`, or '' if no name is similar."""
    return did_you_mean(near(requested, names))


def did_you_mean(found: Sequence[str]) -> str:
    """Return `did you mean a, b or c?`; '' without names."""
    if not found:
        return ""
    *head, last = found
    return f"did you mean {', '.join(head)} or {last}?" if head else f"did you mean {last}?"

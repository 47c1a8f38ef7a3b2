"""Which traces run: each session sends its list to the service, which keeps the last one of each for `broker status`.

The service never looks into a list, because a session handles what its user sends. A later session checks it.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST: Final = 1 << 16
"""Bytes of a list."""
_LONGEST: Final = 200
"""Characters of the probes of a trace."""
_MOST: Final = 1000


def encoded(traces: Iterable[tuple[int, float, Iterable[str]]]) -> bytes:
    """Encode a session's list.

    Args:
        traces: Number, start (s since 1970) and probes of each trace.

    Returns:
        At most `LARGEST` bytes; the traces that do not fit are left out.

    """
    rows = [json.dumps([number, since, _shortened(", ".join(probes))]) for number, since, probes in traces]
    while sum(len(row) + 1 for row in rows) >= LARGEST:
        rows.pop()
    return f"[{','.join(rows)}]".encode()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def decoded(data: bytes) -> list[dict[str, Any]]:
    """Decode what a session sent; what is not a list of traces is left out.

    Returns:
        `trace`, `since` and `probes` of each trace.

    """
    try:
        rows = json.loads(data)
    except (RecursionError, ValueError):
        return []
    return [
        {"trace": row[0], "since": row[1], "probes": row[2]}
        for row in (rows[:_MOST] if isinstance(rows, list) else [])
        if isinstance(row, list) and len(row) == 3 and _is_trace(*row)
    ]


def _is_trace(number: object, since: object, probes: object) -> bool:
    return (
        isinstance(number, int)
        and not isinstance(number, bool)
        and 0 < number < 1 << 53
        and isinstance(since, float)
        and math.isfinite(since)
        and 0 <= since < 1 << 40
        and isinstance(probes, str)
        and len(probes) <= _LONGEST
    )

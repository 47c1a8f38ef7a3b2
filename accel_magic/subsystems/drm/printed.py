"""Events of the DRM scheduler as other tools print them: their fields get the names and types of recorded ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import nullable

if TYPE_CHECKING:
    from collections.abc import Callable

_FENCE = re.compile(r"(\d+):(\d+)\b")
_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]+)\b")


def as_recorded(events: pd.DataFrame) -> pd.DataFrame:
    """Convert the printed fields of imported events.

    Args:
        events: As `TraceResult.events`; addresses are text, `fence` is an address or `CONTEXT:NUMBER`. The last named
            field of an event may be followed by others, whose names have spaces.

    Returns:
        The same events with `name` (the ring), `fence_context`, `fence_seqno`, and `fence` and `entity` as UInt64; NA
        where a text is not such a number.

    """
    converted = events.copy(deep=False)
    texts = {name: events[name] for name in ("ring", "fence", "entity") if name in events and _is_text(events[name])}
    if "ring" in texts and "name" not in events:
        ring = texts["ring"]
        converted["name"] = ring.map({text: text.partition(",")[0] for text in ring.cat.categories}).astype("category")
    for name in texts.keys() & {"fence", "entity"}:
        converted[name] = _numbers(texts[name], _address)
    if "fence" in texts:
        converted["fence_context"] = _numbers(texts["fence"], lambda text: _part_of_fence(text, 1))
        converted["fence_seqno"] = _numbers(texts["fence"], lambda text: _part_of_fence(text, 2))
    return converted


def _is_text(column: pd.Series[str]) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def _address(text: str) -> int | None:
    found = _ADDRESS.match(text)
    return int(found[1], 16) if found else None


def _part_of_fence(text: str, part: int) -> int | None:
    found = _FENCE.match(text)
    return int(found[part]) if found else None


def _numbers(column: pd.Series[str], parse: Callable[[str], int | None]) -> pd.arrays.IntegerArray:
    """Parse each distinct text once; what does not fit into 64 bits is NA."""
    parsed = [parse(text) for text in column.cat.categories]
    known = [number is not None and number < 1 << 64 for number in parsed]
    numbers = [number if fits else 0 for number, fits in zip(parsed, known, strict=True)]
    code = column.cat.codes.to_numpy()  # -1, the last one, for NA
    return nullable(np.array([*numbers, 0], np.uint64)[code], np.array([*known, False])[code], "UInt64")

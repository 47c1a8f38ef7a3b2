"""Any data frame as a table of formatted cells: for maps and records whose columns a user's program decides."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from accel_magic.views.tables import Table

MOST_COLUMNS: Final = 12


def frame_table(frame: pd.DataFrame, limit: int) -> Table:
    """The first rows and columns of a frame, columns of text to the left."""
    frame = frame[_texts_first(frame)[:MOST_COLUMNS]]
    names = sum(not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes)
    shown = frame.head(limit)
    columns = [[_cell(value) for value in shown[name]] for name in frame.columns]
    return Table(
        heads=tuple(map(str, frame.columns)),
        rows=tuple(zip(*columns, strict=True)),
        names=names,
        more=len(frame) - len(shown),
    )


def _texts_first(frame: pd.DataFrame) -> list[str]:
    numeric = {name: pd.api.types.is_numeric_dtype(kind) for name, kind in frame.dtypes.items()}
    return sorted(frame.columns, key=lambda name: numeric[name])


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:24].hex(" ") + ("…" if len(value) > 24 else "")
    if isinstance(value, float):
        return "-" if value != value else f"{value:g}"  # noqa: PLR0124 - NaN
    return str(value)

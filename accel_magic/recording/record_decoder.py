"""Decode raw records into columns, in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.kernel.attachment import HEAD, RING_HEADER, STRING_SIZE, PayloadItem, RecordLayout
from accel_magic.recording.recording import EventColumn, Events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PAYLOAD = RING_HEADER.itemsize + HEAD.itemsize
_STRETCH = 16384
"""Records decoded at a time: few enough for the CPU cache, enough to amortize numpy's overhead."""


@dataclass(frozen=True)
class _Part:
    """Values of one item in one ring: `rows` index the ring's records (None = all of them)."""

    ring: int
    rows: NDArray[np.intp] | None
    values: NDArray[np.generic]


@dataclass(frozen=True)
class RawEvents:
    """Raw records from the reader; calling the object decodes them. The fields are the arguments of `decode`."""

    layout: RecordLayout
    rings: tuple[NDArray[np.uint8], ...]
    start_ns: int
    limit: int | None = None

    def __call__(self) -> Events:
        """Decode the records."""
        return decode(self.layout, self.rings, self.start_ns, self.limit)


def decode(
    layout: RecordLayout,
    rings: Sequence[NDArray[np.uint8]],
    start_ns: int,
    limit: int | None = None,
    *,
    all_columns: bool = False,
) -> Events:
    """Decode the records of every ring into columns in order of time.

    Args:
        layout: Layout of the attachment that wrote the records.
        rings: (bytes,) uint8 by ring, whole records.
        start_ns: Time 0, on the kernel's CLOCK_MONOTONIC, ns.
        limit: Keep only the first `limit` events.
        all_columns: Make every column that records of this layout can have, each in its widest type, even if these
            records have none of it: for the parts of a larger table.

    """
    records = [ring.view(layout.record(index)) for index, ring in enumerate(rings)]
    starts = np.cumsum([0, *[len(part) for part in records]])
    heads = _Heads(int(starts[-1]))
    for part in records:
        heads.add(part["head"], start_ns)
    rows = _order(heads.numbers["time_ns"], limit)
    columns = {name: EventColumn(values[rows]) for name, values in heads.numbers.items()}
    columns["comm"] = EventColumn(heads.comm.codes[rows], None, tuple(heads.comm.numbers))
    for name, (type_, parts) in _parts(layout, rings, records, all_columns).items():
        columns[name] = _column(type_, parts, starts, rows)
    return Events(columns)


class _Heads:
    """Columns of the record heads, filled in blocks so that each record is fetched from memory only once."""

    def __init__(self, total: int) -> None:
        self.numbers: dict[str, NDArray[Any]] = {
            "time_ns": np.empty(total, np.int64),
            "point": np.empty(total, np.uint16),
            "pid": np.empty(total, np.int32),
            "tid": np.empty(total, np.int32),
            "cpu": np.empty(total, np.int16),
        }
        self.comm = _Texts(total)
        self._filled = 0

    def add(self, heads: NDArray[np.void], start_ns: int) -> None:
        """Append the heads of a ring."""
        for start in range(0, len(heads), _STRETCH):
            stretch = heads[start : start + _STRETCH]
            rows = slice(self._filled, self._filled + len(stretch))
            for name, values in self.numbers.items():
                values[rows] = stretch["time" if name == "time_ns" else name]
            self.numbers["time_ns"][rows] -= start_ns
            self.comm.put(rows, stretch["comm"], padded=True)
            self._filled = rows.stop


def _order(times: NDArray[np.int64], limit: int | None) -> slice | NDArray[np.intp]:
    """Rows in order of time; a slice, which avoids a copy, if they are already in order."""
    if (times[1:] >= times[:-1]).all():
        return slice(limit)
    return np.argsort(times, kind="stable")[:limit]


def _numpy_type(type_: str) -> str:
    if type_ == "string":
        return f"S{STRING_SIZE}"
    if type_.startswith("char["):
        return f"S{type_[5:-1]}"
    return f"<{'i' if type_[0] == 's' else 'u'}{int(type_[1:]) // 8}"


def _parts(
    layout: RecordLayout, rings: Sequence[NDArray[np.uint8]], records: Sequence[NDArray[np.void]], all_columns: bool
) -> dict[str, tuple[str, list[_Part]]]:
    """Values of every payload item by name, with their common type."""
    groups: dict[tuple[int, tuple[PayloadItem, ...]], list[int]] = {}
    for point, place in enumerate(layout.point_layouts):
        groups.setdefault((place.ring, place.items), []).append(point)
    alone = {ring for ring in range(len(rings)) if sum(key[0] == ring for key in groups) == 1}
    found: dict[str, tuple[str, list[_Part]]] = {}
    for (ring, items), points in groups.items():
        if not items or not (all_columns or len(records[ring])):
            continue
        rows = None
        if ring not in alone:
            rows = np.flatnonzero(np.isin(records[ring]["head"]["point"], np.array(points, np.uint16)))
        for item in items:
            field = np.dtype(
                {
                    "names": ["value"],
                    "formats": [_numpy_type(item.type)],
                    "offsets": [_PAYLOAD + item.offset],
                    "itemsize": records[ring].dtype.itemsize,
                }
            )
            values = rings[ring].view(field)["value"]
            part = _Part(ring, rows, values if rows is None else values[rows])
            known, parts = found.setdefault(item.name, (item.type, []))
            parts.append(part)
            found[item.name] = (_wider(known, item.type), parts)
    return found


def _wider(one: str, other: str) -> str:
    """Return the common type of two types: text wins, then signed, then the larger."""
    if one == other:
        return one
    texts = [type_ for type_ in (one, other) if type_ == "string" or type_.startswith("char[")]
    if texts:
        return "string"
    size = max(int(one[1:]), int(other[1:]))
    return f"{'s' if 's' in (one[0], other[0]) else 'u'}{size}"


def _column(
    type_: str, parts: Sequence[_Part], starts: NDArray[np.intp], order: slice | NDArray[np.intp]
) -> EventColumn:
    total = int(starts[-1])
    places = [
        slice(starts[part.ring], starts[part.ring + 1]) if part.rows is None else starts[part.ring] + part.rows
        for part in parts
    ]
    missing: NDArray[np.bool_] | None = None
    if sum(len(part.values) for part in parts) < total:
        valid = np.zeros(total, np.bool_)
        for place in places:
            valid[place] = True
        valid = valid[order]
        missing = None if bool(valid.all()) else valid
    values = (np.empty if missing is None else np.zeros)(total, _numpy_type(type_))
    for place, part in zip(places, parts, strict=True):
        values[place] = part.values if values.dtype.kind != "S" or part.values.dtype.kind == "S" else b""
    return _text_column(values[order], missing) if values.dtype.kind == "S" else EventColumn(values[order], missing)


def _text_column(values: NDArray[np.generic], valid: NDArray[np.bool_] | None) -> EventColumn:
    """Codes and categories of fixed-width, NUL-terminated byte strings."""
    texts = _Texts(len(values))
    for start in range(0, len(values), _STRETCH):
        part = values[start : start + _STRETCH]
        texts.put(slice(start, start + len(part)), part)
    if valid is not None:
        texts.codes[~valid] = -1
    return EventColumn(texts.codes, None, tuple(texts.numbers))


class _Texts:
    """Codes of texts, numbered in order of appearance; filled in blocks that fit into the CPU cache."""

    def __init__(self, total: int) -> None:
        self.codes = np.empty(total, np.int32)
        self.numbers: dict[str, int] = {}

    def put(self, rows: slice, values: NDArray[np.generic], *, padded: bool = False) -> None:
        """Add fixed-width, NUL-terminated byte strings; `padded` promises that only NULs follow the first NUL."""
        width = -(-values.dtype.itemsize // 8) * 8
        table = np.ascontiguousarray(values.astype(f"S{width}")).view(np.uint8).reshape(len(values), width)
        if not padded:
            table *= np.minimum.accumulate(table != 0, axis=1)  # bytes after the first NUL are uninitialized
        words = table.view(np.uint64)
        if (words == words[0]).all():
            self.codes[rows] = self._number(table[0])
            return
        first, codes = _kinds(words)
        self.codes[rows] = np.array([self._number(table[row]) for row in first], np.int32)[codes]

    def _number(self, row: NDArray[np.uint8]) -> int:
        text = row.tobytes().rstrip(b"\0").decode("utf-8", "replace")
        return self.numbers.setdefault(text, len(self.numbers))


def _kinds(words: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First row of each distinct row, and the number of the distinct row for every row; `words` is (rows, words)."""
    import pandas as pd

    # Rows are grouped by a hash of their words; the groups are then verified against their first row.
    mix = words[:, 0].copy()
    for column in range(1, words.shape[1]):
        mix = (mix ^ (mix >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + words[:, column]
    codes, kinds = pd.factorize(mix)
    first = np.full(len(kinds), -1, np.intp)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    if not (words == words[first][codes]).all():
        _, first, codes = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return first, codes

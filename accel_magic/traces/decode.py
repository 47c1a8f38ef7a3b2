"""From raw records to columns, in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.traces.attachment import HEAD, RING_HEADER, STRING_SIZE, Item, Layout
from accel_magic.traces.recording import Column, Events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PAYLOAD = RING_HEADER.itemsize + HEAD.itemsize


@dataclass(frozen=True)
class _Part:
    """Values of one item in one ring: `rows` index the ring's records (None = all of them)."""

    ring: int
    rows: NDArray[np.intp] | None
    values: NDArray[np.generic]


def decode(layout: Layout, rings: Sequence[NDArray[np.uint8]], start_ns: int, limit: int | None = None) -> Events:
    """Decode the records of every ring into columns in order of time.

    Args:
        layout: Of the attachment that wrote them.
        rings: (bytes,) uint8 by ring, whole records.
        start_ns: CLOCK_MONOTONIC ns that becomes time 0.
        limit: Keep the first `limit` events only.

    """
    records = [ring.view(layout.record(index)) for index, ring in enumerate(rings)]
    heads = [part["head"] for part in records]
    times = _joined([head["time"] for head in heads], np.uint64).astype(np.int64) - start_ns
    order = np.argsort(times, kind="stable")[:limit]
    columns = {
        "time_ns": Column(times[order]),
        "point": Column(_joined([head["point"] for head in heads], np.uint16)[order]),
        "pid": Column(_joined([head["pid"] for head in heads], np.uint32)[order].astype(np.int32)),
        "tid": Column(_joined([head["tid"] for head in heads], np.uint32)[order].astype(np.int32)),
        "cpu": Column(_joined([head["cpu"] for head in heads], np.uint16)[order].astype(np.int16)),
        "comm": _text_column(_joined([head["comm"] for head in heads], np.dtype("S16"))[order], None, padded=True),
    }
    starts = np.cumsum([0, *[len(part) for part in records]])
    for name, (type_, parts) in _parts(layout, rings, records).items():
        columns[name] = _column(type_, parts, starts, order)
    return Events(columns)


def _joined(parts: Sequence[NDArray[np.generic]], dtype: object) -> NDArray[np.generic]:
    return np.concatenate(parts) if parts else np.empty(0, dtype)  # type: ignore[call-overload]


def _numpy_type(type_: str) -> str:
    if type_ == "string":
        return f"S{STRING_SIZE}"
    if type_.startswith("char["):
        return f"S{type_[5:-1]}"
    return f"<{'i' if type_[0] == 's' else 'u'}{int(type_[1:]) // 8}"


def _parts(
    layout: Layout, rings: Sequence[NDArray[np.uint8]], records: Sequence[NDArray[np.void]]
) -> dict[str, tuple[str, list[_Part]]]:
    """Values of every payload item by name, with the type that holds them all."""
    groups: dict[tuple[int, tuple[Item, ...]], list[int]] = {}
    for point, place in enumerate(layout.point_layouts):
        groups.setdefault((place.ring, place.items), []).append(point)
    alone = {ring for ring in range(len(rings)) if sum(key[0] == ring for key in groups) == 1}
    found: dict[str, tuple[str, list[_Part]]] = {}
    for (ring, items), points in groups.items():
        if not len(records[ring]) or not items:
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
    """Return the type that holds both: text wins, then signed, then the larger."""
    if one == other:
        return one
    texts = [type_ for type_ in (one, other) if type_ == "string" or type_.startswith("char[")]
    if texts:
        return "string"
    size = max(int(one[1:]), int(other[1:]))
    return f"{'s' if 's' in (one[0], other[0]) else 'u'}{size}"


def _column(type_: str, parts: Sequence[_Part], starts: NDArray[np.intp], order: NDArray[np.intp]) -> Column:
    total = int(starts[-1])
    values = np.zeros(total, _numpy_type(type_))
    valid = np.zeros(total, bool)
    for part in parts:
        rows: slice | NDArray[np.intp]
        rows = slice(starts[part.ring], starts[part.ring + 1]) if part.rows is None else starts[part.ring] + part.rows
        values[rows] = part.values if values.dtype.kind != "S" or part.values.dtype.kind == "S" else b""
        valid[rows] = True
    chosen = valid[order]
    missing = None if bool(chosen.all()) else chosen
    if values.dtype.kind == "S":
        return _text_column(values[order], missing)
    return Column(values[order], missing)


def _text_column(values: NDArray[np.generic], valid: NDArray[np.bool_] | None, *, padded: bool = False) -> Column:
    """Codes and categories of fixed-width, NUL-ended byte strings; `padded` tells that only NULs follow the first."""
    if not len(values):
        return Column(np.empty(0, np.int32), None, ())
    width = -(-values.dtype.itemsize // 8) * 8
    table = np.ascontiguousarray(values.astype(f"S{width}")).view(np.uint8).reshape(len(values), width)
    if not padded:
        table *= np.minimum.accumulate(table != 0, axis=1)  # a record's memory is not cleared beforehand
    words = table.view(np.uint64)
    # Rows are told apart by a 64-bit mix of their words, which is checked against the first row of each kind below.
    mix = words[:, 0].copy()
    for column in range(1, words.shape[1]):
        mix = (mix ^ (mix >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + words[:, column]
    codes, kinds = pd.factorize(mix)
    first = np.full(len(kinds), -1, np.intp)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    if not (words == words[first][codes]).all():
        _, first, codes = np.unique(words, axis=0, return_index=True, return_inverse=True)
    texts = [bytes(table[row]).rstrip(b"\0").decode("utf-8", "replace") for row in first]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    renumbered = np.array([numbers[text] for text in texts], np.int32)[codes]
    if valid is not None:
        renumbered = np.where(valid, renumbered, np.int32(-1)).astype(np.int32)
    return Column(renumbered, None, tuple(numbers))

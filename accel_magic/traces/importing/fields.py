"""The fields of trace events, printed as `key=value` or `key: value`, to columns.

Rows of one event look alike: the first of them tells the keys, and one regular expression made of these reads all rows
that have the same keys in the same order. A value may hold spaces; it ends before the next key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.traces.importing.columns import labels
from accel_magic.traces.recording import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAKEN: Final = frozenset({"time_ns", "point", "probe", "pid", "tid", "cpu", "comm", "duration_ns", "line"})
_KEY: Final = re.compile(rb"(?:^|(?<=[\s,(\[{]))([A-Za-z_][\w.\[\]]*)(=(?!=)|:[ ]+)")
_KEYS: Final = r"(?:^|[\s,(\[{])[A-Za-z_][\w.\[\]]*=|: "
_COLONS: Final = re.compile(rb"[\w.]+: [^,]*(?:, [\w.]+: [^,]*)*")
"""How the kernel prints the arguments of system calls; any other colon is prose."""
_SHAPES: Final = 8  # orders of keys that one event may come in
_MOST_KEYS: Final = 40
_MOST_CELLS: Final = 100_000_000
_LARGEST: Final = (1 << 64) - 1
_DECIMAL: Final = r"^-?\d{1,18}$"
_NUMBER: Final = re.compile(rb"0[xX][0-9a-fA-F]{1,16}|-?\d{1,20}")


def columns(texts: pa.Array, codes: NDArray[np.int32]) -> tuple[dict[str, Column], tuple[str, ...]]:
    """Read the fields of all events.

    Args:
        texts: (events,) binary: what stands behind the event's name; null or empty where nothing does.
        codes: (events,) which event each row is.

    Returns:
        Columns by field, with the ending `_field` where events have a column of that name anyway; and the names of
        fields left out because the table would be too large.

    """
    there = np.asarray(pc.fill_null(pc.greater(pc.binary_length(texts), 0), False))
    order = np.flatnonzero(there)
    values: dict[str, list[tuple[NDArray[np.intp], pa.Array]]] = {}
    for rows in _alike(texts, codes, order):
        for name, found, read in _event(texts, rows):
            values.setdefault(name, []).append((found, read))
    by_size = sorted(values, key=lambda name: -sum(len(rows) for rows, _ in values[name]))
    room = max(_MOST_CELLS // max(len(texts), 1), 8)
    kept = set(by_size[:room])
    made = {_column_name(name): _column(parts, len(texts)) for name, parts in values.items() if name in kept}
    return made, tuple(by_size[room:])


def about_left_out(names: tuple[str, ...]) -> str:
    """Note on fields that `columns` left out."""
    return f"fields left out, the table would be too large: {', '.join(names[:10])}"


def _alike(texts: pa.Array, codes: NDArray[np.int32], rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Rows of the same event with as many keys each: a value must not swallow a key that other rows lack."""
    keys = np.asarray(pc.count_substring_regex(texts.take(pa.array(rows)), _KEYS)).astype(np.int64)
    kind = codes[rows].astype(np.int64) << 32 | keys
    order = np.argsort(kind, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(kind[order])) + 1) if len(rows) else []


def _column_name(name: str) -> str:
    return f"{name}_field" if name in _TAKEN else name


def _event(texts: pa.Array, rows: NDArray[np.intp]) -> list[tuple[str, NDArray[np.intp], pa.Array]]:
    """Fields of the rows of one event: name, rows that have it, their values as printed."""
    found = []
    for _ in range(_SHAPES):
        if not len(rows):
            break
        names, pattern = _shape(texts[int(rows[0])].as_py())
        if not names:
            without = np.asarray(pc.equal(texts.take(pa.array(rows)), texts[int(rows[0])]))
            rows = rows[~without]
            continue
        read = pc.extract_regex(texts.take(pa.array(rows)), pattern)
        valid = np.asarray(read.is_valid())
        if not valid[0]:  # its keys cannot be told apart
            rows = rows[1:]
            continue
        kept = read.filter(pa.array(valid))
        found += [(name, rows[valid], kept.field(f"f{place}")) for place, name in enumerate(names)]
        rows = rows[~valid]
    return found


def _shape(line: bytes) -> tuple[list[str], bytes]:
    """Keys of a line, and the expression that reads lines with these keys."""
    matches = list(_KEY.finditer(line))
    sign = b"=" if not _COLONS.fullmatch(line) else b":"
    first = {match[1]: match for match in reversed(matches) if match[2].startswith(sign)}
    matches = sorted(first.values(), key=re.Match.start)[:_MOST_KEYS]
    names = [match[1].decode("ascii", "replace") for match in matches]
    if not names:
        return [], b""
    parts = [rb"^(?:.*?[\s,(\[{])??"]
    for place, match in enumerate(matches):
        sign = b"=" if match[2] == b"=" else b":[ ]+"
        value = rb'(?P<f%d>"[^"]*"|.*?)' % place
        parts.append(re.escape(match[1]) + sign + value)
        if place + 1 < len(matches):
            parts.append(rb"(?:[,;]?\s+(?:\W+\s+)?[(\[{]?|[\])}]+\s*|,)")
    parts.append(rb"(?:[,;\])}]+|\s+[\[(].*|\s)*$")
    return names, b"".join(parts)


def _column(parts: list[tuple[NDArray[np.intp], pa.Array]], rows: int) -> Column:
    """One column of a field's values over all events that have it: numbers where all are, else texts."""
    values = pa.concat_arrays([part for _, part in parts])
    places = np.concatenate([found for found, _ in parts])
    numbers = _numbers(values)
    valid = np.zeros(rows, np.bool_)
    valid[places] = True
    if numbers is not None:
        filled = np.zeros(rows, numbers.dtype)
        filled[places] = numbers
        return Column(filled, valid)
    codes, names = labels(values)
    spread = np.full(rows, -1, np.int32)
    spread[places] = codes
    return Column(spread, categories=names)


def _numbers(values: pa.Array) -> NDArray[Any] | None:
    """Decimal or hexadecimal texts as int64, or as uint64 where one needs it; None where one is no number."""
    if not len(values):
        return None
    if pc.all(pc.match_substring_regex(values, _DECIMAL)).as_py():
        return np.asarray(values.cast(pa.string()).cast(pa.int64()))
    coded = values.dictionary_encode()
    numbers = []
    for raw in coded.dictionary.to_pylist():
        if not _NUMBER.fullmatch(raw):
            return None
        numbers.append(int(raw, 16 if raw[:2] in (b"0x", b"0X") else 10))
    low, high = min(numbers), max(numbers)
    if low < -(1 << 63) or high > (_LARGEST if low >= 0 else (1 << 63) - 1):
        return None
    unique: NDArray[Any] = np.array(numbers, np.int64 if high < 1 << 63 else np.uint64)
    spread: NDArray[Any] = unique[np.asarray(coded.indices)]
    return spread

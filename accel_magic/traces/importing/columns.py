"""Lines to columns: one regular expression over all lines of a file at once, and its groups to numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.errors import RecordingError
from accel_magic.traces.importing.found import UNKNOWN
from accel_magic.traces.importing.lines import text
from accel_magic.traces.recording import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

SECONDS: Final = r"[0-8]?\d{1,9}"
"""Digits of seconds, and of a fraction, whose nanoseconds fit 64 bits."""
FRACTION: Final = r"\d{1,9}"
MOST_EVENTS: Final = 20_000_000
_THREADS: Final = 2
_COLUMN: Final = pa.binary()
_SECOND_NS: Final = 1_000_000_000


def extract(blocks: Iterable[pa.BinaryArray], pattern: str) -> tuple[pa.Table, pa.Table]:
    """Match every line with `pattern`, which must match from start to end.

    Returns:
        The lines that match, one binary column per group (empty where the group took no part) and `line`, the line's
        number; and the lines that do not match, blank ones aside: `text` and `line`.

    Raises:
        RecordingError: There are more events than fit the memory.

    """
    matched, others, count, seen = [], [], 0, 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for found, rest, length in pool.map(lambda lines: _match(lines, pattern), blocks):
            matched.append(_shifted(found, seen))
            others.append(_shifted(rest, seen))
            seen, count = seen + length, count + len(found)
            if count > MOST_EVENTS:
                raise RecordingError(
                    f"this file has over {MOST_EVENTS:,} events",
                    why="they would not fit the memory",
                    fix=f"open a part of it (head -n {MOST_EVENTS}), or let the tool count instead of print",
                    code="recording.too-many-events",
                )
    empty = _match(pa.array([], _COLUMN), pattern)
    return (
        pa.Table.from_batches(matched, empty[0].schema).combine_chunks(),
        pa.Table.from_batches(others, empty[1].schema).combine_chunks(),
    )


def _match(lines: pa.BinaryArray, pattern: str) -> tuple[pa.RecordBatch, pa.RecordBatch, int]:
    groups = pc.extract_regex(lines, pattern)
    valid = np.asarray(groups.is_valid())
    kept = groups.filter(pa.array(valid))
    names = [field.name for field in kept.type]
    found = [kept.field(name) for name in names]
    blank = np.asarray(pc.match_substring_regex(lines, r"^\s*$"))
    others = np.flatnonzero(~valid & ~blank)
    return (
        pa.RecordBatch.from_arrays([*found, pa.array(np.flatnonzero(valid))], [*names, "line"]),
        pa.RecordBatch.from_arrays([lines.take(pa.array(others)), pa.array(others)], ["text", "line"]),
        len(lines),
    )


def _shifted(batch: pa.RecordBatch, lines: int) -> pa.RecordBatch:
    place = batch.schema.get_field_index("line")
    return batch.set_column(place, "line", pc.add(batch.column(place), lines))


def column(table: pa.Table, name: str) -> pa.Array:
    """One column of a table that is in one piece."""
    chunked = table.column(name)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def groups_of(values: pa.Array | pa.ChunkedArray, pattern: str) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """Match each value: which of them do, (values,) bool, and the groups of all, null where it does not."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    found = pc.extract_regex(whole, pattern)
    valid = np.asarray(found.is_valid())
    return valid, {field.name: pc.struct_field(found, field.name) for field in found.type}


def integers(values: Any, dtype: Any, missing: int = UNKNOWN) -> NDArray[Any]:
    """Decimal digits to numbers; `missing` where there are none."""
    digits = pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)
    return np.asarray(pc.fill_null(digits.cast(pa.string()).cast(pa.int64()), missing)).astype(dtype)


def times(whole: Any, fractions: Any, unit_ns: int | NDArray[np.int64] = _SECOND_NS) -> NDArray[np.int64]:
    """Digits of a number of units and of its fraction to ns; a unit is `unit_ns`, a power of ten up to a second."""
    unit = np.asarray(unit_ns, np.int64)
    digits = pc.utf8_rpad(fractions.cast(pa.string()), 9, "0")
    found: NDArray[np.int64] = integers(whole, np.int64, 0) * unit
    parts: NDArray[np.int64] = integers(digits, np.int64, 0) // (_SECOND_NS // unit)
    return found + parts


def labels(values: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Codes of texts, -1 for null, and the different texts."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    coded = whole.dictionary_encode()
    names = [text(raw) for raw in coded.dictionary.to_pylist()]
    unique = {name: code for code, name in enumerate(dict.fromkeys(names))}  # bytes that differ may read the same
    table = np.array([unique[name] for name in names] or [0], np.int32)
    codes = np.asarray(coded.indices.fill_null(0))
    found = table[codes].astype(np.int32)
    found[~np.asarray(whole.is_valid())] = -1
    return found, tuple(unique)


def texts(values: Any) -> Column:
    """Texts as a column of categories; empty and null ones are missing."""
    codes, names = labels(pc.if_else(pc.equal(pc.binary_length(values), 0), None, values))
    return Column(codes, categories=names)


def unknown(rows: int, dtype: Any) -> NDArray[Any]:
    """Fill a column of numbers that the output does not tell."""
    return np.full(rows, UNKNOWN, dtype)

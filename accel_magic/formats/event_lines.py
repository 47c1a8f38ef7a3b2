"""Lines of tracers' text output, and conversion of event fields (`key=value` or `key: value`) to columns.

Rows of one event look alike: the keys of the first row give a regular expression that reads all rows with the same
keys in the same order. A value may contain spaces; it ends before the next key.
"""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.errors import RecordingError
from accel_magic.formats import text_file
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray


UNKNOWN = -1
"""Value of `tid`, `pid` and `cpu` that the output lacks, and of `duration_ns` without a duration."""


_TAKEN: Final = frozenset({"time_ns", "point", "probe", "pid", "tid", "cpu", "comm", "duration_ns", "line"})
_KEY: Final = re.compile(rb"(?:^|(?<=[\s,(\[{]))([A-Za-z_][\w.\[\]]*)(=(?!=)|:[ ]+)")
_KEYS: Final = r"(?:^|[\s,(\[{])[A-Za-z_][\w.\[\]]*=|: "
_COLONS: Final = re.compile(rb"[\w.]+: [^,]*(?:, [\w.]+: [^,]*)*")
"""Format in which the kernel prints arguments of system calls; any other colon is prose."""
_IN_BRACKETS: Final = rb"|".join(
    rb"%b(?:[^%b]|%b[^%b]*%b)*%b" % (begin, begin + end, begin, begin + end, end, end)
    for begin, end in ((rb"\(", rb"\)"), (rb"\[", rb"\]"), (rb"\{", rb"\}"))
)
_BALANCED: Final = rb"(?:[^()\[\]{}]|%b)*?" % _IN_BRACKETS
"""Text whose brackets are closed: `ARRAY[0f, 00]`, `{0x1,0x2}`, `(sd-pam)`."""
_WITH_UNIT: Final = r"^(?P<number>-?\d{1,20}|0[xX][0-9a-fA-F]{1,16}) ?\[[A-Za-z%/]{1,8}\]$"
"""A number and its unit, as the scheduler's events print it: `7001 [ns]`."""
_SHAPES: Final = 8  # different key orders per event
_MOST_KEYS: Final = 40
_MOST_CELLS: Final = 100_000_000
_LARGEST: Final = (1 << 64) - 1
_DECIMAL: Final = r"^-?\d{1,18}$"
_NUMBER: Final = re.compile(rb"0[xX][0-9a-fA-F]{1,16}|-?\d{1,20}")


def columns(texts: pa.Array, codes: NDArray[np.int32]) -> tuple[dict[str, EventColumn], tuple[str, ...]]:
    """Read the fields of all events.

    Args:
        texts: (events,) binary: the text after the event's name; null or empty without any.
        codes: (events,) the event of each row.

    Returns:
        Columns by field, with the suffix `_field` if the name is a standard column; and the names of fields left out
        because the table would be too large.

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
    """Return a note about fields left out by `columns`."""
    return f"fields left out because the table would be too large: {', '.join(names[:10])}"


def _alike(texts: pa.Array, codes: NDArray[np.int32], rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Group rows by event and number of keys, so that a value never swallows a key that other rows lack."""
    keys = np.asarray(pc.count_substring_regex(texts.take(pa.array(rows)), _KEYS)).astype(np.int64)
    kind = codes[rows].astype(np.int64) << 32 | keys
    order = np.argsort(kind, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(kind[order])) + 1) if len(rows) else []


def _column_name(name: str) -> str:
    return f"{name}_field" if name in _TAKEN else name


def _event(texts: pa.Array, rows: NDArray[np.intp]) -> list[tuple[str, NDArray[np.intp], pa.Array]]:
    """Fields of one event: name, rows with the field, and their values as printed."""
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
        if not valid[0]:  # its keys cannot be separated
            rows = rows[1:]
            continue
        kept = read.filter(pa.array(valid))
        found += [(name, rows[valid], kept.field(f"f{place}")) for place, name in enumerate(names)]
        rows = rows[~valid]
    return found


def _shape(line: bytes) -> tuple[list[str], bytes]:
    """Keys of a line, and a regular expression for lines with these keys."""
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
        value = rb'(?P<f%d>"[^"]*"|%b|.*?)' % (place, _BALANCED)
        parts.append(re.escape(match[1]) + sign + value)
        if place + 1 < len(matches):
            parts.append(rb"(?:[,;]?\s+(?:\W+\s+)?[(\[{]?|[\])}]+\s*|[(\[{]\s*|,)")
    parts.append(rb"(?:[,;\])}]+|\s+[\[(].*|\s)*$")
    return names, b"".join(parts)


def _column(parts: list[tuple[NDArray[np.intp], pa.Array]], rows: int) -> EventColumn:
    """Column of a field over all events that have it: numeric if all values are numbers, else texts."""
    values = _without_units(pa.concat_arrays([part for _, part in parts]))
    places = np.concatenate([found for found, _ in parts])
    numbers = _numbers(values)
    valid = np.zeros(rows, np.bool_)
    valid[places] = True
    if numbers is not None:
        filled = np.zeros(rows, numbers.dtype)
        filled[places] = numbers
        return EventColumn(filled, valid)
    codes, names = labels(values)
    spread = np.full(rows, -1, np.int32)
    spread[places] = codes
    return EventColumn(spread, categories=names)


def _without_units(values: pa.Array) -> pa.Array:
    """Remove the unit in brackets behind each number, if all values are numbers and some have one."""
    found = pc.extract_regex(values, _WITH_UNIT)
    if found.null_count == len(values):
        return values
    bare = pc.fill_null(pc.struct_field(found, "number"), values)
    return bare if pc.all(pc.match_substring_regex(bare, _DECIMAL)).as_py() else values


def _numbers(values: pa.Array) -> NDArray[Any] | None:
    """Convert decimal or hexadecimal texts to int64, or uint64 if needed; None if any is not a number."""
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


SECONDS: Final = r"[0-8]?\d{1,9}"
"""Digits of seconds whose nanoseconds fit into 64 bits."""
FRACTION: Final = r"\d{1,9}"
MOST_EVENTS: Final = 20_000_000
_THREADS: Final = 2
_COLUMN: Final = pa.binary()
_SECOND_NS: Final = 1_000_000_000


def extract(blocks: Iterable[pa.BinaryArray], pattern: str) -> tuple[pa.Table, pa.Table]:
    """Match every line with `pattern`, which must be anchored at both ends.

    Returns:
        The matching lines, with one binary column per group (empty if the group did not participate) and the line
        number `line`; and the other lines except blank ones, with the columns `text` and `line`.

    Raises:
        RecordingError: There are more than `MOST_EVENTS` events.

    """
    matched, others, count, seen = [], [], 0, 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for found, rest, length in pool.map(lambda lines: _match(lines, pattern), blocks):
            matched.append(_shifted(found, seen))
            others.append(_shifted(rest, seen))
            seen, count = seen + length, count + len(found)
            if count > MOST_EVENTS:
                raise RecordingError(
                    f"this file has more than {MOST_EVENTS:,} events",
                    why="they would not fit into memory",
                    fix=f"open a part of it (head -n {MOST_EVENTS}), or make the tool count instead of printing events",
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
    """Return one column of a table as a single array."""
    chunked = table.column(name)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def groups_of(values: pa.Array | pa.ChunkedArray, pattern: str) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """Match each value; returns which of them match, (values,) bool, and all groups, null for the others."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    found = pc.extract_regex(whole, pattern)
    valid = np.asarray(found.is_valid())
    return valid, {field.name: pc.struct_field(found, field.name) for field in found.type}


def integers(values: Any, dtype: Any, missing: int = UNKNOWN) -> NDArray[Any]:
    """Convert decimal digits to numbers; empty texts become `missing`."""
    digits = pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)
    return np.asarray(pc.fill_null(digits.cast(pa.string()).cast(pa.int64()), missing)).astype(dtype)


def times(whole: Any, fractions: Any, unit_ns: int | NDArray[np.int64] = _SECOND_NS) -> NDArray[np.int64]:
    """Convert the digits of a number and its fraction to ns; the unit is `unit_ns`, a power of ten up to a second."""
    unit = np.asarray(unit_ns, np.int64)
    digits = pc.utf8_rpad(fractions.cast(pa.string()), 9, "0")
    found: NDArray[np.int64] = integers(whole, np.int64, 0) * unit
    parts: NDArray[np.int64] = integers(digits, np.int64, 0) // (_SECOND_NS // unit)
    return found + parts


def labels(values: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Codes of texts, -1 for null, and the distinct texts."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    coded = whole.dictionary_encode()
    names = [text(raw) for raw in coded.dictionary.to_pylist()]
    unique = {name: code for code, name in enumerate(dict.fromkeys(names))}  # different bytes may decode to one text
    table = np.array([unique[name] for name in names] or [0], np.int32)
    codes = np.asarray(coded.indices.fill_null(0))
    found = table[codes].astype(np.int32)
    found[~np.asarray(whole.is_valid())] = -1
    return found, tuple(unique)


def texts(values: Any) -> EventColumn:
    """Convert texts to a categorical column; empty and null texts are missing."""
    codes, names = labels(pc.if_else(pc.equal(pc.binary_length(values), 0), None, values))
    return EventColumn(codes, categories=names)


def unknown(rows: int, dtype: Any) -> NDArray[Any]:
    """Return a column of unknown numbers."""
    return np.full(rows, UNKNOWN, dtype)


BLOCK = 16 << 20
_LONGEST_LINE = 64 << 20


def blocks(path: Path) -> Iterator[pa.BinaryArray]:
    """Yield the lines of `path` in order, each with its line end, in arrays of about `BLOCK` bytes.

    Raises:
        RecordingError: The file cannot be read, or a line is too long.

    """
    try:
        with text_file.opened(path) as file:
            rest = b""
            while data := file.read(BLOCK):
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                if len(rest) > _LONGEST_LINE:
                    raise RecordingError(
                        f"{path} is not a recording",
                        why=f"a line is longer than {_LONGEST_LINE >> 20} MiB",
                        fix="record again",
                        code="recording.line-too-long",
                    )
                if end:
                    yield split(data[:end])
            if rest:
                yield split(rest)
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}", why=error.strerror or str(error), fix="copy it again", code="recording.unreadable"
        ) from error


def split(data: bytes) -> pa.BinaryArray:
    """Split `data` into lines, each with its line end, without copying the bytes."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A) + 1
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def unended(path: Path) -> str:
    """Return the last line if it has no line end and so may be truncated; else ''."""
    return text(text_file.unended(path))


def text(raw: Any) -> str:
    """Decode bytes; invalid UTF-8 is replaced."""
    return bytes(raw).decode("utf-8", "replace")


_OVERWRITTEN: Final = re.compile(r"#\s*entries-in-buffer/entries-written:\s*(\d{1,18})/(\d{1,18})")
_LOST: Final = tuple(
    re.compile(form)
    for form in (
        r"CPU:?\s*\d+\s*\[LOST\s+(\d{1,18})\s+EVENTS\]",  # ftrace
        r"CPU:?\s*\d+\s*\[(\d{1,18})\s+EVENTS DROPPED\]",  # trace-cmd
        r"^(?:WARNING: )?Lost (\d{1,18}) events",  # bpftrace
        r"PERF_RECORD_LOST(?:_SAMPLES)?\s+lost\s+(\d{1,18})",  # perf script --show-lost-events
        r"\bLOST (\d{1,18}) (?:EVENTS|events)\b",
    )
)
_UNCOUNTED: Final = re.compile(r"CPU:?\s*\d+\s*\[(?:LOST EVENTS|EVENTS DROPPED)\]|and lost \d+ (?:chunks|samples)")
_INFORMATIVE: Final = r"(?i)lost|dropped|entries-written|^#"
_PROSE: Final = (
    r"^\s*(?:#.*|cpus=\d+|version = \d+|CPU \d+ is empty|CPU \d+ buffer.*|-{5,}|trace-cmd: .*|trace\.dat .*|"
    r"Attaching \d+ probes?\.\.\.|Attached \d+ probes?|Tracing.*|\^C|"
    r"Warning:|Processed \d+ .*|Check IO/CPU overload!|(?:WARNING|ERROR): .*)\s*$"
)
_MACHINE: Final = (
    ("kernel", re.compile(r"#\s*os release\s*:\s*(\S.*?)\s*$")),
    ("host", re.compile(r"#\s*hostname\s*:\s*(\S.*?)\s*$")),
    ("cpu", re.compile(r"#\s*cpudesc\s*:\s*(\S.*?)\s*$")),
)


@dataclass(frozen=True)
class Rest:
    """Content of the lines that are not events; `malformed` counts those that were not understood."""

    lost: int = 0
    malformed: int = 0
    notes: tuple[str, ...] = ()
    machine: dict[str, str] = field(default_factory=dict)


def rest_of(others: pa.Table, *, known: str = "") -> Rest:
    """Read the lines left over by `extract`; lines that match the expression `known` are handled elsewhere."""
    lines = column(others, "text")
    prose = np.asarray(pc.match_substring_regex(lines, _PROSE))
    if known:
        prose = prose | np.asarray(pc.match_substring_regex(lines, known))
    lost = reports = uncounted = 0
    machine: dict[str, str] = {}
    for line in _informative(lines):
        number = _lost(line)
        lost += number or 0
        if number is None and _UNCOUNTED.search(line):
            uncounted += 1
        if not line.lstrip().startswith("#") and (number is not None or _UNCOUNTED.search(line)):
            reports += not re.match(_PROSE, line)
        machine |= {name: found[1] for name, form in _MACHINE if (found := form.match(line))}
    notes = (f"events were lost {uncounted} more times; the file does not say how many",) if uncounted else ()
    return Rest(lost + uncounted, int((~prose).sum()) - reports, notes, machine)


def _informative(lines: pa.Array) -> Iterator[str]:
    """Yield the few lines that may describe losses or the machine, with repetitions."""
    chosen = lines.filter(pc.match_substring_regex(lines, _INFORMATIVE))
    for raw, times in Counter(chosen.to_pylist()).items():
        yield from [text(raw).rstrip()] * times


def _lost(line: str) -> int | None:
    if found := _OVERWRITTEN.match(line):
        return max(int(found[2]) - int(found[1]), 0)
    return next((int(found[1]) for form in _LOST if (found := form.search(line))), None)

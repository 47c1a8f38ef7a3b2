"""Write trace-event JSON, the format of ui.perfetto.dev and chrome://tracing, column by column with Arrow.

All functions return the text of entries, each of which starts with a comma and a newline. The text of events comes in
pieces of bounded size, so that millions of events take seconds and little memory. `write` makes a file of entries.
Times are written in microseconds, to the nanosecond. The text is ASCII: other characters, lone surrogates included, are
escaped.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.recording.recording import EventColumn
from accel_magic.recording.result_files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Values: TypeAlias = "EventColumn | NDArray[Any] | pd.Series"
"""A value per row; numbers that are not finite count as missing."""
Column: TypeAlias = "Values | pa.Array | str | int"
"""A value per row, or one for all rows; Arrow arrays are strings."""

_ROWS: Final = 1 << 16
"""Highest number of events in a piece."""
_LEVEL: Final = 6
"""Of compression."""
_BYTES: Final = 1 << 26
"""Bound of a piece's texts; Arrow's string arrays hold up to 2 GiB."""
_THOUSANDTHS: Final = pa.array([f".{number:03d}" for number in range(1000)])
_ESCAPED: Final = r"[^ -!#-\[\]-~]"
"""Characters that JSON strings in ASCII may have to escape."""


class Flow(StrEnum):
    """Phases of a flow: an arrow from slice to slice."""

    START = "s"
    STEP = "t"
    END = "f"


@dataclass(frozen=True, kw_only=True)
class TraceEvents:
    """Columns of events; each method writes them as one kind of event, one per row.

    Attributes:
        name: Names.
        time_ns: (rows,) int64 ns since the start.
        pid: Process ids.
        tid: Thread ids; None for events of a process.
        category: Categories.
        args: Arguments by name; missing values are omitted.

    """

    name: Column
    time_ns: NDArray[np.int64]
    pid: Column
    tid: Column | None = None
    category: Column | None = None
    args: Mapping[str, Column] = field(default_factory=dict)

    def complete(self, duration_ns: Values) -> Iterator[bytes]:
        """Slices ('X') with a duration; rows whose duration is missing are instants."""
        durations = _event_column(duration_ns)
        if durations.valid is None:
            return self._entries(_constant(_phase("X")), _times("dur", durations))
        return self._entries(_phases((_INSTANT, _phase("X")), durations.valid), _times("dur", durations))

    def instants(self) -> Iterator[bytes]:
        """Instants ('i') of a thread."""
        return self._entries(_constant(_INSTANT))

    def edges(self, begins: NDArray[np.bool_], async_id: Column | None = None) -> Iterator[bytes]:
        """Begins and ends of slices: nested on their thread ('B', 'E'), or asynchronous with an id ('b', 'e')."""
        if async_id is None:
            return self._entries(_phases((_phase("E"), _phase("B")), begins))
        return self._entries(_phases((_phase("e"), _phase("b")), begins), _member("id", async_id))

    def counters(self) -> Iterator[bytes]:
        """Values of counters ('C'); each argument is a series."""
        return self._entries(_constant(_phase("C")))

    def flows(self, phase: Flow, flow_id: Column) -> Iterator[bytes]:
        """Points of flows, each bound to the slice that encloses it."""
        return self._entries(_constant(f'{_phase(phase)},"bp":"e"'), _member("id", flow_id))

    def _entries(self, *first: _Member) -> Iterator[bytes]:
        """Yield the text of all rows in pieces. `first` starts the entry."""
        columns = {"name": self.name, "cat": self.category, "pid": self.pid, "tid": self.tid}
        members = [
            *first,
            _times("ts", _event_column(self.time_ns)),
            *(_member(key, column) for key, column in columns.items() if column is not None),
            *_arguments(self.args),
            _constant("}"),
        ]
        rows = max(1, min(_ROWS, _BYTES // sum(member.longest for member in members)))
        for start in range(0, len(self.time_ns), rows):
            piece = slice(start, start + rows)
            yield _to_bytes(_concatenated([part for member in members for part in member.parts(piece)]))


def write(path: str | Path, about: Mapping[str, object], entries: Iterable[bytes]) -> Path:
    """Write a file and return its absolute path.

    Args:
        path: The file; compressed with gzip, which ui.perfetto.dev opens as well, if its name ends in `.gz`.
        about: Metadata of the trace.
        entries: Text of entries.

    Raises:
        RecordingError: The path cannot be written to.

    """
    target = destination(path)
    with replacing(target) as plain, _compressed(plain, target) as file:
        file.write(b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % json.dumps(about).encode("ascii"))
        skip = 1  # the comma before the first entry
        for text in filter(None, entries):
            file.write(text[skip:])
            skip = 0
        file.write(b"\n]}\n")
    return target


@contextlib.contextmanager
def _compressed(file: BinaryIO, target: Path) -> Iterator[BinaryIO]:
    """Yield the file, or if its name ends in `.gz`, what compresses into it."""
    if target.suffix != ".gz":
        yield file
        return
    with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as compressed:
        yield compressed  # type: ignore[misc]


def process_name(pid: int, name: str, tid: int | None = None) -> bytes:
    """Name a process. Readers ignore `tid`."""
    return _metadata("process_name", pid, tid, name=name)


def process_sort_index(pid: int, index: int, tid: int | None = None) -> bytes:
    """Order processes: those with lower indexes are drawn higher. Readers ignore `tid`."""
    return _metadata("process_sort_index", pid, tid, sort_index=index)


def thread_name(pid: int, tid: int, name: str) -> bytes:
    """Name a thread."""
    return _metadata("thread_name", pid, tid, name=name)


def composed(*parts: str | NDArray[Any] | pd.Series) -> pa.Array:
    """Compose a text per row, (rows,) Arrow strings, from columns of numbers or texts; a `str` is in all rows."""
    return pc.binary_join_element_wise(
        *(part if isinstance(part, str) else pa.array(part).cast(pa.string()) for part in parts), ""
    )


@dataclass(frozen=True)
class _Member:
    """A member of each event's JSON object.

    Attributes:
        parts: Makes the parts of its text for some rows: (rows,) Arrow strings, or a `str` for all rows. If the value
            can be missing, it is a single part, null where it is missing.
        longest: Length of the longest text; nominal for numbers.

    """

    parts: Callable[[slice], Sequence[pa.Array | str]]
    longest: int = 32


def _phase(phase: str) -> str:
    """Start of an entry: its phase is never missing, so that all other members can start with a comma."""
    return f',\n{{"ph":"{phase}"'


_INSTANT: Final = f'{_phase("i")},"s":"t"'


def _phases(texts: tuple[str, str], chosen: NDArray[np.bool_]) -> _Member:
    """The second text where `chosen` is true, else the first."""
    starts, codes = pa.array(texts), chosen.astype(np.int8)
    return _Member(lambda rows: [starts.take(pa.array(codes[rows]))])


def _constant(text: str) -> _Member:
    return _Member(lambda _: [text], len(text))


def _member(key: str, column: Column) -> _Member:
    """The values of a column with their key; each distinct text of a column with categories is encoded once."""
    head = f",{json.dumps(key)}:"
    if isinstance(column, str | int):
        return _constant(head + json.dumps(column))
    if isinstance(column, pa.Array):
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        return _Member(lambda rows: [_joined(head, _quoted(column[rows]))], len(head) + longest)
    values = _event_column(column)
    if values.categories is None:
        return _values(head, values, lambda rows: _valid(values, rows).cast(pa.string()))
    texts = [head + json.dumps(text) for text in values.categories]
    encoded = pa.array(texts, pa.string())
    return _Member(lambda rows: [encoded.take(_valid(values, rows))], max(map(len, texts), default=0))


def _times(key: str, column: EventColumn) -> _Member:
    """Times in ns as microseconds."""
    return _values(f',"{key}":', column, lambda rows: _microseconds(_valid(column, rows).cast(pa.int64(), safe=False)))


def _values(head: str, column: EventColumn, texts: Callable[[slice], pa.Array]) -> _Member:
    if column.valid is None:
        return _Member(lambda rows: [head, texts(rows)])
    return _Member(lambda rows: [_joined(head, texts(rows))])


def _arguments(args: Mapping[str, Column]) -> tuple[_Member, ...]:
    """The object of arguments."""
    members = [_member(key, column) for key, column in args.items()]

    def parts(rows: slice) -> Sequence[pa.Array | str]:
        first, *others = (part for member in members for part in member.parts(rows))
        if isinstance(first, str):
            return [',"args":{', first[1:], *others, "}"]  # without its comma
        return [',"args":{', pc.ascii_ltrim(_concatenated([first, *others]), ","), "}"]

    return (_Member(parts, sum(member.longest for member in members)),) if args else ()


def _event_column(column: Values) -> EventColumn:
    """Convert any column but Arrow's."""
    if isinstance(column, np.ndarray):
        column = EventColumn(column)
    if isinstance(column, pd.Series):
        return _of_series(column)
    if column.categories is not None:
        known = column.values.astype(np.int64) >= 0
    elif column.values.dtype.kind == "f":
        known = np.isfinite(column.values)  # JSON cannot represent the others
    else:
        return column
    return EventColumn(column.values, known if column.valid is None else known & column.valid, column.categories)


def _of_series(column: pd.Series) -> EventColumn:
    valid = column.notna().to_numpy()
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _event_column(
            EventColumn(column.to_numpy(getattr(column.dtype, "numpy_dtype", None), na_value=0), valid)
        )
    codes, distinct = pd.factorize(column)
    return EventColumn(codes, valid, tuple(distinct))


def _valid(column: EventColumn, rows: slice) -> pa.Array:
    """The values of some rows, null where they are missing."""
    values = np.ascontiguousarray(column.values[rows])
    return pa.array(values, mask=None if column.valid is None else ~column.valid[rows])


def _microseconds(times_ns: pa.Array) -> pa.Array:
    """Format ns as microseconds: 1234567 as `1234.567`. A float would lose nanoseconds."""
    size = pc.abs(times_ns)
    whole = pc.divide(size, 1000)
    rest = pc.subtract(size, pc.multiply(whole, 1000))
    text = _joined(whole.cast(pa.string()), _THOUSANDTHS.take(rest))
    negative = pc.less(times_ns, 0)
    return _joined(pc.if_else(negative, "-", ""), text) if pc.any(negative).as_py() else text


def _quoted(texts: pa.Array) -> pa.Array:
    """Encode texts as JSON; only those with characters to escape are encoded one by one."""
    special = pc.match_substring_regex(texts, _ESCAPED)
    encoded = pa.array([json.dumps(text) for text in texts.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(_joined('"', texts, '"'), special, encoded)


def _concatenated(parts: Iterable[pa.Array | str]) -> pa.Array | str:
    """Concatenate the parts of each row, (rows,); a missing one is ''."""
    merged: list[pa.Array | str] = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return pc.binary_join_element_wise(*merged, "", null_handling="replace") if len(merged) > 1 else merged[0]


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate the parts of each row, (rows,); null if one is."""
    return pc.binary_join_element_wise(*parts, "")


def _to_bytes(lines: pa.Array) -> bytes:
    """Concatenate all strings of the array, directly from its buffer."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    first, last = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return lines.buffers()[2].slice(first, last - first).to_pybytes()  # type: ignore[no-any-return]


def _metadata(what: str, pid: int, tid: int | None, **args: object) -> bytes:
    entry = {"ph": "M", "name": what, "pid": pid, **({} if tid is None else {"tid": tid}), "args": args}
    return b",\n" + json.dumps(entry, separators=(",", ":")).encode("ascii")

"""Recordings as files: one Parquet file with events as rows and everything else in its metadata.

Any Parquet reader gets a useful table: besides the columns of `Events` it has `probe` and `function` as text. Nothing
read from a file is executed or unpickled, and inconsistent files are rejected.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from accel_magic import foreign_files
from accel_magic.errors import RecordingError
from accel_magic.recording import container, memory_bounds, parquet_pages, result_files
from accel_magic.recording.recording import EventColumn, Events
from accel_magic.recording.stored_layout import NewerVersionError, StoredColumn, decode, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.directories import Directory
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Recording

KIND = container.FileKind(
    b"accel_magic", "recording", "give a file written by %%ktrace --save or TraceResult.to_parquet()", "record"
)
TEXT = pa.dictionary(pa.int32(), pa.string())
_DTYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {
    "bool",
    "float32",
    "float64",
}
_ALWAYS = ("time_ns", "point", "pid", "tid", "cpu", "comm")
LABELS = ("probe", "function")
_GROWING = ("time_ns", "duration_ns")  # stored with delta encoding; other columns with dictionaries


def save(recording: Recording, path: str | Path) -> Path:
    """Write `recording` to one Parquet file and return its absolute path.

    The write is atomic and replaces an existing file. Strings that are not valid Unicode (possible in file names) are
    kept unchanged for `load` and appear escaped to other readers.

    Raises:
        RecordingError: The path cannot be written to, the events cannot be read, or the recording is inconsistent.

    """
    table, text, options = _encoded(recording, path)
    return container.write(table, path, KIND, text, **options)


def save_in(folder: Directory, name: str, recording: Recording) -> None:
    """Write `recording` to a file in an open folder. Raises RecordingError, as `save`."""
    table, text, options = _encoded(recording, folder.path / name)
    with result_files.replacing_in(folder, name) as file:
        container.write_to(file, table.schema, [table], KIND, text, **options)


def _encoded(recording: Recording, path: str | Path) -> tuple[pa.Table, bytes, dict[str, Any]]:
    """The table, the description and pyarrow's options for a recording."""
    events = recording.events
    columns = described_columns(events)
    try:
        check_columns(columns)
        text = encode(recording, columns, len(events))
        table = table_of(events, columns, recording.plan)
    except (ValueError, pa.ArrowException) as error:
        raise RecordingError(
            f"cannot save this recording to {path}",
            why=str(error),
            fix="report this to accel_magic, with the traced cell",
            code="save.failed",
        ) from error
    return table, text, writer_options(table, columns)


def writer_options(table: pa.Table, columns: tuple[StoredColumn, ...]) -> dict[str, Any]:
    """How pyarrow writes a table of events: times with delta encoding, everything else with dictionaries."""
    growing = [column.stored for column in columns if column.name in _GROWING and column.dtype in ("int64", "uint64")]
    return {
        "use_dictionary": [name for name in table.column_names if name not in growing],
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
    }


def load(path: str | Path, source: str = "") -> Recording:
    """Read a recording written by `save`. Its events are read on first use.

    The file is kept open until then, so removing or replacing it in the meantime has no effect. `source` is that of
    `container.opened`.

    Raises:
        RecordingError: The file does not exist, is damaged, is not a recording, needs more memory than allowed, or was
            written by a later version. `events` may raise it too, if the damage is in the events.

    """
    recording, events = _opened(Path(path), source)
    return replace(recording, load_events=events)


def _opened(place: Path, source: str) -> tuple[Recording, _StoredEvents]:
    """A recording without its events, and what loads them. Raises RecordingError, as `load`."""
    file = container.opened(place, KIND, source)
    text = container.description(file, place, KIND)
    try:
        with memory_bounds.bounded():
            recording, columns = decode(text)
            container.check(file, KIND)
            check_columns(columns)
            check_schema(file.file, columns, recording.event_count)
            parquet_pages.declare(file.file, file.source, [column.stored for column in columns])
    except NewerVersionError as error:
        raise container.newer(place, str(error)) from error
    except memory_bounds.TooLargeError as error:
        raise container.too_large(place, error) from error
    except ValueError as error:
        raise container.damaged(place, KIND, error) from error
    return recording, _StoredEvents(file, place, columns, len(recording.plan.points))


def load_description(folder: Directory, name: str) -> tuple[Recording, tuple[StoredColumn, ...]]:
    """Read a recording in an open folder, and how its events are stored; a link is not followed.

    Raises:
        RecordingError: As for `load`.

    """
    path = folder.path / name
    try:
        with foreign_files.opened(name, follow=False, folder=folder) as file:
            recording, events = _opened(path, foreign_files.path_of(file, folder, name))
    except (FileNotFoundError, PermissionError) as error:
        raise container.unreadable(path, KIND, error) from error
    except OSError as error:
        raise container.damaged(path, KIND, error) from error
    events.close()
    return replace(recording, load_events=events), events.columns


class _StoredEvents:
    """Loads the events of an open file on the first call, then closes the file."""

    def __init__(self, file: container.Opened, path: Path, columns: tuple[StoredColumn, ...], points: int) -> None:
        self.columns = columns
        self._file = file
        self._path = path
        self._points = points
        self._events: Events | None = None

    def __call__(self) -> Events:
        if self._events is None:
            try:
                with memory_bounds.bounded():
                    self._events = self._read()
            except memory_bounds.TooLargeError as error:
                raise container.too_large(self._path, error) from error
            except (ValueError, OSError, OverflowError, MemoryError, pa.ArrowException) as error:
                raise container.damaged(self._path, KIND, error) from error
            self._file.close()
        return self._events

    def close(self) -> None:
        """Close the file without reading the events."""
        self._file.close()

    def _read(self) -> Events:
        table = parquet_pages.read(self._file.file, self._file.source, [column.stored for column in self.columns])
        columns = {column.name: column_of(table.column(column.stored), column) for column in self.columns}
        points = columns["point"].values
        if len(points) and int(np.max(points)) >= self._points:
            raise ValueError(f"an event belongs to probe point {np.max(points)} of {self._points}")
        return Events(columns)


def described_columns(events: Events) -> tuple[StoredColumn, ...]:
    """Describe how the columns of events are stored."""
    taken = {*LABELS, *events.columns}
    described = []
    for name, column in events.columns.items():
        stored = name
        # Some tracepoints have a field called `function` (workqueue, timer): the label keeps the name, the field moves.
        while stored in LABELS or (stored != name and stored in taken):
            stored += "_"
        taken.add(stored)
        described.append(
            StoredColumn(name, stored, str(column.values.dtype), column.valid is not None, column.categories)
        )
    return tuple(described)


def check_columns(columns: tuple[StoredColumn, ...]) -> None:
    """Raise ValueError unless these are the columns of `Events`, with supported types."""
    by_name = {column.name: column for column in columns}
    if len({column.stored for column in columns} | set(LABELS)) != len(columns) + len(LABELS) or len(by_name) != len(
        columns
    ):
        raise ValueError("two event columns have the same name")
    for column in columns:
        if column.dtype not in _DTYPES:
            raise ValueError(f"event column {column.name} has the type {column.dtype}")
        if column.categories is not None and not column.dtype.startswith(("int", "uint")):
            raise ValueError(f"event column {column.name} has categories and the type {column.dtype}")
    for name in _ALWAYS:
        if name not in by_name or "int" not in by_name[name].dtype:
            raise ValueError(f"there is no event column {name} of integers")
        if (by_name[name].categories is not None) != (name == "comm"):
            raise ValueError(f"event column {name} has the wrong kind")


def table_of(events: Events, columns: tuple[StoredColumn, ...], plan: Plan) -> pa.Table:
    """Make the table that is stored. Raises ValueError: an event belongs to no point of the plan."""
    points = events.columns["point"].values
    if len(points) and not 0 <= int(np.min(points)) <= int(np.max(points)) < len(plan.points):
        raise ValueError(f"an event belongs to probe point {np.max(points)} of {len(plan.points)}")
    arrays: dict[str, pa.Array] = {}
    for column in columns:
        arrays[column.stored] = _array(events.columns[column.name])
        if column.name == "time_ns":
            arrays["probe"] = _labels([point.probe for point in plan.points], points)
            arrays["function"] = _labels([point.function for point in plan.points], points)
    return pa.table(arrays)


def _array(column: EventColumn) -> pa.Array:
    values = np.ascontiguousarray(column.values)
    missing = None if column.valid is None else ~column.valid
    if column.categories is None:
        return pa.array(values, mask=missing)
    codes = values.astype(np.int32)
    return _dictionary(codes, (codes < 0) if missing is None else missing | (codes < 0), column.categories)


def _labels(labels: list[str], points: NDArray[Any]) -> pa.Array:
    unique = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    codes = np.array([unique[label] for label in labels], np.int32)
    return _dictionary(codes[points.astype(np.int64)], None, tuple(unique))


def _dictionary(codes: NDArray[np.int32], missing: NDArray[np.bool_] | None, texts: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), _texts(texts))


def _texts(texts: tuple[str, ...]) -> pa.Array:
    """Convert to Arrow strings; lone surrogates, which UTF-8 cannot encode, are escaped."""
    return pa.array([text.encode("utf-8", "backslashreplace") for text in texts], pa.binary()).cast(pa.string())


def column_of(chunked: pa.ChunkedArray, stored: StoredColumn) -> EventColumn:
    """Undo `_array`. Rows without a value get 0, or -1 if the column has categories."""
    valid = chunked.is_valid().to_numpy() if stored.nullable else None
    if stored.categories is None:
        if chunked.null_count and not stored.nullable:
            raise ValueError(f"event column {stored.name} has rows without a value")
        filled = chunked.fill_null(False if stored.dtype == "bool" else 0) if chunked.null_count else chunked
        return EventColumn(filled.to_numpy().astype(stored.dtype, copy=False), valid)
    known = _texts(stored.categories)
    # Each chunk may have its own dictionary, in its own order.
    chunks = [_codes(chunk, known, stored.name) for chunk in chunked.chunks]
    codes = np.concatenate(chunks) if chunks else np.empty(0, np.int32)
    if len(codes) and np.min(codes) < 0 and stored.dtype.startswith("uint"):
        if valid is None:
            raise ValueError(f"event column {stored.name} has rows without a value")
        codes[codes < 0] = 0
    return EventColumn(codes.astype(stored.dtype), valid, stored.categories)


def _codes(chunk: pa.DictionaryArray, known: pa.Array, name: str) -> NDArray[np.int32]:
    positions = pc.index_in(chunk.dictionary, value_set=known)
    codes = positions.take(chunk.indices)
    if codes.null_count != chunk.null_count:
        raise ValueError(f"event column {name} has a value outside its categories")
    return np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int32)


def check_schema(file: pq.ParquetFile, columns: tuple[StoredColumn, ...], event_count: int) -> None:
    """Raise ValueError unless a file's schema and number of rows match the description."""
    if file.metadata.num_rows != event_count:
        raise ValueError(f"it contains {file.metadata.num_rows} events but declares {event_count}")
    schema = file.schema_arrow
    for column in columns:
        expected = arrow_type(column)
        found = schema.get_all_field_indices(column.stored)
        if len(found) != 1 or schema.field(found[0]).type != expected:
            raise ValueError(f"there is no event column {column.name} of type {expected}")


def arrow_type(column: StoredColumn) -> pa.DataType:
    """Arrow's type of a stored column."""
    return pa.from_numpy_dtype(column.dtype) if column.categories is None else TEXT

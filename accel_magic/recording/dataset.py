"""Recordings as folders, which may be larger than memory.

A dataset has a description (`trace.parquet`, a recording without events), the events in files
`kind=events/part-NNNNNN.parquet`, and a manifest (`manifest.json`) with the parts and the counters, which is replaced
about once a second while the trace runs. Whatever is read is checked first; parts that are damaged or missing are
named, and the others are used.

The folder may be in one that another user can change. It is written through its descriptor, and below it no link is
followed, neither when writing nor when reading.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import stat
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

import numpy as np

from accel_magic import directories, foreign_files, free_memory
from accel_magic.errors import RecordingError, ResultError
from accel_magic.kernel import buckets
from accel_magic.recording import checksums, container, memory_bounds, parquet_pages, recording_store, result_files
from accel_magic.recording.kernel_counts import KernelCounts
from accel_magic.recording.packing import pack_numbers, unpack_numbers
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording
from accel_magic.recording.stored_layout import NewerVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from accel_magic.directories import Directory
    from accel_magic.recording.stored_layout import StoredColumn

State = Literal["tracing", "ended", "killed"]
"""`killed`: the process that traced was; all that the kernel had delivered until then is there."""
VERSION: Final = 2
MANIFEST: Final = "manifest.json"
DESCRIPTION: Final = "trace.parquet"
EVENTS: Final = "kind=events"
VARIABLE: Final = "ACCEL_MAGIC_MOST_EVENTS"
"""Environment variable with the largest number of events that become one data frame."""
MOST_EVENTS: Final = 20_000_000
PART_ROWS: Final = 1 << 20
"""Rows of the parts that are written at once."""
_KIND: Final = container.FileKind(b"accel_magic_events", "part of a dataset", "open its folder", "record")
_FORMAT: Final = "accel_magic dataset"
_NAME: Final = re.compile(r"part-[0-9]{6}\.parquet")
_MOST_MANIFEST: Final = 256 << 20
_MOST_NUMBER: Final = 1 << 62
_WRONG: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, OSError)
_COPIES: Final = 6
"""Share of the free memory that loaded events may take: 1/6, because sorting and data frames copy them."""
_TEXT_BYTES: Final = 4
_ALWAYS: Final = frozenset({"time_ns", "point", "pid", "tid", "cpu", "comm"})


@dataclass(frozen=True)
class DatasetPart:
    """One file of events.

    Attributes:
        name: Its name in the folder of events.
        rows: Number of events.
        size: Bytes of the file.
        crc32: Checksum of the file: those of Parquet cover neither its footer nor what other readers read.
        first_ns: Time of the earliest event, ns since the start.
        last_ns: Time of the latest event.

    """

    name: str
    rows: int
    size: int
    crc32: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Manifest:
    """What a dataset has at one moment.

    Attributes:
        state: Whether the trace is running (or its processes were killed), has ended, or was killed.
        start_ns: CLOCK_MONOTONIC at the start.
        duration_ns: Length of the traced time so far.
        limit_reached: Whether recording stopped at `max_events`.
        parts: The files.
        recorded: (points,) uint64, events in the files.
        counts: The kernel's counters, each `hits = recorded + lost`, plus what could not be timed or was left out.
        samples: Counters over time.

    """

    state: State
    start_ns: int
    duration_ns: int
    limit_reached: bool
    parts: tuple[DatasetPart, ...]
    recorded: NDArray[np.uint64]
    counts: KernelCounts
    samples: CounterSamples

    @property
    def rows(self) -> int:
        """Number of events in all parts."""
        return sum(part.rows for part in self.parts)


@runtime_checkable
class Batched(Protocol):
    """Events that may be more than can be loaded: what a recording's `load_events` can be."""

    def check(self) -> None:
        """Check that all events can be loaded. Raises ResultError: they are too many."""

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Events]:
        """Read the events, or only columns of them, piece by piece. Raises RecordingError: a file is damaged."""


@runtime_checkable
class StoredEvents(Batched, Protocol):
    """Events in files."""

    def files(self) -> Files:
        """The files, on this machine. Raises AccelMagicError: they cannot be fetched."""


@dataclass(frozen=True)
class Files:
    """The events of a dataset; calling the object loads them all.

    Attributes:
        folder: The folder with the files.
        parts: The usable files, by time of their earliest event.
        columns: The columns.
        points: Number of probe points.

    """

    folder: Path
    parts: tuple[DatasetPart, ...]
    columns: tuple[StoredColumn, ...]
    points: int

    @property
    def rows(self) -> int:
        """Number of events."""
        return sum(part.rows for part in self.parts)

    @property
    def paths(self) -> list[str]:
        """Paths of the files."""
        return [str(self.folder / part.name) for part in self.parts]

    def files(self) -> Files:
        """These files."""
        return self

    def verify(self) -> tuple[checksums.State, ...]:
        """Compare each file with its checksum, unless that was done and it has not changed since.

        Returns:
            What the files are now, to compare with later.

        Raises:
            RecordingError: A file is missing, damaged, a link, or was changed.

        """
        try:
            with directories.opened(self.folder) as folder:
                return checksums.verified([(folder, part.name, part.size, part.crc32) for part in self.parts])
        except checksums.WrongError as error:
            raise container.damaged(self.folder / error.name, _KIND, error) from error
        except OSError as error:
            raise container.damaged(self.folder, _KIND, error) from error

    def check(self) -> None:
        """Check that all events can be loaded. Raises ResultError: they are too many."""
        check_rows(self.rows, bytes_per_row(self.columns))

    def within(self, start_ns: int, end_ns: int) -> Files:
        """The files that may have events from `start_ns` to before `end_ns`."""
        chosen = tuple(part for part in self.parts if part.first_ns < end_ns and part.last_ns >= start_ns)
        return replace(self, parts=chosen)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Events]:
        """Read one file after the other.

        Args:
            names: The columns to read; None for all.

        Yields:
            Events in order of time within each batch. Categories differ between batches.

        Raises:
            RecordingError: A file is damaged.

        """
        for part in self.parts:
            yield self._events([self._table(part, names)])

    def __call__(self) -> Events:
        """Load all events, in order of time.

        Raises:
            ResultError: They are too many for the memory, or for the limit.
            RecordingError: A file is damaged.

        """
        self.check()
        return _in_order(self._events([self._table(part, None) for part in self.parts]))

    def between(self, start_ns: int, end_ns: int) -> Events:
        """Load the events from `start_ns` to before `end_ns`, in order of time. Raises as a call does."""
        import pyarrow.compute as pc

        def inside(table: pa.Table) -> Any:
            time = table.column("time_ns")
            return pc.and_(pc.greater_equal(time, start_ns), pc.less(time, end_ns))

        return self._chosen_rows(self.within(start_ns, end_ns).parts, inside)

    def of_points(self, points: Sequence[int]) -> Events:
        """Load the events of some probe points, in order of time. Raises as a call does."""
        import pyarrow as pa
        import pyarrow.compute as pc

        requested = pa.array(points, pa.uint16())
        return self._chosen_rows(self.parts, lambda table: pc.is_in(table.column("point"), value_set=requested))

    def _chosen_rows(self, parts: Sequence[DatasetPart], choose: Callable[[pa.Table], Any]) -> Events:
        tables, rows = [], 0
        for part in parts:
            table = self._table(part, None)
            tables.append(table.filter(choose(table)))
            rows += len(tables[-1])
            check_rows(rows, bytes_per_row(self.columns))
        return _in_order(self._events(tables))

    def _table(self, part: DatasetPart, names: Sequence[str] | None) -> pa.Table:
        import pyarrow as pa

        path = self.folder / part.name
        try:
            with memory_bounds.bounded(), directories.opened(self.folder) as folder, _opened(folder, part) as file:
                recording_store.check_schema(file.file, self.columns, part.rows)
                return parquet_pages.read(file.file, file.source, [one.stored for one in self._chosen(names)])
        except memory_bounds.TooLargeError as error:
            raise container.too_large(path, error) from error
        except (MemoryError, pa.ArrowException, *_WRONG) as error:
            raise container.damaged(path, _KIND, error) from error

    def _chosen(self, names: Sequence[str] | None) -> list[StoredColumn]:
        return [column for column in self.columns if names is None or column.name in names]

    def _events(self, tables: list[pa.Table]) -> Events:
        import pyarrow as pa

        found: dict[str, EventColumn] = {}
        for column in self.columns:
            if tables and column.stored not in tables[0].column_names:
                continue
            chunks = [chunk for table in tables for chunk in table.column(column.stored).chunks]
            kind = recording_store.arrow_type(column)
            try:
                found[column.name] = _column(pa.chunked_array(chunks, kind), column)
            except (ValueError, pa.ArrowException) as error:
                raise container.damaged(self.folder, _KIND, error) from error
        points = found["point"].values if "point" in found else np.zeros(0, np.uint16)
        if len(points) and int(points.max()) >= self.points:
            why = ValueError(f"an event belongs to probe point {points.max()} of {self.points}")
            raise container.damaged(self.folder, _KIND, why)
        return Events(found)


def _in_order(events: Events) -> Events:
    times = events.columns["time_ns"].values
    if (times[1:] >= times[:-1]).all():
        return events
    return rows_of(events, np.argsort(times, kind="stable"))


def _column(chunked: pa.ChunkedArray, stored: StoredColumn) -> EventColumn:
    import pyarrow as pa
    import pyarrow.compute as pc

    if stored.categories is not None:
        texts = [chunk.dictionary for chunk in chunked.chunks]
        known = pc.unique(pa.chunked_array(texts, pa.string())).drop_null().to_pylist() if texts else []
        return recording_store.column_of(chunked, replace(stored, categories=tuple(known)))
    column = recording_store.column_of(chunked, stored)
    return EventColumn(column.values) if column.valid is not None and bool(column.valid.all()) else column


def rows_of(events: Events, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Events:
    """Choose rows of events, by number or by a mask."""
    return Events(
        {
            name: EventColumn(
                column.values[rows], None if column.valid is None else column.valid[rows], column.categories
            )
            for name, column in events.columns.items()
        }
    )


def bytes_per_row(columns: Sequence[StoredColumn]) -> int:
    """Memory that one event takes."""
    return sum(_TEXT_BYTES if one.categories is not None else np.dtype(one.dtype).itemsize for one in columns)


def check_rows(rows: int, row_bytes: int) -> None:
    """Check that so many events can become one table in memory.

    Raises:
        ResultError: They are too many.
        RecordingError: The environment variable is not a positive number.

    """
    most, why = _most_events(), f"at most {_most_events():,} are loaded at once"
    fit = free_memory.available_bytes() // (_COPIES * row_bytes)
    if fit < min(most, rows):
        most, why = fit, f"of {row_bytes} bytes each, {fit:,} fit into a share of the free memory"
    if rows > most:
        raise ResultError(
            f"{rows:,} events are too many to load",
            why=why,
            fix=".scan(), .sql(...) and .lazy() read all of them from the files; .between(start_s, end_s) gives a piece"
            f"; or allow more: %env {VARIABLE}={rows}",
            code="dataset.too-many-events",
        )


def _most_events() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return MOST_EVENTS
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise RecordingError(
            f"{VARIABLE}={text!r:.40} is not a number of events",
            why="it must be a positive whole number",
            fix=f"unset it for the default, {MOST_EVENTS:,}",
            code="dataset.bad-limit",
        )
    return int(text)


def is_dataset(path: Path) -> bool:
    """Whether a path is a folder with a dataset, or one that cannot be entered, as loading it then reports."""
    if not path.is_dir():
        return False
    return not os.access(path, os.X_OK) or any(os.path.lexists(path / name) for name in (MANIFEST, EVENTS))


def check(path: str | Path) -> Path:
    """Check that a dataset can be made at a path, and return its absolute path, without links.

    Raises:
        RecordingError: There is a dataset or a file already, or the place cannot be written to.

    """
    target = result_files.followed(path)
    there = next(one for one in (target, *target.parents) if one.exists())
    if not there.is_dir():
        raise RecordingError(
            f"cannot make the folder {path}",
            why=f"{there} is a file",
            fix="give the path of a folder, or FILE.parquet for a single file",
            code="dataset.not-a-folder",
        )
    if any(os.path.lexists(target / name) for name in (MANIFEST, DESCRIPTION, EVENTS)):
        raise RecordingError(
            f"{target} holds a dataset already",
            why="a dataset is never overwritten or extended",
            fix="give another folder, or remove this one",
            code="dataset.exists",
        )
    result_files.check(there / MANIFEST)
    return target


def make(folder: Path, recording: Recording) -> Directory:
    """Create a dataset without events.

    Args:
        folder: Where.
        recording: What is known so far; its events are none, and have the dataset's columns.

    Returns:
        The open folder.

    Raises:
        RecordingError: The place cannot be written to.

    """
    made = result_files.made(check(folder))
    try:
        os.mkdir(made.at(EVENTS), dir_fd=made.dir_fd)
        recording_store.save_in(made, DESCRIPTION, recording)
        write_manifest(made, manifest_of(recording, "tracing"))
    except OSError as error:
        made.close()
        raise result_files.refused(made.path / EVENTS, error) from error
    except BaseException:
        made.close()
        raise
    return made


def manifest_of(recording: Recording, state: State) -> Manifest:
    """The manifest of a recording whose events are still to be written."""
    counted = KernelCounts(recording.hits, recording.lost, recording.unpaired, recording.totals, recording.histograms)
    return Manifest(
        state=state,
        start_ns=recording.start_ns,
        duration_ns=recording.duration_ns,
        limit_reached=recording.limit_reached,
        parts=(),
        recorded=np.zeros(len(recording.plan.points), np.uint64),
        counts=counted,
        samples=recording.samples,
    )


def remove(directory: Directory) -> None:
    """Remove a dataset, and its folder if nothing else is there."""
    with contextlib.suppress(OSError):
        shutil.rmtree(directory.at(EVENTS), ignore_errors=True, dir_fd=directory.dir_fd)
        for name in (MANIFEST, DESCRIPTION):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(directory.at(name), dir_fd=directory.dir_fd)
        place = directory.place()
        with directories.opened(place.parent) as parent:
            os.rmdir(parent.at(place.name), dir_fd=parent.dir_fd)


class _Summed(io.RawIOBase):
    """Adds up the size and the checksum of what is written to a file."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.size = self.crc32 = 0
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        written = self._file.write(data)
        self.size += written
        return written


def write_part(directory: Directory, number: int, events: Events, recording: Recording) -> DatasetPart:
    """Write events as one part, which must not exist yet.

    Args:
        directory: The dataset.
        number: Number of the part.
        events: At least one, in order of time, with all columns of the dataset.
        recording: Whose events they are.

    Raises:
        RecordingError: It cannot be written.

    """
    columns = recording_store.described_columns(events)
    table = recording_store.table_of(events, columns, recording.plan)
    text = json.dumps({"version": VERSION, "part": number, "start_ns": recording.start_ns}).encode()
    name = f"part-{number:06}.parquet"
    with _events_of(directory) as folder, result_files.replacing_in(folder, name, durable=False) as file:
        summed = _Summed(file)
        container.write_to(summed, table.schema, [table], _KIND, text, **recording_store.writer_options(table, columns))
    times = events.columns["time_ns"].values
    return DatasetPart(name, len(events), summed.size, summed.crc32, int(times[0]), int(times[-1]))


def _events_of(directory: Directory) -> Directory:
    """Open the folder of events to write to. Raises RecordingError: it is not there, or something else is."""
    try:
        return directory.inner(EVENTS)
    except OSError as error:
        raise result_files.refused(directory.path / EVENTS, error) from error


def write(recording: Recording, folder: str | Path) -> Path:
    """Write a recording whose events are in memory as a dataset, and return its absolute path.

    Raises:
        RecordingError: The place cannot be written to, or the events cannot be read.

    """
    events = recording.events
    with make(Path(folder), without_events(recording)) as directory:
        parts = []
        for number, start in enumerate(range(0, len(events), PART_ROWS)):
            piece = rows_of(events, np.arange(start, min(start + PART_ROWS, len(events)), dtype=np.intp))
            parts.append(write_part(directory, number, piece, recording))
        recorded = np.bincount(events.columns["point"].values, minlength=len(recording.plan.points)).astype(np.uint64)
        ended = replace(manifest_of(recording, "ended"), parts=tuple(parts), recorded=recorded)
        complete(directory, recording, ended)
        return directory.path


def complete(directory: Directory, recording: Recording, manifest: Manifest) -> None:
    """Write the final description and manifest. Raises RecordingError: they cannot be written."""
    with _events_of(directory) as folder:
        for part in manifest.parts:
            _to_disk(folder, part.name)
    recording_store.save_in(directory, DESCRIPTION, without_events(recording))
    write_manifest(
        directory,
        replace(manifest_of(recording, manifest.state), parts=manifest.parts, recorded=manifest.recorded),
    )


def _to_disk(folder: Directory, name: str) -> None:
    """Wait until a file is on the disk. Raises RecordingError: it cannot be written there."""
    try:
        with foreign_files.opened(name, follow=False, folder=folder) as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise result_files.refused(folder.path / name, error) from error


def without_events(recording: Recording) -> Recording:
    """The same recording with everything but its events."""
    if isinstance(recording.load_events, Files):
        columns = {one.name: _empty(one) for one in recording.load_events.columns}
    else:
        columns = {
            name: EventColumn(
                column.values[:0],
                None if column.valid is None else column.valid[:0],
                None if column.categories is None else (),
            )
            for name, column in recording.events.columns.items()
        }
    return replace(recording, event_count=0, load_events=lambda: Events(columns))


def _empty(column: StoredColumn) -> EventColumn:
    valid = np.zeros(0, np.bool_) if column.nullable else None
    return EventColumn(np.zeros(0, column.dtype), valid, None if column.categories is None else ())


def nullable(events: Events) -> Events:
    """The same events, with columns that may lack values in other parts of a table, although none do here."""
    return Events(
        {
            name: column
            if name in _ALWAYS or column.valid is not None or column.categories is not None
            else EventColumn(column.values, np.ones(len(column.values), np.bool_))
            for name, column in events.columns.items()
        }
    )


def in_order(parts: Sequence[DatasetPart]) -> tuple[DatasetPart, ...]:
    """Parts by the time of their earliest event."""
    return tuple(sorted(parts, key=lambda part: (part.first_ns, part.name)))


def write_manifest(directory: Directory, manifest: Manifest) -> None:
    """Replace the manifest; while a trace runs, without waiting for the disk.

    Raises:
        RecordingError: It cannot be written.

    """
    body = {
        "format": _FORMAT,
        "version": VERSION,
        "state": manifest.state,
        "start_ns": int(manifest.start_ns),
        "duration_ns": int(manifest.duration_ns),
        "limit_reached": bool(manifest.limit_reached),
        "parts": [asdict(part) for part in manifest.parts],
        "recorded": manifest.recorded.tolist(),
        **{name: getattr(manifest.counts, name).tolist() for name in ("hits", "lost", "unpaired", "totals")},
        "histograms": _packed_histograms(manifest.counts.histograms),
        "samples": [
            len(manifest.samples.times_ns),
            pack_numbers(manifest.samples.times_ns.astype(np.int64)),
            pack_numbers(manifest.samples.hits.astype(np.uint64)),
        ],
    }
    text = json.dumps(body).encode("ascii")
    whole = b'{"crc32":"%08x","manifest":%s}\n' % (zlib.crc32(text), text)
    durable = manifest.state != "tracing"
    with result_files.replacing_in(directory, MANIFEST, durable=durable) as file:
        file.write(whole)


def _packed_histograms(histograms: Histograms) -> list[Any]:
    flat = histograms.counts.ravel()
    filled = np.flatnonzero(flat)
    return [
        len(filled),
        pack_numbers(filled.astype(np.int64)),
        pack_numbers(flat[filled].astype(np.uint64)),
        pack_numbers(histograms.total_ns.astype(np.uint64)),
        pack_numbers(histograms.max_ns.astype(np.uint64)),
    ]


def read_manifest(directory: Directory, points: int, latencies: int) -> Manifest:
    """Read the manifest of a trace of so many points, and so many of them with latencies.

    Raises:
        RecordingError: It is damaged, cannot be read, or was written by a newer version.

    """
    path = directory.path / MANIFEST
    try:
        with memory_bounds.bounded():
            return _manifest(_read_json(directory), points, latencies)
    except NewerVersionError as error:
        raise container.newer(path, str(error)) from error
    except memory_bounds.TooLargeError as error:
        raise container.too_large(path, error) from error
    except PermissionError as error:
        raise container.unreadable(path, _KIND, error) from error
    except _WRONG as error:
        raise container.damaged(path, _KIND, error) from error


def _read_json(directory: Directory) -> dict[str, Any]:
    with foreign_files.opened(MANIFEST, follow=False, folder=directory) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_MANIFEST:
            raise ValueError(f"it is larger than {_MOST_MANIFEST} bytes")
        memory_bounds.spend(size * memory_bounds.JSON_COST)
        data = _all(file, size)
    head, _, body = data.partition(b',"manifest":')
    if not body.endswith(b"}\n") or head != b'{"crc32":"%08x"' % zlib.crc32(body[:-2]):
        raise ValueError("it does not match its checksum")
    found = json.loads(body[:-2])
    if type(found) is not dict or found["format"] != _FORMAT:
        raise ValueError("it is not a manifest")
    if _whole(found["version"]) > VERSION:
        raise NewerVersionError(f"its format is {found['version']}, this version reads {VERSION}")
    return found


def _all(file: Any, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _manifest(found: dict[str, Any], points: int, latencies: int) -> Manifest:
    if found["state"] not in ("tracing", "ended", "killed") or type(found["limit_reached"]) is not bool:
        raise ValueError("its state is unknown")
    parts = tuple(_part(DatasetPart(**part)) for part in found["parts"])
    if len({part.name for part in parts}) < len(parts):
        raise ValueError("a part is there twice")
    numbers = {name: _numbers(found[name], points, name) for name in ("recorded", "hits", "lost", "unpaired", "totals")}
    steps, times, hits = found["samples"]
    samples = CounterSamples(
        unpack_numbers(times, np.int64, _whole(steps)),
        unpack_numbers(hits, np.uint64, steps * points).reshape(-1, points),
    )
    filled, index, count, total, most = found["histograms"]
    memory_bounds.spend(latencies * buckets.COUNT * 8)
    flat = np.zeros(latencies * buckets.COUNT, np.uint64)
    places = unpack_numbers(index, np.int64, _whole(filled))
    if len(places) and not 0 <= places.min() <= places.max() < len(flat):
        raise ValueError("its histograms do not match the plan")
    flat[places] = unpack_numbers(count, np.uint64, filled)
    histograms = Histograms(
        flat.reshape(latencies, buckets.COUNT),
        unpack_numbers(total, np.uint64, latencies),
        unpack_numbers(most, np.uint64, latencies),
    )
    recorded = numbers.pop("recorded")
    if int(recorded.sum()) != sum(part.rows for part in parts):
        raise ValueError("its parts do not add up")
    return Manifest(
        state=found["state"],
        start_ns=_whole(found["start_ns"]),
        duration_ns=_whole(found["duration_ns"]),
        limit_reached=found["limit_reached"],
        parts=parts,
        recorded=recorded,
        counts=KernelCounts(**numbers, histograms=histograms),
        samples=samples,
    )


def _part(part: DatasetPart) -> DatasetPart:
    if type(part.name) is not str or not _NAME.fullmatch(part.name):
        raise ValueError(f"{part.name!r:.40} is not the name of a part")
    _whole(part.rows), _whole(part.size), _whole(part.crc32)
    if not all(type(time) is int and abs(time) < _MOST_NUMBER for time in (part.first_ns, part.last_ns)):
        raise ValueError(f"the times of {part.name} are not times")
    return part


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST_NUMBER:
        raise ValueError(f"{value!r:.40} is not a count")
    return value


def _numbers(values: Any, points: int, name: str) -> NDArray[np.uint64]:
    if type(values) is not list or len(values) != points:
        raise ValueError(f"{name} are not counts of {points} points")
    if any(type(value) is not int or not 0 <= value < 1 << 64 for value in values):
        raise ValueError(f"{name} are not counts")
    return np.array(values, np.uint64)


def _opened(folder: Directory, part: DatasetPart, *, whole: bool = True) -> container.Opened:
    """Open a part; a link is not followed.

    Args:
        folder: The folder of events.
        part: The part.
        whole: Whether to compare it with its checksum.

    Raises:
        OSError, ValueError, ArrowException: It cannot be read, or is damaged.

    """
    with foreign_files.opened(part.name, follow=False, folder=folder) as file:
        if whole:
            checksums.state(file.fileno(), part.name, part.size, part.crc32)
        return container.of_file(foreign_files.path_of(file, folder, part.name))


@contextlib.contextmanager
def in_progress(directory: Directory) -> Iterator[None]:
    """Mark a dataset as being written while the block runs. The mark goes with the process."""
    import fcntl  # traces write datasets on Linux only

    descriptor = _lockable(directory)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _is_in_progress(directory: Directory) -> bool:
    """Whether a process of this machine writes a dataset; on Windows, none does."""
    try:
        import fcntl
    except ImportError:
        return False
    descriptor = _lockable(directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lockable(directory: Directory) -> int:
    return os.open(".", directories.flags("RDONLY", "DIRECTORY", "CLOEXEC"), dir_fd=directory.dir_fd)


def load(folder: str | Path) -> Recording:
    """Open a dataset. Its events are read when they are used; notes name what is missing.

    Raises:
        RecordingError: The description or the manifest is missing, damaged or of a newer version.

    """
    try:
        place = Path(folder).expanduser().resolve()
        directory = directories.opened(place)
    except (OSError, RuntimeError) as error:
        raise container.unreadable(folder, recording_store.KIND, error) from error
    with directory:
        return _loaded(directory)


def _loaded(directory: Directory) -> Recording:
    place = directory.path
    recording, columns = recording_store.load_description(directory, DESCRIPTION)
    plan = recording.plan
    manifest = read_manifest(directory, len(plan.points), len(plan.latency_points))
    parts, problems = usable(directory, manifest, columns)
    files_ = Files(place / EVENTS, parts, columns, len(plan.points))
    notes = [*problems, *_about_state(directory, manifest, recording)]
    if manifest.state != "ended":
        recording = replace(
            recording,
            start_ns=manifest.start_ns,
            duration_ns=manifest.duration_ns,
            hits=manifest.counts.hits,
            lost=manifest.counts.lost,
            unpaired=manifest.counts.unpaired,
            totals=manifest.counts.totals,
            histograms=manifest.counts.histograms,
            samples=manifest.samples,
            outcome="interrupted",
        )
    return replace(
        recording.with_notes(*notes),
        limit_reached=manifest.limit_reached,
        event_count=files_.rows,
        load_events=files_,
    )


def usable(
    directory: Directory, manifest: Manifest, columns: tuple[StoredColumn, ...]
) -> tuple[tuple[DatasetPart, ...], list[str]]:
    """The parts that can be read, by time, and notes about the others."""
    import pyarrow as pa

    found, problems = [], []
    with contextlib.ExitStack() as opened:
        folder: Directory | OSError
        try:
            folder = opened.enter_context(directory.inner(EVENTS))
        except OSError as error:
            folder = error
        for part in manifest.parts:
            try:
                _check_part(folder, part, columns)
                found.append(part)
            except FileNotFoundError:
                problems.append(f"{part.name} is missing")
            except PermissionError as error:
                problems.append(f"{part.name} cannot be read: {error.strerror}")
            except RecordingError as error:
                problems.append(f"{part.name} is foreign: {error.why}")
            except (pa.ArrowException, *_WRONG) as error:
                problems.append(f"{part.name} is damaged: {(str(error) or type(error).__name__).splitlines()[0]}")
    missing = manifest.rows - sum(part.rows for part in found)
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        problems = [f"{missing:,} of {manifest.rows:,} events are not in the dataset any more: {shown}"]
    return in_order(found), problems


def _check_part(folder: Directory | OSError, part: DatasetPart, columns: tuple[StoredColumn, ...]) -> None:
    """Raise an exception if a part cannot be read, or is not what was written."""
    if isinstance(folder, OSError):
        raise folder
    status = folder.status(part.name)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size != part.size:
        raise ValueError(f"it has {status.st_size:,} bytes instead of {part.size:,}")
    with _opened(folder, part, whole=False) as file:
        container.description(file, folder.path / part.name, _KIND)
        recording_store.check_schema(file.file, columns, part.rows)


def _about_state(directory: Directory, manifest: Manifest, recording: Recording) -> Iterator[str]:
    if manifest.state == "ended":
        return
    where = f"the dataset ends {manifest.duration_ns / 1e9:.3f} s after the start of the trace"
    if manifest.state == "killed":
        yield f"the process that traced was killed: {where}; its counts are complete until then"
    elif _is_in_progress(directory):
        yield f"the trace is still running: {where} so far, and its counts are of that moment"
    else:
        yield (
            f"the processes that traced and wrote were killed: {where}, when its counts were last written; the last "
            "events before that may be missing"
        )
    if recording.plan.stacks:
        yield "stacks are lost: they are written when a trace ends"


def files_of(recording: Recording) -> Files | None:
    """The files of a recording's events, fetched if they are elsewhere; None if they are in memory or a single file.

    Raises:
        AccelMagicError: They cannot be fetched.

    """
    return recording.load_events.files() if isinstance(recording.load_events, StoredEvents) else None


def of_points(recording: Recording, points: Sequence[int]) -> Recording:
    """The same recording with the events of some probe points only; its counts stay.

    Raises:
        ResultError: They are too many to load.
        RecordingError: A file is damaged.

    """
    files = files_of(recording)
    if files is None:
        events = rows_of(recording.events, np.isin(recording.events.columns["point"].values, points))
    else:
        events = files.of_points(points)
    return replace(recording, event_count=len(events), load_events=lambda: events)


def is_loadable(recording: Recording) -> bool:
    """Whether all events of a recording can be loaded at once."""
    if not isinstance(recording.load_events, Batched):
        return True
    try:
        recording.load_events.check()
    except ResultError:
        return False
    return True


def batches(recording: Recording, names: Sequence[str] | None = None) -> Iterator[Events]:
    """Read a recording's events, or only columns of them, piece by piece if they are in files."""
    if isinstance(recording.load_events, Batched):
        yield from recording.load_events.batches(names)
    else:
        yield recording.events

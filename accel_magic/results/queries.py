"""Questions about the events of a result, in the files of a dataset or in memory: pyarrow, DuckDB and Polars.

Nothing here loads all events: the libraries read the files piece by piece. These libraries do not verify checksums, so
files are verified before. Recordings of several nodes are put on one clock by expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa

from accel_magic import free_memory, scratch
from accel_magic.cluster.recording_merge import HOST, NODE, RANK
from accel_magic.errors import MachineError, RecordingError, ResultError
from accel_magic.recording import dataset, recording_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import polars as pl
    import pyarrow.dataset as ds

    from accel_magic.cluster.clock import ClockLine
    from accel_magic.recording.checksums import State
    from accel_magic.recording.recording import Recording

_OFFSET, _DRIFT = "clock_offset_ns", "clock_drift"
_SHARE: Final = 2
"""DuckDB may use half of the free memory, then it writes to a temporary folder."""
_BATCH: Final = 1 << 17
_FAILURES: Final = (pa.ArrowException, OSError, MemoryError, ValueError, LookupError, TypeError, OverflowError)
"""What passing a query to DuckDB, and making a table of its answer, may raise beside DuckDB's own errors."""


@dataclass(frozen=True)
class NodePlace:
    """Where the events of one node belong in a result of many.

    Attributes:
        host: Its host.
        rank: Its rank; None without.
        node: Its name.
        clock: Maps its CLOCK_MONOTONIC to the result's.
        start_ns: The result's time 0, on that clock.

    """

    host: str
    rank: int | None
    node: str
    clock: ClockLine
    start_ns: int

    def shift(self, own_ns: int) -> tuple[int, int, float]:
        """`(at, offset, drift)`: a time of the files is `time + offset + rint((time + at) * drift)` in the result.

        Args:
            own_ns: The recording's time 0, on the node's clock.

        """
        return own_ns - self.clock.at_ns, own_ns + self.clock.offset_ns - self.start_ns, self.clock.drift


@dataclass(frozen=True)
class EventSource:
    """Events of one recording.

    Attributes:
        recording: The recording.
        place: Its place in a result of many nodes; None if it is the whole result.

    """

    recording: Recording
    place: NodePlace | None = None

    def files(self) -> dataset.Files | None:
        """Its files; None if the events are in memory."""
        return dataset.files_of(self.recording)

    def table(self) -> pa.Table:
        """Its events as a table. Raises ResultError or RecordingError: they cannot be loaded."""
        events = self.recording.events
        return recording_store.table_of(events, recording_store.described_columns(events), self.recording.plan)


def scan(sources: Sequence[EventSource]) -> ds.Dataset:
    """The events as a `pyarrow.dataset.Dataset`: those of a dataset's files, which it reads in batches."""
    import pyarrow.dataset as ds

    if len(sources) == 1 and sources[0].place is None:
        return _scanned(sources[0], None)
    parts = [_scanned(source, None) for source in sources]
    schemas = [_with_constants(part.schema) for part in parts]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    return ds.dataset([_scanned(source, schema) for source in sources])


def _with_constants(schema: pa.Schema) -> pa.Schema:
    for name, kind in (
        (HOST, pa.string()),
        (RANK, pa.int32()),
        (NODE, pa.string()),
        (_OFFSET, pa.int64()),
        (_DRIFT, pa.float64()),
    ):
        schema = schema.append(pa.field(name, kind))
    return schema


def _scanned(source: EventSource, schema: pa.Schema | None) -> ds.Dataset:
    """One source; with the schema of several, its host, rank, node and clock are constants."""
    import pyarrow.dataset as ds
    from pyarrow import fs

    files = source.files()
    place = source.place
    constants = {} if schema is None or place is None else _constants(place, source.recording.start_ns)
    if files is None or not files.parts:
        table = source.table() if files is None else _empty(files)
        for name, value in constants.items():
            table = table.append_column(
                name, pa.array([value] * len(table), schema.field(name).type if schema else None)
            )
        if schema is not None:
            table = pa.table(
                {
                    field.name: table.column(field.name).cast(field.type)
                    if field.name in table.column_names
                    else pa.nulls(len(table), field.type)
                    for field in schema
                }
            )
        return ds.dataset(table)
    files.verify()
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    expressions = [
        ds.field(name).is_null() if value is None else ds.field(name) == pa.scalar(value)
        for name, value in constants.items()
    ]
    whole = expressions[0] if expressions else None
    for expression in expressions[1:]:
        whole = whole & expression
    return ds.FileSystemDataset.from_paths(
        files.paths,
        schema=_schema(files) if schema is None else schema,
        format=ds.ParquetFileFormat(default_fragment_scan_options=checked),
        filesystem=fs.LocalFileSystem(),
        partitions=None if whole is None else [whole] * len(files.paths),
    )


def _schema(files: dataset.Files) -> pa.Schema:
    fields = []
    for column in files.columns:
        fields.append(pa.field(column.stored, recording_store.arrow_type(column)))
        if column.name == "time_ns":
            fields += [pa.field(name, recording_store.TEXT) for name in recording_store.LABELS]
    return pa.schema(fields)


def _empty(files: dataset.Files) -> pa.Table:
    return _schema(files).empty_table()


def _constants(place: NodePlace, start_ns: int) -> dict[str, Any]:
    at, offset, drift = place.shift(start_ns)
    return {
        HOST: place.host,
        RANK: place.rank,
        NODE: place.node,
        _OFFSET: offset + round(at * drift),
        _DRIFT: drift,
    }


def sql(sources: Sequence[EventSource], query: str, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Run a query with DuckDB, over the files if this is a dataset.

    Args:
        sources: The events; the view `events`.
        query: One SELECT, or EXPLAIN.
        tables: More views, by name.

    Raises:
        MachineError: DuckDB is not installed.
        ResultError: The query is not a query or fails, or its result is too large.
        RecordingError: A file is damaged.

    """
    duckdb = _library("duckdb")
    try:
        statements = duckdb.extract_statements(query)
    except (duckdb.Error, *_FAILURES) as error:
        raise _failed(error) from None
    allowed = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1 or statements[0].type not in allowed:
        raise ResultError(
            "this is not a query",
            why="one statement that reads is expected: SELECT, WITH, FROM, DESCRIBE or EXPLAIN",
            fix="t.sql('select function, count(*) from events group by all')",
            code="sql.not-a-query",
        )
    with (
        scratch.folder("sql") as folder,
        duckdb.connect(":memory:", config={"python_enable_replacements": False}) as con,
    ):
        before = _verified(sources)
        try:
            _prepare(con, sources, tables, folder)
            answer = _fetched(con.sql(query))
        except (duckdb.Error, *_FAILURES) as error:
            raise _failed(error) from None
    if _verified(sources) != before:
        raise _damaged("its files were changed or replaced while the query read them")
    return answer


def _verified(sources: Sequence[EventSource]) -> list[tuple[State, ...]]:
    """Verify the files of all sources, and return their states. Raises RecordingError: one is damaged."""
    return [files.verify() for source in sources if (files := source.files()) is not None]


def _prepare(con: Any, sources: Sequence[EventSource], tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Make the views, and deny access to all other files."""
    paths = [path for source in sources if (files := source.files()) is not None for path in _real(files)]
    con.execute(f"SET memory_limit='{max(free_memory.available_bytes() // _SHARE >> 20, 64)}MiB'")
    con.execute(f"SET temp_directory={_text(str(folder))}")
    con.execute("SET autoinstall_known_extensions=false")
    con.execute("SET autoload_known_extensions=false")
    con.execute(f"SET allowed_paths=[{', '.join(map(_text, paths))}]")
    con.execute("SET enable_external_access=false")
    con.execute("SET lock_configuration=true")
    selects = [_select(con, source, number) for number, source in enumerate(sources)]
    con.execute(f"CREATE VIEW events AS {' UNION ALL BY NAME '.join(selects)}")
    for name, table in tables.items():
        con.register(name, pa.Table.from_pandas(table, preserve_index=False))


def _select(con: Any, source: EventSource, number: int) -> str:
    files = source.files()
    if files is None or not files.parts:
        name = f"events_{number}"
        con.register(name, source.table() if files is None else _empty(files))
        table = _name(name)
    else:
        table = f"read_parquet([{', '.join(map(_text, _real(files)))}], hive_partitioning=false)"
    if source.place is None:
        return f"SELECT * FROM {table}"  # noqa: S608 - names and paths are quoted
    at, offset, drift = source.place.shift(source.recording.start_ns)
    time = f"time_ns + {offset} + CAST(round_even((time_ns + {at}) * {drift!r}::DOUBLE, 0) AS BIGINT) AS time_ns"
    rank = "NULL" if source.place.rank is None else source.place.rank
    return (  # names, paths and texts are quoted
        f"SELECT * REPLACE ({time}), {_text(source.place.host)} AS {HOST}, {rank}::INTEGER AS {RANK}, "  # noqa: S608
        f"{_text(source.place.node)} AS {NODE} FROM {table}"
    )


def _real(files: dataset.Files) -> list[str]:
    """Paths without links: DuckDB compares real paths with those that are allowed."""
    folder = files.folder.resolve()
    return [str(folder / part.name) for part in files.parts]


def _fetched(done: Any) -> pd.DataFrame:
    # Its name has changed in DuckDB 1.4.
    read = done.to_arrow_reader if hasattr(done, "to_arrow_reader") else done.fetch_arrow_reader
    reader = read(_BATCH)
    batches, rows = [], 0
    for batch in reader:
        batches.append(batch)
        rows += len(batch)
        dataset.check_rows(rows, max(batch.nbytes // max(len(batch), 1), 1))
    table = pa.Table.from_batches(batches, schema=reader.schema)
    columns = [_series(table.column(place), name) for place, name in enumerate(table.column_names)]
    return pd.concat(columns, axis=1) if columns else pd.DataFrame()


def _series(column: pa.ChunkedArray, name: str) -> pd.Series[Any]:
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        nullable = {
            getattr(pa, kind)(): getattr(pd, f"{kind.replace('i', 'I', 1).replace('uI', 'UI')}Dtype")()
            for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
        }
        nullable[pa.bool_()] = pd.BooleanDtype()
        series: pd.Series[Any] = column.to_pandas(types_mapper=nullable.get)
    else:
        series = column.to_pandas()
    return series.rename(name)


def _failed(error: Exception) -> ResultError | RecordingError:
    """Error of a query: what DuckDB says of it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    what, _, why = (lines[0] if lines else type(error).__name__).partition(": ")
    if what.startswith(("IO Error", "Invalid Input Error", "Invalid Error")) and ".parquet" in why:
        return _damaged(why)
    return ResultError(
        "the query failed",
        why=f"{what}: {why}" if why else what,
        fix="the view `events` has the columns of t.scan().schema; `counts` and `latency` are tables too",
        code="sql.failed",
    )


def _damaged(why: str) -> RecordingError:
    return RecordingError(
        "a file of the dataset cannot be read", why=why, fix="open the dataset again", code="recording.damaged"
    )


def lazy(sources: Sequence[EventSource]) -> pl.LazyFrame:
    """The events as a Polars LazyFrame, over the files if this is a dataset; columns as in `sql`."""
    polars = _library("polars")
    frames = list(_frames(polars, sources))
    if len(frames) == 1:
        frame: pl.LazyFrame = frames[0]
        return frame
    joined: pl.LazyFrame = polars.concat(frames, how="diagonal_relaxed")
    return joined


def _frames(polars: Any, sources: Sequence[EventSource]) -> Iterator[Any]:
    for source in sources:
        files = source.files()
        if files is None or not files.parts:
            frame = polars.from_arrow(source.table() if files is None else _empty(files)).lazy()
        else:
            frame = _frame(polars, files)
        if (place := source.place) is not None:
            at, offset, drift = place.shift(source.recording.start_ns)
            time = polars.col("time_ns")
            frame = frame.with_columns(
                time + offset + ((time + at).cast(polars.Float64) * drift).round(0).cast(polars.Int64),
                polars.lit(place.host).alias(HOST),
                polars.lit(place.rank, polars.Int32).alias(RANK),
                polars.lit(place.node).alias(NODE),
            )
        yield frame


def _frame(polars: Any, files: dataset.Files) -> Any:
    """A LazyFrame that verifies each file before it is read. Its errors are RecordingErrors, also for Rust's panics."""
    from polars.io.plugins import register_io_source

    schema = polars.from_arrow(_empty(files)).schema

    def read(columns: list[str] | None, predicate: Any, rows: int | None, _: int | None) -> Iterator[Any]:
        for part in files.parts:
            one = replace(files, parts=(part,))
            one.verify()
            try:
                frame = _read(polars, one.paths[0], columns, predicate, rows)
            except BaseException as error:
                if not isinstance(error, (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError)):
                    raise
                raise _damaged(f"{part.name}: {str(error).partition(chr(10))[0]}") from None
            if any(schema.get(name) != kind for name, kind in frame.schema.items()):
                raise _damaged(f"{part.name} has columns of other types")  # joining it with others would be a panic
            yield frame
            if rows is not None and (rows := rows - frame.height) <= 0:
                return

    return register_io_source(read, schema=schema)


def _read(polars: Any, path: str, columns: list[str] | None, predicate: Any, rows: int | None) -> Any:
    query = polars.scan_parquet(path, glob=False, hive_partitioning=False)
    if predicate is not None:
        query = query.filter(predicate)
    if columns is not None:
        query = query.select(columns)
    return (query if rows is None else query.head(rows)).collect()


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise MachineError(
            f"{name} is not installed",
            why=str(error),
            fix=f"pip install {name} (or accel-magic[datasets])",
            code={"duckdb": "dataset.no-duckdb", "polars": "dataset.no-polars"}[name],
        ) from None


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

"""Page traces as files: one Parquet file with accesses as rows and the names in its metadata.

Files are written and read in parts, so that a trace may be larger than memory. Inconsistent files are rejected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from accel_magic.policies.accesses import CHUNK, DTYPES, Accesses, in_chunks
from accel_magic.recording import container, memory_bounds, parquet_pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

KIND: Final = container.FileKind(
    b"accel_magic.pages",
    "page trace",
    "give a file written by PageTrace.save(); accel_magic.open reads recordings too",
    "record",
)
VERSION: Final = 1
NAMES: Final[Mapping[str, str]] = {
    "kernel": "kernels",
    "tenant": "tenants",
    "allocation": "allocations",
    "origin": "origins",
}
"""Columns of codes, and the attribute with their names."""
_WRONG: Final = (ValueError, LookupError, TypeError, OverflowError, RecursionError, MemoryError)


@dataclass(frozen=True)
class TraceDescription:
    """All about a trace except its accesses.

    Attributes:
        length: Number of accesses.
        columns: Columns that it has, of `DTYPES`.
        source: What the trace is.
        kernels: Names of GPU kernels.
        tenants: Names of processes.
        allocations: Names of allocations.
        origins: What makes accesses.

    """

    length: int
    columns: tuple[str, ...]
    source: str
    kernels: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    allocations: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def check(self, part: Accesses) -> None:
        """Raise ValueError if a part of the trace has a code without a name."""
        for column, attribute in NAMES.items():
            codes, names = part.columns.get(column), getattr(self, attribute)
            if codes is not None and len(codes) and not -1 <= int(codes.min()) <= int(codes.max()) < len(names):
                raise ValueError(f"an access belongs to {column} {codes.max()} of {len(names)}")


@dataclass(frozen=True, eq=False)
class StoredAccesses:
    """The accesses of an open file, which can be read repeatedly. The file is kept open for that."""

    file: container.Opened
    path: Path
    described: TraceDescription

    def __call__(self, rows: int) -> Iterator[Accesses]:
        """Read the accesses, `rows` at a time.

        Raises:
            RecordingError: The file is damaged, or needs more memory than allowed.

        """
        columns = self.described.columns
        try:
            with memory_bounds.bounded():
                batches = parquet_pages.parts(self.file.file, self.file.source, columns, min(rows, CHUNK))
            yield from in_chunks(self._checked(batches), rows)
        except memory_bounds.TooLargeError as error:
            raise container.too_large(self.path, error) from error
        except (OSError, pa.ArrowException, *_WRONG) as error:
            raise container.damaged(self.path, KIND, error) from error

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Accesses]:
        total = 0
        for batch in batches:
            total += len(batch)
            part = Accesses(**{name: _array(batch.column(name), name) for name in self.described.columns})
            self.described.check(part)
            yield part
        if total != self.described.length:
            raise ValueError(f"it has {total} accesses but declares {self.described.length}")


def write(described: TraceDescription, parts: Iterable[Accesses], path: str | Path) -> Path:
    """Write a trace and return the file's absolute path. The write is atomic and replaces an existing file.

    Raises:
        RecordingError: The path cannot be written to.

    """
    names = {attribute: list(getattr(described, attribute)) for attribute in NAMES.values()}
    facts = {"accesses": described.length, "columns": described.columns, "source": described.source}
    text = {"version": VERSION, **facts, **names}
    schema = pa.schema([(name, pa.from_numpy_dtype(DTYPES[name])) for name in described.columns])
    tables = (pa.table(part.columns).select(described.columns) for part in parts)
    return container.write_parts(schema, tables, path, KIND, json.dumps(text).encode())


def read(path: Path) -> StoredAccesses:
    """Open a trace written by `write`.

    Raises:
        RecordingError: The file does not exist, is damaged, is not a page trace, needs more memory than allowed, or was
            written by a later version. Reading its accesses may raise it too.

    """
    file = container.opened(path, KIND)
    text = container.description(file, path, KIND)
    try:
        with memory_bounds.bounded():
            memory_bounds.spend(len(text) * memory_bounds.JSON_COST)
            described = json.loads(text)
            if described["version"] > VERSION:
                raise container.newer(path, f"its format is {described['version']}, this version reads {VERSION}")
            container.check(file, KIND)
            return StoredAccesses(file, path, _described(file, described))
    except memory_bounds.TooLargeError as error:
        raise container.too_large(path, error) from error
    except _WRONG as error:
        raise container.damaged(path, KIND, error) from error


def _described(file: container.Opened, text: Mapping[str, Any]) -> TraceDescription:
    schema = file.file.schema_arrow
    columns = tuple(name for name in DTYPES if name in schema.names)
    for name in columns:
        if schema.field(name).type != pa.from_numpy_dtype(DTYPES[name]):
            raise ValueError(f"the column {name} is not of the type {DTYPES[name]}")
    if list(columns) != text["columns"] or not {"page", "tenant"} <= {*columns}:
        raise ValueError(f"it has the columns {', '.join(columns)}")
    if text["accesses"] != file.file.metadata.num_rows:
        raise ValueError(f"it has {file.file.metadata.num_rows} accesses but declares {text['accesses']}")
    names = {attribute: _names(text.get(attribute, [])) for attribute in NAMES.values()}
    return TraceDescription(int(text["accesses"]), columns, str(text["source"]), **names)


def _names(names: Sequence[object]) -> tuple[str, ...]:
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("a name is not text")
    return tuple(str(name) for name in names)


def _array(column: pa.Array, name: str) -> NDArray[Any]:
    if column.null_count:
        raise ValueError(f"an access has no {name}")
    return np.asarray(column.to_numpy(zero_copy_only=False), DTYPES[name])

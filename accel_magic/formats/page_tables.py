"""Traces of accesses to memory as tables: Parquet and CSV files with a column `page` or `address`.

| column | values |
|---|---|
| `page` | number of the page of 4 KiB; whole numbers, in CSV also hexadecimal (`0x1f`) |
| `address` | instead of `page`: the address in bytes |
| `write` | optional: true or false, 1 or 0, W or R, write or read, store or load |
| `kernel`, `allocation` | optional: name or number; empty if unknown |
| `launch` | optional: number of the launch of a kernel; empty if unknown |
| `tenant` | optional: name or number of the process |

The names are not case-sensitive; other columns are ignored. Rows are in the order of the accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from accel_magic.errors import RecordingError
from accel_magic.formats import text_file
from accel_magic.policies.accesses import CHUNK, DTYPES, Accesses
from accel_magic.policies.page_trace import PAGE_BYTES, PageTrace
from accel_magic.policies.trace_file import NAMES
from accel_magic.recording import container, memory_bounds, parquet_pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_PLACES: Final = ("page", "address")
_WANTED: Final = (*_PLACES, *(name for name in DTYPES if name != "page"))
_WRITES: Final = pa.array(["1", "w", "true", "write", "store", "0", "r", "false", "read", "load"])
_FIRST_READ: Final = 5
"""Place of the first word for a read."""
_PARQUET: Final = container.FileKind(b"", "page trace", "give a table of accesses", "convert")
_MOST_TENANTS: Final = 1 << 16
_WRONG: Final = (pa.ArrowException, ValueError, OverflowError)


def is_header(line: bytes) -> bool:
    """Whether a line names the columns of such a CSV file."""
    return any(name.strip(b' "\r\n').lower() in (b"page", b"address") for name in line.split(b","))


def is_table(names: Iterable[str]) -> bool:
    """Whether a table with these columns is such a trace."""
    return any(name.lower() in _PLACES for name in names)


def read_parquet(path: Path) -> PageTrace:
    """Read a Parquet file.

    Raises:
        RecordingError: The file cannot be read, has other values, or needs more memory than allowed.

    """
    with container.opened(path, _PARQUET) as file:
        requested = _wanted(file.file.schema_arrow.names, path)
        try:
            with memory_bounds.bounded():
                parts = parquet_pages.parts(file.file, file.source, list(requested.values()), CHUNK)
                batches = ({name: batch.column(real) for name, real in requested.items()} for batch in parts)
                return _Table().read(batches, f"imported from {path.name}")
        except memory_bounds.TooLargeError as error:
            raise container.too_large(path, error) from error
        except OSError as error:  # raised by Arrow, about the content
            raise container.damaged(path, _PARQUET, error) from error
        except _WRONG as error:
            raise _bad_value(path, error) from error


def read_csv(path: Path) -> PageTrace:
    """Read a CSV file.

    Raises:
        RecordingError: The file cannot be read, has other values, or needs more memory than allowed.

    """
    try:
        with text_file.opened(path) as file:
            names = [name.strip(' "\r\n') for name in file.readline().decode("utf-8", "replace").split(",")]
        requested = _wanted(names, path)
        text = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        reading = csv.ReadOptions(column_names=names, skip_rows=1, block_size=1 << 23)
        with (
            memory_bounds.bounded(),
            text_file.opened(path) as file,
            csv.open_csv(file, reading, convert_options=text) as parts,
        ):
            batches = ({name: batch.column(real) for name, real in requested.items()} for batch in parts)
            return _Table().read(batches, f"imported from {path.name}")
    except memory_bounds.TooLargeError as error:
        raise container.too_large(path, error) from error
    except _WRONG as error:
        raise _bad_value(path, error) from error
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}",
            why=error.strerror or str(error),
            fix="check the path and its permissions",
            code="recording.unreadable",
        ) from error


def _wanted(names: Iterable[str], path: Path) -> dict[str, str]:
    """Names of the columns in the file, by ours; either `page` or `address` is one of them."""
    found = {name: [real for real in names if real.lower() == name] for name in _WANTED}
    several = [name for name, real in found.items() if len(real) > 1]
    if several or sum(len(found[name]) for name in _PLACES) != 1:
        raise RecordingError(
            f"{path} is not a page trace",
            why=f"it has several columns {several[0]}" if several else "it needs a column page or address, not both",
            fix="rename its columns: page or address, and write, kernel, launch, tenant, allocation",
            code="pages.no-column",
        )
    return {name: real[0] for name, real in found.items() if real}


class _Table:
    """Converts batches of rows; the names of codes grow with them."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {name: {} for name in NAMES}

    def read(self, batches: Iterator[Mapping[str, pa.Array]], source: str) -> PageTrace:
        """Build the trace. Raises ValueError or ArrowException for values that do not fit."""
        parts = []
        for batch in batches:
            part = {name: self._column(name, values) for name, values in batch.items()}
            if "address" in part:
                part["page"] = part.pop("address") // np.uint64(PAGE_BYTES)
            part.setdefault("tenant", np.zeros(len(part["page"]), np.uint16))
            memory_bounds.spend(2 * sum(array.nbytes for array in part.values()))  # parts, and all in one
            parts.append(Accesses(**part))
        columns = Accesses.joined(parts).columns if parts else {"page": np.empty(0, np.uint64)}
        names = {attribute: tuple(self._codes[column]) for column, attribute in NAMES.items()}
        return PageTrace.of(**columns, source=source, **names)

    def _column(self, name: str, values: pa.Array) -> NDArray[Any]:
        if name in NAMES:
            return self._coded(name, values)
        if name == "launch":
            return np.asarray(pc.fill_null(pc.cast(values, pa.int32()), -1))
        if values.null_count:
            raise ValueError(f"a row has no {name}")
        if name == "write":
            return _writes(values)
        return np.asarray(pc.cast(values, pa.uint64()))

    def _coded(self, name: str, values: pa.Array) -> NDArray[Any]:
        texts = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(pc.cast(values, pa.string()))
        codes = self._codes[name]
        own = [codes.setdefault(str(text), len(codes)) for text in pc.cast(texts.dictionary, pa.string()).to_pylist()]
        if name == "tenant" and (values.null_count or len(codes) > _MOST_TENANTS):
            raise ValueError("a row has no tenant" if values.null_count else f"more than {_MOST_TENANTS} tenants")
        table = np.array([*own, -1], np.int32)
        return table[np.asarray(pc.fill_null(texts.indices, len(own)), np.int64)].astype(DTYPES[name])


def _writes(values: pa.Array) -> NDArray[Any]:
    found = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(pc.cast(values, pa.string()))), value_set=_WRITES)
    if found.null_count:
        unknown = values.filter(pc.is_null(found))[0]
        raise ValueError(f"write is {str(unknown)!r:.60}, neither true nor false")
    return np.asarray(pc.less(found, _FIRST_READ), np.bool_)


def _bad_value(path: Path, error: Exception) -> RecordingError:
    return RecordingError(
        f"{path} cannot be read as a page trace",
        why=str(error).splitlines()[0][:200],
        fix="correct or remove the row; docs/import.md lists the columns and their values",
        code="pages.bad-value",
    )

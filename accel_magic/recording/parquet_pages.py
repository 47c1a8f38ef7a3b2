"""Read a Parquet table within `bounds`: page headers give the unpacked sizes before the pages are read.

The footer has these sizes too, but no reader verifies them, so a forged footer can declare anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from accel_magic.recording import thrift
from accel_magic.recording.memory_bounds import spend

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

_MOST_PAGE = (1 << 31) - 1
# Members of Parquet's FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_GROUPS, _COLUMNS, _GROUP_ROWS, _DESCRIBED = (4, thrift.LIST), (1, thrift.LIST), (3, thrift.I64), (3, thrift.STRUCT)
_VALUES, _PACKED, _PAGES, _DICTIONARY = (5, thrift.I64), (7, thrift.I64), (9, thrift.I64), (11, thrift.I64)
_FOOTER_END = 8
# Members of its PageHeader.
_UNCOMPRESSED, _COMPRESSED, _DATA, _DATA_V2 = (2, thrift.I32), (3, thrift.I32), (5, thrift.STRUCT), (8, thrift.STRUCT)
_ENCODING, _ENCODING_V2 = (2, thrift.I32), (4, thrift.I32)
_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
_NOT_GROWING: Final = frozenset({_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY})
"""Text encodings in which no value is longer than its page, and no two values share bytes."""
_FIRST_READ, _LONGEST_HEADER = 1 << 10, 1 << 24
_COPIES = 2
"""Arrow's columns, and the arrays made from them."""
_DICTIONARY_COST = 4
"""Maximum bytes of tables and offsets per byte of dictionary."""
_MOST_LONG_VALUES: Final = 1 << 18
_PART: Final = 1 << 28
"""Bytes read at a time if all values are as long as the longest."""


@dataclass(frozen=True)
class _Column:
    """Sizes and encodings of a column's pages, over all its chunks."""

    unpacked: int
    largest: int
    encodings: frozenset[int]


def declare(file: pq.ParquetFile, source: pa.NativeFile, names: Sequence[str]) -> int:
    """Spend the columns' memory according to the footer, without reading them; returns the number of rows.

    Raises:
        TooLargeError: They need more memory than allowed.
        ValueError: The footer is inconsistent.

    """
    rows = _rows(file, _groups(source), _places(file, names).values())
    schema = file.schema_arrow
    for name in names:
        spend(rows * _width(schema.field(name).type) * _COPIES)
    return rows


def read(file: pq.ParquetFile, source: pa.NativeFile, names: Sequence[str]) -> pa.Table:
    """Read columns.

    Args:
        file: The opened file.
        source: The source that it reads from.
        names: Columns, none of them nested.

    Raises:
        TooLargeError: They need more memory than allowed.
        ValueError, ArrowException, OSError: The file is inconsistent or cannot be read.

    """
    rows = declare(file, source, names)
    schema, groups = file.schema_arrow, _groups(source)
    growing, largest = False, 1
    for name, place in _places(file, names).items():
        column = _column(source, groups, place)
        kind = schema.field(name).type
        if not _is_text(kind):
            spend(column.largest)
            continue
        spend(column.unpacked * (_DICTIONARY_COST if pa.types.is_dictionary(kind) else 1))
        largest = max(largest, column.largest)
        if pa.types.is_dictionary(kind) and not column.encodings <= _NOT_GROWING:
            raise ValueError(f"the column {name} has an encoding that recordings never use")
        growing |= not pa.types.is_dictionary(kind) and column.encodings != {_PLAIN}
    if not growing:
        return file.read(columns=list(names))
    if rows > _MOST_LONG_VALUES:
        raise ValueError(f"{rows} rows are too many for a table of long values")
    return _in_parts(file, names, largest)


def parts(file: pq.ParquetFile, source: pa.NativeFile, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Check columns, and return an iterator that reads them, at most so many rows at a time.

    Only the memory for one part is spent. Arguments and errors are those of `read`, which the iterator raises too.
    """
    places, groups = _places(file, names), _groups(source)
    _rows(file, groups, places.values())
    for name, place in places.items():
        kind, column = file.schema_arrow.field(name).type, _column(source, groups, place)
        spend(column.largest + rows * _width(kind) * _COPIES)
        if _is_text(kind):
            if pa.types.is_dictionary(kind) and not column.encodings <= _NOT_GROWING:
                raise ValueError(f"the column {name} has an encoding that recordings never use")
            spend(min(_PART, rows * column.largest))
            rows = min(rows, max(_PART // max(column.largest, 1), 1))
    batches: Iterator[pa.RecordBatch] = file.iter_batches(rows, columns=list(names))
    return batches


def _in_parts(file: pq.ParquetFile, names: Sequence[str], largest: int) -> pa.Table:
    """Read columns in which many rows may repeat a long value: a few rows at a time, so that each part is small."""
    parts = []
    for part in file.iter_batches(max(_PART // largest, 1), columns=list(names)):
        spend(part.nbytes)
        parts.append(part)
    return pa.Table.from_batches(parts, schema=pa.schema([file.schema_arrow.field(name) for name in names]))


@dataclass(frozen=True)
class _Chunk:
    """A column in a row group: its number of values, and where its pages are in the file."""

    values: int
    start: int
    end: int


@dataclass(frozen=True)
class _Group:
    rows: int
    chunks: tuple[_Chunk, ...]


def _groups(source: pa.NativeFile) -> tuple[_Group, ...]:
    """Read the row groups from the footer.

    pyarrow's own description of a column (26.0) ends the process if the footer's statistics are inconsistent.

    Raises:
        ValueError: The footer is damaged.

    """
    end = source.read_at(_FOOTER_END, max(source.size() - _FOOTER_END, 0))
    length = int.from_bytes(end[:4], "little")
    footer = source.read_at(length, max(source.size() - _FOOTER_END - length, 0))
    try:
        found: Any = thrift.struct(footer)[0]
        return tuple(
            _Group(group[_GROUP_ROWS], tuple(_chunk(column[_DESCRIBED]) for column in group[_COLUMNS]))
            for group in found[_GROUPS]
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the footer is damaged: {error}") from None


def _chunk(described: Any) -> _Chunk:
    start, dictionary = described[_PAGES], described.get(_DICTIONARY, 0)
    start = dictionary if 0 < dictionary < start else start
    return _Chunk(described[_VALUES], start, start + described[_PACKED])


def _rows(file: pq.ParquetFile, groups: Iterable[_Group], places: Collection[int]) -> int:
    """Number of rows. Raises ValueError unless every column has an entry (a value or null) in each row."""
    total = 0
    for group in groups:
        if len(group.chunks) != file.metadata.num_columns:
            raise ValueError(f"a row group has {len(group.chunks)} columns of {file.metadata.num_columns}")
        counts = {group.chunks[place].values for place in places}
        if group.rows < 0 or counts - {group.rows}:
            raise ValueError(f"a row group of {group.rows} rows has columns of {sorted(counts)} values")
        total += group.rows
    if total != file.metadata.num_rows:
        raise ValueError(f"it has {total} rows but declares {file.metadata.num_rows}")
    return total


def _places(file: pq.ParquetFile, names: Sequence[str]) -> dict[str, int]:
    """Index of each column among the schema's leaves."""
    schema = file.schema
    leaves = [schema.column(place) for place in range(len(schema))]
    flat = [leaf.path for leaf in leaves if not leaf.max_repetition_level and leaf.max_definition_level <= 1]
    places = {leaf.path: place for place, leaf in enumerate(leaves)}
    once = {path for path, count in Counter(leaf.path for leaf in leaves).items() if count == 1}.intersection(flat)
    for name in names:
        if name not in once:
            raise ValueError(f"there is no column {name}, or it is nested")
    return {name: places[name] for name in names}


def _is_text(kind: pa.DataType) -> bool:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return not pa.types.is_primitive(values)


def _width(kind: pa.DataType) -> int:
    """Bytes per row, without text."""
    if pa.types.is_dictionary(kind):
        return _width(kind.index_type)
    if pa.types.is_primitive(kind):
        return -(-int(kind.bit_width) // 8)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return 8
    raise ValueError(f"a column has the unsupported type {kind}")


def _column(source: pa.NativeFile, groups: Iterable[_Group], place: int) -> _Column:
    pages = [page for group in groups if group.rows for page in _pages(source, group.chunks[place])]
    return _Column(
        unpacked=sum(size for size, _ in pages),
        largest=max((size for size, _ in pages), default=0),
        encodings=frozenset(encoding for _, encoding in pages if encoding is not None),
    )


def _pages(source: pa.NativeFile, chunk: _Chunk) -> Iterator[tuple[int, int | None]]:
    """Yield the unpacked size of each page of a chunk, and its encoding; None for a dictionary page."""
    at, end = chunk.start, chunk.end
    if not 0 <= at <= end <= source.size():
        raise ValueError("a column is outside the file")
    while at < end:
        header, length = _header(source, at, end)
        packed, unpacked = header.get(_COMPRESSED), header.get(_UNCOMPRESSED)
        if not (isinstance(packed, int) and isinstance(unpacked, int)):
            raise ValueError("a page has no size")  # noqa: TRY004 - the file is at fault
        if not (0 <= packed <= _MOST_PAGE and 0 <= unpacked <= _MOST_PAGE):
            raise ValueError(f"a page has a size of {packed} bytes, {unpacked} unpacked")
        encoding = None
        for member, inside in ((_DATA, _ENCODING), (_DATA_V2, _ENCODING_V2)):
            data = header.get(member)
            if isinstance(data, dict):
                found = data.get(inside)
                encoding = found if isinstance(found, int) else -1
        yield unpacked, encoding
        at += length + packed
    if at != end:
        raise ValueError("a page extends beyond its column")


def _header(source: pa.NativeFile, at: int, end: int) -> tuple[thrift.Fields, int]:
    """Parse the page header at this offset; returns it and its length, which varies with its statistics."""
    size = _FIRST_READ
    while True:
        data = source.read_at(min(size, end - at), at)
        try:
            return thrift.struct(data)
        except IndexError:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise ValueError("a page's header is incomplete") from None
        except ValueError as error:
            raise ValueError(f"a page's header is damaged: {error}") from None
        size *= 4

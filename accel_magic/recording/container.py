"""Our Parquet files: a table that any reader understands, and a description of the rest in the metadata.

Parquet checksums cover pages but not the footer, so the description has its own checksum.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from accel_magic.errors import RecordingError
from accel_magic.recording import memory_bounds, parquet_pages
from accel_magic.recording.result_files import destination, replacing

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType


T = TypeVar("T")

MAGIC = b"PAR1"
_CHECKSUM = b".crc32"
_METADATA_LIMIT = 1 << 30
INCONSISTENT = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError)
"""Exceptions raised when reading an inconsistent description."""


@dataclass(frozen=True)
class FileKind:
    """One kind of file.

    Attributes:
        key: Metadata key of its description, which identifies the kind.
        what: Its name in messages, following "a".
        fix: Fix in the message for a file of another kind.
        again: Verb for making a new file in place of a damaged one, as in "or record again".

    """

    key: bytes
    what: str
    fix: str
    again: str


@dataclass(frozen=True)
class Opened:
    """An open Parquet file and the source that it reads from."""

    file: pq.ParquetFile
    source: pa.NativeFile

    def close(self) -> None:
        """Close both; can be called repeatedly."""
        self.file.close()
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write(table: pa.Table, path: str | Path, kind: FileKind, text: bytes, **options: Any) -> Path:
    """Write a table and its description `text`, and return the file's absolute path.

    The write is atomic and replaces an existing file. `options` are those of `pyarrow.parquet.write_table`, and
    `durable`: False does not wait for the disk.

    Raises:
        RecordingError: The place cannot be written to.

    """
    return write_parts(table.schema, [table], path, kind, text, **options)


def write_parts(
    schema: pa.Schema,
    parts: Iterable[pa.Table],
    path: str | Path,
    kind: FileKind,
    text: bytes,
    *,
    durable: bool = True,
    **options: Any,
) -> Path:
    """Write a table that comes in parts, as `write` does; `durable` is that of `files.replacing`."""
    target = destination(path)
    with replacing(target, durable=durable) as file:
        write_to(file, schema, parts, kind, text, **options)
    return target


def write_to(
    file: IO[bytes] | io.RawIOBase,
    schema: pa.Schema,
    parts: Iterable[pa.Table],
    kind: FileKind,
    text: bytes,
    **options: Any,
) -> None:
    """Write a table that comes in parts, and its description, to an open file."""
    described = schema.with_metadata({kind.key: text, kind.key + _CHECKSUM: checksum(text)})
    with pq.ParquetWriter(file, described, compression="zstd", write_page_checksum=True, **options) as writer:
        for part in parts:
            writer.write_table(part.replace_schema_metadata(described.metadata))


def read(
    path: str | Path,
    kind: FileKind,
    version: int,
    columns: Sequence[str],
    build: Callable[[pa.Table, dict[str, Any]], T],
) -> T:
    """Read a file whose description is JSON with a `version`.

    Args:
        path: The file.
        kind: Its expected kind.
        version: The latest version of the description that can be read.
        columns: The columns to read.
        build: Builds the value from the table and the description.

    Raises:
        RecordingError: As for `opened`; or the file is of another kind, of a later version than `version`, needs more
            memory than allowed, or is inconsistent: `build` may raise ValueError, LookupError, TypeError and the like.

    """
    with opened(path, kind) as file, memory_bounds.bounded():
        text = description(file, path, kind)
        try:
            memory_bounds.spend(len(text) * memory_bounds.JSON_COST)
            described = json.loads(text)
            if described["version"] > version:
                raise newer(path, f"its format is {described['version']}, this version reads {version}")
            check(file, kind)
            return build(parquet_pages.read(file.file, file.source, columns), described)
        except memory_bounds.TooLargeError as error:
            raise too_large(path, error) from error
        except (OSError, pa.ArrowException, *INCONSISTENT) as error:
            raise damaged(path, kind, error) from error


def opened(path: str | Path, kind: FileKind, source: str = "") -> Opened:
    """Open a file for reading; its pages are checked as they are read.

    Args:
        path: The file.
        kind: Its expected kind.
        source: Where it is opened, if that is not the path: `/proc/self/fd/N`.

    Raises:
        RecordingError: The file does not exist, cannot be read, or is not a complete Parquet file.

    """
    try:
        place = Path(source or path).expanduser()
        if place.is_dir():
            raise RecordingError(
                f"{path} is a folder",
                why=f"a {kind.what} is a single file",
                fix="give the path of a file in that folder",
                code="recording.folder",
            )
        if place.exists() and not place.is_file():
            raise RecordingError(
                f"{path} is not a {kind.what}",
                why="it is not a regular file",
                fix="give a Parquet file",
                code="recording.not-a-file",
            )
        if not is_parquet(place):
            empty = not place.stat().st_size
            raise RecordingError(
                f"{path} is not a {kind.what}",
                why="it is empty" if empty else "it is not a Parquet file",
                fix=kind.fix,
                code="recording.empty" if empty else "recording.unknown-format",
            )
        return of_file(source or str(place.resolve()))
    except pa.ArrowException as error:
        raise damaged(path, kind, error) from error
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is None:  # raised by Arrow, about the content
            raise damaged(path, kind, error) from error
        raise unreadable(path, kind, error) from error


def description(file: Opened, path: str | Path, kind: FileKind) -> bytes:
    """Return the description of the file's content; `check` verifies its checksum.

    Raises:
        RecordingError: The file is of another kind.

    """
    text: bytes | None = (file.file.metadata.metadata or {}).get(kind.key)
    if text is None:
        raise RecordingError(
            f"{path} is not a {kind.what}",
            why="it is another kind of Parquet file",
            fix=kind.fix,
            code="recording.unknown-format",
        )
    return text


def check(file: Opened, kind: FileKind) -> None:
    """Raise ValueError unless the description matches its checksum."""
    metadata: Mapping[bytes, bytes] = file.file.metadata.metadata or {}
    if metadata.get(kind.key + _CHECKSUM) != checksum(metadata[kind.key]):
        raise ValueError("its description does not match its checksum")


def is_parquet(place: Path) -> bool:
    """Whether a file begins with Parquet's magic number. Raises OSError if it cannot be read."""
    with place.open("rb") as start:
        return start.read(len(MAGIC)) == MAGIC


def keys(place: Path) -> frozenset[bytes]:
    """Keys of a file's metadata, which identify its kind; empty if it is not a Parquet file or cannot be read."""
    try:
        if not is_parquet(place):
            return frozenset()
        with of_file(str(place.resolve())) as file:
            return frozenset(file.file.metadata.metadata or {})
    except (OSError, RuntimeError, pa.ArrowException, ValueError):  # ValueError: column names that are not text
        return frozenset()


def checksum(text: bytes) -> bytes:
    """CRC-32 in hexadecimal."""
    return b"%08x" % zlib.crc32(text)


def damaged(path: str | Path, kind: FileKind, error: Exception) -> RecordingError:
    """Error for a damaged or inconsistent file."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return RecordingError(
        f"{path} is damaged",
        why=reason,
        fix=f"copy or download the file again, or {kind.again} again",
        code="recording.damaged",
    )


def unreadable(path: str | Path, kind: FileKind, error: Exception) -> RecordingError:
    """Error for a file that is not there, or that the system does not let us read."""
    if isinstance(error, FileNotFoundError):
        return RecordingError(
            f"there is no {kind.what} at {path}",
            why="no such file",
            fix=f"check the path; the current folder is {Path.cwd()}",
            code="recording.not-found",
        )
    why = getattr(error, "strerror", None) or str(error)
    return RecordingError(
        f"cannot read {path}", why=why, fix="check the path and its permissions", code="recording.unreadable"
    )


def too_large(path: str | Path, error: memory_bounds.TooLargeError) -> RecordingError:
    """Error for a file that needs more memory than allowed."""
    return RecordingError(
        f"{path} is too large to open",
        why=f"{error}; a small damaged or forged file can require any amount",
        fix="if you trust the file, allow more MiB:"
        f" %env {memory_bounds.VARIABLE}={2 * error.needed >> 20} (or export it)",
        code="recording.too-large",
    )


def newer(path: str | Path, why: str) -> RecordingError:
    """Error for a file written by a later version."""
    return RecordingError(
        f"{path} was written by a newer accel_magic",
        why=why,
        fix="pip install --upgrade accel-magic",
        code="recording.newer",
    )


def of_file(path: str) -> Opened:
    """Open a Parquet file whose pages are checked as they are read. Raises OSError or ArrowException."""
    source = pa.OSFile(path)
    try:
        file = pq.ParquetFile(source, page_checksum_verification=True, thrift_string_size_limit=_METADATA_LIMIT)
    except BaseException:
        source.close()
        raise
    return Opened(file, source)

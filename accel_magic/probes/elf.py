"""What symbols and USDT notes need of an ELF file: its sections' bytes, and addresses as file offsets.

The file may be anyone's. What a header says decides neither how much memory is used nor how long reading takes: tables
have limits, a table that lies in a hole of the file is refused, and nothing is read that was not asked for.
"""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from accel_magic import foreign_files
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""One entry of a symbol table; the lower half of `info` is its type, the upper its binding."""
IFUNC = 10
FUNCTIONS = (2, IFUNC)
"""Types of symbols that are code; an IFUNC is a resolver."""
SYMTAB: Final = 2
DYNSYM: Final = 11
_NOBITS: Final = 8
_COMPRESSED: Final = 0x800
_LOADED: Final = 1
_EXECUTABLE: Final = 1
_X86_64: Final = 62
_MAGIC: Final = b"\x7fELF"
_CLASSES: Final = {1: 32, 2: 64}
_LITTLE_ENDIAN: Final = 1
_IDENTIFICATION: Final = 16
_HEADER: Final = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION: Final = np.dtype(
    [
        *((name, "<u4") for name in ("name", "type")),
        *((name, "<u8") for name in ("flags", "address", "offset", "size")),
        *((name, "<u4") for name in ("link", "info")),
        *((name, "<u8") for name in ("alignment", "entry")),
    ]
)
_SEGMENT: Final = np.dtype(
    [
        *((name, "<u4") for name in ("type", "flags")),
        *((name, "<u8") for name in ("offset", "address", "physical", "file_size", "memory_size", "alignment")),
    ]
)
_MANY_SEGMENTS: Final = 0xFFFF
"""Number of segments that stands in the first section instead."""
_MOST_SECTIONS: Final = 100_000
_LARGEST_TABLE: Final = 1 << 28
_SMALL: Final = 1 << 16
"""Bytes of a table that may lie in a hole."""
_LONGEST_NAME: Final = 1 << 14
_LONGEST_SECTION_NAME: Final = 256
DAMAGED: Final = (ValueError, struct.error, LookupError, ArithmeticError, MemoryError)
"""What reading a damaged file raises."""


@dataclass(frozen=True)
class Segments:
    """Loaded parts of a file: three arrays of shape (segments,), sorted by address."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    offsets: NDArray[np.uint64]

    def file_offsets(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Where in the file the bytes at `addresses` (any shape) lie, and which of them lie there at all."""
        if not len(self.addresses):
            return np.zeros_like(addresses), np.zeros(addresses.shape, np.bool_)
        at = np.maximum(np.searchsorted(self.addresses, addresses, side="right") - 1, 0)
        inside = (addresses >= self.addresses[at]) & (addresses - self.addresses[at] < self.sizes[at])
        return addresses - self.addresses[at] + self.offsets[at], inside


@dataclass(frozen=True)
class Section:
    """Header of one section: its name, the numbers that ELF gives it, and where its bytes are in the file."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Elf:
    """An open ELF file of 64-bit little-endian code."""

    machine: str
    segments: Segments
    executable: Segments
    sections: tuple[Section, ...]
    _file: BinaryIO

    def named(self, name: str) -> Section | None:
        """Find the first section of this name; None where there is none."""
        return next((section for section in self.sections if section.name == name), None)

    def table(self, type_: int) -> Section | None:
        """Find the symbol table of this type: a file has one of each at most; None where there is none."""
        return next((section for section in self.sections if section.type == type_), None)

    def section_end(self, index: int) -> int:
        """Address behind a section; 0 where there is no such section."""
        return self.sections[index].address + self.sections[index].size if index < len(self.sections) else 0

    def data(self, section: Section) -> bytes:
        """Read the bytes of a section.

        Raises:
            ValueError: The file does not hold them, or they are more than a section may have.

        """
        return _data(self._file, section)


@contextmanager
def opened(path: Path, *, follow: bool = True) -> Iterator[Elf]:
    """Open a program or shared library; damage found within the block is reported too.

    Args:
        path: The file.
        follow: Whether the last part of the path may be a symbolic link.

    Raises:
        ProbeError: It cannot be read, is not an ELF file, is damaged, or holds code of another width or byte order.

    """
    try:
        with foreign_files.opened(path, follow=follow) as stream:
            yield read(stream, str(path))
    except OSError as error:
        raise ProbeError(
            f"{path} cannot be read", why=error.strerror or str(error), code="probe.unreadable-file"
        ) from error
    except DAMAGED as error:
        why = str(error) or type(error).__name__
        raise ProbeError(
            f"{path} is not a program or library, or is damaged",
            why=why,
            fix="name an ELF file, e.g. uprobe:libc:malloc",
            code="probe.not-elf",
        ) from error


def read(stream: BinaryIO, name: str) -> Elf:
    """Read an ELF file's headers; the stream is used as long as its sections are.

    Raises:
        ProbeError: It holds code of another width or byte order.
        Exception: One of `DAMAGED`.

    """
    start = _bytes(stream, 0, _IDENTIFICATION)
    if not start.startswith(_MAGIC) or start[4] not in _CLASSES:
        raise ValueError("it does not begin like an ELF file")
    width, little_endian = _CLASSES[start[4]], start[5] == _LITTLE_ENDIAN
    if width != 64 or not little_endian:
        raise ProbeError(
            f"{name} cannot be probed",
            why=f"it holds {width}-bit {'little' if little_endian else 'big'}-endian code",
            fix="name a 64-bit program or library of this machine",
            code="probe.foreign-code",
        )
    fields = _HEADER.unpack(_bytes(stream, 0, _HEADER.size))
    machine, segments_at, sections_at = fields[1], fields[4], fields[5]
    segment_size, segment_count, section_size, section_count, names = fields[8:]
    headers = np.zeros(0, _SECTION)
    if sections_at:
        first = _rows(stream, sections_at, 1, _SECTION, section_size)[0]
        section_count = section_count or int(first["size"])
        names = int(first["link"]) if names == _MANY_SEGMENTS else names
        segment_count = int(first["info"]) if segment_count == _MANY_SEGMENTS else segment_count
        headers = _rows(stream, sections_at, section_count, _SECTION, section_size)
    segments = _rows(stream, segments_at, segment_count, _SEGMENT, segment_size)
    kept = segments[segments["type"] == _LOADED]
    return Elf(
        machine="EM_X86_64" if machine == _X86_64 else str(machine),
        segments=_segments(kept),
        executable=_segments(kept[kept["flags"] & _EXECUTABLE > 0]),
        sections=_sections(stream, headers, names),
        _file=stream,
    )


def name_at(strings: bytes, start: int, end: bytes = b"\0") -> str:
    """Read the name that begins at a place of a table of names, each with this byte behind it."""
    return strings[start : start + _LONGEST_NAME].partition(end)[0].decode(errors="replace")


def identity(path: Path) -> tuple[str, int, int, int]:
    """What tells whether a file is still the same: path, time of change (ns), size, inode.

    Raises:
        ProbeError: There is no such file.

    """
    try:
        status = path.stat()
    except OSError as error:
        raise ProbeError(
            f"{path} cannot be read", why=error.strerror or str(error), code="probe.unreadable-file"
        ) from error
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino


def _bytes(stream: BinaryIO, offset: int, size: int) -> bytes:
    """Read a part of a file. Raises ValueError where the file has no such part."""
    if offset + size > stream.seek(0, os.SEEK_END):
        raise ValueError("a part of it lies behind its end")
    stream.seek(offset)
    data = stream.read(size)
    if len(data) != size:
        raise ValueError("it changes while it is read")
    return data


def _rows(stream: BinaryIO, offset: int, count: int, dtype: np.dtype[np.void], size: int) -> NDArray[np.void]:
    """Read a table of headers, each of `size` bytes as the file says."""
    if count and size != dtype.itemsize:
        raise ValueError(f"its headers have {size} bytes")
    if count > _MOST_SECTIONS:
        raise ValueError(f"it claims {count} headers")
    return np.frombuffer(_bytes(stream, offset, count * dtype.itemsize) if count else b"", dtype)


def _sections(stream: BinaryIO, headers: NDArray[np.void], names: int) -> tuple[Section, ...]:
    fields = ("type", "flags", "address", "offset", "size", "link")
    rows = list(zip(*(headers[field].tolist() for field in fields), strict=True))
    text = _data(stream, Section("the table of section names", *rows[names])) if names < len(rows) else b""
    titles = (text[start : start + _LONGEST_SECTION_NAME].partition(b"\0")[0] for start in headers["name"].tolist())
    return tuple(Section(title.decode(errors="replace"), *row) for title, row in zip(titles, rows, strict=True))


def _data(stream: BinaryIO, section: Section) -> bytes:
    if section.type == _NOBITS:
        return b""
    if section.flags & _COMPRESSED:
        raise ValueError(f"{section.name} is compressed")
    if section.size > _LARGEST_TABLE:
        raise ValueError(f"{section.name} claims {section.size} bytes")
    if section.size > _SMALL and foreign_files.has_hole(stream, section.offset, section.size):
        raise ValueError(f"{section.name} claims {section.size} bytes, and the file has a hole there")
    return _bytes(stream, section.offset, section.size)


def _segments(rows: NDArray[np.void]) -> Segments:
    rows = rows[np.lexsort((rows["offset"], rows["file_size"], rows["address"]))]
    return Segments(*(np.ascontiguousarray(rows[name], np.uint64) for name in ("address", "file_size", "offset")))

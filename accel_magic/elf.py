"""ELF files with 64-bit little-endian code: sections, segments, symbols, relocations, needed libraries.

Files are untrusted. Damage is reported as `ElfError`. Headers cannot make reading take arbitrary memory or time: tables
have size limits, tables inside holes of the file are rejected, and only requested data is read.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from accel_magic import foreign_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


MAGIC: Final = b"\x7fELF"
# Machines.
X86_64: Final = 62
BPF: Final = 247
# Types of files.
RELOCATABLE: Final = 1
# Types of sections.
NULL: Final = 0
PROGBITS: Final = 1
SYMTAB: Final = 2
RELA: Final = 4
DYNAMIC: Final = 6
NOBITS: Final = 8
REL: Final = 9
DYNSYM: Final = 11
# Flags of sections.
ALLOCATED: Final = 0x2
EXECUTABLE: Final = 0x4
_COMPRESSED: Final = 0x800
# Sections of symbols.
UNDEFINED: Final = 0
FIRST_RESERVED: Final = 0xFF00
"""From here on, a symbol's `section` is not a section's number (absolute and common symbols)."""
# Types and bindings of symbols.
FUNCTION: Final = 2
IFUNC: Final = 10
FUNCTIONS: Final = (FUNCTION, IFUNC)
"""Symbol types that are code; an IFUNC is a resolver."""
LOCAL: Final = 0

SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""One symbol table entry; the lower half of `info` is the type, the upper half the binding."""
RELOCATIONS: Final = {
    REL: np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4")]),
    RELA: np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")]),
}
"""One relocation, by the type of its section."""
_DYNAMIC_ENTRY: Final = np.dtype([("tag", "<i8"), ("value", "<u8")])
_END_OF_TAGS, _NEEDED = 0, 1
_UNWINDING_ENTRY: Final = np.dtype([("function", "<i4"), ("description", "<i4")])
_SEGMENT: Final = np.dtype(
    [
        *((name, "<u4") for name in ("type", "flags")),
        *((name, "<u8") for name in ("offset", "address", "physical", "file_size", "memory_size", "alignment")),
    ]
)
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_HEADER: Final = struct.Struct("<16xHHIQQQIHHHHHH")
_IDENTIFICATION: Final = 16
_CLASSES: Final = {1: 32, 2: 64}
_LITTLE_ENDIAN: Final = 1
_LOADED: Final = 1
_EXECUTABLE_SEGMENT: Final = 1
_EXTENDED: Final = 0xFFFF
"""Number of segments, or of the section with names, that means: the first section header has it."""
_MOST_HEADERS: Final = 100_000
_LARGEST_TABLE: Final = 1 << 28
_SMALL: Final = 1 << 16
"""Tables up to this many bytes may lie in a hole."""
_LONGEST_NAME: Final = 1 << 14
_MOST_TEXT: Final = 1 << 28
"""Maximum total characters of the names in a table."""
_MOST_OVERLAP, _SMALL_TEXT = 16, 1 << 20
"""Names may have so many times their table's size, as they share texts, and this many characters in any case."""
_UNWINDING: Final = ".eh_frame_hdr"
_UNWINDING_FORM: Final = b"\x01\x03\x3b"
"""Version; 32-bit count; sorted table of 32-bit offsets from the section's address: the form that linkers write."""
_LAST_ADDRESS: Final = 2**64 - 1


class ElfError(ValueError):
    """A file is not an ELF file, or it is damaged."""


class ForeignElfError(ElfError):
    """An ELF file has another word size or byte order."""


@dataclass(frozen=True)
class Segments:
    """Loaded segments of a file: three arrays of shape (segments,), sorted by address."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    offsets: NDArray[np.uint64]

    def file_offsets(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """File offsets of `addresses` (any shape), and which of the addresses are in the file."""
        if not len(self.addresses):
            return np.zeros_like(addresses), np.zeros(addresses.shape, np.bool_)
        at = np.maximum(np.searchsorted(self.addresses, addresses, side="right") - 1, 0)
        inside = (addresses >= self.addresses[at]) & (addresses - self.addresses[at] < self.sizes[at])
        return addresses - self.addresses[at] + self.offsets[at], inside


@dataclass(frozen=True, slots=True)
class Section:
    """Header of one section; `link` and `info` are often numbers of other sections."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    entry_size: int


@dataclass(frozen=True)
class Elf:
    """An open ELF file. Methods that read it raise ElfError if what they read is damaged."""

    type: int
    machine: int
    segments: Segments
    executable: Segments
    sections: tuple[Section, ...]
    _stream: BinaryIO

    def named(self, name: str) -> Section | None:
        """Find the first section with this name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def table(self, type_: int) -> Section | None:
        """Find the first section of this type, or None; a file has at most one symbol table of each type."""
        return next((section for section in self.sections if section.type == type_), None)

    def section_end(self, index: int) -> int:
        """End address of a section; 0 if there is no such section."""
        if index >= len(self.sections):
            return 0
        return min(self.sections[index].address + self.sections[index].size, _LAST_ADDRESS)

    def data(self, section: Section, *, limit: int = _LARGEST_TABLE) -> bytes:
        """Read the bytes of a section, at most `limit`; sections without bytes in the file have none."""
        return _data(self._stream, section, limit)

    def strings(self, section: Section) -> bytes:
        """Read the string table that a section links to."""
        return self.data(self._section(section.link))

    def symbols(self, section: Section) -> NDArray[np.void]:
        """Read a symbol table: (symbols,) `SYMBOL`."""
        return self._entries(section, SYMBOL)

    def relocations(self, section: Section) -> NDArray[np.void]:
        """Read a section of type REL or RELA: (relocations,) of that type in `RELOCATIONS`."""
        return self._entries(section, RELOCATIONS[section.type])

    def relocated(self, section: Section) -> Section:
        """Find the section that a section of relocations modifies."""
        return self._section(section.info)

    def needed_libraries(self) -> list[str]:
        """Names of the libraries that the loader loads with this file."""
        section = self.table(DYNAMIC)
        if section is None:
            return []
        entries, strings = self._entries(section, _DYNAMIC_ENTRY), self.strings(section)
        last = np.flatnonzero(entries["tag"] == _END_OF_TAGS)[:1]
        entries = entries[: last[0]] if len(last) else entries
        starts = entries["value"][entries["tag"] == _NEEDED].tolist()
        if max(starts, default=0) > len(strings):
            raise ElfError("names of its libraries are not in its string table")
        return names(strings, starts)

    def unwinding(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Addresses of functions and of their rules in .eh_frame, (functions,) each, from the table for unwinding.

        That is not stripped.
        """
        section = self.named(_UNWINDING)
        data = self.data(section) if section is not None else b""
        if section is None or data[:1] + data[2:4] != _UNWINDING_FORM:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        count = int.from_bytes(data[8:12], "little")
        if 12 + count * _UNWINDING_ENTRY.itemsize > len(data):
            raise ElfError(f"{_UNWINDING} claims {count} functions")
        distances = np.frombuffer(data, _UNWINDING_ENTRY, count, 12)
        start = np.uint64(section.address)
        functions, rules = (
            distances[name].astype(np.int64).view(np.uint64) + start for name in ("function", "description")
        )
        return functions, rules

    def beginnings(self) -> NDArray[np.uint64]:
        """Addresses of functions, ascending, from that table."""
        return np.sort(self.unwinding()[0])

    def dynamic_names(self, requested: Iterable[str]) -> tuple[set[str], set[str]]:
        """Which of these symbols the file takes from other files, and which it gives to others."""
        section = self.table(DYNSYM)
        if section is None:
            return set(), set()
        strings, symbols = self.strings(section), self.symbols(section)
        taken, given = set(), set()
        for name in requested:
            places = [found.start() for found in re.finditer(re.escape(name.encode()) + b"\0", strings)]
            undefined = symbols["section"][np.isin(symbols["name"], places)] == UNDEFINED
            taken |= {name} if undefined.any() else set()
            given |= {name} if (~undefined).any() else set()
        return taken, given

    def file_offset(self, address: int) -> int | None:
        """File offset of an address in the code; None if there is no code."""
        if address > _LAST_ADDRESS:
            return None
        offsets, inside = self.executable.file_offsets(np.array([address], np.uint64))
        return int(offsets[0]) if inside[0] else None

    def _section(self, number: int) -> Section:
        if number >= len(self.sections):
            raise ElfError(f"it refers to section {number}, which does not exist")
        return self.sections[number]

    def _entries(self, section: Section, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        if section.entry_size not in (0, dtype.itemsize):
            raise ElfError(f"entries of {section.name} have {section.entry_size} bytes, not {dtype.itemsize}")
        data = self.data(section)
        return np.frombuffer(data, dtype, len(data) // dtype.itemsize)


def read(stream: BinaryIO) -> Elf:
    """Read an ELF file's headers; the stream must stay open while its sections are read.

    Raises:
        ForeignElfError: The file has another word size or byte order.
        ElfError: It is not an ELF file, or it is damaged.

    """
    start = _bytes(stream, 0, _IDENTIFICATION)
    if not start.startswith(MAGIC) or start[4] not in _CLASSES:
        raise ElfError("it does not start with an ELF header")
    width, little_endian = _CLASSES[start[4]], start[5] == _LITTLE_ENDIAN
    if width != 64 or not little_endian:
        raise ForeignElfError(f"it contains {width}-bit {'little' if little_endian else 'big'}-endian code")
    type_, machine, _, _, segments_at, sections_at, _, _, *sizes = _HEADER.unpack(_bytes(stream, 0, _HEADER.size))
    segment_size, segment_count, section_size, section_count, names_at = sizes
    sections: tuple[Section, ...] = ()
    if sections_at:
        first = _SECTION.unpack(_headers(stream, sections_at, 1, section_size, _SECTION.size))
        section_count = section_count or first[5]
        names_at = first[6] if names_at == _EXTENDED else names_at
        segment_count = first[7] if segment_count == _EXTENDED else segment_count
        rows = _headers(stream, sections_at, section_count, section_size, _SECTION.size)
        sections = _sections(stream, list(_SECTION.iter_unpack(rows)), names_at)
    rows = _headers(stream, segments_at, segment_count, segment_size, _SEGMENT.itemsize)
    segments = np.frombuffer(rows, _SEGMENT)
    loaded = segments[segments["type"] == _LOADED]
    executable = loaded[loaded["flags"] & _EXECUTABLE_SEGMENT > 0]
    return Elf(type_, machine, _segments(loaded), _segments(executable), sections, stream)


def name_at(strings: bytes, start: int, end: bytes = b"\0") -> str:
    """Read the name at an offset in a string table; `end` terminates it."""
    limit = start + _LONGEST_NAME
    stop = strings.find(end, start, limit)
    return strings[start : limit if stop < 0 else stop].decode(errors="replace")


def names(strings: bytes, starts: Iterable[int]) -> list[str]:
    """Read names at offsets in a string table; beyond its end, they are empty.

    Raises:
        ElfError: They overlap so much that they are far larger than the table.

    """
    limit = min(_MOST_TEXT, _SMALL_TEXT + _MOST_OVERLAP * len(strings))
    found, size = [], 0
    for start in starts:
        name = name_at(strings, start)
        found.append(name)
        size += len(name)
        if size > limit:
            raise ElfError(f"its names exceed {limit} characters")
    return found


def _bytes(stream: BinaryIO, offset: int, size: int) -> bytes:
    """Read a part of a file. Raises ElfError if it extends beyond the file's end."""
    if offset + size > stream.seek(0, os.SEEK_END):
        raise ElfError("its headers point beyond its end")
    stream.seek(offset)
    data = stream.read(size)
    if len(data) != size:
        raise ElfError("it changed while it was read")
    return data


def _headers(stream: BinaryIO, offset: int, count: int, size: int, expected: int) -> bytes:
    """Read a table of headers, each `size` bytes according to the file."""
    if count and size != expected:
        raise ElfError(f"its headers have {size} bytes, not {expected}")
    if count > _MOST_HEADERS:
        raise ElfError(f"it claims {count} sections or segments")
    return _bytes(stream, offset, count * expected) if count else b""


def _sections(stream: BinaryIO, rows: list[tuple[int, ...]], names_at: int) -> tuple[Section, ...]:
    """Make sections of their headers; `names_at` is the number of the section with their names."""
    strings = b""
    if 0 < names_at < len(rows):
        strings = _data(stream, _section("the table of section names", rows[names_at]), _LARGEST_TABLE)
    titles = names(strings, (row[0] for row in rows))
    return tuple(map(_section, titles, rows))


def _section(name: str, row: tuple[int, ...]) -> Section:
    _, type_, flags, address, offset, size, link, info, _, entry_size = row
    return Section(name, type_, flags, address, offset, size, link, info, entry_size)


def _data(stream: BinaryIO, section: Section, limit: int) -> bytes:
    if section.type in (NULL, NOBITS):
        return b""
    if section.flags & _COMPRESSED:
        raise ElfError(f"{section.name} is compressed")
    if section.size > limit:
        raise ElfError(f"{section.name} claims {section.size} bytes")
    if section.offset + section.size > stream.seek(0, os.SEEK_END):
        raise ElfError(f"{section.name} extends beyond the end of the file")
    if section.size > _SMALL and foreign_files.has_hole(stream, section.offset, section.size):
        raise ElfError(f"{section.name} claims {section.size} bytes, but the file has a hole there")
    return _bytes(stream, section.offset, section.size)


def _segments(rows: NDArray[np.void]) -> Segments:
    rows = rows[np.lexsort((rows["offset"], rows["file_size"], rows["address"]))]
    return Segments(*(np.ascontiguousarray(rows[name], np.uint64) for name in ("address", "file_size", "offset")))

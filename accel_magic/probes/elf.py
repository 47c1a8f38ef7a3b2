"""Read ELF files for symbols and USDT notes: section bytes, and file offsets of addresses.

Files are untrusted. Headers cannot make reading take arbitrary memory or time: tables have size limits, tables inside
holes of the file are rejected, and only requested data is read.
"""

from __future__ import annotations

import os
import re
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from accel_magic import foreign_files
from accel_magic.errors import ProbeError
from accel_magic.probes.globs import is_glob, matcher
from accel_magic.probes.plan import UNREADABLE, UsdtArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""One symbol table entry; the lower half of `info` is the type, the upper half the binding."""
IFUNC = 10
FUNCTIONS = (2, IFUNC)
"""Symbol types that are code; an IFUNC is a resolver."""
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
"""Number of segments that means: the first section header has the number."""
_MOST_SECTIONS: Final = 100_000
_LARGEST_TABLE: Final = 1 << 28
_SMALL: Final = 1 << 16
"""Tables up to this many bytes may lie in a hole."""
_LONGEST_NAME: Final = 1 << 14
_LONGEST_SECTION_NAME: Final = 256
_UNWINDING: Final = ".eh_frame_hdr"
_UNWINDING_FORM: Final = b"\x01\x03\x3b"
"""Version; 32-bit count; sorted table of 32-bit offsets from the section's address: the form that linkers write."""
DAMAGED: Final = (ValueError, struct.error, LookupError, ArithmeticError, MemoryError)
"""What reading a damaged file raises."""


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


@dataclass(frozen=True)
class Section:
    """Header of one section."""

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
        """Find the first section with this name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def table(self, type_: int) -> Section | None:
        """Find the symbol table of this type, or None; a file has at most one of each."""
        return next((section for section in self.sections if section.type == type_), None)

    def section_end(self, index: int) -> int:
        """End address of a section; 0 if there is no such section."""
        return self.sections[index].address + self.sections[index].size if index < len(self.sections) else 0

    def data(self, section: Section) -> bytes:
        """Read the bytes of a section.

        Raises:
            ValueError: The file does not contain them, or they exceed the size limit.

        """
        return _data(self._file, section)


@contextmanager
def opened(path: Path, *, follow: bool = True) -> Iterator[Elf]:
    """Open a program or shared library; damage found inside the `with` block is reported too.

    Args:
        path: The file.
        follow: Whether the last part of the path may be a symbolic link.

    Raises:
        ProbeError: It cannot be read, is not an ELF file, is damaged, or has another word size or byte order.

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
            fix="give an ELF file, e.g. uprobe:libc:malloc",
            code="probe.not-elf",
        ) from error


def read(stream: BinaryIO, name: str) -> Elf:
    """Read an ELF file's headers; the stream must stay open while its sections are read.

    Raises:
        ProbeError: The file has another word size or byte order.
        Exception: One of `DAMAGED`.

    """
    start = _bytes(stream, 0, _IDENTIFICATION)
    if not start.startswith(_MAGIC) or start[4] not in _CLASSES:
        raise ValueError("it does not start with an ELF header")
    width, little_endian = _CLASSES[start[4]], start[5] == _LITTLE_ENDIAN
    if width != 64 or not little_endian:
        raise ProbeError(
            f"{name} cannot be probed",
            why=f"it contains {width}-bit {'little' if little_endian else 'big'}-endian code",
            fix="give a 64-bit program or library for this machine",
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
    """Read the name at an offset in a string table; `end` terminates it."""
    return strings[start : start + _LONGEST_NAME].partition(end)[0].decode(errors="replace")


def identity(path: Path) -> tuple[str, int, int, int]:
    """Identity of a file's current content: path, modification time (ns), size, inode.

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
    """Read a part of a file. Raises ValueError if it extends beyond the file's end."""
    if offset + size > stream.seek(0, os.SEEK_END):
        raise ValueError("its headers point beyond its end")
    stream.seek(offset)
    data = stream.read(size)
    if len(data) != size:
        raise ValueError("it changed while it was read")
    return data


def _rows(stream: BinaryIO, offset: int, count: int, dtype: np.dtype[np.void], size: int) -> NDArray[np.void]:
    """Read a table of headers, each `size` bytes according to the file."""
    if count and size != dtype.itemsize:
        raise ValueError(f"its headers have {size} bytes")
    if count > _MOST_SECTIONS:
        raise ValueError(f"it claims to have {count} headers")
    return np.frombuffer(_bytes(stream, offset, count * dtype.itemsize) if count else b"", dtype)


def _sections(stream: BinaryIO, headers: NDArray[np.void], names: int) -> tuple[Section, ...]:
    fields = ("type", "flags", "address", "offset", "size", "link")
    rows = list(zip(*(headers[field].tolist() for field in fields), strict=True))
    text = _data(stream, Section("the section name table", *rows[names])) if names < len(rows) else b""
    titles = (text[start : start + _LONGEST_SECTION_NAME].partition(b"\0")[0] for start in headers["name"].tolist())
    return tuple(Section(title.decode(errors="replace"), *row) for title, row in zip(titles, rows, strict=True))


def _data(stream: BinaryIO, section: Section) -> bytes:
    if section.type == _NOBITS:
        return b""
    if section.flags & _COMPRESSED:
        raise ValueError(f"{section.name} is compressed")
    if section.size > _LARGEST_TABLE:
        raise ValueError(f"{section.name} claims to have {section.size} bytes")
    if section.size > _SMALL and foreign_files.has_hole(stream, section.offset, section.size):
        raise ValueError(f"{section.name} claims to have {section.size} bytes, but the file has a hole there")
    return _bytes(stream, section.offset, section.size)


def _segments(rows: NDArray[np.void]) -> Segments:
    rows = rows[np.lexsort((rows["offset"], rows["file_size"], rows["address"]))]
    return Segments(*(np.ascontiguousarray(rows[name], np.uint64) for name in ("address", "file_size", "offset")))


_MOST_TEXT: Final = 1 << 28
"""Maximum total characters of the names in a table."""


@dataclass(frozen=True)
class Function:
    """One function: its preferred name, file offset and other names.

    An `ifunc` is a resolver: it runs once, when the loader selects an implementation, not at each call.
    """

    name: str
    offset: int
    aliases: tuple[str, ...] = ()
    ifunc: bool = False


@dataclass(frozen=True)
class Symbols:
    """Function symbols of a file, one entry per name and offset, in no particular order.

    `offsets` (names,) uint64 are file offsets; `ifuncs` (names,) bool.
    """

    names: tuple[str, ...]
    offsets: NDArray[np.uint64]
    ifuncs: NDArray[np.bool_]

    @cached_property
    def _entries_by_name(self) -> dict[str, list[int]]:
        entries: dict[str, list[int]] = {}
        for entry, name in enumerate(self.names):
            entries.setdefault(name, []).append(entry)
        return entries

    @cached_property
    def _names_by_offset(self) -> dict[int, list[str]]:
        names: dict[int, list[str]] = {}
        for name, offset in zip(self.names, self.offsets.tolist(), strict=True):
            names.setdefault(offset, []).append(name)
        return names

    def match(self, pattern: str) -> list[Function]:
        """Functions with a name that matches the glob, sorted by name; names at one offset are one function.

        Its name is the plainest of those that match; the others are aliases.
        """
        if is_glob(pattern):
            matches = matcher(pattern)
            entries = [entry for entry, name in enumerate(self.names) if matches(name)]
        else:
            entries = self._entries_by_name.get(pattern, [])
        matched: dict[int, list[int]] = {}
        for entry in entries:
            matched.setdefault(int(self.offsets[entry]), []).append(entry)
        found = []
        for offset, same in matched.items():
            name = min((self.names[entry] for entry in same), key=_plainness)
            aliases = sorted(set(self._names_by_offset[offset]) - {name})
            found.append(Function(name, offset, tuple(aliases), bool(self.ifuncs[same].any())))
        return sorted(found, key=lambda function: (function.name, function.offset))

    def before(self, offset: int) -> str | None:
        """Name of the last function that begins at or before a file offset; None if there is none."""
        starts = self.offsets[self.offsets <= np.uint64(offset)]
        return min(self._names_by_offset[int(starts.max())], key=_plainness) if len(starts) else None


def file_offset(elf: Elf, address: int) -> int | None:
    """File offset of an address in the code; None if there is no code."""
    if address >= 1 << 64:
        return None
    offsets, inside = elf.executable.file_offsets(np.array([address], np.uint64))
    return int(offsets[0]) if inside[0] else None


def function_offsets(elf: Elf) -> set[int]:
    """File offsets of all functions that have a symbol or an entry for unwinding. Raises `DAMAGED`."""
    tables = [table for type_ in (SYMTAB, DYNSYM) if (table := elf.table(type_)) is not None]
    offsets, loaded = elf.executable.file_offsets(beginnings(elf))
    found: set[int] = set(offsets[loaded].tolist())
    for section in tables:
        _, offsets, requested = _function_rows(elf, section, elf.executable)
        found.update(offsets[requested].tolist())
    return found


def beginnings(elf: Elf) -> NDArray[np.uint64]:
    """Addresses of functions, ascending, from the table for unwinding, which is not stripped. Raises `DAMAGED`."""
    section = elf.named(_UNWINDING)
    data = elf.data(section) if section is not None else b""
    if section is None or data[:1] + data[2:4] != _UNWINDING_FORM:
        return np.zeros(0, np.uint64)
    count = int(np.frombuffer(data, "<u4", 1, 8)[0])
    entries = np.frombuffer(data, [("function", "<i4"), ("how", "<i4")], count, 12)
    return np.sort(entries["function"].astype(np.int64) + section.address).astype(np.uint64)


def _function_rows(
    elf: Elf, section: Section, executable: Segments
) -> tuple[NDArray[np.void], NDArray[np.uint64], NDArray[np.bool_]]:
    """A symbol table, and of each symbol (symbols,): its file offset, and whether it is a function in the file."""
    data = elf.data(section)
    table = np.frombuffer(data, SYMBOL, count=len(data) // SYMBOL.itemsize)
    offsets, loaded = executable.file_offsets(table["value"])
    # Section 0 means undefined: the symbol is in another library.
    return table, offsets, np.isin(table["info"] & 0xF, FUNCTIONS) & (table["section"] != 0) & loaded


def function_entries(elf: Elf, section: Section, executable: Segments) -> list[tuple[str, int, bool]]:
    """Name, file offset and whether it is an IFUNC resolver, of each function in a symbol table. Raises `DAMAGED`.

    Args:
        elf: The file that has the table.
        section: The table.
        executable: Executable segments of the program or library, which differs from `elf` if it is stripped.

    """
    strings = elf.data(elf.sections[section.link])
    table, offsets, requested = _function_rows(elf, section, executable)
    kind = table["info"] & 0xF
    requested &= table["name"] < len(strings)
    names = _names(strings, table["name"][requested].tolist())
    return [
        (name.partition("@")[0], offset, ifunc)
        for name, offset, ifunc in zip(
            names, offsets[requested].tolist(), (kind[requested] == IFUNC).tolist(), strict=True
        )
        if name
    ]


def dynamic_names(elf: Elf, names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Which of these symbols a file takes from other files, and which it gives to others. Raises `DAMAGED`."""
    section = elf.table(DYNSYM)
    if section is None:
        return set(), set()
    strings, data = elf.data(elf.sections[section.link]), elf.data(section)
    table = np.frombuffer(data, SYMBOL, count=len(data) // SYMBOL.itemsize)
    taken, given = set(), set()
    for name in names:
        places = [found.start() for found in re.finditer(re.escape(name.encode()) + b"\0", strings)]
        undefined = table["section"][np.isin(table["name"], places)] == 0
        taken |= {name} if undefined.any() else set()
        given |= {name} if (~undefined).any() else set()
    return taken, given


def _names(strings: bytes, starts: list[int]) -> list[str]:
    """Read names. In a damaged table they can overlap and be larger in total than the table."""
    names, size = [], 0
    for start in starts:
        name = name_at(strings, start)
        names.append(name)
        size += len(name)
        if size > _MOST_TEXT:
            raise ValueError(f"its symbol names exceed {_MOST_TEXT} characters")
    return names


def _plainness(name: str) -> tuple[int, int, str]:
    return len(name) - len(name.lstrip("_")), len(name), name


_NOTE_SECTION, _BASE_SECTION = ".note.stapsdt", ".stapsdt.base"
_NOTE_TYPE, _OWNER = 3, b"stapsdt\0"
_NOTE = struct.Struct("<III")
_ADDRESSES = struct.Struct("<QQQ")


@dataclass(frozen=True)
class UsdtProbe:
    """One location of a probe; inlining and repeated use create several per probe.

    `offset` and `semaphore` (0 = none) are file offsets. An argument that cannot be read is UNREADABLE, so that the
    others keep their numbers; `argument_text` is the note's text.
    """

    provider: str
    name: str
    offset: int
    semaphore: int
    arguments: tuple[UsdtArgument, ...]
    argument_text: str


def usdt_probes(path: Path) -> tuple[UsdtProbe, ...]:
    """USDT probes of a program or library, in file order; cached until the file changes.

    Raises:
        ProbeError: The file cannot be read or is not a 64-bit ELF file.

    """
    return _probes(*identity(path))


@lru_cache(maxsize=64)
def _probes(path: str, *_identity: int) -> tuple[UsdtProbe, ...]:
    with opened(Path(path)) as elf:
        return tuple(_usdt_probes(elf))


def usdt_places(elf: Elf) -> set[tuple[int, int]]:
    """File offsets of all USDT probes, each with that of its semaphore, or 0. Raises `DAMAGED`."""
    return {(note.offset, note.semaphore) for note in _usdt_notes(elf)}


@dataclass(frozen=True)
class _UsdtNote:
    """Offsets in the file of a USDT probe and its semaphore, and the note's texts."""

    offset: int
    semaphore: int
    texts: bytes


def _usdt_probes(elf: Elf) -> Iterator[UsdtProbe]:
    for note in _usdt_notes(elf):
        texts = note.texts.split(b"\0")
        provider, name, arguments = (text.decode(errors="replace") for text in (texts + [b""] * 3)[:3])
        parsed = tuple(parse_argument(text, elf.machine) for text in arguments.split())
        yield UsdtProbe(provider, name, note.offset, note.semaphore, parsed, arguments)


def _usdt_notes(elf: Elf) -> Iterator[_UsdtNote]:
    """The notes in the file's order; those of places outside of its segments are left out."""
    section, moved_to = elf.named(_NOTE_SECTION), elf.named(_BASE_SECTION)
    notes = list(_read_notes(elf.data(section) if section is not None else b""))
    addresses = np.array([_ADDRESSES.unpack_from(note) for note in notes], np.uint64).reshape(-1, 3)
    location, linked_base, semaphore = addresses.T
    base = np.uint64(moved_to.address if moved_to is not None else 0)
    moved = np.where((base != 0) & (linked_base != 0), base - linked_base, np.uint64(0))
    offsets, inside = elf.segments.file_offsets(np.where(location != 0, location + moved, np.uint64(0)))
    semaphores, _ = elf.segments.file_offsets(np.where(semaphore != 0, semaphore + moved, np.uint64(0)))
    rows = zip(notes, offsets.tolist(), np.where(semaphore != 0, semaphores, 0).tolist(), inside.tolist(), strict=True)
    return (_UsdtNote(offset, at, note[_ADDRESSES.size :]) for note, offset, at, is_inside in rows if is_inside)


def _read_notes(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _NOTE.size <= len(data):
        owner_size, size, type_ = _NOTE.unpack_from(data, at)
        at += _NOTE.size
        owner = data[at : at + owner_size]
        at += _aligned(owner_size)
        if type_ == _NOTE_TYPE and owner == _OWNER:
            yield data[at : at + size]
        at += _aligned(size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def _registers() -> dict[str, str]:
    """Map every x86-64 register name, including names of low parts, to the register's name in the kernel's pt_regs."""
    names = {f"r{n}{part}": f"r{n}" for n in range(8, 16) for part in ("", "d", "w", "b")}
    for letter in "abcd":
        names |= dict.fromkeys((f"r{letter}x", f"e{letter}x", f"{letter}x", f"{letter}l"), f"{letter}x")
    for pair in ("si", "di", "bp", "sp"):
        names |= dict.fromkeys((f"r{pair}", f"e{pair}", pair, f"{pair}l"), pair)
    return names


_REGISTERS = _registers()
_NUMBER = r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)"
_ARGUMENT = re.compile(rf"""
    (?P<size>-?[1248])@
    (?: \$(?P<constant>{_NUMBER})
      | %(?P<register>\w+)
      | (?P<displacement>{_NUMBER})?
        \( %(?P<base>\w+) (?:,%(?P<index>\w+)(?:,(?P<scale>[1248]))?)? \)
    )""", re.VERBOSE | re.ASCII)  # fmt: skip


def parse_argument(text: str, machine: str = "EM_X86_64") -> UsdtArgument:
    """Parse one argument's location in assembler notation: `-4@%eax`, `8@$5`, `8@-16(%rbp,%rcx,8)`.

    Returns:
        The location, with register names of pt_regs (`ax` for %rax and %eax); UNREADABLE for anything else, such
        as `8@symbol(%rip)`, floating-point registers, or machines other than x86-64.

    """
    found = _ARGUMENT.fullmatch(text)
    if not found or machine != "EM_X86_64":
        return UNREADABLE
    size = int(found["size"])
    if found["constant"]:
        return UsdtArgument("constant", size, value=_integer(found["constant"]))
    if found["register"]:
        register = _REGISTERS.get(found["register"])
        return UsdtArgument("register", size, register) if register else UNREADABLE
    base, index = _REGISTERS.get(found["base"]), _REGISTERS.get(found["index"]) if found["index"] else ""
    if base is None or index is None:
        return UNREADABLE
    displacement = _integer(found["displacement"] or "0")
    return UsdtArgument("memory", size, base, displacement, index, int(found["scale"] or 1))


def _integer(text: str) -> int:
    return int(text, 16 if "x" in text.lower() else 10)

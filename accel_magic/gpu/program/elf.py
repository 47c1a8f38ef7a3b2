"""Reads sections, symbols and relocations of a compiled eBPF program's ELF file, rejecting malformed files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from accel_magic.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LARGEST: Final = 64 << 20
"""Maximum bytes of an object, and of one section in memory."""
# Relocations of LLVM's BPF back end.
OF_ADDRESS: Final = 1
"""R_BPF_64_64: relocation of a wide load."""
OF_CALL: Final = 10
"""R_BPF_64_32: relocation of a call."""
_OF_WORD = (3, 4)  # R_BPF_64_ABS32, R_BPF_64_NODYLD32: relocations of a 32-bit number in BTF
_MOST_SECTIONS = 10_000
_ALLOCATED = 0x2  # SHF_ALLOC
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_DAMAGED = (
    ELFError,
    ConstructError,
    struct.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""Exceptions of pyelftools for damaged files."""
_RECOMPILE = "compile it: clang -target bpf -O2 -g -c program.bpf.c"


class _RefusedError(Exception):
    pass


@dataclass(frozen=True)
class Section:
    """One section; `data` is None if it is all zeros and not in the file, where it would begin at `start`."""

    name: str
    code: bool
    allocated: bool
    size: int
    data: bytes | None
    start: int


@dataclass(frozen=True)
class Symbol:
    """One symbol: `section` is the section's number, None if the object does not define the symbol."""

    name: str
    function: bool
    local: bool
    section: int | None
    value: int
    size: int


@dataclass(frozen=True)
class Relocation:
    """A reference to a symbol, at `offset` bytes in a section."""

    offset: int
    type: int
    symbol: Symbol


@dataclass(frozen=True)
class Elf:
    """An object. Sections and symbols are indexed by their numbers, relocations by the section that they modify."""

    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: Mapping[int, tuple[Relocation, ...]]

    def named(self, name: str) -> int | None:
        """Return the number of a section."""
        return next((number for number, section in enumerate(self.sections) if section.name == name), None)

    def described(self, name: str) -> bytes:
        """Return the bytes of a section of BTF with relocations applied; empty if there is no such section."""
        number = self.named(name)
        if number is None:
            return b""
        data = bytearray(self.sections[number].data or b"")
        for relocation in self.relocations.get(number, ()):
            if relocation.type in _OF_WORD and relocation.offset + 4 <= len(data):
                (word,) = struct.unpack_from("<I", data, relocation.offset)
                struct.pack_into("<I", data, relocation.offset, (word + relocation.symbol.value) & 0xFFFFFFFF)
        return bytes(data)


def read_elf(data: bytes, source: str) -> Elf:
    """Read an object.

    Raises:
        ProgramError: It is not an ELF file, is for another machine or byte order, is linked, is damaged, or is too
            large.

    """
    try:
        file = _opened(data)
        sections = tuple(_sections(file, data))
        symbols = tuple(_symbols(file, sections))
        return Elf(sections, symbols, dict(_relocations(file, sections, symbols)))
    except _RefusedError as error:
        raise _error(source, str(error), code="gpu.not-an-object") from None
    except _DAMAGED as error:
        raise _error(source, f"it is damaged: {error or type(error).__name__}", code="gpu.object-damaged") from None


def _error(source: str, why: str, *, code: str) -> ProgramError:
    return ProgramError(f"{source} is not an eBPF object that can be loaded", why=why, fix=_RECOMPILE, code=code)


def _opened(data: bytes) -> ELFFile:
    if len(data) > LARGEST:
        raise _RefusedError(f"it has {len(data)} bytes, more than {LARGEST >> 20} MiB")
    if not data.startswith(b"\x7fELF"):
        raise _RefusedError("it is not an ELF file")
    file = ELFFile(BytesIO(data))
    machine, kind = str(file["e_machine"]).removeprefix("EM_"), str(file["e_type"])
    if not file.little_endian:
        raise _RefusedError("it is big-endian")
    if file.elfclass != 64 or machine != "BPF":
        raise _RefusedError(f"it holds {file.elfclass}-bit code for {machine}")
    if kind != "ET_REL":
        raise _RefusedError(f"it is linked ({kind}), not an object")
    return file


def _sections(file: ELFFile, data: bytes) -> Iterator[Section]:
    if file.num_sections() > _MOST_SECTIONS:
        raise _RefusedError(f"it claims {file.num_sections()} sections")
    for section in file.iter_sections():
        kind, start, size = section["sh_type"], section["sh_offset"], section["sh_size"]
        in_file = kind not in ("SHT_NOBITS", "SHT_NULL")
        if size > (len(data) - start if in_file else LARGEST):
            raise _RefusedError(f"section {section.name} claims {size} bytes")
        flags = section["sh_flags"]
        content = data[start : start + size] if in_file else None
        code = bool(flags & _EXECUTABLE) and kind == "SHT_PROGBITS"
        yield Section(str(section.name), code, bool(flags & _ALLOCATED), size, content, start)


def _symbols(file: ELFFile, sections: tuple[Section, ...]) -> Iterator[Symbol]:
    table = file.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise _RefusedError("it has no symbols (was it stripped?)")
    for symbol in table.iter_symbols():
        where, info = symbol["st_shndx"], symbol["st_info"]
        section = where if isinstance(where, int) else None
        if section is not None and section >= len(sections):
            raise _RefusedError(f"it is damaged: symbol {symbol.name} is in section {section}, which does not exist")
        yield Symbol(
            str(symbol.name) or ("" if section is None else sections[section].name),
            info["type"] == "STT_FUNC",
            info["bind"] == "STB_LOCAL",
            section,
            symbol["st_value"],
            symbol["st_size"],
        )


def _relocations(
    file: ELFFile, sections: tuple[Section, ...], symbols: tuple[Symbol, ...]
) -> Iterator[tuple[int, tuple[Relocation, ...]]]:
    for section in file.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        number = section["sh_info"]
        changed = sections[number]
        if not changed.allocated and not changed.name.startswith(".BTF"):
            continue  # debug information
        if section.is_RELA():
            raise _RefusedError("its relocations have a format that clang does not use (RELA)")
        yield number, tuple(_relocation(entry, symbols) for entry in section.iter_relocations())


def _relocation(entry: Any, symbols: tuple[Symbol, ...]) -> Relocation:
    return Relocation(entry["r_offset"], entry["r_info_type"], symbols[entry["r_info_sym"]])

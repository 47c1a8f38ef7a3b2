"""Reads sections, symbols and relocations of a compiled eBPF program's ELF file, rejecting malformed files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from accel_magic import elf
from accel_magic.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.elf import Elf, Section

LARGEST: Final = 64 << 20
"""Maximum bytes of an object, and of one section in memory."""
# Relocations of LLVM's BPF back end.
OF_ADDRESS: Final = 1
"""R_BPF_64_64: relocation of a wide load."""
OF_CALL: Final = 10
"""R_BPF_64_32: relocation of a call."""
_OF_WORD: Final = (3, 4)  # R_BPF_64_ABS32, R_BPF_64_NODYLD32: relocations of a 32-bit number in BTF
_TYPES: Final = {2: "ET_EXEC", 3: "ET_DYN", 4: "ET_CORE"}
_MACHINES: Final = {elf.X86_64: "x86-64", 183: "AArch64"}
_RECOMPILE: Final = "compile it: clang -target bpf -O2 -g -c program.bpf.c"


class _RefusedError(Exception):
    pass


@dataclass(frozen=True)
class BpfSection:
    """One section; `data` is None if it is all zeros and not in the file, where it would begin at `start`."""

    name: str
    code: bool
    allocated: bool
    size: int
    data: bytes | None
    start: int


@dataclass(frozen=True, slots=True)
class BpfSymbol:
    """One symbol: `section` is the section's number, None if the object does not define the symbol."""

    name: str
    function: bool
    local: bool
    section: int | None
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class BpfRelocation:
    """A reference to a symbol, at `offset` bytes in a section."""

    offset: int
    type: int
    symbol: BpfSymbol


@dataclass(frozen=True)
class BpfElf:
    """An object. Sections and symbols are indexed by their numbers, relocations by the section that they modify."""

    sections: tuple[BpfSection, ...]
    symbols: tuple[BpfSymbol, ...]
    relocations: Mapping[int, tuple[BpfRelocation, ...]]

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


def read_elf(data: bytes, source: str) -> BpfElf:
    """Read an object.

    Raises:
        ProgramError: It is not an ELF file, is for another machine or byte order, is linked, is damaged, or is too
            large.

    """
    try:
        file = _opened(data)
        sections = tuple(_sections(file, data))
        symbols = tuple(_symbols(file))
        return BpfElf(sections, symbols, dict(_relocations(file, symbols)))
    except (_RefusedError, elf.ForeignElfError) as error:
        raise _error(source, str(error), code="gpu.not-an-object") from None
    except elf.ElfError as error:
        raise _error(source, f"it is damaged: {error}", code="gpu.object-damaged") from None


def _error(source: str, why: str, *, code: str) -> ProgramError:
    return ProgramError(f"{source} is not an eBPF object that can be loaded", why=why, fix=_RECOMPILE, code=code)


def _opened(data: bytes) -> Elf:
    if len(data) > LARGEST:
        raise _RefusedError(f"it has {len(data)} bytes, more than {LARGEST >> 20} MiB")
    if not data.startswith(elf.MAGIC):
        raise _RefusedError("it is not an ELF file")
    file = elf.read(BytesIO(data))
    if file.machine != elf.BPF:
        raise _RefusedError(f"it contains code for {_MACHINES.get(file.machine, f'machine {file.machine}')}, not eBPF")
    if file.type != elf.RELOCATABLE:
        raise _RefusedError(f"it is linked ({_TYPES.get(file.type, f'type {file.type}')}), not an object")
    return file


def _sections(file: Elf, data: bytes) -> Iterator[BpfSection]:
    available = len(data)
    for section in file.sections:
        in_file = section.type not in (elf.NOBITS, elf.NULL)
        if section.size > (len(data) - section.offset if in_file else LARGEST):
            raise _RefusedError(f"section {section.name} claims {section.size} bytes")
        available -= section.size if in_file else 0
        if available < 0:
            raise elf.ElfError("its sections overlap")
        content = data[section.offset : section.offset + section.size] if in_file else None
        code = bool(section.flags & elf.EXECUTABLE) and section.type == elf.PROGBITS
        allocated = bool(section.flags & elf.ALLOCATED)
        yield BpfSection(section.name, code, allocated, section.size, content, section.offset)


def _symbols(file: Elf) -> Iterator[BpfSymbol]:
    table = file.table(elf.SYMTAB)
    if table is None:
        raise _RefusedError("it has no symbols (was it stripped?)")
    symbols = file.symbols(table)
    names = elf.names(file.strings(table), symbols["name"].tolist())
    for name, (_, info, _, number, value, size) in zip(names, symbols.tolist(), strict=True):
        section = number if elf.UNDEFINED < number < elf.FIRST_RESERVED else None
        if section is not None and section >= len(file.sections):
            raise elf.ElfError(f"symbol {name} is in section {section}, which does not exist")
        yield BpfSymbol(
            name or ("" if section is None else file.sections[section].name),
            info & 0xF == elf.FUNCTION,
            info >> 4 == elf.LOCAL,
            section,
            value,
            size,
        )


def _relocations(file: Elf, symbols: tuple[BpfSymbol, ...]) -> Iterator[tuple[int, tuple[BpfRelocation, ...]]]:
    for section in file.sections:
        if section.type not in elf.RELOCATIONS or not _is_used(file.relocated(section)):
            continue
        if section.type != elf.REL:
            raise _RefusedError("its relocations have a format that clang does not use (RELA)")
        entries = file.relocations(section)
        if len(entries) and entries["symbol"].max() >= len(symbols):
            raise elf.ElfError(f"{section.name} refers to a symbol that does not exist")
        rows = entries.tolist()
        yield section.info, tuple(BpfRelocation(offset, type_, symbols[symbol]) for offset, type_, symbol in rows)


def _is_used(section: Section) -> bool:
    """Whether a section is loaded or is BTF; the others are debug information."""
    return bool(section.flags & elf.ALLOCATED) or section.name.startswith(".BTF")

"""USDT probes: the notes in programs and libraries that say where they are and where their arguments are."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.elf import X86_64, ElfError
from accel_magic.probes import program_files
from accel_magic.probes.plan import UNREADABLE, UsdtArgument
from accel_magic.probes.program_files import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.elf import Elf

_NOTE_SECTION, _BASE_SECTION = ".note.stapsdt", ".stapsdt.base"
_NOTE_TYPE, _OWNER = 3, b"stapsdt\0"
_NOTE = struct.Struct("<III")
_ADDRESSES = struct.Struct("<QQQ")
_MOST_NOTES = 1 << 24
"""Bytes of a section of notes."""


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


def probes(path: Path) -> tuple[UsdtProbe, ...]:
    """USDT probes of a program or library, in file order; cached until the file changes.

    Raises:
        ProbeError: The file cannot be read or is not a 64-bit ELF file.

    """
    return _probes(*identity(path))


@lru_cache(maxsize=64)
def _probes(path: str, *_identity: int) -> tuple[UsdtProbe, ...]:
    with program_files.opened(Path(path)) as file:
        return tuple(_of_notes(file))


def places(file: Elf) -> set[tuple[int, int]]:
    """File offsets of all USDT probes, each with that of its semaphore, or 0. Raises ElfError."""
    return {(note.offset, note.semaphore) for note in _notes(file)}


@dataclass(frozen=True)
class _UsdtNote:
    """Offsets in the file of a USDT probe and its semaphore, and the note's texts."""

    offset: int
    semaphore: int
    texts: bytes


def _of_notes(file: Elf) -> Iterator[UsdtProbe]:
    for note in _notes(file):
        texts = note.texts.split(b"\0")
        provider, name, arguments = (text.decode(errors="replace") for text in (texts + [b""] * 3)[:3])
        parsed = tuple(parse_argument(text, file.machine) for text in arguments.split())
        yield UsdtProbe(provider, name, note.offset, note.semaphore, parsed, arguments)


def _notes(file: Elf) -> Iterator[_UsdtNote]:
    """The notes in the file's order; those of places outside of its segments are left out."""
    section, moved_to = file.named(_NOTE_SECTION), file.named(_BASE_SECTION)
    notes = list(_read_notes(file.data(section, limit=_MOST_NOTES) if section is not None else b""))
    addresses = np.array([_ADDRESSES.unpack_from(note) for note in notes], np.uint64).reshape(-1, 3)
    location, linked_base, semaphore = addresses.T
    base = np.uint64(moved_to.address if moved_to is not None else 0)
    moved = np.where((base != 0) & (linked_base != 0), base - linked_base, np.uint64(0))
    offsets, inside = file.segments.file_offsets(np.where(location != 0, location + moved, np.uint64(0)))
    semaphores, _ = file.segments.file_offsets(np.where(semaphore != 0, semaphore + moved, np.uint64(0)))
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
            if min(size, len(data) - at) < _ADDRESSES.size:
                raise ElfError("a USDT note is incomplete")
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


def parse_argument(text: str, machine: int = X86_64) -> UsdtArgument:
    """Parse one argument's location in assembler notation: `-4@%eax`, `8@$5`, `8@-16(%rbp,%rcx,8)`.

    Returns:
        The location, with register names of pt_regs (`ax` for %rax and %eax); UNREADABLE for anything else, such
        as `8@symbol(%rip)`, floating-point registers, or machines other than x86-64.

    """
    found = _ARGUMENT.fullmatch(text)
    if not found or machine != X86_64:
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

"""USDT probes of an ELF file, from its `.note.stapsdt` notes.

Layout: a note of type 3 owned by "stapsdt" holds three 64-bit addresses (the probe's instruction, the link-time address
of section `.stapsdt.base`, the semaphore or 0) and three NUL-ended texts (provider, name, arguments). Where the library
was moved after linking (prelink), the addresses are off by as much as the base section is.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.probes.elf import identity, opened
from accel_magic.probes.plan import UNREADABLE, UsdtArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.probes.elf import Elf

_NOTE_SECTION, _BASE_SECTION = ".note.stapsdt", ".stapsdt.base"
_NOTE_TYPE, _OWNER = 3, b"stapsdt\0"
_NOTE = struct.Struct("<III")
_ADDRESSES = struct.Struct("<QQQ")


@dataclass(frozen=True)
class UsdtProbe:
    """One location of a probe; inlining and repeated use give a probe several.

    `offset` and `semaphore` (0 = none) are file offsets. An argument that cannot be read is UNREADABLE, so that the
    others keep their numbers; `argument_text` is the note's own.
    """

    provider: str
    name: str
    offset: int
    semaphore: int
    arguments: tuple[UsdtArgument, ...]
    argument_text: str


def probes(path: Path) -> tuple[UsdtProbe, ...]:
    """USDT probes of a program or library, in the file's order; kept until the file changes.

    Raises:
        ProbeError: The file cannot be read or is no 64-bit ELF file.

    """
    return _probes(*identity(path))


@lru_cache(maxsize=64)
def _probes(path: str, *_identity: int) -> tuple[UsdtProbe, ...]:
    with opened(Path(path)) as elf:
        notes, base = elf.named(_NOTE_SECTION), elf.named(_BASE_SECTION)
        data = elf.data(notes) if notes is not None else b""
        return tuple(_read_notes(elf, data, base.address if base is not None else 0))


def _read_notes(elf: Elf, data: bytes, base: int) -> Iterator[UsdtProbe]:
    at = 0
    while at + _NOTE.size <= len(data):
        owner_size, size, type_ = _NOTE.unpack_from(data, at)
        at += _NOTE.size
        owner = data[at : at + owner_size]
        at += _aligned(owner_size)
        if type_ == _NOTE_TYPE and owner == _OWNER:
            yield from _read_note(elf, data[at : at + size], base)
        at += _aligned(size)


def _read_note(elf: Elf, note: bytes, base: int) -> Iterator[UsdtProbe]:
    location, linked_base, semaphore = _ADDRESSES.unpack_from(note)
    moved = base - linked_base if base and linked_base else 0
    texts = note[_ADDRESSES.size :].split(b"\0")
    provider, name, arguments = (text.decode(errors="replace") for text in (texts + [b""] * 3)[:3])
    addresses = [address + moved if address else 0 for address in (location, semaphore)]
    offsets, inside = elf.segments.file_offsets(np.array(addresses, np.uint64))
    if inside[0]:
        parsed = tuple(parse_argument(text, elf.machine) for text in arguments.split())
        yield UsdtProbe(provider, name, int(offsets[0]), int(offsets[1]) if semaphore else 0, parsed, arguments)


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def _registers() -> dict[str, str]:
    """Every x86-64 name of a register, or of its low part, to the whole one's name in the kernel's pt_regs."""
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
    """Read one argument's place in the assembler's notation: `-4@%eax`, `8@$5`, `8@-16(%rbp,%rcx,8)`.

    Returns:
        The place, with registers as pt_regs calls them (`ax` for %rax and %eax); UNREADABLE for anything else, such
        as `8@symbol(%rip)`, floating-point registers, or another machine than x86-64.

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

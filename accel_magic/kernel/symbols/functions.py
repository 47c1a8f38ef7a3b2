"""Functions of ELF files by address: arrays that are searched in bulk, names extracted only on demand."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import elf
from accel_magic.elf import DYNSYM, FUNCTIONS, SYMBOL, SYMTAB, Elf, ElfError, Segments, name_at
from accel_magic.errors import ProbeError
from accel_magic.kernel.symbols.mappings import is_link
from accel_magic.kernel.symbols.ranges import containing
from accel_magic.probes import program_files
from accel_magic.probes.file_functions import separate
from accel_magic.probes.program_files import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LAST: Final = 2**64 - 1
_INTERNAL: Final = "__GI_"
"""Prefix of glibc's internal names."""
_PAGE: Final = 4096
_UNDERSCORE: Final = ord("_")
NOWHERE: Final = np.uint64(2**64 - 1)
"""Address of offsets that are not loaded."""


@dataclass(frozen=True)
class Functions:
    """F functions of a file.

    Attributes:
        starts: (F,) uint64, addresses as in the file, ascending.
        ends: (F,) uint64.
        names: (F,) int64, offset of each name in `text`.
        text: Names, each terminated by a zero byte.
        beginnings: uint64, ascending: start addresses of functions, including those with stripped names.
        segments: The file's executable segments.

    """

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    names: NDArray[np.int64]
    text: bytes
    beginnings: NDArray[np.uint64]
    segments: Segments

    def addresses(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Addresses of file offsets, (N,) uint64; `NOWHERE` if not loaded."""
        order = np.argsort(self.segments.offsets, kind="stable")
        starts, sizes = self.segments.offsets[order], self.segments.sizes[order]
        if not len(starts):
            return np.full(len(offsets), NOWHERE)
        at = np.maximum(np.searchsorted(starts, offsets, side="right") - 1, 0)
        # The last page of a segment is mapped whole.
        inside = (offsets >= starts[at]) & (offsets - starts[at] < (sizes[at] + np.uint64(_PAGE - 1)))
        return np.where(inside, offsets - starts[at] + self.segments.addresses[order][at], NOWHERE)

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Function of each address, (N,) int64; -1 if unknown."""
        return containing(self.starts, self.ends, addresses)

    def beginning(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Start of the function at each address, (N,) uint64; the address itself if unknown."""
        at = np.searchsorted(self.beginnings, addresses, side="right") - 1
        return np.where((at >= 0) & (addresses != NOWHERE), np.append(self.beginnings, np.uint64(0))[at], addresses)

    def name(self, function: int) -> str:
        """Symbol of a function, without version and internal prefix."""
        return name_at(self.text, int(self.names[function])).partition("@")[0].removeprefix(_INTERNAL)


def of_file(path: Path) -> Functions:
    """Functions of a file mapped by a process; cached until the file changes. None if it cannot be read."""
    try:
        return _of_file(*identity(path))
    except ProbeError:
        return NONE


def of_image(image: bytes) -> Functions:
    """Functions of an ELF file in memory, such as the vdso. None if it cannot be read."""
    try:
        file = elf.read(io.BytesIO(image))
        return _functions(_tables(file), file.beginnings(), file.executable)
    except ElfError:
        return NONE


@lru_cache(maxsize=256)
def _of_file(path: str, *_identity: int) -> Functions:
    place = Path(path)
    with program_files.opened(place, follow=is_link(place)) as file:
        tables = _tables(file)
        with separate(file, place) as debug:
            tables += _tables_or_none(debug)
        return _functions(tables, file.beginnings(), file.executable)


@dataclass(frozen=True)
class _Table:
    """Code symbols of one symbol table: entries of type `SYMBOL`, the end of each entry's section, and the names."""

    entries: NDArray[np.void]
    limits: NDArray[np.uint64]
    text: bytes


def _tables(file: Elf) -> list[_Table]:
    found = []
    for section in filter(None, map(file.table, (SYMTAB, DYNSYM))):
        text, entries = file.strings(section), file.symbols(section)
        requested = np.isin(entries["info"] & 0xF, FUNCTIONS) & (entries["section"] != elf.UNDEFINED)
        requested &= (entries["name"] > 0) & (entries["name"] < len(text))
        sections, inverse = np.unique(entries["section"][requested], return_inverse=True)
        ends = np.array([file.section_end(index) for index in sections.tolist()], np.uint64)
        found.append(_Table(entries[requested], ends[inverse], text))
    return found


def _tables_or_none(debug: Elf | None) -> list[_Table]:
    try:
        return _tables(debug) if debug is not None else []
    except ElfError:
        return []


def _functions(tables: Sequence[_Table], beginnings: NDArray[np.uint64], segments: Segments) -> Functions:
    """Choose one function per address: among several names a global one with few leading underscores."""
    shifts = np.cumsum([0, *(len(table.text) + 1 for table in tables)])
    text = b"".join(table.text + b"\0" for table in tables)
    entries = np.concatenate([np.empty(0, SYMBOL), *(table.entries for table in tables)])
    counts = [len(table.entries) for table in tables]
    names = entries["name"].astype(np.int64) + np.repeat(shifts[:-1], counts)
    letters = np.frombuffer(text + bytes(1), np.uint8)
    reserved = letters[names] == _UNDERSCORE
    underscores = reserved.astype(np.int8) + (reserved & (letters[names + 1] == _UNDERSCORE))
    local = entries["info"] >> 4 == 0
    order = np.lexsort((names, local, underscores, entries["value"]))
    starts, first = np.unique(entries["value"][order], return_index=True)
    sizes = np.zeros(len(starts), np.uint64)
    np.maximum.at(sizes, np.searchsorted(starts, entries["value"]), entries["size"])
    # Functions written in assembly may have no size: they end at the next function or the end of their section.
    limits = np.concatenate([np.empty(0, np.uint64), *(table.limits for table in tables)])[order][first]
    following = np.append(starts[1:], np.uint64(_LAST))[: len(starts)]
    ends = np.where(sizes > 0, starts + sizes, np.minimum(following, limits))
    return Functions(starts, ends, names[order][first], text, beginnings, segments)


NONE: Final = _functions((), np.zeros(0, np.uint64), Segments(*np.zeros((3, 0), np.uint64)))
"""Functions of a file that cannot be read."""

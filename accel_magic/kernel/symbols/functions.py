"""Functions of ELF files by address: arrays that are searched in bulk, names cut out only where they are wanted."""

from __future__ import annotations

import io
import lzma
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.kernel.symbols.ranges import containing
from accel_magic.probes import elf
from accel_magic.probes.elf import FUNCTIONS, SYMBOL, TABLES, Elf, Segments, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DEBUG_FOLDER: Final = Path("/usr/lib/debug/.build-id")
_MINI_DEBUG: Final = ".gnu_debugdata"
_BUILD_ID: Final = ".note.gnu.build-id"
_MOST_MINI_DEBUG: Final = 1 << 28
_UNWINDING: Final = ".eh_frame_hdr"
_UNWINDING_FORM: Final = b"\x01\x03\x3b"
"""Version; a count of 32 bits; a sorted table of 32-bit offsets from the section's address: what linkers write."""
_LAST: Final = 2**64 - 1
_INTERNAL: Final = "__GI_"
"""How glibc's names for its own use begin."""
_PAGE: Final = 4096
_UNDERSCORE: Final = ord("_")
NOWHERE: Final = np.uint64(2**64 - 1)
"""Address of an offset that the file does not load."""


@dataclass(frozen=True)
class Functions:
    """F functions of a file.

    Attributes:
        starts: (F,) uint64, addresses as in the file, ascending.
        ends: (F,) uint64.
        names: (F,) int64, where each name begins in `text`.
        text: Names, each ended by a zero byte.
        beginnings: uint64, ascending: where functions begin, also those whose names are stripped.
        segments: What the file loads as code.

    """

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    names: NDArray[np.int64]
    text: bytes
    beginnings: NDArray[np.uint64]
    segments: Segments

    def addresses(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Addresses of offsets in the file, (N,) uint64; `NOWHERE` where it loads none."""
        order = np.argsort(self.segments.offsets, kind="stable")
        starts, sizes = self.segments.offsets[order], self.segments.sizes[order]
        if not len(starts):
            return np.full(len(offsets), NOWHERE)
        at = np.maximum(np.searchsorted(starts, offsets, side="right") - 1, 0)
        # The last page of a segment is mapped whole.
        inside = (offsets >= starts[at]) & (offsets - starts[at] < (sizes[at] + np.uint64(_PAGE - 1)))
        return np.where(inside, offsets - starts[at] + self.segments.addresses[order][at], NOWHERE)

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Function of each address, (N,) int64; -1 where none is known."""
        return containing(self.starts, self.ends, addresses)

    def beginning(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Beginning of the function at each address, (N,) uint64; the address itself where that is not known."""
        at = np.searchsorted(self.beginnings, addresses, side="right") - 1
        return np.where((at >= 0) & (addresses != NOWHERE), np.append(self.beginnings, np.uint64(0))[at], addresses)

    def name(self, function: int) -> str:
        """Symbol of a function, without its version, and as others know it."""
        start = int(self.names[function])
        return (
            self.text[start : self.text.index(b"\0", start)]
            .decode(errors="replace")
            .partition("@")[0]
            .removeprefix(_INTERNAL)
        )


def of_file(path: Path) -> Functions:
    """Functions of a program or library; kept until the file changes. A file that cannot be read has none."""
    try:
        return _of_file(*identity(path))
    except ProbeError:
        return NONE


def of_image(image: bytes) -> Functions:
    """Functions of an ELF file in memory, such as the vdso. One that cannot be read has none."""
    try:
        file = elf.read(io.BytesIO(image), "the image")
        return _functions(_tables(file), _beginnings(file), file.executable)
    except (ProbeError, *elf.DAMAGED):
        return NONE


@lru_cache(maxsize=256)
def _of_file(path: str, *_identity: int) -> Functions:
    with elf.opened(Path(path)) as file:
        headers = list(file.section_headers())
        tables = _tables(file)
        if all(type_ != "SHT_SYMTAB" for _, _, type_ in headers):
            tables += _separate(file, {name: index for index, name, _ in headers})
        return _functions(tables, _beginnings(file), file.executable)


@dataclass(frozen=True)
class _Table:
    """Code symbols of one symbol table: entries of type `SYMBOL`, where the section of each ends, and their names."""

    entries: NDArray[np.void]
    limits: NDArray[np.uint64]
    text: bytes


def _tables(file: Elf) -> list[_Table]:
    found = []
    for index, _, type_ in file.section_headers():
        if type_ not in TABLES:
            continue
        section = file.section(index)
        text = file.section(section.link).data
        entries = np.frombuffer(section.data, SYMBOL, count=len(section.data) // SYMBOL.itemsize)
        wanted = np.isin(entries["info"] & 0xF, FUNCTIONS) & (entries["section"] != 0)
        wanted &= (entries["name"] > 0) & (entries["name"] < len(text))
        sections, inverse = np.unique(entries["section"][wanted], return_inverse=True)
        ends = np.array([file.section_end(section) for section in sections.tolist()], np.uint64)
        found.append(_Table(entries[wanted], ends[inverse], text))
    return found


def _separate(file: Elf, sections: dict[str, int]) -> list[_Table]:
    """Tables of a stripped file that lie elsewhere: packed in a section of its own, or in a file of its build id."""
    if _MINI_DEBUG in sections:
        packed = lzma.LZMADecompressor().decompress(file.section(sections[_MINI_DEBUG]).data, _MOST_MINI_DEBUG)
        return _tables(elf.read(io.BytesIO(packed), _MINI_DEBUG))
    if _BUILD_ID not in sections:
        return []
    note = file.section(sections[_BUILD_ID]).data
    sizes = np.frombuffer(note[:8], "<u4")
    id_ = note[12 + -(-int(sizes[0]) // 4) * 4 :][: int(sizes[1])].hex()
    try:
        with elf.opened(_DEBUG_FOLDER / id_[:2] / f"{id_[2:]}.debug") as debug:
            return _tables(debug)
    except ProbeError:
        return []


def _beginnings(file: Elf) -> NDArray[np.uint64]:
    """Read the table that exceptions are unwound by: it has an entry for each function, and stripping leaves it."""
    for index, name, _ in file.section_headers():
        if name == _UNWINDING:
            section = file.section(index)
            if section.data[:1] + section.data[2:4] != _UNWINDING_FORM:
                break
            count = int(np.frombuffer(section.data, "<u4", 1, 8)[0])
            entries = np.frombuffer(section.data, [("function", "<i4"), ("how", "<i4")], count, 12)
            return np.sort(entries["function"].astype(np.int64) + section.address).astype(np.uint64)
    return np.zeros(0, np.uint64)


def _functions(tables: Sequence[_Table], beginnings: NDArray[np.uint64], segments: Segments) -> Functions:
    """One function for each address: of several names a global one, with few underscores in front."""
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
    # Functions written in assembly may have no size: they reach to the next, or to the end of their section.
    limits = np.concatenate([np.empty(0, np.uint64), *(table.limits for table in tables)])[order][first]
    following = np.append(starts[1:], np.uint64(_LAST))[: len(starts)]
    ends = np.where(sizes > 0, starts + sizes, np.minimum(following, limits))
    return Functions(starts, ends, names[order][first], text, beginnings, segments)


NONE: Final = _functions((), np.zeros(0, np.uint64), Segments(*np.zeros((3, 0), np.uint64)))
"""What a file has that cannot be read."""

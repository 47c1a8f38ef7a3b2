"""Functions of an ELF file that can be probed: names and file offsets, read in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.probes.elf import DYNSYM, FUNCTIONS, IFUNC, SYMBOL, SYMTAB, identity, name_at, opened
from accel_magic.probes.globs import is_glob, matcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.elf import Elf, Section


_MOST_TEXT: Final = 1 << 28
"""Characters of all names of a table."""


@dataclass(frozen=True)
class Function:
    """One place where functions start: its preferred name, offset in the file, other names, and whether it resolves.

    An `ifunc` is a resolver: it runs once, when the loader picks an implementation, and not at each call.
    """

    name: str
    offset: int
    aliases: tuple[str, ...] = ()
    ifunc: bool = False


@dataclass(frozen=True)
class Symbols:
    """Function symbols of a file, one entry per name and place, in no particular order.

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
        """Places of which one name matches the glob, sorted by name; names of one place are one entry.

        It goes by the plainest of the names that match; the rest are its aliases.
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


def functions(path: Path) -> Symbols:
    """Function symbols of a program or library; kept until the file changes.

    Raises:
        ProbeError: The file cannot be read or is no 64-bit ELF file.

    """
    return _functions(*identity(path))


@lru_cache(maxsize=64)
def _functions(path: str, *_identity: int) -> Symbols:
    file = Path(path)
    with opened(file) as elf:
        tables = [_read_table(elf, table) for type_ in (SYMTAB, DYNSYM) if (table := elf.table(type_)) is not None]
    entries = {entry: None for table in tables for entry in table}
    if not entries:
        return Symbols((), np.zeros(0, np.uint64), np.zeros(0, np.bool_))
    names, offsets, ifuncs = zip(*entries, strict=True)
    return Symbols(names, np.array(offsets, np.uint64), np.array(ifuncs, np.bool_))


def _read_table(elf: Elf, section: Section) -> list[tuple[str, int, bool]]:
    strings, data = elf.data(elf.sections[section.link]), elf.data(section)
    table = np.frombuffer(data, SYMBOL, count=len(data) // SYMBOL.itemsize)
    kind = table["info"] & 0xF
    offsets, loaded = elf.executable.file_offsets(table["value"])
    # Section 0 is "undefined": the symbol lives in another library.
    wanted = np.isin(kind, FUNCTIONS) & (table["section"] != 0) & loaded
    wanted &= table["name"] < len(strings)
    names = _names(strings, table["name"][wanted].tolist())
    return [
        (name.partition("@")[0], offset, ifunc)
        for name, offset, ifunc in zip(names, offsets[wanted].tolist(), (kind[wanted] == IFUNC).tolist(), strict=True)
        if name
    ]


def _names(strings: bytes, starts: list[int]) -> list[str]:
    """Read names; those of a damaged table can overlap, and be larger together than the table."""
    names, size = [], 0
    for start in starts:
        name = name_at(strings, start)
        names.append(name)
        size += len(name)
        if size > _MOST_TEXT:
            raise ValueError(f"its names have more than {_MOST_TEXT} characters")
    return names


def _plainness(name: str) -> tuple[int, int, str]:
    return len(name) - len(name.lstrip("_")), len(name), name


def no_symbols(path: Path) -> ProbeError:
    """Make the error for a file without any function symbol."""
    return ProbeError(
        f"{path} has no function symbols",
        why="it is stripped",
        fix="install the library's unstripped build",
        code="probe.no-symbols",
    )

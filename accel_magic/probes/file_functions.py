"""Function symbols of programs and libraries, and where they are if the file is stripped.

A stripped file's symbols are in a compressed section of it (`.gnu_debugdata`), or in a separate file, found by build
id or by the name in `.gnu_debuglink`, in the places that debuggers search.
"""

from __future__ import annotations

import io
import lzma
import re
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import elf, foreign_files
from accel_magic.demangle import MANGLED, function_name, learn, signature
from accel_magic.elf import DYNSYM, FUNCTIONS, IFUNC, SYMTAB
from accel_magic.errors import ProbeError
from accel_magic.probes import program_files
from accel_magic.probes.globs import is_glob, matcher
from accel_magic.probes.program_files import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.elf import Elf, Section, Segments

DEBUG_FOLDER: Final = Path("/usr/lib/debug")
_MINI_DEBUG: Final = ".gnu_debugdata"
_BUILD_ID: Final = ".note.gnu.build-id"
_LINK: Final = ".gnu_debuglink"
_MOST_PACKING: Final = 64
"""Maximum compression ratio of a table; symbol tables reach 4 to 8."""
_LARGEST_UNPACKED: Final = 1 << 27
_LARGEST_CHECKED: Final = 1 << 31
"""Maximum size of a file whose checksum is computed."""
_PART: Final = 1 << 20
_NOTE_HEAD: Final = 12
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_NOT_IN_SYMBOLS: Final = ("std", "operator", "anonymous", "namespace", "const", "void")
"""Words of C++ names that symbols abbreviate."""
_MOST_DEMANGLED: Final = 20_000
_MOST_SHOWN: Final = 3


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


def functions(path: Path) -> Symbols:
    """Function symbols of a program or library; cached until it or its separate debug file changes.

    Raises:
        ProbeError: The file cannot be read or is not a 64-bit ELF file.

    """
    places = _places(*identity(path))
    debug = tuple(identity(place) for place in places if place.is_file())
    return _functions(*identity(path), debug)


def by_signature(known: Symbols, name: str) -> list[Function]:
    """Functions whose C++ or Rust name matches a glob, with its parameters or, if it has none, without; by symbol.

    Args:
        known: The functions of a file.
        name: As code has it: `add(int, int)`, `ns::add`.

    """
    if "::" not in name and "(" not in name:
        return []
    words = [word for word in _WORD.findall(name.partition("(")[0]) if word not in _NOT_IN_SYMBOLS]
    last = words[-1:]  # back references in Rust's symbols stand for words before the last
    symbols = [
        each
        for each in known.names
        if each.startswith(MANGLED) and all(word in each for word in (last if each.startswith("_R") else words))
    ]
    if len(symbols) > _MOST_DEMANGLED:
        return []
    learn(symbols)
    test = matcher(_compact(name))
    chosen = [
        symbol
        for symbol in symbols
        if test(_compact(signature(symbol))) or ("(" not in name and test(_compact(function_name(symbol))))
    ]
    found = {function.offset: function for symbol in dict.fromkeys(chosen) for function in known.match(symbol)}
    return sorted(found.values(), key=lambda function: function.name)


def overloads(known: Symbols, name: str) -> str:
    """The first functions with the name of a C++ function and other parameters, as `add(int, int) [_Z3addii]`."""
    if "(" not in name:
        return ""
    found = by_signature(known, f"{name.partition('(')[0]}(*")
    return ", ".join(f"{signature(function.name)} [{function.name}]" for function in found[:_MOST_SHOWN])


def _compact(name: str) -> str:
    return name.replace(" ", "")


def no_symbols(path: Path) -> ProbeError:
    """Make the error for a file without function symbols."""
    return ProbeError(
        f"{path} has no function symbols",
        why=f"it is stripped, and there is no separate debug file of it in {DEBUG_FOLDER} or beside it",
        fix="install its debug package (Debian: PACKAGE-dbgsym), or its unstripped build",
        code="probe.no-symbols",
    )


@lru_cache(maxsize=64)
def _functions(path: str, *_identity: object) -> Symbols:
    file = Path(path)
    with program_files.opened(file) as opened, separate(opened, file) as debug:
        entries = dict.fromkeys(
            entry
            for each in (opened, debug)
            if each is not None
            for section in map(each.table, (SYMTAB, DYNSYM))
            if section is not None
            for entry in _entries(each, section, opened.executable)
        )
    if not entries:
        return Symbols((), np.zeros(0, np.uint64), np.zeros(0, np.bool_))
    names, offsets, ifuncs = zip(*entries, strict=True)
    return Symbols(names, np.array(offsets, np.uint64), np.array(ifuncs, np.bool_))


def function_offsets(file: Elf) -> set[int]:
    """File offsets of all functions that have a symbol or an entry for unwinding. Raises ElfError."""
    offsets, loaded = file.executable.file_offsets(file.beginnings())
    found: set[int] = set(offsets[loaded].tolist())
    for section in filter(None, map(file.table, (SYMTAB, DYNSYM))):
        _, offsets, are_functions = _function_rows(file, section, file.executable)
        found.update(offsets[are_functions].tolist())
    return found


def _entries(file: Elf, section: Section, executable: Segments) -> list[tuple[str, int, bool]]:
    """Name, file offset and whether it is an IFUNC resolver, of each function in a symbol table.

    Args:
        file: The file that has the table.
        section: The table.
        executable: Executable segments of the program or library, which differs from `file` if it is stripped.

    """
    strings = file.strings(section)
    symbols, offsets, are_functions = _function_rows(file, section, executable)
    chosen = are_functions & (symbols["name"] < len(strings))
    names = elf.names(strings, symbols["name"][chosen].tolist())
    resolvers = symbols["info"][chosen] & 0xF == IFUNC
    rows = zip(names, offsets[chosen].tolist(), resolvers.tolist(), strict=True)
    return [(name.partition("@")[0], offset, is_resolver) for name, offset, is_resolver in rows if name]


def _function_rows(
    file: Elf, section: Section, executable: Segments
) -> tuple[NDArray[np.void], NDArray[np.uint64], NDArray[np.bool_]]:
    """A symbol table, and of each symbol (symbols,): its file offset, and whether it is a function in the file."""
    symbols = file.symbols(section)
    offsets, loaded = executable.file_offsets(symbols["value"])
    # An undefined symbol is in another library.
    defined = symbols["section"] != elf.UNDEFINED
    return symbols, offsets, np.isin(symbols["info"] & 0xF, FUNCTIONS) & defined & loaded


def _plainness(name: str) -> tuple[int, int, str]:
    return len(name) - len(name.lstrip("_")), len(name), name


@contextmanager
def separate(file: Elf, path: Path) -> Iterator[Elf | None]:
    """Open the separate symbols of a stripped file; None if there are none, or they are damaged.

    Their addresses are those of the file, but they may have no segments: use the file's.

    Args:
        file: The file; with a symbol table of its own, nothing else is looked for.
        path: Its path.

    """
    with ExitStack() as keep:
        try:
            found = _separate(file, path, keep)
        except (ProbeError, elf.ElfError, lzma.LZMAError, OSError):
            found = None
        yield found


def _separate(file: Elf, path: Path, keep: ExitStack) -> Elf | None:
    packed = file.named(_MINI_DEBUG) if file.table(SYMTAB) is None else None
    if packed is not None:
        return elf.read(io.BytesIO(_unpacked(file.data(packed))))
    for place in _places_of(file, path):
        if place.is_file() and _belongs(file, place):
            return keep.enter_context(program_files.opened(place))
    return None


@lru_cache(maxsize=256)
def _places(path: str, *_identity: int) -> tuple[Path, ...]:
    with program_files.opened(Path(path)) as file:
        return _places_of(file, Path(path))


def _places_of(file: Elf, path: Path) -> tuple[Path, ...]:
    """Where the debug file of a stripped file may be, in the order of search."""
    if file.table(SYMTAB) is not None:
        return ()
    id_, link = _build_id(file), _linked(file)
    by_id = (DEBUG_FOLDER / ".build-id" / id_[:2] / f"{id_[2:]}.debug",) if id_ else ()
    folder = path.parent
    folders = (folder, folder / ".debug", DEBUG_FOLDER / folder.relative_to(folder.anchor)) if link else ()
    by_name = (each / link[0] for each in folders if link is not None)
    return (*by_id, *(place for place in by_name if place != path))


def _belongs(file: Elf, place: Path) -> bool:
    """Whether a debug file is of this very build: by the build ids, or the checksum beside its name."""
    with program_files.opened(place) as debug:
        id_, link = _build_id(file), _linked(file)
        if id_ and _build_id(debug):
            return id_ == _build_id(debug)
    return link is not None and _checksum(place) == link[1]


def _build_id(file: Elf) -> str:
    """Hexadecimal build id; empty without one."""
    section = file.named(_BUILD_ID)
    note = file.data(section) if section is not None else b""
    if len(note) < _NOTE_HEAD:
        return ""
    owner, size = np.frombuffer(note[:8], "<u4").tolist()
    return note[_NOTE_HEAD + -(-owner // 4) * 4 :][:size].hex()


def _linked(file: Elf) -> tuple[str, int] | None:
    """Name and checksum of the debug file that a file names."""
    section = file.named(_LINK)
    data = file.data(section) if section is not None else b""
    name = data.partition(b"\0")[0].decode(errors="replace")
    at = -(-(len(data.partition(b"\0")[0]) + 1) // 4) * 4
    if not name or "/" in name or name in (".", "..") or len(data) < at + 4:
        return None
    return name, int(np.frombuffer(data, "<u4", 1, at)[0])


def _checksum(path: Path) -> int:
    value = size = 0
    with foreign_files.opened(path) as file:
        while (part := file.read(_PART)) and size <= _LARGEST_CHECKED:
            value, size = zlib.crc32(part, value), size + len(part)
    return value if size <= _LARGEST_CHECKED else -1


def _unpacked(data: bytes) -> bytes:
    """Decompress a table, up to the size limit."""
    most = min(len(data) * _MOST_PACKING, _LARGEST_UNPACKED)
    return lzma.LZMADecompressor(memlimit=_LARGEST_UNPACKED).decompress(data, most)

"""Executable mappings of processes, and their files."""

from __future__ import annotations

import io
import mmap
import os
import re
from array import array
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np

from accel_magic import foreign_files
from accel_magic.elf import name_at
from accel_magic.errors import ProbeError
from accel_magic.kernel import scope
from accel_magic.kernel.symbols.ranges import containing
from accel_magic.probes.program_files import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

T = TypeVar("T")

_CODE: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S\Sx\S ([0-9a-f]+) (\S+) (\d+) *(.*)$", re.MULTILINE)
_USER: Final = re.compile(r"^Uid:\t\d+\t(\d+)", re.MULTILINE)
"""The effective user id, the second of four."""
DELETED: Final = " (deleted)"
_MAPPED_FILES: Final = "map_files"
_LINK: Final = re.compile(r"/proc/\d+/(map_files/[^/]+|fd/\d+|exe)")
OWN: Final = 0
"""Represents this process, whose id may differ in BPF programs."""
_MOST_TEXT: Final = 1 << 25
"""Maximum characters read from a maps file: 65,530 mappings, the default limit, take some 7 million."""
_OFFSET: Final = 3
"""Number of numeric columns of a mapping: start, end, file offset."""
FileId: TypeAlias = "tuple[str, int]"
"""Device (`fe:00`) and inode of a file, as the kernel shows them for mappings; stat(2) may show others."""
replaced_code: Final[dict[tuple[int, int], tuple[int, str, FileId]]] = {}
"""Pages of files in this process and its children that `accel_magic.patching` has replaced by memory, by start and end:
their file offset, name and file. The kernel shows no file for them."""


@dataclass(frozen=True)
class Mappings:
    """Executable mappings of one process, in order of address.

    Attributes:
        pid: The process's id as seen by this process.
        owner: Id of the user that the process runs as.
        starts: (M,) uint64.
        ends: (M,) uint64.
        offsets: (M,) uint64, file offsets.
        names: (M,), the kernel's names: the path of a file, `[vdso]`, or `` without a file.
        files: (M,), the files' ids; the inode is 0 without a file.
        ended: Whether the process has ended, so that its files can be found only by their names.

    """

    pid: int
    owner: int
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    offsets: NDArray[np.uint64]
    names: tuple[str, ...]
    files: tuple[FileId, ...]
    ended: bool = False

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Mapping of each address, (N,) int64; -1 if there is no code."""
        return containing(self.starts, self.ends, addresses)

    def file(self, mapping: int) -> Path | None:
        """Path from which a mapping's file can be read here; None if it has no file."""
        name = self.names[mapping]
        if not name.startswith("/"):
            return None
        if self.ended:
            return Path(name) if file_id(Path(name)) == self.files[mapping] else None
        if name.endswith(DELETED):
            return Path(f"/proc/{self.pid}/{_MAPPED_FILES}/{int(self.starts[mapping]):x}-{int(self.ends[mapping]):x}")
        inside = Path(f"/proc/{self.pid}/root{name}")  # for a process in a container
        return Path(name) if self.pid == os.getpid() or not inside.exists() else inside


def is_link(path: Path) -> bool:
    """Whether a path is a link of the kernel to a process's file. Other paths of mapped files are never links."""
    return _LINK.fullmatch(str(path)) is not None


@dataclass(frozen=True)
class Listing:
    """The kernel's text about a process's mappings. Parsing it takes longer than reading it, and can wait."""

    pid: int
    maps: str
    status: str

    @cached_property
    def mappings(self) -> Mappings | None:
        """What the text says; None for a zombie process."""
        found, user = list(map(_with_file, _CODE.findall(self.maps))), _USER.search(self.status)
        if not found or user is None:
            return None
        columns = np.array([[int(text, 16) for text in row[:_OFFSET]] for row in found], np.uint64)
        return Mappings(
            self.pid,
            int(user[1]),
            columns[:, 0],
            columns[:, 1],
            columns[:, 2],
            tuple(row[-1] for row in found),
            tuple((row[_OFFSET], int(row[_OFFSET + 1])) for row in found),
        )


def _with_file(row: tuple[str, ...]) -> tuple[str, ...]:
    """Add to replaced code what the kernel showed before."""
    start, end, *_ = row
    known = replaced_code.get((int(start, 16), int(end, 16))) if not row[-1] else None
    if known is None:
        return row
    offset, name, (device, inode) = known
    return start, end, f"{offset:x}", device, str(inode), name


def listing(pid: int) -> Listing | None:
    """Read the mappings of a process, to be parsed when needed; None if it is gone or not accessible."""
    try:
        with Path(f"/proc/{pid}/maps").open(errors="surrogateescape") as maps:
            text = maps.read(_MOST_TEXT).rpartition("\n")[0]
        return Listing(pid, text, Path(f"/proc/{pid}/status").read_text(errors="replace"))
    except OSError:
        return None


def read(pid: int) -> Mappings | None:
    """Read the mappings of a process; None if it is gone or not accessible."""
    found = listing(pid)
    return None if found is None else found.mappings


def file_id(path: Path) -> FileId | None:
    """Find the id that mappings of a file have, by mapping it here; None if it cannot be read or is empty."""
    try:
        return _file_id(*identity(path))
    except (OSError, ValueError, ProbeError):
        return None


@lru_cache(maxsize=256)
def _file_id(path: str, *_identity: int) -> FileId | None:
    place = Path(path)
    with (
        foreign_files.opened(place, follow=is_link(place)) as file,
        mmap.mmap(file.fileno(), 1, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped,
    ):
        view = np.frombuffer(mapped, np.uint8)
        start = f"{view.ctypes.data:x}-"
        del view  # else it could not be unmapped
        with Path("/proc/self/maps").open(errors="surrogateescape") as maps:
            row = next((line.split(maxsplit=5) for line in maps if line.startswith(start)), None)
    return (row[3], int(row[4])) if row is not None else None


class Processes:
    """Mappings of the processes of a trace, kept for processes that end during the trace.

    Args:
        recorded: Returns what a process, given by its id, was seen to map; None for unknown processes.

    """

    def __init__(self, recorded: Callable[[int], Mappings | None] = lambda _: None) -> None:
        self._known: dict[int, Mappings] = {}
        self._recorded = recorded

    def learn(self, pids: Iterable[int]) -> None:
        """Read mappings of processes, with ids that BPF programs see or `OWN`; those of ended processes are kept."""
        for pid in pids:
            visible = _visible(pid)
            found = read(visible) if visible is not None else None
            if found is not None:
                self._known[pid] = found

    def of(self, pid: int) -> Mappings | None:
        """Mappings of a process as last seen, and those that it had before; None if it was never seen."""
        visible = _visible(pid)
        return joined(None if visible is None else self._recorded(visible), self._known.get(pid))


def _visible(pid: int) -> int | None:
    """Id of a process as this process sees it; None if it cannot be translated."""
    return os.getpid() if pid == OWN else scope.visible_pid(pid)


def as_ended(of: Mappings, pid: int) -> Mappings:
    """The same mappings, of a process that has ended: one that had them, or was forked from one that did."""
    return replace(of, pid=pid, ended=True)


def joined(before: Mappings | None, after: Mappings | None) -> Mappings | None:
    """Join two states of a process: where mappings overlap, the later ones count."""
    if before is None or after is None:
        return after or before
    first = np.searchsorted(after.ends, before.starts, side="right")
    kept = np.flatnonzero(first == np.searchsorted(after.starts, before.ends, side="left"))
    starts = np.concatenate([before.starts[kept], after.starts])
    order = np.argsort(starts, kind="stable")
    return replace(
        after,
        starts=starts[order],
        ends=np.concatenate([before.ends[kept], after.ends])[order],
        offsets=np.concatenate([before.offsets[kept], after.offsets])[order],
        names=_chosen((*(before.names[at] for at in kept.tolist()), *after.names), order),
        files=_chosen((*(before.files[at] for at in kept.tolist()), *after.files), order),
    )


def _chosen(values: tuple[T, ...], order: NDArray[np.int64]) -> tuple[T, ...]:
    return tuple(values[at] for at in order.tolist())


_FOLDER: Final = Path("/tmp")  # noqa: S108 - the place is a convention
_MOST_BYTES: Final = 1 << 27
"""Only the end of a larger map, with the newest functions, is read."""
_HIGHEST: Final = 2**64 - 1


@dataclass(frozen=True)
class Compiled:
    """F functions: `starts`, `ends` (F,) uint64 sorted by address, `names` (F,) offsets in `text`."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    names: NDArray[np.uint64]
    text: bytes

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Function of each address, (N,) int64; -1 if unknown."""
        return containing(self.starts, self.ends, addresses)

    def name(self, function: int) -> str:
        """Name of a function."""
        return name_at(self.text, int(self.names[function]), b"\n")


def functions(pid: int, owner: int, folder: Path = _FOLDER) -> Compiled:
    """Read `perf-PID.map` of a process: lines of start, size (hexadecimal) and name. Damaged lines are skipped.

    Of two functions at one address the later one is used: it has replaced the first.

    Args:
        pid: The process.
        owner: Id of its user; only maps owned by that user or root are read.
        folder: Folder of the maps.

    """
    try:
        with foreign_files.opened(folder / f"perf-{pid}.map", follow=False, owners=(0, owner)) as file:
            size = os.fstat(file.fileno()).st_size
            start = max(size - _MOST_BYTES, 0)
            text = b"" if foreign_files.has_hole(file, 0, size) else os.pread(file.fileno(), _MOST_BYTES, start)
    except OSError:
        text = b""
    return _functions(text)


def _functions(text: bytes) -> Compiled:
    starts, ends, names = array("Q"), array("Q"), array("Q")
    behind = 0
    for line in io.BytesIO(text):
        behind += len(line)
        try:
            first, second, name = line.split(maxsplit=2)
            start, end = int(first, 16), int(first, 16) + int(second, 16)
        except ValueError:
            continue
        if 0 <= start <= end <= _HIGHEST:
            starts.append(start)
            ends.append(end)
            names.append(behind - len(name))
    columns = np.array([starts, ends, names], np.uint64)
    columns = columns[:, np.argsort(columns[0], kind="stable")]
    last = np.append(np.diff(columns[0]) > 0, True)[: columns.shape[1]]
    kept = columns[:, last]
    return Compiled(kept[0], kept[1], kept[2], text)

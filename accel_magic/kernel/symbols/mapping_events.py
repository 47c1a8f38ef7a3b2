"""What processes map while a trace runs, from the kernel's own records: also of processes that end at once.

The files of a process in `/proc` are gone when it ends. The kernel reports each executable mapping and each fork to
perf events, which is how profilers name the code of short processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import struct
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.kernel import bpf_syscalls, scope
from accel_magic.kernel.load.bpf_links import Descriptors
from accel_magic.kernel.load.bpf_maps import online_cpus
from accel_magic.kernel.symbols import mappings
from accel_magic.kernel.symbols.mappings import Mappings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOST, _FORK, _MMAP2 = 2, 7, 10
_HEADER: Final = struct.Struct("<IHH")
_FORKED: Final = struct.Struct("<II")
"""Process and its parent process."""
_MAPPED: Final = struct.Struct("<IIQQQIIQ")
"""Process, thread, address, length, file offset, major and minor device number, inode."""
_NAME_AT: Final = 64
"""Offset of the name in a record's body; before it are the inode's generation, the protection and flags."""
_TIME: Final = struct.Struct("<Q")
"""At the end of every record."""
_POSITIONS: Final = struct.Struct("<QQ")
_POSITIONS_AT: Final = 1024
"""Offset of the kernel's and the reader's position in a ring's first page."""
_LARGEST_RING: Final = 1 << 19
_ALL_RINGS: Final = 1 << 25
_MOST_BYTES: Final = 1 << 26
"""Records kept for one trace."""
_MOST_READ: Final = 64
"""Processes whose mappings are read when recording starts."""
_DEEPEST: Final = 32
"""Generations of forks that a child's mappings are traced back."""


@functools.cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


class _Mapped(NamedTuple):
    """One executable mapping, as recorded."""

    start: int
    end: int
    offset: int
    name: str
    file: mappings.FileId


class _Ring:
    """The kernel's buffer of one event: a page with positions, then `size` bytes.

    The memory is not inherited by forked children, so it is mapped without an object that would unmap it there.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._size, self._owner = size, os.getpid()
        access = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc().mmap(None, size + mmap.PAGESIZE, access, mmap.MAP_SHARED, fd, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._address = int(address)

    def take(self) -> bytes:
        """Copy all records, and release their space."""
        place = self._address + _POSITIONS_AT
        head, tail = _POSITIONS.unpack(ctypes.string_at(place, _POSITIONS.size))
        start, length = tail % self._size, head - tail
        first = min(length, self._size - start)
        data = self._address + mmap.PAGESIZE
        part = ctypes.string_at(data + start, first) + ctypes.string_at(data, length - first)
        ctypes.c_uint64.from_address(place + 8).value = head
        return part

    def close(self) -> None:
        """Unmap it."""
        if self._owner == os.getpid():
            _libc().munmap(self._address, self._size + mmap.PAGESIZE)


class MappingEvents:
    """Executable mappings and forks of all processes; of the roots only, if the kernel does not allow more.

    Args:
        roots: Processes that are traced with their descendants; none if all processes are traced.
        leave_out: Processes that are not traced, with their descendants.

    """

    def __init__(self, roots: Iterable[int], leave_out: Iterable[int] = ()) -> None:
        self._roots, self._leave_out = tuple(roots), frozenset(leave_out)
        self._descriptors = Descriptors()
        self._rings: list[_Ring] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._before: dict[int, mappings.Listing] = {}
        self._mapped: dict[int, list[_Mapped]] = {}
        self._parents: dict[int, int] = {}
        self.complete = True
        """Whether everything was recorded: nothing was lost, and the kernel allows it."""

    def start(self) -> None:
        """Start recording, then read what the roots and their descendants have mapped already."""
        try:
            self._record(-1)
        except OSError:
            self._close()
            try:
                for root in self._roots:
                    self._record(root)
            except OSError:
                self._close()
            self.complete = bool(self._rings)
        waiting, read = list(self._roots), set(self._leave_out)
        while waiting and len(self._before) < _MOST_READ:
            pid = waiting.pop()
            if pid in read:
                continue
            read.add(pid)
            waiting += _children(pid)
            found = mappings.listing(pid)
            if found is not None:
                self._before[pid] = found

    def _record(self, pid: int) -> None:
        """Record on every CPU. Raises OSError."""
        cpus = online_cpus()
        size = max(min(_ALL_RINGS // len(cpus), _LARGEST_RING), mmap.PAGESIZE)
        for cpu in sorted(cpus):
            descriptor = self._descriptors.add(bpf_syscalls.perf_mappings(cpu, pid))
            self._rings.append(_Ring(descriptor, 1 << size.bit_length() - 1))

    def drain(self) -> None:
        """Copy what was recorded since the last call; the kernel's buffers are small: do it several times a second."""
        for ring in self._rings:
            part = ring.take()
            self._size += len(part)
            if self._size > _MOST_BYTES:
                self.complete = False
                continue
            self._parts.append(part)

    def stop(self) -> None:
        """Stop recording, and make sense of the records. Can be called repeatedly."""
        self.drain()
        self._close()
        parts, self._parts = self._parts, []
        self._understand(parts)

    def _close(self) -> None:
        for ring in self._rings:
            ring.close()
        self._rings.clear()
        self._descriptors.close()
        self._descriptors = Descriptors()

    def _understand(self, parts: list[bytes]) -> None:
        """Sort the records of all CPUs by time, and put them by process."""
        mapped: defaultdict[int, list[_Mapped]] = defaultdict(list)
        records = sorted((record for part in parts for record in _records(part)), key=lambda record: record[0])
        for _, kind, body in records:
            if kind == _LOST:
                self.complete = False
            elif kind == _FORK:
                child, parent = _FORKED.unpack_from(body)
                if child != parent:  # not a thread
                    self._parents[child] = parent
                    mapped.pop(child, None)  # of an ended process with the same id
            elif kind == _MMAP2:
                pid, _, start, size, offset, major, minor, inode = _MAPPED.unpack_from(body)
                name = os.fsdecode(body[_NAME_AT:].partition(b"\0")[0])
                mapped[pid].append(_Mapped(start, start + size, offset, name, (f"{major:02x}:{minor:02x}", inode)))
        self._mapped.update(mapped)

    def tree(self) -> set[int]:
        """Processes that are or were traced, as far as known: the roots and their descendants, also ended ones."""
        found: set[int] = set()
        for root in self._roots:
            with contextlib.suppress(ProbeError):  # it has ended
                found |= scope.tree(root, self._leave_out)
            found.add(root)
        children: defaultdict[int, list[int]] = defaultdict(list)
        for child, parent in self._parents.items():
            children[parent].append(child)
        waiting = list(found)
        while waiting:
            new = {child for child in children[waiting.pop()] if child not in found and child not in self._leave_out}
            found |= new
            waiting += new
        return found

    def seen(self) -> set[int]:
        """Processes that mapped something while it was recorded."""
        return set(self._mapped)

    def names(self) -> set[str]:
        """Names of everything that the processes of `tree` were seen to map."""
        return {name for pid in self.tree() if (known := self.of(pid)) is not None for name in known.names}

    def of(self, pid: int, generations: int = _DEEPEST) -> Mappings | None:
        """Everything that a process was seen to map, in the order of address; the newest where mappings overlap.

        A forked process begins with the mappings of its parent. None if nothing is known.
        """
        before = self._before.get(pid)
        known = None if before is None else before.mappings
        parent = self._parents.get(pid)
        if known is None and parent is not None and generations:
            known = self.of(parent, generations - 1) or mappings.read(parent)
        rows = self._mapped.get(pid, [])
        if known is not None:
            known = mappings.as_ended(known, pid)
        return mappings.joined(known, _table(pid, rows)) if rows else known


def _children(pid: int) -> list[int]:
    """Children of a process, without looking at all others; none if the kernel does not list them."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _records(part: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Time, type and body of each record."""
    at = 0
    while at + _HEADER.size <= len(part):
        kind, _, size = _HEADER.unpack_from(part, at)
        if size < _HEADER.size + _TIME.size:
            return
        body = part[at + _HEADER.size : at + size - _TIME.size]
        yield _TIME.unpack_from(part, at + size - _TIME.size)[0], kind, body
        at += size


def _table(pid: int, rows: list[_Mapped]) -> Mappings:
    """Mappings of an ended process from its records, in the order of time."""
    kept: list[_Mapped] = []
    for row in rows:
        kept = [other for other in kept if other.end <= row.start or other.start >= row.end]
        kept.append(row)
    kept.sort()
    columns = np.array([row[:3] for row in kept], np.uint64).reshape(-1, 3)
    return Mappings(
        pid,
        os.getuid(),
        columns[:, 0],
        columns[:, 1],
        columns[:, 2],
        tuple(row.name if row.file[1] or row.name.startswith("[") else "" for row in kept),
        tuple(row.file for row in kept),
        ended=True,
    )

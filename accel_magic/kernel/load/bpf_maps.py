"""Creating and reading maps."""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.kernel import bpf_syscalls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.kernel.bcc.compiler import ProgramMap


def possible_cpus() -> int:
    """Number of CPUs that this kernel may ever have (`0-3` -> 4)."""
    text = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii")
    return int(text.strip().rpartition("-")[2].rpartition(",")[2]) + 1


def online_cpus() -> frozenset[int]:
    """Numbers of the CPUs that are online now (`0-2,5` -> 0, 1, 2, 5)."""
    text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii")
    spans = [span.partition("-") for span in text.strip().split(",")]
    return frozenset(cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1))


def power_of_two(value: int) -> int:
    """Round up to a power of two."""
    return 1 << max(value - 1, 0).bit_length()


def create_value(dtype: np.dtype[np.void], name: str, *, read_only: bool = False) -> int:
    """Create an array map with one element of this dtype, which user space can mmap.

    `read_only`: only programs can write to it, whoever has the descriptor.
    """
    created = bpf_syscalls.map_create(
        bpf_syscalls.MAP_ARRAY, key=4, value=dtype.itemsize, entries=1, flags=bpf_syscalls.F_MMAPABLE, name=name
    )
    if read_only:
        bpf_syscalls.map_freeze(created)
    return created


def create_table(name: str, *, key: int, value: int, entries: int) -> int:
    """Create a hash map that only programs can write to, given the bytes of a key and of a value, and their number."""
    created = bpf_syscalls.map_create(bpf_syscalls.MAP_HASH, key=key, value=value, entries=entries, name=name)
    bpf_syscalls.map_freeze(created)
    return created


HASH, ARRAY, PROG_ARRAY, PERF_EVENT_ARRAY, PERCPU_HASH, PERCPU_ARRAY, STACK_TRACE, CGROUP_ARRAY = 1, 2, 3, 4, 5, 6, 7, 8
LRU_HASH, LRU_PERCPU_HASH, LPM_TRIE, RINGBUF = 9, 10, 11, 27
PERCPU = (PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH)
READABLE = (HASH, ARRAY, LRU_HASH, LPM_TRIE, *PERCPU)

_BATCH = 1 << 16
_SMALLEST_CURSOR = 4
# Errors for kinds of maps that cannot be read in batches.
_NO_BATCH = {errno.EINVAL, errno.EOPNOTSUPP, 524}


@dataclass(frozen=True)
class OpenMap:
    """A map to read: an open descriptor, its type and sizes."""

    fd: int
    type: int
    entries: int
    key_size: int
    value_size: int


@dataclass(frozen=True)
class MapElements:
    """Elements of a map: `keys` (rows, key size) uint8, `values` (rows, CPUs or 1, value size) uint8."""

    keys: NDArray[np.uint8]
    values: NDArray[np.uint8]


def read(described: ProgramMap | OpenMap) -> MapElements:
    """Read every element. Raises OSError if the kernel rejects the call."""
    cpus = possible_cpus() if described.type in PERCPU else 1
    # Each CPU's value of a per-CPU map starts at a multiple of 8 bytes.
    cell = -(-described.value_size // 8) * 8 if described.type in PERCPU else described.value_size
    try:
        keys, values = _read_batches(described, cpus * cell)
    except OSError as error:
        if error.errno not in _NO_BATCH:
            raise
        keys, values = _read_singly(described, cpus * cell)
    cells = values.reshape(len(keys), cpus, cell)
    return MapElements(keys, cells[:, :, : described.value_size])


def _read_batches(described: ProgramMap | OpenMap, row: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    cursor = ctypes.create_string_buffer(max(described.key_size, _SMALLEST_CURSOR))
    room = min(described.entries, _BATCH)
    keys, values = [], []
    first, last = True, False
    while not last:
        key = np.empty((room, described.key_size), np.uint8)
        value = np.empty((room, row), np.uint8)
        try:
            count, last = bpf_syscalls.map_lookup_batch(
                described.fd, cursor, key.ctypes.data, value.ctypes.data, room, first=first
            )
        except OSError as error:
            if error.errno != errno.ENOSPC or room >= described.entries:
                raise
            room = min(2 * room, described.entries)  # a single bucket has more elements
            continue
        first = False
        keys.append(key[:count].copy())
        values.append(value[:count].copy())
    return np.concatenate(keys), np.concatenate(values)


def _read_singly(described: ProgramMap | OpenMap, row: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    keys, values = [], []
    key = None
    following = ctypes.create_string_buffer(described.key_size)
    value = ctypes.create_string_buffer(row)
    # If the map changes meanwhile, the walk could restart: take at most as many steps as the map has entries.
    for _ in range(described.entries):
        try:
            bpf_syscalls.map_next_key(described.fd, key, following)
            key = ctypes.create_string_buffer(following.raw, described.key_size)
            bpf_syscalls.map_lookup(described.fd, key, value)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            break
        keys.append(key.raw)
        values.append(value.raw)
    return (
        np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), described.key_size),
        np.frombuffer(b"".join(values), np.uint8).reshape(len(keys), row),
    )

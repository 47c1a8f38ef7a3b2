"""Create the memory that collectors write to. Without numpy, because every `%load_ext accel_magic` does it."""

from __future__ import annotations

import mmap
import os
import secrets
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAGIC: Final = 0x3174746963636101
VERSION: Final = 5
MOST_SPECS: Final = 32
MOST_POINTS: Final = 4096
MOST_SLOTS: Final = 256
MOST_DEPTH: Final = 120
SPEC_TEXT: Final = 256
BUCKETS: Final = 640
SHARDS: Final = 8
"""Copies of the histograms: one for each of the first threads, and one that the others share."""
MOST_STACKS: Final = 8192
STACK_WORDS: Final = 256
MOST_FRAMES: Final = 127
"""Of a stack."""
MOST_HOPS: Final = 4
MOST_FILES: Final = 64
"""Of each kind: libraries that looked for a collector, and files that were noted."""
FILE_BYTES: Final = 256
LARGEST_RINGS: Final = 1 << 30
VARIABLE: Final = "ACCEL_MAGIC_ITT"
"""Environment variable that tells collectors where the memory is: `PID:DESCRIPTOR:TOKEN`."""

CONTROL_BYTES: Final = 384 + MOST_SPECS * (8 + 2 * SPEC_TEXT)
NAME_BYTES: Final = 512
SLOT_BYTES: Final = 192 + 24 * MOST_DEPTH
COUNTERS_BYTES: Final = 32
STACK_BYTES: Final = 16 + 8 * STACK_WORDS


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


LIBRARIES: Final = CONTROL_BYTES
NAMES: Final = _pages(LIBRARIES + 2 * MOST_FILES * FILE_BYTES)
HASHES: Final = NAMES + MOST_POINTS * NAME_BYTES
SLOTS: Final = _pages(HASHES + MOST_POINTS * 8)
COUNTERS: Final = _pages(SLOTS + MOST_SLOTS * SLOT_BYTES)
HISTOGRAMS: Final = COUNTERS + MOST_SLOTS * MOST_POINTS * COUNTERS_BYTES
STACKS: Final = HISTOGRAMS + SHARDS * MOST_POINTS * BUCKETS * 8
RINGS: Final = _pages(STACKS + MOST_STACKS * STACK_BYTES)
SIZE: Final = RINGS + LARGEST_RINGS
"""Offsets of the parts and the size of the whole, bytes."""

_HEAD: Final = struct.Struct("<QI 20x q Q 7Q 4I 128x 16s")
"""The beginning of `struct control`, with zeros for what a trace sets."""


@dataclass(frozen=True)
class CollectorMemory:
    """The memory of one process: `fd` is its descriptor, `environment` the value of `VARIABLE` for its descendants."""

    fd: int
    environment: str


def is_memory(path: Path, token: str) -> bool:
    """Whether a file, as found in `/proc/PID/fd`, is memory made by `create` of this version, with this token."""
    try:
        with path.open("rb") as file:
            magic, version, *_, found = _HEAD.unpack(file.read(_HEAD.size))
    except (OSError, struct.error):
        return False
    return (magic, version, found.hex()) == (MAGIC, VERSION, token)


def create() -> CollectorMemory:
    """Create memory that no collector writes to yet. Raises OSError.

    It is a memfd: it disappears with its last user, and a page takes memory only once it is written.
    """
    import fcntl

    fd = os.memfd_create("accel_magic-itt", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, SIZE)
        # A process that shrank it would crash all others.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        token = secrets.token_bytes(16)
        parts = (LIBRARIES, NAMES, HASHES, SLOTS, COUNTERS, HISTOGRAMS, STACKS)
        most = (MOST_POINTS, MOST_SLOTS, SHARDS, MOST_STACKS)
        os.pwrite(fd, _HEAD.pack(MAGIC, VERSION, 0, SIZE, *parts, *most, token), 0)
    except BaseException:
        os.close(fd)
        raise
    return CollectorMemory(fd, f"{os.getpid()}:{fd}:{token.hex()}")

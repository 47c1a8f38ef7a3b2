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
VERSION: Final = 7
MOST_SPECS: Final = 32
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
NESTINGS: Final = ("", "covering", "covered", "naming")
"""Numbers of `accel_magic.probes.plan.Nesting`: `enum nesting` in area.h."""
VARIABLE: Final = "ACCEL_MAGIC_ITT"
"""Environment variable that tells collectors where the memory is: `PID:DESCRIPTOR:TOKEN`."""

CONTROL_BYTES: Final = 448 + MOST_SPECS * (16 + 2 * SPEC_TEXT)
NAME_BYTES: Final = 512
SLOT_BYTES: Final = 192 + 24 * MOST_DEPTH
COUNTERS_BYTES: Final = 64
STACK_BYTES: Final = 16 + 8 * STACK_WORDS


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@dataclass(frozen=True)
class AreaLayout:
    """Offsets of the parts of an area, and the size of the whole, bytes; `most_points` tasks or functions fit."""

    most_points: int

    @property
    def libraries(self) -> int:
        """Libraries and files of processes."""
        return CONTROL_BYTES

    @property
    def names(self) -> int:
        """Names of tasks."""
        return _pages(self.libraries + 2 * MOST_FILES * FILE_BYTES)

    @property
    def hashes(self) -> int:
        """Hashes of names."""
        return self.names + self.most_points * NAME_BYTES

    @property
    def slots(self) -> int:
        """Threads."""
        return _pages(self.hashes + self.most_points * 8)

    @property
    def counters(self) -> int:
        """Counters by thread and point."""
        return _pages(self.slots + MOST_SLOTS * SLOT_BYTES)

    @property
    def histograms(self) -> int:
        """Histograms by shard and point."""
        return self.counters + MOST_SLOTS * self.most_points * COUNTERS_BYTES

    @property
    def stacks(self) -> int:
        """The table of stacks."""
        return self.histograms + SHARDS * self.most_points * BUCKETS * 8

    @property
    def rings(self) -> int:
        """Records."""
        return _pages(self.stacks + MOST_STACKS * STACK_BYTES)

    @property
    def size(self) -> int:
        """Bytes of it all."""
        return self.rings + LARGEST_RINGS


TASKS: Final = AreaLayout(4096)
"""Of ITT tasks."""
FUNCTIONS: Final = AreaLayout(1 << 16)
"""Of patched functions."""

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


def create(layout: AreaLayout) -> CollectorMemory:
    """Create memory that no collector writes to yet. Raises OSError.

    It is a memfd: it disappears with its last user, and a page takes memory only once it is written.
    """
    import fcntl

    fd = os.memfd_create("accel_magic-itt", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, layout.size)
        # A process that shrank it would crash all others.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        token = secrets.token_bytes(16)
        parts = (
            layout.libraries,
            layout.names,
            layout.hashes,
            layout.slots,
            layout.counters,
            layout.histograms,
            layout.stacks,
        )
        most = (layout.most_points, MOST_SLOTS, SHARDS, MOST_STACKS)
        os.pwrite(fd, _HEAD.pack(MAGIC, VERSION, 0, layout.size, *parts, *most, token), 0)
    except BaseException:
        os.close(fd)
        raise
    return CollectorMemory(fd, f"{os.getpid()}:{fd}:{token.hex()}")

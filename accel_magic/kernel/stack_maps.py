"""The maps that programs take stacks with (bpf/kernel/stacks.h): how large they are, and reading them in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import map_reading, syscalls
from accel_magic.kernel.maps import create_value, possible_cpus, power_of_two
from accel_magic.traces.stacks import RawStacks

if TYPE_CHECKING:
    from accel_magic.kernel.linker import Descriptors

WORDS: Final = 256
USER_SLOTS: Final = 1024
MOST_STACKS: Final = 16384
"""Different stacks that are kept; each takes 2 KiB of the kernel's memory."""
_OWNER_SHIFT: Final = 8
STACK: Final = np.dtype([("kind", "<u4"), ("words", "<u4"), ("word", "<u8", (WORDS,))])
"""`struct am_stack`."""


def create(keep: Descriptors) -> tuple[int, int]:
    """Create the table and the scratch memory; returns their descriptors."""
    cpus = power_of_two(possible_cpus())
    scratch = np.dtype([("cpus", STACK, (3, cpus)), ("tasks", STACK, (USER_SLOTS,))])
    table = syscalls.map_create(syscalls.MAP_HASH, key=8, value=STACK.itemsize, entries=MOST_STACKS, name="am_stacks")
    keep.add(table)
    return table, keep.add(create_value(scratch, "am_scratch"))


def read(table: int) -> RawStacks:
    """Read every stack that the table holds. Raises OSError when the kernel refuses."""
    content = map_reading.read(map_reading.Described(table, map_reading.HASH, MOST_STACKS, 8, STACK.itemsize))
    keys = np.ascontiguousarray(content.keys).view(np.uint64).ravel()
    stacks = np.ascontiguousarray(content.values[:, 0]).view(STACK).ravel()
    words = np.minimum(stacks["words"], WORDS).astype(np.int64)
    used = np.arange(WORDS) < words[:, None]
    return RawStacks(
        keys.copy(),
        (stacks["kind"] & ((1 << _OWNER_SHIFT) - 1)).astype(np.uint8),
        np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
        stacks["word"][used],
        (stacks["kind"] >> _OWNER_SHIFT).astype(np.int32),
    )

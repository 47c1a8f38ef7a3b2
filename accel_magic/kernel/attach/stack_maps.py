"""The maps that programs use to record stacks (bpf/kernel/stacks.h): their sizes, and reading them in bulk.

The kernel records up to `kernel.perf_event_max_stack` frames of native and kernel stacks; the sizes here follow from
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import bpf_syscalls, features
from accel_magic.kernel.load import bpf_maps
from accel_magic.kernel.load.bpf_maps import possible_cpus, power_of_two
from accel_magic.kernel.stacks.stack_choice import most_frames
from accel_magic.kernel.stacks.stack_table import RawStacks

if TYPE_CHECKING:
    from accel_magic.kernel.load.bpf_links import Descriptors


USER_SLOTS: Final = 1024
MOST_STACKS: Final = 16384
"""Maximum number of distinct stacks; with the usual frame limit each takes 2 KiB of kernel memory."""
_TABLE_BYTES: Final = 1 << 26
"""Maximum size of the table: if stacks take more than 4 KiB each, fewer are kept."""
_FEWEST_WORDS: Final = 256
"""Words that Python stacks need."""
_USUAL_FRAMES: Final = 127
"""Used if the kernel's limit is unknown."""
_OWNER_SHIFT: Final = 8


def native_frames() -> int:
    """Maximum frames of a native or kernel stack: the kernel's configured limit."""
    allowed = features.perf_event_max_stack()
    return min(_USUAL_FRAMES if allowed is None else max(allowed, 2), most_frames())


def defines(frames: int) -> list[str]:
    """Lines of C before stacks.h, for native stacks of up to `frames` frames."""
    return [f"#define AM_STACK_FRAMES {frames}", f"#define AM_STACK_WORDS {_words(frames)}"]


def create(keep: Descriptors, frames: int) -> tuple[int, int]:
    """Create the table and the scratch memory for native stacks of up to `frames` frames; return their descriptors."""
    size = _stack(frames).itemsize
    table = keep.add(bpf_maps.create_table("am_stacks", key=8, value=size, entries=_entries(frames)))
    slots = 3 * power_of_two(possible_cpus()) + USER_SLOTS
    scratch = bpf_syscalls.map_create(bpf_syscalls.MAP_ARRAY, key=4, value=size, entries=slots, name="am_scratch")
    return table, keep.add(scratch)


def read(table: int, frames: int) -> RawStacks:
    """Read every stack of a table made for `frames` frames. Raises OSError if the kernel rejects the call."""
    dtype, most = _stack(frames), _words(frames)
    content = bpf_maps.read(bpf_maps.OpenMap(table, bpf_maps.HASH, _entries(frames), 8, dtype.itemsize))
    keys = np.ascontiguousarray(content.keys).view(np.uint64).ravel()
    stacks = np.ascontiguousarray(content.values[:, 0]).view(dtype).ravel()
    words = np.minimum(stacks["words"], most).astype(np.int64)
    used = np.arange(most) < words[:, None]
    return RawStacks(
        keys.copy(),
        (stacks["kind"] & ((1 << _OWNER_SHIFT) - 1)).astype(np.uint8),
        np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
        stacks["word"][used],
        (stacks["kind"] >> _OWNER_SHIFT).astype(np.int32),
        frames,
    )


def _words(frames: int) -> int:
    return max(power_of_two(frames), _FEWEST_WORDS)


def _stack(frames: int) -> np.dtype[np.void]:
    """`struct am_stack`."""
    return np.dtype([("kind", "<u4"), ("words", "<u4"), ("word", "<u8", (_words(frames),))])


def _entries(frames: int) -> int:
    return min(MOST_STACKS, _TABLE_BYTES // (8 * _words(frames)))

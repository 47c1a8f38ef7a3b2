"""The maps that programs take stacks with (bpf/kernel/stacks.h): how large they are, and reading them in bulk.

Of native stacks and the kernel's the kernel takes as many frames as `kernel.perf_event_max_stack` says, and everything
here is as large as these need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel import features, map_reading, shared_functions, syscalls
from accel_magic.kernel.maps import possible_cpus, power_of_two
from accel_magic.traces.stacks import RawStacks

if TYPE_CHECKING:
    from accel_magic.kernel.linker import Descriptors

USER_SLOTS: Final = 1024
MOST_STACKS: Final = 16384
"""Different stacks that are kept; with the usual limit each takes 2 KiB of the kernel's memory."""
_TABLE_BYTES: Final = 1 << 26
"""Of stacks that take more than 4 KiB each fewer are kept."""
_FEWEST_WORDS: Final = 256
"""What Python's stacks take."""
_USUAL_FRAMES: Final = 127
"""Of a kernel that does not say."""
_MOST_FRAMES: Final = 4096
_MOST_FRAMES_WITHOUT_LOOPS: Final = 256
"""For a kernel without loops of its own: it verifies each step over a stack's words by itself."""
_OWNER_SHIFT: Final = 8


def native_frames() -> int:
    """Most frames that are taken of a native stack and of the kernel's: as many as the kernel is set to take."""
    allowed = features.perf_event_max_stack()
    return min(_USUAL_FRAMES if allowed is None else max(allowed, 2), most_frames())


def most_frames() -> int:
    """Most frames that would be taken, however many the kernel is set to take."""
    return _MOST_FRAMES if shared_functions.has_loops() else _MOST_FRAMES_WITHOUT_LOOPS


def defines(frames: int) -> list[str]:
    """Lines of C before stacks.h, for native stacks of so many frames."""
    return [f"#define AM_STACK_FRAMES {frames}", f"#define AM_STACK_WORDS {_words(frames)}"]


def create(keep: Descriptors, frames: int) -> tuple[int, int]:
    """Create the table and the scratch memory for native stacks of so many frames; returns their descriptors."""
    size = _stack(frames).itemsize
    table = keep.add(
        syscalls.map_create(syscalls.MAP_HASH, key=8, value=size, entries=_entries(frames), name="am_stacks")
    )
    slots = 3 * power_of_two(possible_cpus()) + USER_SLOTS
    scratch = syscalls.map_create(syscalls.MAP_ARRAY, key=4, value=size, entries=slots, name="am_scratch")
    return table, keep.add(scratch)


def read(table: int, frames: int) -> RawStacks:
    """Read every stack of a table for native stacks of so many frames. Raises OSError when the kernel refuses."""
    dtype, most = _stack(frames), _words(frames)
    content = map_reading.read(map_reading.Described(table, map_reading.HASH, _entries(frames), 8, dtype.itemsize))
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

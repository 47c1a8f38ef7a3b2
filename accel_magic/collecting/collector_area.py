"""Views of the memory that collectors write to, as numpy arrays. `area.h` describes the same structures in C."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.collecting import collector_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REMOVE: Final = 9
"""MADV_REMOVE."""
_TEXT: Final = f"S{collector_memory.SPEC_TEXT}"
PYTHON: Final = np.dtype(
    [
        ("thread_state", "<i8"),
        ("hops", "<u8", collector_memory.MOST_HOPS),
        ("shim", "<u8"),
        ("hop_count", "<u4"),
        ("frame", "<u4"),
        ("frame_words", "<u4"),
        ("code", "<u4"),
        ("previous", "<u4"),
        ("instruction", "<u4"),
        ("tag", "<u4"),
        ("flags", "<u4"),
        ("generator", "<u4"),
        ("first_line", "<u4"),
        ("bytecode", "<u4"),
        ("reserved", "<u4"),
    ]
)
CLOCK: Final = np.dtype([("sequence", "<u4"), ("uses_tsc", "<u4"), ("tsc", "<u8"), ("ns", "<u8"), ("mult", "<u8")])
SPEC: Final = np.dtype(
    [
        ("excludes", "<u4"),
        ("page_faults", "<u4"),
        ("nesting", "<u4"),
        ("reserved", "<u4"),
        ("domain", _TEXT),
        ("task", _TEXT),
    ]
)
CONTROL: Final = np.dtype(
    [
        ("magic", "<u8"),
        ("version", "<u4"),
        ("generation", "<u4"),
        ("enabled", "<u4"),
        ("recording", "<u4"),
        ("first_point", "<u4"),
        ("spec_count", "<u4"),
        ("shift_ns", "<i8"),
        ("size", "<u8"),
        ("parts", "<u8", 7),
        ("most_points", "<u4"),
        ("most_slots", "<u4"),
        ("shards", "<u4"),
        ("most_stacks", "<u4"),
        ("points", "<u4"),
        ("slotless", "<u4"),
        ("user_stacks", "<u4"),
        ("python_stacks", "<u4"),
        ("record_bytes", "<u4"),
        ("not_walked", "<u4"),
        ("library_count", "<u4"),
        ("used_slots", "<u4"),
        ("python", PYTHON),
        ("token", "u1", 16),
        ("noting_task", "S32"),
        ("noted_ending", "S12"),
        ("file_count", "<u4"),
        ("traps", "<u4"),
        ("copies_stacks", "<u4"),
        ("clock", CLOCK),
        ("padding", "u1", 32),
        ("lock", "u1", 64),
        ("specs", SPEC, collector_memory.MOST_SPECS),
    ]
)
FILE: Final = np.dtype([("pid", "<i4"), ("path", "S252")])
NAME: Final = np.dtype(
    [("reserved_start", "<u4"), ("spec", "<u4"), ("domain", "S120"), ("task", "S376"), ("reserved", "<u8")],
)
SLOT: Final = np.dtype(
    {
        "names": ["owner", "pid", "busy", "generation", "ring", "room", "comm", "depth", "head", "tail"],
        "formats": ["<i4", "<i4", "<u4", "<u4", "<u8", "<u8", "S16", "<u4", "<u8", "<u8"],
        "offsets": [0, 4, 8, 12, 16, 24, 32, 48, 64, 128],
        "itemsize": collector_memory.SLOT_BYTES,
    }
)
STACK: Final = np.dtype(
    [("key", "<u8"), ("kind", "<u4"), ("words", "<u4"), ("word", "<u8", collector_memory.STACK_WORDS)]
)
COUNTERS: Final = np.dtype(
    [
        ("hits", "<u8"),
        ("lost", "<u8"),
        ("total", "<u8"),
        ("longest", "<u8"),
        ("unpaired", "<u8"),
        ("sum", "<u8"),
        ("reserved", "<u8", 2),
    ]
)


_places = itertools.count(0x200000000000, 1 << 36)
"""Addresses far from libraries, where patching needs places (`map_area` in area.h)."""


def _mapped(fd: int, size: int) -> ctypes.Array[ctypes.c_char]:
    """Map a file, shared and writable, until the result is not used any more. Raises OSError."""
    program = ctypes.CDLL(None, use_errno=True)
    program.mmap.restype = ctypes.c_void_p
    program.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    program.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = program.mmap(next(_places), size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, program.munmap, address, size).atexit = False
    return memory


@dataclass(frozen=True)
class Area:
    """The mapped memory; the arrays are live.

    Args:
        fd: Its descriptor.
        layout: What is where.

    """

    fd: int
    layout: collector_memory.AreaLayout

    @cached_property
    def _memory(self) -> ctypes.Array[ctypes.c_char]:
        return _mapped(self.fd, self.layout.size)

    def _array(self, dtype: np.dtype[Any] | type[np.uint64], count: int, offset: int) -> NDArray[Any]:
        return np.frombuffer(memoryview(self._memory).cast("B"), dtype, count, offset)

    @property
    def address(self) -> int:
        """Where it is mapped."""
        return ctypes.addressof(self._memory)

    @cached_property
    def control(self) -> NDArray[np.void]:
        """The first structure, shape ()."""
        return self._array(CONTROL, 1, 0).reshape(())

    @cached_property
    def libraries(self) -> NDArray[np.void]:
        """(MOST_FILES,) `FILE`: those that looked for a collector, since the memory was made."""
        return self._array(FILE, collector_memory.MOST_FILES, self.layout.libraries)

    @cached_property
    def files(self) -> NDArray[np.void]:
        """(MOST_FILES,) `FILE`: those that processes noted, since `note_files`."""
        size = collector_memory.MOST_FILES * collector_memory.FILE_BYTES
        return self._array(FILE, collector_memory.MOST_FILES, self.layout.libraries + size)

    @cached_property
    def names(self) -> NDArray[np.void]:
        """(points,) `NAME`: tasks in the order of their first appearance; the last one stands for all others."""
        return self._array(NAME, self.layout.most_points, self.layout.names)

    @cached_property
    def slots(self) -> NDArray[np.void]:
        """(MOST_SLOTS,) `SLOT`: threads."""
        return self._array(SLOT, collector_memory.MOST_SLOTS, self.layout.slots)

    @property
    def used_slots(self) -> NDArray[np.void]:
        """(slots,) `SLOT`: those that threads have had. Looking at the others would cost a page of memory for each."""
        return self.slots[: int(self.control["used_slots"])]

    @cached_property
    def counters(self) -> NDArray[np.void]:
        """(MOST_SLOTS, points) `COUNTERS`."""
        count = collector_memory.MOST_SLOTS * self.layout.most_points
        return self._array(COUNTERS, count, self.layout.counters).reshape(
            collector_memory.MOST_SLOTS, self.layout.most_points
        )

    @cached_property
    def histograms(self) -> NDArray[np.uint64]:
        """(SHARDS, points, BUCKETS) uint64."""
        shape = collector_memory.SHARDS, self.layout.most_points, collector_memory.BUCKETS
        return self._array(np.uint64, shape[0] * shape[1] * shape[2], self.layout.histograms).reshape(shape)

    @cached_property
    def stacks(self) -> NDArray[np.void]:
        """(MOST_STACKS,) `STACK`: a hash table."""
        return self._array(STACK, collector_memory.MOST_STACKS, self.layout.stacks)

    @cached_property
    def bytes(self) -> NDArray[np.uint8]:
        """(bytes,) uint8, all of it."""
        return np.frombuffer(memoryview(self._memory).cast("B"), np.uint8)

    def clear(self) -> None:
        """Zero everything except the control structure and the slots, and give the memory back to the kernel."""
        layout = self.layout
        self._forget(layout.names, layout.slots)
        self._forget(layout.counters, layout.size)

    def _forget(self, start: int, end: int) -> None:
        program = ctypes.CDLL(None, use_errno=True)
        if program.madvise(ctypes.c_void_p(self.address + start), ctypes.c_size_t(end - start), _REMOVE):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

"""The device's global memory: a file in memory that is mapped here, in which allocations are made, and their bounds."""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from bisect import bisect_right, insort
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.simt.mapping import map_over
from accel_magic.gpu.simt.types import UNSIGNED

if TYPE_CHECKING:
    from accel_magic.gpu.simt.types import Array

GLOBAL: Final = 0x7000_0000_0000
"""Device address of the first byte of global memory."""
SHARED: Final = 0x0100_0000_0000
"""Generic address of a block's shared memory: the window that cvta.shared adds."""
LOCAL: Final = 0x0200_0000_0000
"""Generic address of a thread's local memory."""
PARAMETER: Final = 0x0300_0000_0000
"""Generic address of a kernel's parameters."""
CODE: Final = 0x0400_0000_0000
"""Address of the first function, for calls through pointers; 16 apart."""
GUARD: Final = 256
"""Bytes at least between two allocations, so that an access just beyond one is not taken for one of the next."""
WINDOW: Final = 40
"""Address bits within one window."""


class Region:
    """Bytes that can be read and written in units of 1, 2, 4 and 8.

    Args:
        data: uint8, its length a multiple of 8.

    """

    def __init__(self, data: Array) -> None:
        self.data = data
        self.units = {size: data.view(dtype) for size, dtype in UNSIGNED.items()}


@dataclass(frozen=True, order=True)
class Allocation:
    """One allocation: first address, bytes, if kernels may only read it, and if it is pages of another file."""

    address: int
    size: int
    constant: bool = False
    shared: bool = False

    @property
    def end(self) -> int:
        """Address after it."""
        return self.address + self.size

    @property
    def limit(self) -> int:
        """Address after all that it takes: whole pages, if it is shared."""
        return -(-self.end // mmap.PAGESIZE) * mmap.PAGESIZE if self.shared else self.end


class Heap:
    """Global memory and its allocations, first fit; threads may use it at the same time.

    Args:
        size: Bytes. Taken from the host only where they are touched.

    Attributes:
        descriptor: Of the file that holds the memory, from its first byte on; other processes may map it. Open as long
            as the heap lives.

    """

    def __init__(self, size: int) -> None:
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.descriptor = os.memfd_create("accel_magic device memory")
        weakref.finalize(self, os.close, self.descriptor)
        os.ftruncate(self.descriptor, size)
        self.region = Region(np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8))
        self._size = size
        self._lock = threading.Lock()
        self._used: list[Allocation] = []
        self._freed: list[Allocation] = []
        self._clean = GLOBAL
        """Address from which on nothing was ever allocated: it holds zeros."""
        self._table = _table([])
        _HEAPS.add(self)

    @property
    def size(self) -> int:
        """Bytes of the whole memory."""
        return self._size

    @property
    def allocated(self) -> int:
        """Bytes of all allocations."""
        return sum(used.size for used in self._used)

    def allocate(self, size: int, align: int = 256, *, constant: bool = False) -> int:
        """Find room for `size` bytes, zero them, and give their address.

        Raises:
            ProgramError: The size is negative or the alignment is no power of two.
            MachineError: There is no such room.

        """
        _sensible(size, align)
        with self._lock:
            new = self._place(Allocation(0, max(size, 1), constant), align)
            dirty = min(new.end, self._clean) - GLOBAL
            self.region.data[new.address - GLOBAL : max(dirty, new.address - GLOBAL)] = 0
            self._add(new)
            return new.address

    def share(self, descriptor: int, size: int) -> int:
        """Put `size` bytes of a file in the place of memory, live for kernels and `view`, until the address is freed.

        Args:
            descriptor: Of a file that can be mapped shared, to read and to write: an mmapable BPF array. It may be
                closed afterwards.
            size: Bytes from the file's beginning.

        Returns:
            The address, at the beginning of a page.

        Raises:
            ProgramError: The size is not positive.
            MachineError: There is no such room, or the file cannot be mapped.

        """
        _sensible(size - 1, mmap.PAGESIZE)
        with self._lock:
            new = self._place(Allocation(0, size, shared=True), mmap.PAGESIZE)
            try:
                self._map(new, descriptor, 0)
            except OSError as error:
                raise MachineError(
                    f"The CPU device cannot share {size} bytes of a file.",
                    why=f"Mapping them fails: {error.strerror}.",
                    fix="Share a file that is as large, and open to read and to write: a BPF array needs "
                    "BPF_F_MMAPABLE.",
                    code="gpu.map.not-shareable",
                ) from None
            self._add(new)
            return new.address

    def free(self, address: int) -> None:
        """Give an allocation back, or stop sharing.

        Raises:
            ProgramError: Nothing was allocated at this address.

        """
        with self._lock:
            gone = self._at(address)
            if gone is None or gone.address != address:
                raise ProgramError(
                    f"{address:#x} is not the address of an allocation of the CPU device.",
                    why="It was never allocated, or it was freed before.",
                    fix="Free each address that allocate() returned once.",
                    code="gpu.bad-address",
                )
            self._used = [used for used in self._used if used is not gone]
            self._freed = [*self._freed, gone]
            self._table = _table(self._used)
            if gone.shared:
                self._map(gone, self.descriptor, gone.address - GLOBAL)

    def _place(self, wanted: Allocation, align: int) -> Allocation:
        """Find the first room for an allocation."""
        at = GLOBAL
        for used in self._used:
            at = -(-at // align) * align
            if used.address - at >= wanted.limit + GUARD:
                break
            at = max(at, used.limit + GUARD)
        at = -(-at // align) * align
        if at + wanted.limit > GLOBAL + self._size:
            raise MachineError(
                f"The CPU device has no room for {wanted.size} bytes.",
                why=f"Its memory is {self._size} bytes, and {self.allocated} are allocated.",
                fix="Free what is not used, or make the device with more memory_bytes.",
                code="gpu.out-of-memory",
            )
        return Allocation(at, wanted.size, wanted.constant, wanted.shared)

    def _add(self, new: Allocation) -> None:
        used = [*self._used]
        insort(used, new)
        self._freed = [gone for gone in self._freed if gone.end <= new.address or gone.address >= new.limit]
        self._clean = max(self._clean, new.limit)
        self._used = used
        self._table = _table(used)

    def _map(self, where: Allocation, descriptor: int, offset: int) -> None:
        begin = self.region.data.ctypes.data + where.address - GLOBAL
        map_over(begin, where.limit - where.address, descriptor, offset)

    def part(self) -> None:
        """Keep to oneself what is written from now on: this process was forked from the one that made the heap."""
        self._lock = threading.Lock()
        at = GLOBAL
        for used in [*(used for used in self._used if used.shared), Allocation(GLOBAL + self._size, 0)]:
            if used.address > at:
                begin = self.region.data.ctypes.data + at - GLOBAL
                map_over(begin, used.address - at, self.descriptor, at - GLOBAL, private=True)
            at = used.limit

    def view(self, address: int, size: int) -> Array:
        """Bytes at a device address, live and not copied.

        Raises:
            ProgramError: They are not all within one allocation.

        """
        where = self.holding(address, size)
        if size < 0 or where is None:
            raise ProgramError(
                f"{size} bytes at {address:#x} are not within one allocation of the CPU device.",
                why=self.explain(address, size),
                fix="Use an address that allocate() returned, and at most its size.",
                code="gpu.bad-address",
            )
        return self.region.data[address - GLOBAL : address - GLOBAL + size]

    def holding(self, address: int, size: int) -> Allocation | None:
        """Give the allocation that holds all of these bytes."""
        home = self._at(address)
        return None if home is None or address + size > home.end else home

    def others_write(self, low: int, high: int) -> bool:
        """Whether pages of another file lie between two addresses: whoever has it may change them at any moment."""
        return any(used.shared and used.address <= high and low < used.end for used in self._used)

    def _at(self, address: int) -> Allocation | None:
        """Give the last allocation that begins at or before an address."""
        used = self._used
        place = bisect_right(used, address, key=_address) - 1
        return used[place] if place >= 0 else None

    def check(self, addresses: Array, size: int, *, write: bool) -> int | None:
        """Find the first of the addresses (uint64) that may not be accessed with `size` bytes: its place, or None."""
        low, high = int(addresses.min()), int(addresses.max())
        home = self.holding(low, size)
        if home is not None and high + size <= home.end and not (write and home.constant):
            return None
        starts, ends, constants = self._table
        at = np.searchsorted(starts, addresses, side="right") - 1
        good = (at >= 0) & (addresses < ends[at]) & (ends[at] - addresses >= size)
        if write:
            good &= ~constants[at]
        return None if good.all() else int(np.argmin(good))

    def explain(self, address: int, size: int, *, write: bool = False) -> str:
        """Say in words what is wrong with an access."""
        if address < 4096:
            return "it is a null pointer, or lies next to one"
        for gone in self._freed:
            if gone.address <= address < gone.end:
                return f"it lies in {gone.size} bytes at {gone.address:#x} that were freed"
        near = self._at(address)
        if near is None:
            return "no allocation holds it"
        if write and near.constant and address + size <= near.end:
            return "it is constant memory, which kernels may only read"
        beyond = address + size - near.end
        return f"it ends {beyond} bytes beyond the allocation of {near.size} bytes at {near.address:#x}"


_address = attrgetter("address")
_HEAPS: Final[weakref.WeakSet[Heap]] = weakref.WeakSet()


def _part_all() -> None:
    for heap in _HEAPS:
        heap.part()


os.register_at_fork(after_in_child=_part_all)


def _sensible(size: int, align: int) -> None:
    if size < 0 or align < 1 or align & (align - 1):
        raise ProgramError(
            f"Cannot allocate {size} bytes aligned to {align} on the CPU device.",
            why="A size is at least 0 and an alignment is a power of two.",
            fix="Pass other numbers.",
            code="gpu.bad-allocation",
        )


def _table(used: list[Allocation]) -> tuple[Array, Array, Array]:
    """Give starts, ends (uint64) and constness, by address; one entry that holds nothing where there is none."""
    rows = used or [Allocation(0, 0)]
    return (
        np.array([row.address for row in rows], np.uint64),
        np.array([row.end for row in rows], np.uint64),
        np.array([row.constant for row in rows], np.bool_),
    )

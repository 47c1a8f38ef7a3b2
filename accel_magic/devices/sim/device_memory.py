"""The device's global memory: allocations within a mapped memory file, and their bounds."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic import forks
from accel_magic.devices.sim.types import BITS
from accel_magic.errors import MachineError, ProgramError

if TYPE_CHECKING:
    from accel_magic.devices.sim.types import Array


GLOBAL: Final = 0x7000_0000_0000
"""Device address of the first byte of global memory."""
SHARED: Final = 0x0100_0000_0000
"""Generic address of a block's shared memory: the base that cvta.shared adds."""
LOCAL: Final = 0x0200_0000_0000
"""Generic address of a thread's local memory."""
PARAMETER: Final = 0x0300_0000_0000
"""Generic address of a kernel's parameters."""
CODE: Final = 0x0400_0000_0000
"""Address of the first function, for calls through pointers; functions are 16 bytes apart."""
GUARD: Final = 256
"""Least bytes between two allocations, so that an access just past one does not hit the next."""
KERNEL_HEAP: Final = 8 << 20
"""Bytes that kernels may allocate with `malloc`: CUDA's default."""
WINDOW: Final = 40
"""Address bits within one window."""


class MemoryRegion:
    """Bytes that can be read and written in units of 1, 2, 4, 8 and 16.

    Args:
        data: uint8; its length is a multiple of 16.

    """

    def __init__(self, data: Array) -> None:
        self.data = data
        self.units = {size: data.view(dtype) for size, dtype in BITS.items()}


@dataclass(frozen=True, order=True)
class Allocation:
    """One allocation: first address, bytes, whether it is read-only for kernels, and whether it maps another file."""

    address: int
    size: int
    constant: bool = False
    shared: bool = False

    @property
    def end(self) -> int:
        """Address just past it."""
        return self.address + self.size

    @property
    def limit(self) -> int:
        """Address just past all memory that it occupies: whole pages if it is shared."""
        return -(-self.end // mmap.PAGESIZE) * mmap.PAGESIZE if self.shared else self.end


class Heap:
    """Global memory and its allocations, first fit; thread-safe.

    Args:
        size: Bytes. Host memory is used only for pages that are accessed.

    Attributes:
        descriptor: Descriptor of the file that holds the memory from its first byte on; other processes may map it.
            Open for the heap's lifetime.

    """

    def __init__(self, size: int) -> None:
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.descriptor = os.memfd_create("accel_magic device memory")
        weakref.finalize(self, os.close, self.descriptor)
        os.ftruncate(self.descriptor, size)
        self.region = MemoryRegion(np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8))
        self._size = size
        self._lock = threading.Lock()
        self._used: list[Allocation] = []
        self._freed: list[Allocation] = []
        self._clean = GLOBAL
        """Memory from this address on was never allocated and is zero."""
        self._table = _table([])
        self._of_kernels: dict[int, int] = {}
        _HEAPS.add(self)

    @property
    def size(self) -> int:
        """Bytes of all global memory."""
        return self._size

    @property
    def allocated(self) -> int:
        """Bytes of all allocations."""
        return sum(used.size for used in self._used)

    def allocate(self, size: int, align: int = 256, *, constant: bool = False) -> int:
        """Allocate `size` zeroed bytes and return their address.

        Raises:
            ProgramError: The size is negative or the alignment is not a power of two.
            MachineError: There is not enough free memory.

        """
        _sensible(size, align)
        with self._lock:
            new = self._place(Allocation(0, max(size, 1), constant), align)
            dirty = min(new.end, self._clean) - GLOBAL
            self.region.data[new.address - GLOBAL : max(dirty, new.address - GLOBAL)] = 0
            self._add(new)
            return new.address

    def allocate_in_kernel(self, sizes: list[int]) -> list[int]:
        """Allocate memory for the threads of a kernel, as `malloc` does there; it outlives the kernel.

        Args:
            sizes: Bytes for each thread.

        Returns:
            The address for each thread, aligned to 16; 0 if `KERNEL_HEAP` bytes would not be enough.

        """
        with self._lock:
            left = KERNEL_HEAP - sum(self._of_kernels.values())
            offsets, total = [], 0
            for size in sizes:
                granted = size <= left
                offsets.append(total if granted else -1)
                left -= size if granted else 0
                total += -(-(max(size, 1) + GUARD) // 16) * 16 if granted else 0
            first = self._first_of(total)
            found = [first + offset if first and offset >= 0 else 0 for offset in offsets]
            new = {address: max(size, 1) for address, size in zip(found, sizes, strict=True) if address}
            if new:
                self._of_kernels |= new
                self._add(*(Allocation(address, size) for address, size in new.items()))
            return found

    def _first_of(self, size: int) -> int:
        """Find and clear space for the allocations of a kernel; 0 if there is none."""
        try:
            whole = self._place(Allocation(0, size), 16)
        except MachineError:
            return 0
        self.region.data[whole.address - GLOBAL : max(min(whole.end, self._clean), whole.address) - GLOBAL] = 0
        return whole.address

    def free_in_kernel(self, address: int) -> bool:
        """Free memory that a kernel allocated. Returns whether there was any at this address."""
        if address not in self._of_kernels:
            return False
        self.free(address)
        return True

    def share(self, descriptor: int, size: int) -> int:
        """Map `size` bytes of a file into the memory, live for kernels and `view`, until the address is freed.

        Args:
            descriptor: Descriptor of a file that can be mapped shared, readable and writable: an mmapable BPF array.
                It may be closed afterwards.
            size: Bytes from the file's beginning.

        Returns:
            The address, at the start of a page.

        Raises:
            ProgramError: The size is not positive.
            MachineError: There is not enough free memory, or the file cannot be mapped.

        """
        _sensible(size - 1, mmap.PAGESIZE)
        with self._lock:
            new = self._place(Allocation(0, size, shared=True), mmap.PAGESIZE)
            try:
                self._map(new, descriptor, 0)
            except OSError as error:
                raise MachineError(
                    f"The simulated device cannot share {size} bytes of a file.",
                    why=f"Mapping them failed: {error.strerror}.",
                    fix="Share a file of at least this size, open for reading and writing. A BPF array needs "
                    "BPF_F_MMAPABLE.",
                    code="gpu.map.not-shareable",
                ) from None
            self._add(new)
            return new.address

    def free(self, address: int) -> None:
        """Free an allocation, or stop sharing.

        Raises:
            ProgramError: Nothing was allocated at this address.

        """
        with self._lock:
            gone = self._at(address)
            if gone is None or gone.address != address:
                raise ProgramError(
                    f"{address:#x} is not the address of an allocation on the simulated device.",
                    why="It was never allocated, or it is already freed.",
                    fix="Free each address that allocate() returned exactly once.",
                    code="gpu.bad-address",
                )
            self._of_kernels.pop(address, None)
            self._used = [used for used in self._used if used is not gone]
            self._freed = [*self._freed, gone]
            self._table = _table(self._used)
            if gone.shared:
                self._map(gone, self.descriptor, gone.address - GLOBAL)

    def _place(self, requested: Allocation, align: int) -> Allocation:
        """Find the first free range for an allocation."""
        at = GLOBAL
        for used in self._used:
            at = -(-at // align) * align
            if used.address - at >= requested.limit + GUARD:
                break
            at = max(at, used.limit + GUARD)
        at = -(-at // align) * align
        if at + requested.limit > GLOBAL + self._size:
            raise MachineError(
                f"The simulated device cannot allocate {requested.size} bytes.",
                why=f"{self.allocated} of its {self._size} bytes are allocated.",
                fix="Free unused memory, or create the device with more memory_bytes.",
                code="gpu.out-of-memory",
            )
        return Allocation(at, requested.size, requested.constant, requested.shared)

    def _add(self, *new: Allocation) -> None:
        """Add allocations without others between them, by address."""
        used = [*self._used]
        place = bisect_right(used, new[0])
        used[place:place] = new
        first, limit = new[0].address, new[-1].limit
        self._freed = [gone for gone in self._freed if gone.end <= first or gone.address >= limit]
        self._clean = max(self._clean, limit)
        self._used = used
        self._table = _table(used)

    def _map(self, where: Allocation, descriptor: int, offset: int) -> None:
        begin = self.region.data.ctypes.data + where.address - GLOBAL
        map_over(begin, where.limit - where.address, descriptor, offset)

    def part(self) -> None:
        """Make further writes private to this process, which was forked from the one that made the heap."""
        self._lock = threading.Lock()
        at = GLOBAL
        for used in [*(used for used in self._used if used.shared), Allocation(GLOBAL + self._size, 0)]:
            if used.address > at:
                begin = self.region.data.ctypes.data + at - GLOBAL
                map_over(begin, used.address - at, self.descriptor, at - GLOBAL, private=True)
            at = used.limit

    def view(self, address: int, size: int) -> Array:
        """Return a live view of the bytes at a device address.

        Raises:
            ProgramError: They are not all within one allocation.

        """
        where = self.holding(address, size)
        if size < 0 or where is None:
            raise ProgramError(
                f"{size} bytes at {address:#x} are not within one allocation on the simulated device.",
                why=self.explain(address, size),
                fix="Use an address that allocate() returned, and at most its size.",
                code="gpu.bad-address",
            )
        return self.region.data[address - GLOBAL : address - GLOBAL + size]

    def holding(self, address: int, size: int) -> Allocation | None:
        """Return the allocation that contains all of these bytes, or None."""
        home = self._at(address)
        return None if home is None or address + size > home.end else home

    def others_write(self, low: int, high: int) -> bool:
        """Whether a shared file is mapped between two addresses; its other users may change it at any time."""
        return any(used.shared and used.address <= high and low < used.end for used in self._used)

    def _at(self, address: int) -> Allocation | None:
        """Return the last allocation that begins at or before an address."""
        used = self._used
        place = bisect_right(used, address, key=_address) - 1
        return used[place] if place >= 0 else None

    def check(self, addresses: Array, size: int, *, write: bool) -> int | None:
        """Find the first of the addresses (uint64) where `size` bytes may not be accessed; its index, or None."""
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
        """Describe what is wrong with an access."""
        if address < 4096:
            return "it is a null pointer, or near one"
        for gone in self._freed:
            if gone.address <= address < gone.end:
                return f"it is in {gone.size} bytes at {gone.address:#x} that were freed"
        near = self._at(address)
        if near is None:
            return "it is not in any allocation"
        if write and near.constant and address + size <= near.end:
            return "it is constant memory, which is read-only for kernels"
        beyond = address + size - near.end
        return f"it ends {beyond} bytes past the allocation of {near.size} bytes at {near.address:#x}"


_address = attrgetter("address")
_HEAPS: Final[weakref.WeakSet[Heap]] = weakref.WeakSet()


def _part_all() -> None:
    for heap in _HEAPS:
        heap.part()


forks.in_child(_part_all)


def _sensible(size: int, align: int) -> None:
    if size < 0 or align < 1 or align & (align - 1):
        raise ProgramError(
            f"Cannot allocate {size} bytes aligned to {align} on the simulated device.",
            why="The size must be at least 0 (1 for shared memory) and the alignment a power of two.",
            fix="Pass a valid size and alignment.",
            code="gpu.bad-allocation",
        )


def _table(used: list[Allocation]) -> tuple[Array, Array, Array]:
    """Return starts, ends (uint64) and read-only flags, by address; one empty entry if there are no allocations."""
    rows = used or [Allocation(0, 0)]
    return (
        np.array([row.address for row in rows], np.uint64),
        np.array([row.end for row in rows], np.uint64),
        np.array([row.constant for row in rows], np.bool_),
    )


_FIXED: Final = 0x10  # MAP_FIXED in <bits/mman-map-flags-generic.h>, on every supported architecture


def map_over(address: int, size: int, descriptor: int, offset: int, *, private: bool = False) -> None:
    """Map a file over existing memory, readable and writable.

    Args:
        address: Address of the memory; must be page-aligned, like `offset`.
        size: Bytes to map.
        descriptor: Descriptor of the file; may be closed afterwards.
        offset: First byte in the file.
        private: Make writes private to this process.

    Raises:
        OSError: The file cannot be mapped.

    """
    flags = _FIXED | (mmap.MAP_PRIVATE if private else mmap.MAP_SHARED)
    if _mmap()(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, offset) != address:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@cache
def _mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_size_t
    function.argtypes = (
        *(ctypes.c_size_t, ctypes.c_size_t),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_ssize_t,
    )
    return function

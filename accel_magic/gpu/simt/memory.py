"""The device's global memory: one block of host memory, in which allocations are made, and their bounds."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError, ProgramError
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
    """One allocation: first address, bytes, and whether kernels may only read it."""

    address: int
    size: int
    constant: bool = False

    @property
    def end(self) -> int:
        """Address after it."""
        return self.address + self.size


class Heap:
    """Global memory and its allocations: first fit, in a free list that is kept merged.

    Args:
        size: Bytes. Taken from the host only where they are touched.

    """

    def __init__(self, size: int) -> None:
        size = -(-size // 256) * 256
        self.region = Region(np.zeros(size, np.uint8))
        self._size = size
        self._used: list[Allocation] = []
        self._freed: list[Allocation] = []
        self._table = _table([])

    def allocate(self, size: int, align: int = 256, *, constant: bool = False) -> int:
        """Find room for `size` bytes, zero them, and give their address.

        Raises:
            ProgramError: The size is negative or the alignment is no power of two.
            MachineError: There is no such room.

        """
        if size < 0 or align < 1 or align & (align - 1):
            raise ProgramError(
                f"Cannot allocate {size} bytes aligned to {align} on the CPU device.",
                why="A size is at least 0 and an alignment is a power of two.",
                fix="Pass other numbers.",
            )
        room = max(size, 1)
        at = GLOBAL
        for used in self._used:
            at = -(-at // align) * align
            if used.address - at >= room + GUARD:
                break
            at = max(at, used.end + GUARD)
        at = -(-at // align) * align
        if at + room > GLOBAL + self._size:
            raise MachineError(
                f"The CPU device has no room for {size} bytes.",
                why=f"Its memory is {self._size} bytes, and {sum(used.size for used in self._used)} are allocated.",
                fix="Free what is not used, or make the device with more memory_bytes.",
            )
        insort(self._used, Allocation(at, room, constant))
        self._freed = [gone for gone in self._freed if gone.end <= at or gone.address >= at + room]
        self._table = _table(self._used)
        self.region.data[at - GLOBAL : at - GLOBAL + room] = 0
        return at

    def free(self, address: int) -> None:
        """Give an allocation back.

        Raises:
            ProgramError: Nothing was allocated at this address.

        """
        at = bisect_right(self._used, address, key=lambda used: used.address) - 1
        if at < 0 or self._used[at].address != address:
            raise ProgramError(
                f"{address:#x} is not the address of an allocation of the CPU device.",
                why="It was never allocated, or it was freed before.",
                fix="Free each address that allocate() returned once.",
            )
        self._freed.append(self._used.pop(at))
        self._table = _table(self._used)

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
            )
        return self.region.data[address - GLOBAL : address - GLOBAL + size]

    def holding(self, address: int, size: int) -> Allocation | None:
        """Give the allocation that holds all of these bytes."""
        at = bisect_right(self._used, address, key=lambda used: used.address) - 1
        if at < 0 or address + size > self._used[at].end:
            return None
        return self._used[at]

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
        at = bisect_right(self._used, address, key=lambda used: used.address) - 1
        if at < 0:
            return "no allocation holds it"
        near = self._used[at]
        if write and near.constant and address + size <= near.end:
            return "it is constant memory, which kernels may only read"
        beyond = address + size - near.end
        return f"it ends {beyond} bytes beyond the allocation of {near.size} bytes at {near.address:#x}"


def _table(used: list[Allocation]) -> tuple[Array, Array, Array]:
    """Give starts, ends (uint64) and constness, by address; one entry that holds nothing where there is none."""
    rows = used or [Allocation(0, 0)]
    return (
        np.array([row.address for row in rows], np.uint64),
        np.array([row.end for row in rows], np.uint64),
        np.array([row.constant for row in rows], np.bool_),
    )

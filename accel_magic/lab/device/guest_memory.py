"""The guest memory shared by QEMU: windows of mapped files, at the addresses seen by the device.

An access that is not entirely within one window raises `GuestFault`. Source: the vfio-user specification, DMA_MAP and
DMA_UNMAP (QEMU, docs/interop/vfio-user.rst).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
from bisect import bisect_right
from pathlib import Path

from accel_magic.lab.device.guest_fault import GuestFault

PAGE = 4096
MOST_WINDOWS = 512
_U64 = struct.Struct("<Q")


class PrivateMemory:
    """Part of a file that the client has mapped privately: only the client has what is written there.

    A guest restored from a snapshot has its memory so. It is read and written as the client's, which needs the right
    to trace that process; addresses are those at which it has mapped the file.

    Args:
        client: Its process id.
        fd: The file; it stays open with the client.
        offset: First byte, in the file.
        size: Bytes.

    Raises:
        OSError: The client has not mapped that part of the file, or it may not be traced.

    """

    def __init__(self, client: int, fd: int, offset: int, size: int) -> None:
        self._base = _address_of(client, fd, offset, size)
        self._size = size
        self._memory = os.open(f"/proc/{client}/mem", os.O_RDWR | os.O_CLOEXEC)

    def __getitem__(self, where: slice) -> bytes:
        data = os.pread(self._memory, where.stop - where.start, self._base + where.start)
        if len(data) != where.stop - where.start:
            raise GuestFault("dma", f"only {len(data)} bytes at {where.start:#x} can be read")
        return data

    def __setitem__(self, where: slice, data: bytes) -> None:
        if os.pwrite(self._memory, data, self._base + where.start) != len(data):
            raise GuestFault("dma", f"{len(data)} bytes at {where.start:#x} cannot be written")

    def close(self) -> None:
        """Close the client's memory."""
        os.close(self._memory)


def _address_of(client: int, fd: int, offset: int, size: int) -> int:
    """Where a process has mapped part of a file."""
    status = os.fstat(fd)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino)
    begin = end = first = 0
    with Path(f"/proc/{client}/maps").open(encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, _, start, device, inode, *_ = line.split()
            if (device, inode) != file:
                continue
            low, high = (int(part, 16) for part in addresses.split("-"))
            if low != end or int(start, 16) != first + (low - begin):  # not what follows in memory and in the file
                begin, first = low, int(start, 16)
            end = high
            if first <= offset and offset + size <= first + (end - begin):
                return begin + offset - first
    raise OSError(errno.EINVAL, "the client has not mapped its file")


class Window:
    """Part of the guest's address space.

    Attributes:
        start: First address.
        size: Bytes.
        memory: The mapped file, or the client's memory; None for memory that QEMU announced but did not share (such as
            ROMs).
        offset: Offset of `start` in `memory`.
        writable: Whether the device may write there.

    """

    __slots__ = ("memory", "offset", "size", "start", "writable")

    def __init__(self, start: int, size: int, memory: SharedMemory | None, offset: int, *, writable: bool) -> None:
        self.start = start
        self.size = size
        self.memory = memory
        self.offset = offset
        self.writable = writable


SharedMemory = mmap.mmap | PrivateMemory
"""Memory of the client that the device reads and writes."""


class GuestMemory:
    """All windows, sorted and without overlaps.

    Attributes:
        client: Process id of the client, whose private memory is used; 0 if it is not known.

    """

    def __init__(self) -> None:
        self.client = 0
        self._windows: list[Window] = []
        self._starts: list[int] = []
        self._last: Window | None = None

    def map(self, start: int, size: int, fd: int | None, offset: int, *, writable: bool = True) -> None:
        """Add a window of `size` bytes of the file `fd` from `offset`. The caller keeps the descriptor.

        Raises:
            OSError: EINVAL if the window is empty, unaligned or longer than its file; EEXIST if it overlaps another;
                ENOSPC if there are too many windows; or an error from mmap or `PrivateMemory`.

        """
        if size <= 0 or (start | size | offset) % PAGE or start + size > 1 << 64:
            raise OSError(errno.EINVAL, "not whole pages of a 64-bit address space")
        if len(self._windows) >= MOST_WINDOWS:
            raise OSError(errno.ENOSPC, "too many windows")
        if any(each.start < start + size and start < each.start + each.size for each in self._windows):
            raise OSError(errno.EEXIST, "overlaps memory that is mapped")
        memory: SharedMemory | None = None
        if fd is not None:
            # Accessing a page past the end of the file would kill the process.
            if os.fstat(fd).st_size < offset + size:
                raise OSError(errno.EINVAL, "longer than its file")
            if writable and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                memory = PrivateMemory(self.client, fd, offset, size)
            else:
                protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
                memory = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=protection, offset=offset)
        self._replace([*self._windows, Window(start, size, memory, 0, writable=writable)])

    def unmap(self, start: int, size: int) -> None:
        """Remove `size` bytes from `start`: whole windows or parts of them."""
        end, kept = start + size, []
        for each in self._windows:
            before, after = (
                min(start, each.start + each.size) - each.start,
                each.start + each.size - max(end, each.start),
            )
            if before > 0:
                kept.append(Window(each.start, before, each.memory, each.offset, writable=each.writable))
            if after > 0:
                skip = each.size - after
                kept.append(Window(each.start + skip, after, each.memory, each.offset + skip, writable=each.writable))
        self._replace(kept)

    def clear(self) -> None:
        """Remove all windows."""
        self._replace([])

    def _replace(self, windows: list[Window]) -> None:
        held = {id(each.memory) for each in windows}
        gone = [each.memory for each in self._windows if each.memory is not None and id(each.memory) not in held]
        self._windows = sorted(windows, key=lambda each: each.start)
        self._starts = [each.start for each in self._windows]
        self._last = None
        for memory in {id(each): each for each in gone}.values():
            memory.close()

    def _find(self, address: int, size: int) -> tuple[Window, SharedMemory, int]:
        window = self._last
        if window is None or not (window.start <= address and address + size <= window.start + window.size):
            index = bisect_right(self._starts, address) - 1
            window = self._windows[index] if index >= 0 else None
            if window is None or address + size > window.start + window.size or size < 0:
                raise GuestFault("dma", f"{size} bytes at {address:#x} are not guest memory")
            self._last = window
        if window.memory is None:
            raise GuestFault("dma", f"{size} bytes at {address:#x} are not shared")
        return window, window.memory, address - window.start + window.offset

    def read(self, address: int, size: int) -> bytes:
        """Read `size` bytes from `address`.

        Raises:
            GuestFault: They are not all within one shared window.

        """
        _, memory, offset = self._find(address, size)
        return memory[offset : offset + size]

    def write(self, address: int, data: bytes) -> None:
        """Write `data` at `address`.

        Raises:
            GuestFault: It is not all within one shared, writable window.

        """
        window, memory, offset = self._find(address, len(data))
        if not window.writable:
            raise GuestFault("dma", f"{len(data)} bytes at {address:#x} are read-only")
        memory[offset : offset + len(data)] = data

    def read_u64(self, address: int) -> int:
        """Read eight bytes, little endian."""
        _, memory, offset = self._find(address, 8)
        value: int = _U64.unpack(memory[offset : offset + 8])[0]
        return value

"""Write an initramfs: an uncompressed, reproducible cpio archive in the `newc` format."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

_END = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """One entry of the archive.

    Attributes:
        path: Its path, without a leading slash; parent folders must come first.
        mode: Type and permission bits, as in `st_mode`.
        data: Content of a file, target of a link, otherwise empty.
        device: Major and minor number of a device node.

    """

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(path: str) -> Entry:
    """A folder, mode 0755."""
    return Entry(path, stat.S_IFDIR | 0o755)


def file(path: str, data: bytes, *, executable: bool = False) -> Entry:
    """A file, mode 0644, or 0755 if executable."""
    return Entry(path, stat.S_IFREG | (0o755 if executable else 0o644), data)


def link(path: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(path, stat.S_IFLNK | 0o777, target.encode())


def character_device(path: str, major: int, minor: int) -> Entry:
    """A character device, mode 0600."""
    return Entry(path, stat.S_IFCHR | 0o600, device=(major, minor))


def write(output: BinaryIO, entries: Iterable[Entry]) -> None:
    """Write the archive; all entries belong to root and have the modification time 0."""
    for number, entry in enumerate(entries, start=1):
        _write(output, entry, number)
    _write(output, Entry(_END, 0), 0)


def _write(output: BinaryIO, entry: Entry, inode: int) -> None:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    output.write(head + _padding(len(head)) + entry.data + _padding(len(entry.data)))


def _padding(length: int) -> bytes:
    return bytes(-length % 4)

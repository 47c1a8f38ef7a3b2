"""Open files that other users may have planted: regular files only, and without blocking."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from accel_magic.directories import flags

if TYPE_CHECKING:
    from collections.abc import Container

    from accel_magic.directories import Directory

_CAN_REOPEN: Final = hasattr(os, "O_PATH")
"""Whether a file can be inspected before it is opened for reading; else, it is opened without blocking."""
_READING: Final = flags("RDONLY", "NONBLOCK", "CLOEXEC", "BINARY")
_PLACE: Final = flags("PATH", "CLOEXEC") if _CAN_REOPEN else _READING
_NO_LINK: Final = flags("NOFOLLOW")


def opened(
    path: Path | str, *, follow: bool = True, owners: Container[int] | None = None, folder: Directory | None = None
) -> BinaryIO:
    """Open a regular file for unbuffered reading.

    FIFOs, which would block until there is a writer, and devices, where opening may have side effects, are rejected
    before they are opened.

    Args:
        path: The file.
        follow: Whether the last part of the path may be a symbolic link.
        owners: Accepted owners (user ids); None for any.
        folder: The folder that a relative path begins in; None for the current folder.

    Raises:
        OSError: It cannot be opened, is not a regular file, or belongs to somebody else.

    """
    where, dir_fd = (path, None) if folder is None else (folder.at(str(path)), folder.dir_fd)
    if not follow and not _NO_LINK and Path(where).is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
    place = os.open(where, _PLACE | (0 if follow else _NO_LINK), dir_fd=dir_fd)
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if owners is not None and status.st_uid not in owners:
            raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(path))
        # Without O_NONBLOCK, open() would block while the owner holds a lease.
        descriptor = os.open(f"/proc/self/fd/{place}", _READING) if _CAN_REOPEN else os.dup(place)
    finally:
        os.close(place)
    return os.fdopen(descriptor, "rb", buffering=0)


def path_of(file: BinaryIO, folder: Directory, name: str) -> str:
    """Path that leads to an open file, whatever is at its own path now; outside of Linux, that path."""
    return f"/proc/self/fd/{file.fileno()}" if _CAN_REOPEN else str(folder.path / name)


def has_hole(file: BinaryIO, offset: int, size: int) -> bool:
    """Whether part of a file is a hole, so that no program has written it."""
    with contextlib.suppress(io.UnsupportedOperation, OSError):  # in-memory file, or a file system without holes
        return os.lseek(file.fileno(), offset, os.SEEK_HOLE) < offset + size
    return False

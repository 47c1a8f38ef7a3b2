"""Open files that other users may have planted: regular files only, and without blocking."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path


def opened(
    path: Path | str, *, follow: bool = True, owners: Container[int] | None = None, folder: int | None = None
) -> BinaryIO:
    """Open a regular file for unbuffered reading.

    FIFOs, which would block until there is a writer, and devices, where opening may have side effects, are rejected
    before they are opened.

    Args:
        path: The file.
        follow: Whether the last part of the path may be a symbolic link.
        owners: Accepted owners (user ids); None for any.
        folder: Descriptor of the folder that a relative path begins in; None for the current folder.

    Raises:
        OSError: It cannot be opened, is not a regular file, or belongs to somebody else.

    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if owners is not None and status.st_uid not in owners:
            raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(path))
        # Without O_NONBLOCK, open() would block while the owner holds a lease.
        descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)
    return os.fdopen(descriptor, "rb", buffering=0)


def has_hole(file: BinaryIO, offset: int, size: int) -> bool:
    """Whether part of a file is a hole, so that no program has written it."""
    with contextlib.suppress(io.UnsupportedOperation, OSError):  # in-memory file, or a file system without holes
        return os.lseek(file.fileno(), offset, os.SEEK_HOLE) < offset + size
    return False

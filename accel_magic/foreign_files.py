"""Opening files that other users may have put in their place: regular ones only, and never waiting."""

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


def opened(path: Path, *, follow: bool = True, owners: Container[int] | None = None) -> BinaryIO:
    """Open a regular file for reading, without a buffer.

    A FIFO, which would wait for its writer, and a device, which may do something when it is opened, are refused before
    they are opened.

    Args:
        path: The file.
        follow: Whether the last part of the path may be a symbolic link.
        owners: User ids that the file may belong to; None for any.

    Raises:
        OSError: It cannot be opened, is not a regular file, or belongs to somebody else.

    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if owners is not None and status.st_uid not in owners:
            raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(path))
        # Without O_NONBLOCK a lease that its owner holds would keep this waiting.
        descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)
    return os.fdopen(descriptor, "rb", buffering=0)


def has_hole(file: BinaryIO, offset: int, size: int) -> bool:
    """Whether a part of a file takes no space on its disk: what a program has written does, however large it is."""
    with contextlib.suppress(io.UnsupportedOperation, OSError):  # of bytes in memory, or a file system without holes
        return os.lseek(file.fileno(), offset, os.SEEK_HOLE) < offset + size
    return False

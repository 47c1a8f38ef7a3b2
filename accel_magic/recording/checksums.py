"""Compare files with their checksums, once: a file that has not changed since is not read again."""

from __future__ import annotations

import os
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from typing import TYPE_CHECKING, Final, TypeAlias

from accel_magic import foreign_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.directories import Directory

State: TypeAlias = tuple[int, ...]
"""Device, inode, size and times of a file: whatever changes or replaces it changes one of them."""
Expected: TypeAlias = "tuple[Directory, str, int, int]"
"""A file: its folder, name, size and CRC-32."""
_CHUNK: Final = 1 << 20
_SETTLED_NS: Final = 2_000_000_000
"""Within this time, another change may leave the same times."""
_MOST: Final = 1 << 18
_verified: dict[tuple[State, int], None] = {}


class WrongError(ValueError):
    """The file `name` is not what was written."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


def verified(files: Sequence[Expected]) -> tuple[State, ...]:
    """Compare files with their checksums, in threads, and return their states.

    Raises:
        WrongError: One is missing, has changed, or is not a regular file.

    """
    if len(files) == 1:
        return (_state(files[0]),)
    with ThreadPoolExecutor(_processors()) as threads:
        return tuple(threads.map(_state, files))


def _processors() -> int:
    """Processors that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _state(expected: Expected) -> State:
    folder, name, size, crc32 = expected
    try:
        with foreign_files.opened(name, follow=False, folder=folder) as file:
            return state(file.fileno(), name, size, crc32)
    except OSError as error:
        raise WrongError(name, error.strerror or str(error)) from error


def state(descriptor: int, name: str, size: int, crc32: int) -> State:
    """Compare an open file with its checksum, and return its state. Raises WrongError."""
    found = _state_of(descriptor)
    if (found, crc32) not in _verified:
        _compare(descriptor, name, size, crc32)
        if _state_of(descriptor) != found:
            raise WrongError(name, "it is being changed")
        _keep(found, crc32)
    return found


def _compare(descriptor: int, name: str, size: int, crc32: int) -> None:
    found, at, buffer = 0, 0, memoryview(bytearray(min(_CHUNK, size + 1)))
    with FileIO(descriptor, closefd=False) as file:
        file.seek(0)
        while at <= size and (count := file.readinto(buffer)):
            found, at = zlib.crc32(buffer[:count], found), at + count
    if at != size:
        raise WrongError(name, f"it does not have the {size:,} bytes that were written")
    if found != crc32:
        raise WrongError(name, "it does not match its checksum")


def _state_of(descriptor: int) -> State:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _keep(state: State, crc32: int) -> None:
    if max(state[3:]) < time.time_ns() - _SETTLED_NS:
        if len(_verified) >= _MOST:
            _verified.clear()
        _verified[state, crc32] = None

"""Mapping a file over memory that is mapped already, which Python's mmap cannot."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any, Final

_FIXED: Final = 0x10  # MAP_FIXED of <bits/mman-map-flags-generic.h>, on every architecture that Python names


def map_over(address: int, size: int, descriptor: int, offset: int, *, private: bool = False) -> None:
    """Put a file's bytes where other memory was, to read and to write.

    Args:
        address: Of the memory; like `offset` the beginning of a page.
        size: Bytes of it.
        descriptor: Of the file, which may be closed afterwards.
        offset: First byte of the file.
        private: Keep what is written to this process.

    Raises:
        OSError: The file cannot be mapped so.

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

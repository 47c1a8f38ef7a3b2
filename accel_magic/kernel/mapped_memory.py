"""Memory shared with the kernel or another process, as numpy arrays."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def map_value(fd: int, dtype: np.dtype[np.void], *, writable: bool = False) -> NDArray[np.void]:
    """Map the element of a one-element array map: shape (1,), live."""
    size = -(-dtype.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
    return np.frombuffer(area, dtype, count=1)


def map_file(fd: int) -> NDArray[np.uint8]:
    """Map a whole file read-only: shape (bytes,)."""
    size = os.fstat(fd).st_size
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ), np.uint8)

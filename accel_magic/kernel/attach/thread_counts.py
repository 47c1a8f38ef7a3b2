"""The table of counts by thread, of points that are only counted (bpf/kernel/common.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.load import bpf_maps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.kernel.load.bpf_links import Descriptors

MOST: Final = 8192
"""Threads with hits at a point; hits of others are only in the sums of all threads."""
KEY: Final = np.dtype([("tid", "<u4"), ("point", "<u4")])
"""`struct am_thread_point`."""
COUNT: Final = np.dtype([("hits", "<u8"), ("total", "<u8"), ("pid", "<u4"), ("reserved", "<u4")])
"""`struct am_thread_count`."""


def create(keep: Descriptors) -> int:
    """Create the table, to which only programs can write; return its descriptor."""
    return keep.add(bpf_maps.create_table("am_by_thread", key=KEY.itemsize, value=COUNT.itemsize, entries=MOST))


def read(table: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Read the table: (rows,) `KEY` and (rows,) `COUNT`. Raises OSError if the kernel rejects the call."""
    content = bpf_maps.read(bpf_maps.OpenMap(table, bpf_maps.HASH, MOST, KEY.itemsize, COUNT.itemsize))
    return (
        np.ascontiguousarray(content.keys).view(KEY).ravel(),
        np.ascontiguousarray(content.values[:, 0]).view(COUNT).ravel(),
    )

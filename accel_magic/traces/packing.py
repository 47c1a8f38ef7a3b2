"""Bytes and numbers as text for JSON: zlib and base64, unpacked to no more than was announced."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.traces import bounds

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_DENSEST = 1100
"""zlib reaches 1032 : 1 at best."""


def pack(raw: bytes) -> str:
    """Bytes as ASCII text."""
    return base64.b64encode(zlib.compress(raw)).decode("ascii")


def unpack(text: str, limit: int, cost: int = 1) -> bytes:
    """Undo `pack`; `limit` bytes at most, so that a few kilobytes cannot fill the memory.

    Args:
        text: What `pack` returned.
        limit: Bytes.
        cost: Bytes of memory that the caller will make of each byte, for `bounds`.

    Raises:
        ValueError: It is damaged, incomplete or longer.
        TooLargeError: It needs more memory than may be spent.

    """
    inflate = zlib.decompressobj()
    room = bounds.left()
    most = limit if room is None else min(limit, room // cost)
    try:
        raw = inflate.decompress(base64.b64decode(text, validate=True), most + 1)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from error
    bounds.spend(len(raw) * cost)
    if len(raw) > limit or not inflate.eof or inflate.unused_data:
        raise ValueError("compressed data is incomplete or longer than it may be")
    return raw


def pack_numbers(values: NDArray[Any]) -> str:
    """Array of any shape as text: first the lowest byte of every number, then the next one of every number.

    Small numbers in a wide type so take next to nothing, and little time.
    """
    flat = values.astype(values.dtype.newbyteorder("<")).reshape(-1)
    return pack(flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes())


def unpack_numbers(text: str, dtype: DTypeLike, count: int) -> NDArray[Any]:
    """Undo `pack_numbers`: (count,) of `dtype`.

    Raises:
        ValueError: It is damaged, or these are not so many numbers.

    """
    stored = np.dtype(dtype).newbyteorder("<")
    size = count * stored.itemsize
    if not 0 <= size <= _DENSEST * len(text):
        raise ValueError(f"{count} numbers are not there")
    bounds.spend(size)  # for the array; unpacking spends its own
    raw = unpack(text, size)
    if len(raw) != size:
        raise ValueError(f"{count} numbers are not there")
    planes = np.frombuffer(raw, np.uint8).reshape(stored.itemsize, count)
    return np.ascontiguousarray(planes.T).reshape(-1).view(stored).astype(dtype, copy=False)

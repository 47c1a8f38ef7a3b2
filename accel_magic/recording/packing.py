"""Bytes and arrays of numbers as text, compressed, for the descriptions of recordings."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.recording import memory_bounds

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_DENSEST = 1100
"""zlib compresses at most 1032 : 1."""


def pack(raw: bytes) -> str:
    """Encode bytes as ASCII text."""
    return base64.b64encode(zlib.compress(raw)).decode("ascii")


def unpack(text: str, limit: int, cost: int = 1) -> bytes:
    """Undo `pack`, up to `limit` bytes, so that a few kilobytes cannot fill the memory.

    Args:
        text: Result of `pack`.
        limit: Maximum size of the result, bytes.
        cost: Bytes of memory that the caller allocates per byte, for `bounds`.

    Raises:
        ValueError: The text is damaged or incomplete, or unpacks to more than `limit` bytes.
        TooLargeError: It needs more memory than allowed.

    """
    inflate = zlib.decompressobj()
    room = memory_bounds.left()
    most = limit if room is None else min(limit, room // cost)
    try:
        raw = inflate.decompress(base64.b64decode(text, validate=True), most + 1)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from error
    memory_bounds.spend(len(raw) * cost)
    if len(raw) > limit or not inflate.eof or inflate.unused_data:
        raise ValueError("compressed data is incomplete or too long")
    return raw


def pack_numbers(values: NDArray[Any]) -> str:
    """Encode an array of any shape as text: the lowest byte of every number, then the next byte, and so on.

    This compresses small numbers in a wide type to very little, and fast.
    """
    flat = values.astype(values.dtype.newbyteorder("<")).reshape(-1)
    return pack(flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes())


def unpack_numbers(text: str, dtype: DTypeLike, count: int) -> NDArray[Any]:
    """Undo `pack_numbers`: (count,) of `dtype`.

    Raises:
        ValueError: The text is damaged, or does not contain exactly `count` numbers.

    """
    stored = np.dtype(dtype).newbyteorder("<")
    size = count * stored.itemsize
    if not 0 <= size <= _DENSEST * len(text):
        raise ValueError(f"the data does not contain {count} numbers")
    memory_bounds.spend(size)  # for the array; `unpack` accounts for its own buffer
    raw = unpack(text, size)
    if len(raw) != size:
        raise ValueError(f"the data does not contain {count} numbers")
    planes = np.frombuffer(raw, np.uint8).reshape(stored.itemsize, count)
    return np.ascontiguousarray(planes.T).reshape(-1).view(stored).astype(dtype, copy=False)

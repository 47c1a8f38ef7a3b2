"""Memory limit for opening a file: declared sizes are added up before anything is unpacked.

A few kilobytes of compressed zeros unpack to gigabytes, so a file's size says nothing about the memory it needs.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from accel_magic.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE: Final = "ACCEL_MAGIC_LARGEST_RECORDING_MIB"
"""Environment variable that overrides the limit, MiB."""
_DEFAULT_MIB: Final = 1024
JSON_COST: Final = 16
"""Bytes of Python objects per byte of JSON, roughly."""

_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


class TooLargeError(ValueError):
    """The memory that a file declares exceeds the limit; at least `needed` bytes are needed."""

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(f"it needs at least {needed:,} bytes of memory; {limit:,} are allowed")
        self.needed = needed


def limit() -> int:
    """Bytes that opening a file may take.

    Raises:
        RecordingError: The environment variable is not a positive number.

    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return _DEFAULT_MIB << 20
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise RecordingError(
            f"{VARIABLE}={text!r:.40} is not a size",
            why="it must be a whole number of MiB",
            fix=f"unset it for the default, {_DEFAULT_MIB}",
            code="recording.bad-limit",
        )
    return int(text) << 20


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the total memory spent in the block."""
    token = _left.set([limit()])
    try:
        yield
    finally:
        _left.reset(token)


def left() -> int | None:
    """Bytes that may still be spent; None outside of `bounded`."""
    allowed = _left.get()
    return None if allowed is None else max(allowed[0], 0)


def spend(size: int) -> None:
    """Account for memory that is about to be allocated; no effect outside of `bounded`.

    Args:
        size: Bytes.

    Raises:
        TooLargeError: More than the limit has been spent.

    """
    allowed = _left.get()
    if allowed is None:
        return
    allowed[0] -= size
    if allowed[0] < 0:
        raise TooLargeError(limit() - allowed[0], limit())

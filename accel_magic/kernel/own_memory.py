"""Read this process's own memory through the kernel: an invalid address is a result, not a crash."""

from __future__ import annotations

import ctypes
import functools
import os
import struct


class _Range(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@functools.cache
def _libc() -> ctypes.PyDLL:
    """The C library, called with the GIL.

    Objects are not freed or changed while they are copied, and in a busy program reads do not have to wait for the GIL
    each time.
    """
    return ctypes.PyDLL(None, use_errno=True)


def read(address: int, size: int) -> bytes:
    """Copy `size` bytes; b"" if not all can be read."""
    buffer = ctypes.create_string_buffer(size)
    here = _Range(ctypes.addressof(buffer), size)
    there = _Range(address, size)
    got = _libc().process_vm_readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return buffer.raw if got == size else b""


def words(address: int, count: int) -> tuple[int, ...]:
    """Copy `count` 8-byte words; () if not all can be read."""
    data = read(address, 8 * count)
    return struct.unpack(f"<{count}Q", data) if data else ()


def refusal() -> str:
    """Why this process may not read its memory this way; '' if it may."""
    known = ctypes.create_string_buffer(8)
    if read(ctypes.addressof(known), 8):
        return ""
    return os.strerror(ctypes.get_errno())

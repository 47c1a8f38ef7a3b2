"""The library that patches functions of this process, and what is exchanged with it."""

from __future__ import annotations

import ctypes
import os
from functools import cache as remember
from typing import Final

import numpy as np

from accel_magic.patching import library_file

MOST_FUNCTIONS: Final = 1 << 16
MOST_OPS: Final = 1 << 16

POINT: Final = np.dtype(
    [
        ("tests", "<u8"),
        ("fills", "<u8"),
        ("function", "<u8"),
        ("index", "<u4"),
        ("generation", "<u4"),
        ("does", "u1"),
        ("records", "u1"),
        ("counts_at_return", "u1"),
        ("reserved", "u1"),
        ("id", "<u2"),
        ("reserved_end", "<u2"),
    ]
)
"""`struct point` in hits.h."""
FIXUP: Final = np.dtype([("target", "<i8"), ("at", "u1"), ("end", "u1"), ("upper", "u1"), ("reserved", "u1", 5)])
RECIPE: Final = np.dtype(
    [
        ("address", "<i8"),
        ("library", "<u4"),
        ("code_bytes", "u1"),
        ("fixup_count", "u1"),
        ("boundary_count", "u1"),
        ("reserved", "u1"),
        ("boundaries", "u1", 4),
        ("places", "u1", 4),
        ("code", "u1", 88),
        ("fixups", FIXUP, 8),
    ]
)
REQUEST: Final = np.dtype([("function", "<u4"), ("counts", "<u4")])
LIBRARY: Final = np.dtype(
    [("base", "<u8"), ("start", "<u8"), ("end", "<u8"), ("offset", "<u8"), ("file", "<i4"), ("reserved", "<i4")]
)
"""`struct fixup`, `recipe`, `request` and `patched_library` in patch.h."""
OP: Final = np.dtype([("code", "u1"), ("size", "i1"), ("at", "<u2"), ("reserved", "<u4"), ("value", "<u8")])
"""`struct op` in hits.h."""
PATCHED: Final = 1
COUNTED, ENTERED, RETURNED, MEASURED = range(1, 5)
"""What is done at a hit."""


@remember
def loaded() -> ctypes.CDLL:
    """Return the library, loaded into this process. Raises MachineError, OSError."""
    found = ctypes.PyDLL(os.fspath(library_file.library()))  # its functions are short: the GIL is kept
    found.accel_magic_patching_points.restype = ctypes.c_void_p
    found.accel_magic_patching_programs.restype = ctypes.c_void_p
    found.accel_magic_patching_check.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.accel_magic_patching_use.argtypes = [ctypes.c_int, ctypes.c_size_t]
    found.accel_magic_patching_tick.argtypes = [ctypes.c_void_p]
    found.accel_magic_patching_patch.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]
    found.accel_magic_patching_restore.restype = ctypes.c_size_t
    found.accel_magic_patching_replaced.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.accel_magic_patching_replaced.restype = ctypes.c_size_t
    return found

"""The library that patches functions of this process, and what is exchanged with it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache as remember
from pathlib import Path
from typing import Final

import numpy as np

from accel_magic import cache
from accel_magic.c_programs import CProgram, bpf_folder, compile_program, files, is_built_from, mark
from accel_magic.collecting import collector_folder
from accel_magic.errors import MachineError

SHIPPED: Final = "libaccel_magic_patching.so"
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


_FOLDER: Final = Path(__file__).parent


def _sources() -> tuple[Path, ...]:
    return (*files(_FOLDER, ".c"), *files(_FOLDER, ".S"), *files(collector_folder(), ".c"))


def _headers() -> tuple[Path, ...]:
    return (*files(_FOLDER, ".h"), *files(collector_folder(), ".h"), bpf_folder() / "kernel" / "python_walk.h")


@remember
def _mark() -> str:
    """Text in a library that was built from these sources."""
    return mark("patching", (*_sources(), *_headers()))


def program() -> CProgram:
    """Return how the library is built."""
    return CProgram(
        "patching",
        sources=_sources(),
        headers=_headers(),
        flags=(
            f"-I{collector_folder()}",
            f"-I{bpf_folder() / 'kernel'}",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            # Its callers' vector registers stay as they are, and it calls nothing that might be patched.
            "-mgeneral-regs-only",
            "-fno-stack-protector",
            "-fno-tree-loop-distribute-patterns",
            "-Wl,--no-undefined",
            f'-DSOURCES="{_mark()}"',
        ),
        libraries=("-ldl",),
        suffix=".so",
    )


def library() -> Path:
    """Return the path of the library: the one in the package, else one compiled now.

    Raises:
        MachineError: The package has none, and there is no C compiler, or this is another kind of machine.

    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise MachineError(
            "functions cannot be patched on this machine",
            why=f"it is {platform.machine()} with {platform.system()}: only x86-64 with Linux is supported",
            fix="use --uprobes=kernel, as root or through the broker",
            code="machine.platform",
        )
    shipped = _FOLDER / SHIPPED
    return shipped if is_built_from(shipped, _mark()) else compile_program(program(), cache.own("patching"))


@remember
def loaded() -> ctypes.CDLL:
    """Return the library, loaded into this process. Raises MachineError, OSError."""
    found = ctypes.PyDLL(os.fspath(library()))  # its functions are short: the GIL is kept
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

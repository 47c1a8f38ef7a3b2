"""The library that wraps the driver in native programs: compiled on first use, and cached."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from accel_magic import cache
from accel_magic.c_programs import CProgram, compile_program, files
from accel_magic.errors import MachineError
from accel_magic.gpu.program.clang import cache_folder

_FOLDER: Final = Path(__file__).with_name("shim")
_SHIM: Final = CProgram(
    "native",
    sources=files(_FOLDER, ".c"),
    headers=files(_FOLDER, ".h"),
    flags=("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic,-z,now"),
    libraries=("-ldl",),
    suffix=".so",
)
_SEPARATORS: Final = " :"
"""Separators of the names in LD_PRELOAD."""


def library() -> Path:
    """Compile the library if necessary, and return its path.

    Raises:
        MachineError: There is no C compiler, it fails, or the cache folder cannot be used.

    """
    folder = cache_folder()
    if any(separator in str(folder) for separator in _SEPARATORS):
        raise MachineError(
            "native binaries cannot be traced from this cache folder",
            why=f"its path has a space or a colon: {folder}",
            fix=f"use another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="cache.path",
        )
    return compile_program(_SHIM, folder)

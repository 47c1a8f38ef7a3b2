"""The libraries that wrap an API in native programs: compiled on first use, and cached."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from accel_magic import cache
from accel_magic.c_programs import CProgram, compile_program, files
from accel_magic.errors import MachineError
from accel_magic.gpu.program.clang import cache_folder

_FOLDER: Final = Path(__file__).parent


def _library(api: str, *parts: str) -> CProgram:
    folders = [_FOLDER / part for part in ("common", *parts, api)]
    return CProgram(
        f"native-{api}",
        sources=tuple(file for folder in folders for file in files(folder, ".c")),
        headers=tuple(file for folder in folders for file in files(folder, ".h")),
        flags=("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic,-z,now"),
        libraries=("-ldl",),
        suffix=".so",
    )


_CUDA: Final = _library("cuda", "preload")
_OPENCL: Final = _library("opencl")
_LEVEL_ZERO: Final = _library("level_zero", "preload")
_SEPARATORS: Final = " :"
"""Separators of the names in LD_PRELOAD and OPENCL_LAYERS."""


def cuda_library() -> Path:
    """Compile the library for LD_PRELOAD that wraps CUDA's driver, if necessary, and return its path.

    Raises:
        MachineError: There is no C compiler, it fails, or the cache folder cannot be used.

    """
    return _compiled(_CUDA)


def opencl_layer() -> Path:
    """Compile the OpenCL layer if necessary, and return its path. Raises as `cuda_library`."""
    return _compiled(_OPENCL)


def level_zero_library() -> Path:
    """Compile the library for LD_PRELOAD that wraps Level Zero if necessary, and return its path. Raises as above."""
    return _compiled(_LEVEL_ZERO)


def _compiled(program: CProgram) -> Path:
    folder = cache_folder()
    if any(separator in str(folder) for separator in _SEPARATORS):
        raise MachineError(
            "native binaries cannot be traced from this cache folder",
            why=f"its path has a space or a colon: {folder}",
            fix=f"use another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="cache.path",
        )
    return compile_program(program, folder)

"""Builds the mock CUDA driver's library with the machine's C compiler, once per version of its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from accel_magic import cache
from accel_magic.c_programs import CProgram, compile_program, files

NAME: Final = "libcuda.so.1"
_FOLDER: Final = Path(__file__).parent / "driver"
_DRIVER: Final = CProgram(
    "mock_cuda",
    sources=files(_FOLDER, ".c"),
    headers=files(_FOLDER, ".h"),
    flags=("-O1", "-fPIC", "-fvisibility=hidden", "-shared", f"-Wl,-soname,{NAME}", "-Wl,--no-undefined"),
    suffix=f"/{NAME}",
)


def library() -> Path:
    """Return the path of the library, `libcuda.so.1` in its own folder, and build it if necessary.

    Raises:
        MachineError: There is no C compiler, the C library's headers are missing, or the cache is not writable.

    """
    return compile_program(_DRIVER, cache.own("gpu"))

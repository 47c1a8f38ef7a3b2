"""The folder of the lab's compiled C programs, and `npu_load`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from accel_magic import cache
from accel_magic.c_programs import CProgram, compile_program

_FOLDER = Path(__file__).parent


FOLDER = "ACCEL_MAGIC_LAB_PROGRAMS"
"""Environment variable with the folder of compiled programs; the lab sets it to the host's folder in its guest."""


def folder() -> Path:
    """Return the folder of compiled programs. Raises MachineError if there is no usable cache folder."""
    given = os.environ.get(FOLDER)
    return Path(given) if given else cache.own("lab", "programs")


def files(*names: str) -> tuple[Path, ...]:
    """Files below `accel_magic/lab`."""
    return tuple(_FOLDER / name for name in names)


def _npu_load() -> CProgram:
    return CProgram(
        "npu_load",
        sources=files("npu/npu_load.c", "npu/npu_jobs.c", "npu/npu_report.c"),
        headers=files("npu/npu_load.h", "npu/npu_uapi.h"),
        flags=("-g1",),
        without="or use accel_magic.lab.npu.load(), which needs no compiler",
    )


def compile_load(folder: str | os.PathLike[str], *, static: bool = True, compiler: str | None = None) -> Path:
    """Compile `npu_load` into a folder, unless it was already built there from the same sources, flags and compiler.

    Args:
        folder: Created if missing.
        static: Link statically, so that the program runs in any root file system.
        compiler: A C compiler; None: as `c_programs.compile_program` finds it.

    Returns:
        Path of the program.

    Raises:
        MachineError: There is no C compiler, the compilation failed, or the folder cannot be written.

    """
    program = _npu_load()
    if static:
        program = replace(program, flags=(*program.flags, "-static"))
    return compile_program(program, Path(folder), compiler=compiler)

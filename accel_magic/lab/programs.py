"""Compile the lab's C programs, such as `npu_load`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from accel_magic import cache
from accel_magic.errors import MachineError

_FOLDER = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-pthread")
_COMPILERS = ("cc", "gcc", "clang")
_COMPILER_FIX = "apt install gcc libc6-dev"


FOLDER = "ACCEL_MAGIC_LAB_PROGRAMS"
"""Environment variable with the folder of compiled programs; the lab sets it to the host's folder in its guest."""


def folder() -> Path:
    """Return the folder of compiled programs. Raises MachineError if there is no usable cache folder."""
    given = os.environ.get(FOLDER)
    return Path(given) if given else cache.own("lab", "programs")


@dataclass(frozen=True)
class Program:
    """How a program or library is built.

    Attributes:
        name: File name; a digest of the build's inputs and `suffix` are appended.
        sources: Files below `accel_magic/lab`.
        headers: Headers below `accel_magic/lab` that the sources include.
        flags: Additional compiler flags.
        libraries: Linker flags such as "-ldl".
        suffix: ".so" for a library.
        without: An alternative that needs no compiler, as a hint in error messages; "" if there is none.

    """

    name: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    suffix: str = ""
    without: str = ""


_NPU_LOAD = Program(
    "npu_load",
    sources=("npu/npu_load.c", "npu/npu_jobs.c", "npu/npu_report.c"),
    headers=("npu/npu_load.h", "npu/npu_uapi.h"),
    without="or use accel_magic.lab.npu.load(), which needs no compiler",
)


def compile_load(folder: str | os.PathLike[str], *, static: bool = True, compiler: str | None = None) -> Path:
    """Compile `npu_load` into a folder, unless it was already built there from the same sources, flags and compiler.

    Args:
        folder: Created if missing.
        static: Link statically, so that the program runs in any root file system.
        compiler: A C compiler; None: `$CC`, or the first of cc, gcc and clang.

    Returns:
        Path of the program.

    Raises:
        MachineError: There is no C compiler, the compilation failed, or the folder cannot be written.

    """
    return compile_program(_NPU_LOAD, folder, more_flags=("-static",) if static else (), compiler=compiler)


def compile_program(
    program: Program,
    folder: str | os.PathLike[str],
    *,
    more_flags: tuple[str, ...] = (),
    compiler: str | None = None,
) -> Path:
    """Compile a program into a folder, unless it was already built there from the same sources, flags and compiler.

    Args:
        program: What to build.
        folder: Created if missing.
        more_flags: Compiler flags in addition to the program's.
        compiler: A C compiler; None: `$CC`, or the first of cc, gcc and clang.

    Returns:
        Path of the file.

    Raises:
        MachineError: There is no C compiler, the compilation failed, or the folder cannot be written.

    """
    found = _compiler(program, compiler)
    flags = (*_FLAGS, *program.flags, *more_flags)
    digest = hashlib.sha256("\0".join((found, *flags, *program.libraries)).encode())
    for source in (*program.sources, *program.headers):
        digest.update((_FOLDER / source).read_bytes())
    name = f"{program.name}-{digest.hexdigest()[:16]}"
    try:
        place = cache.make(Path(folder))
        if kept := cache.find(place, name, program.suffix):
            return kept
        # Built under another name, so that no other process sees an incomplete file.
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{program.name}-") as scratch:
            built = Path(scratch) / program.name
            sources = (str(_FOLDER / one) for one in program.sources)
            _run(program, [found, *flags, "-o", str(built), *sources, *program.libraries])
            return cache.keep(built, place, name, program.suffix)
    except OSError as error:
        raise MachineError(
            f"cannot write {program.name} to {folder}",
            why=str(error),
            fix="free some space, or choose a writable folder",
            code="program.not-kept",
        ) from None


def _run(program: Program, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MachineError(
            f"cannot compile {program.name}", why=f"{command[0]}: {error.strerror}", code="native.not-compiled"
        ) from None
    if done.returncode:
        raise MachineError(
            f"cannot compile {program.name}",
            why=f"{command[0]}: {(done.stderr.strip() or 'no message').splitlines()[-1]}",
            fix=_COMPILER_FIX,
            code="native.not-compiled",
        )


def _compiler(program: Program, wanted: str | None) -> str:
    names = (wanted,) if wanted else (os.environ.get("CC", ""), *_COMPILERS)
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        raise MachineError(
            f"cannot compile {program.name}",
            why=f"no C compiler found: {wanted or ', '.join(_COMPILERS)}",
            fix="; ".join(filter(None, (_COMPILER_FIX, program.without))),
            code="native.no-compiler",
        )
    return found

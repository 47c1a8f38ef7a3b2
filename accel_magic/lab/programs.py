"""Build the lab's C programs, `npu_load` (the load in C) among them."""

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
"""Environment variable with the folder of what is compiled; the lab sets it in its guest to the host's folder."""


def folder() -> Path:
    """Return the folder for what is compiled here. Raises MachineError: there is no place for it."""
    given = os.environ.get(FOLDER)
    return Path(given) if given else cache.own("lab", "programs")


@dataclass(frozen=True)
class Program:
    """What a program or library is made of.

    Attributes:
        name: Of the file, which gets a digest of all that decides what is in it, and `suffix`.
        sources: Files below `accel_magic/lab`.
        headers: What they include of these.
        flags: Of the compiler, besides the usual ones.
        libraries: Linked in: "-ldl".
        suffix: ".so" for a library.
        without: What does the same without a compiler, if anything does.

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
    without="accel_magic.lab.npu.load() does the same without one",
)


def compile_load(folder: str | os.PathLike[str], *, static: bool = True, compiler: str | None = None) -> Path:
    """Compile `npu_load` into a folder, unless it is there from the same sources, flags and compiler.

    Args:
        folder: Made if it is missing.
        static: Link everything in: the program then runs in any root file system.
        compiler: A C compiler; None: `$CC`, or the first of cc, gcc and clang.

    Returns:
        The program.

    Raises:
        MachineError: No C compiler, or one that cannot build it.

    """
    return compile_program(_NPU_LOAD, folder, more_flags=("-static",) if static else (), compiler=compiler)


def compile_program(
    program: Program,
    folder: str | os.PathLike[str],
    *,
    more_flags: tuple[str, ...] = (),
    compiler: str | None = None,
) -> Path:
    """Compile a program into a folder, unless it is there from the same sources, flags and compiler.

    Args:
        program: What to build.
        folder: Made if it is missing.
        more_flags: Of the compiler, besides the program's own.
        compiler: A C compiler; None: `$CC`, or the first of cc, gcc and clang.

    Returns:
        The file.

    Raises:
        MachineError: No C compiler, or one that cannot build it.

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
        # Built under another name: whoever finds the program finds all of it.
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{program.name}-") as scratch:
            built = Path(scratch) / program.name
            sources = (str(_FOLDER / one) for one in program.sources)
            _run(program, [found, *flags, "-o", str(built), *sources, *program.libraries])
            return cache.keep(built, place, name, program.suffix)
    except OSError as error:
        raise MachineError(
            f"{program.name} cannot be put into {folder}",
            why=str(error),
            fix="free some space, or name a folder that can be written",
            code="program.not-kept",
        ) from None


def _run(program: Program, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MachineError(
            f"{program.name} cannot be compiled", why=f"{command[0]}: {error.strerror}", code="native.not-compiled"
        ) from None
    if done.returncode:
        raise MachineError(
            f"{program.name} cannot be compiled",
            why=f"{command[0]}: {(done.stderr.strip() or 'no message').splitlines()[-1]}",
            fix=_COMPILER_FIX,
            code="native.not-compiled",
        )


def _compiler(program: Program, wanted: str | None) -> str:
    names = (wanted,) if wanted else (os.environ.get("CC", ""), *_COMPILERS)
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        raise MachineError(
            f"{program.name} cannot be compiled",
            why=f"no C compiler: {wanted or ', '.join(_COMPILERS)}",
            fix="; ".join(filter(None, (_COMPILER_FIX, program.without))),
            code="native.no-compiler",
        )
    return found

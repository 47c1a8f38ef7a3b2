"""Build `npu_load`, the load as a C program."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from accel_magic.errors import MachineError

_FOLDER = Path(__file__).parents[1]
SOURCES = ("npu_load.c", "npu_jobs.c", "npu_report.c")
HEADERS = ("npu_load.h", "npu_uapi.h")
_FLAGS = ("-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-pthread")
_COMPILERS = ("cc", "gcc", "clang")


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
    found = _compiler(compiler)
    flags = (*_FLAGS, *(("-static",) if static else ()))
    digest = hashlib.sha256("\0".join((found, *flags)).encode())
    for name in (*SOURCES, *HEADERS):
        digest.update((_FOLDER / name).read_bytes())
    program = Path(folder) / f"npu_load-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    # Built under another name: whoever finds the program finds all of it.
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".npu_load-") as scratch:
        built = Path(scratch) / "npu_load"
        command = [found, *flags, "-o", str(built), *(str(_FOLDER / name) for name in SOURCES)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise MachineError("npu_load cannot be compiled", why=f"{found}: {error.strerror}") from None
        if done.returncode:
            raise MachineError(
                "npu_load cannot be compiled",
                why=f"{found}: {(done.stderr.strip() or 'no message').splitlines()[-1]}",
                fix="apt install gcc libc6-dev",
            )
        built.replace(program)
    return program


def _compiler(wanted: str | None) -> str:
    names = (wanted,) if wanted else (os.environ.get("CC", ""), *_COMPILERS)
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        raise MachineError(
            "npu_load cannot be compiled",
            why=f"no C compiler: {wanted or ', '.join(_COMPILERS)}",
            fix="apt install gcc libc6-dev; accel_magic.lab.npu.load() does the same without one",
        )
    return found

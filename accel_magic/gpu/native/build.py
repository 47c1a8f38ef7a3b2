"""The library that wraps the driver in native programs: compiled on first use, and cached."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from accel_magic import cache
from accel_magic.errors import MachineError
from accel_magic.gpu.program.clang import cache_folder, find_clang

_FOLDER: Final = Path(__file__).with_name("shim")
_OPTIONS: Final = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic,-z,now")
_LIBRARIES: Final = ("-ldl", "-lpthread")
_TIMEOUT_S: Final = 120
_SEPARATORS: Final = " :"
"""Separators of the names in LD_PRELOAD."""


def library() -> Path:
    """Compile the library if necessary, and return its path.

    Raises:
        MachineError: There is no C compiler, it fails, or the cache folder cannot be used.

    """
    compiler = _compiler()
    sources = sorted(_FOLDER.glob("*.[ch]"))
    parts = [compiler, *_OPTIONS, *(source.read_text(encoding="utf-8") for source in sources)]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    folder = cache_folder()
    if any(separator in str(folder) for separator in _SEPARATORS):
        raise MachineError(
            "native binaries cannot be traced from this cache folder",
            why=f"its path has a space or a colon: {folder}",
            fix=f"use another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="cache.path",
        )
    found = cache.find(folder, f"native-{name}", ".so")
    return found or _compile(compiler, [str(source) for source in sources if source.suffix == ".c"], folder, name)


def _compiler() -> str:
    for name in ("cc", "gcc"):
        if path := shutil.which(name):
            return path
    return find_clang().path


def _compile(compiler: str, sources: list[str], folder: Path, name: str) -> Path:
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "made.so"
            command = [compiler, *_OPTIONS, "-o", str(made), *sources, *_LIBRARIES]
            done = subprocess.run(
                command,
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                raise MachineError(
                    "the library for tracing native binaries does not compile",
                    why=_first_error(done.stderr.decode(errors="replace")),
                    fix="install a C compiler with its headers: apt install gcc libc6-dev",
                    code="native.not-compiled",
                )
            return cache.keep(made, folder, f"native-{name}", ".so")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            "the library for tracing native binaries cannot be compiled",
            why=str(error),
            fix=f"free some space, or use another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="native.not-compiled",
        ) from error


def _first_error(messages: str) -> str:
    lines = [line for line in messages.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "the compiler printed no message")

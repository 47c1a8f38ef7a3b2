"""Builds the mock driver's library with the machine's C compiler, once per version of its sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Final

from accel_magic import cache
from accel_magic.errors import MachineError
from accel_magic.machine import CLANG

NAME: Final = "libcuda.so.1"
_SOURCES: Final = Path(__file__).parent / "driver"
_FLAGS: Final = (
    *("-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-shared"),
    *(f"-Wl,-soname,{NAME}", "-Wl,--no-undefined", "-pthread"),
)
_FIX: Final = "apt install gcc libc6-dev"
_TIMEOUT_S: Final = 60.0


def library() -> Path:
    """Return the path of the library, `libcuda.so.1` in its own folder, and build it if necessary.

    Raises:
        MachineError: There is no C compiler, the C library's headers are missing, or the cache is not writable.

    """
    compiler = _compiler()
    sources = sorted(_SOURCES.glob("*.[ch]"))
    content = b"\0".join([compiler.encode(), *(part.encode() for part in _FLAGS), *(s.read_bytes() for s in sources)])
    folder, name = cache.own("gpu"), f"standin-{hashlib.sha256(content).hexdigest()[:32]}"
    found = cache.find(folder, name, f"/{NAME}")
    return found or _build(compiler, [str(source) for source in sources if source.suffix == ".c"], folder, name)


def _compiler() -> str:
    for name in ("cc", "gcc", os.environ.get(CLANG) or "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise _not_built("there is no C compiler")


def _not_built(why: str) -> MachineError:
    return MachineError("the mock CUDA driver cannot be built", why=why, fix=_FIX, code="standin.not-built")


def _build(compiler: str, sources: list[str], folder: Path, name: str) -> Path:
    partial = folder / f"{name}.{os.getpid()}-{threading.get_ident()}"
    try:
        run = subprocess.run(
            [compiler, *_FLAGS, "-o", str(partial), *sources],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if run.returncode:
            lines = run.stderr.strip().splitlines() or [f"{compiler} exited with status {run.returncode}"]
            why = next((line for line in lines if "error" in line), lines[0])
            raise _not_built(why)
        return cache.keep(partial, folder, name, f"/{NAME}")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_built(str(error)) from None
    finally:
        partial.unlink(missing_ok=True)

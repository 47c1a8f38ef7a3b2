"""Builds the stand-in driver's library with the machine's C compiler, once for each content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Final

from accel_magic.errors import MachineError
from accel_magic.gpu.clang import CHOSEN, cache_folder

NAME: Final = "libcuda.so.1"
_SOURCES: Final = Path(__file__).parent / "driver"
_FLAGS: Final = (
    *("-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-shared"),
    *(f"-Wl,-soname,{NAME}", "-Wl,--no-undefined", "-pthread"),
)
_FIX: Final = "apt install gcc libc6-dev"
_TIMEOUT_S: Final = 60.0


def library() -> Path:
    """Return the path of the library, `libcuda.so.1` in a folder of its own, and build it where it is not there yet.

    Raises:
        MachineError: There is no C compiler, it has no headers of the C library, or the cache cannot be written.

    """
    compiler = _compiler()
    sources = sorted(_SOURCES.glob("*.[ch]"))
    content = b"\0".join([compiler.encode(), *(part.encode() for part in _FLAGS), *(s.read_bytes() for s in sources)])
    folder = cache_folder() / f"standin-{hashlib.sha256(content).hexdigest()[:32]}"
    built = folder / NAME
    if not built.exists():
        _build(compiler, [str(source) for source in sources if source.suffix == ".c"], built)
    return built


def _compiler() -> str:
    for name in ("cc", "gcc", os.environ.get(CHOSEN) or "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise MachineError("the stand-in for CUDA's driver cannot be built", why="there is no C compiler", fix=_FIX)


def _build(compiler: str, sources: list[str], built: Path) -> None:
    partial = built.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
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
            lines = run.stderr.strip().splitlines() or [f"{compiler} ends with {run.returncode}"]
            why = next((line for line in lines if "error" in line), lines[0])
            raise MachineError("the stand-in for CUDA's driver cannot be built", why=why, fix=_FIX)
        partial.replace(built)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError("the stand-in for CUDA's driver cannot be built", why=str(error), fix=_FIX) from None
    finally:
        partial.unlink(missing_ok=True)

"""Bytecode of our own programs, kept in the user's cache folder: what one process has compiled, others need not.

A file's name is a digest of all that the bytecode depends on: the text, the templates and headers that it includes, the
compiler process, BCC and the kernel's release.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache, codec
from accel_magic.c_programs import bpf_folder
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.kernel.bcc.bcc_location import BccInstall

_HERE: Final = Path(__file__).parent
_FOLDER: Final = "programs"
_SUFFIX: Final = ".json"
_MOST: Final = 1000
"""Files of about 7 kB; those that were not used for the longest time are removed."""


def find(text: str, bcc: BccInstall) -> dict[str, bytes] | None:
    """Bytecode by function name; None if the text has not been compiled, or others could have written the file."""
    with contextlib.suppress(MachineError, OSError):
        kept = cache.find(cache.own(_FOLDER), _name(text, bcc), _SUFFIX)
        if kept is not None:
            functions = codec.from_json(kept.read_bytes(), dict[str, bytes])
            os.utime(kept)
            return functions
    return None


def keep(text: str, bcc: BccInstall, functions: dict[str, bytes]) -> None:
    """Keep what a text was compiled to. Does nothing if there is no folder for it."""
    with contextlib.suppress(MachineError, OSError):
        folder = cache.own(_FOLDER)
        descriptor, made = tempfile.mkstemp(dir=folder, prefix=".", suffix=_SUFFIX)
        with os.fdopen(descriptor, "wb") as file:
            file.write(codec.to_json(functions))
        cache.keep(Path(made), folder, _name(text, bcc), _SUFFIX)
        _remove_oldest(folder)


def _name(text: str, bcc: BccInstall) -> str:
    digest = hashlib.sha256(f"{platform.release()}\0{platform.machine()}\0{text}".encode())
    templates = sorted((bpf_folder() / "kernel").iterdir())
    for file in (*templates, *sorted((_HERE / "headers").rglob("*")), _HERE / "compile_server.py"):
        if file.is_file():
            digest.update(f"\0{file.name}\0".encode())
            digest.update(file.read_bytes())
    binding = Path(bcc.package, "libbcc.py")  # another one with each version of BCC
    digest.update(f"\0{binding}\0{binding.stat().st_mtime_ns}\0".encode())
    digest.update(binding.read_bytes())
    return digest.hexdigest()[:32]


def _remove_oldest(folder: Path) -> None:
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[:-_MOST]:
        file.unlink(missing_ok=True)

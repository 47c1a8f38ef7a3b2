"""What `%%gputrace` needs on this machine, and what of it is there."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Final

from accel_magic.errors import MachineError
from accel_magic.gpu.clang import find_clang

_PACKAGES: Final = ("llvmlite", "nvidia-nvjitlink")
_OPTIONAL: Final = ("nvidia-cuda-nvrtc", "triton", "numba-cuda")
_FIX: Final = "pip install 'accel-magic[gpu]'"


@dataclass(frozen=True)
class Requirements:
    """What was found.

    Attributes:
        there: Names with their versions.
        missing: What is needed and is not there, each with the command that installs it.

    """

    there: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]


def look() -> Requirements:
    """Look for clang, the packages of the GPU extra, and the frameworks whose kernels can be traced."""
    there, missing = [], []
    try:
        there.append(f"clang {find_clang().version}")
    except MachineError as error:
        missing.append((error.what, error.fix))
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            if name in _PACKAGES:
                missing.append((f"{name} is not installed", _FIX))
    return Requirements(tuple(there), tuple(missing))

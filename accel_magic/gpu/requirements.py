"""What `%%gputrace` needs on this machine, and what of it is there."""

from __future__ import annotations

import importlib.metadata
import subprocess
from dataclasses import dataclass
from typing import Final

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.gpu.program.clang import find_clang

_PACKAGES: Final = ("llvmlite", "nvidia-nvjitlink")
_OPTIONAL: Final = ("nvidia-cuda-nvrtc", "triton", "numba-cuda")
_FIX: Final = "pip install 'accel-magic[gpu]'"
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Requirements:
    """What was found.

    Attributes:
        there: Names with their versions.
        missing: What is needed and is not there, each with the command that installs it.
        wanting: What is not there and needed for some uses only, likewise.

    """

    there: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]
    wanting: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Gpus:
    """What the NVIDIA driver has.

    Attributes:
        found: Each GPU in words.
        why: Where there is none: why.
        fix: And what mends it.

    """

    found: tuple[str, ...]
    why: str = ""
    fix: str = ""


def look_for_gpus() -> Gpus:
    """Ask the NVIDIA driver which GPUs `--device cuda` could use, in a process of its own."""
    command = own_python.command("accel_magic.devices.cuda")
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus((), f"the driver does not answer: {error}", "see nvidia-smi")
    if run.returncode == 0:
        return Gpus(tuple(run.stdout.splitlines()))
    told = run.stderr.splitlines()
    if len(told) == 2:
        return Gpus((), *told)
    last = told[-1] if told else f"status {run.returncode}"
    return Gpus((), f"the driver ends the process that asks it: {last}", "see nvidia-smi")


def look() -> Requirements:
    """Look for clang, the packages of the GPU extra, and the frameworks whose kernels can be traced."""
    there, missing, wanting = [], [], []
    try:
        there.append(f"clang {find_clang().version}")
    except MachineError as error:
        wanting.append((f"{error.what}: the tools work, programs of your own (.bpf.c) do not", error.fix))
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            if name in _PACKAGES:
                missing.append((f"{name} is not installed", _FIX))
    return Requirements(tuple(there), tuple(missing), tuple(wanting))

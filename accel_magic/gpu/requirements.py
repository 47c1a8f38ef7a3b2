"""The requirements of `%%gputrace`, and whether this machine meets them."""

from __future__ import annotations

import importlib.metadata
import subprocess
from dataclasses import dataclass
from typing import Final

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.program.clang import find_clang

_PACKAGES: Final = ("llvmlite", "nvidia-nvjitlink")
_OPTIONAL: Final = ("nvidia-cuda-nvrtc", "triton", "numba-cuda")
_FIX: Final = "pip install 'accel-magic[gpu]'"
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Requirements:
    """The requirements on this machine.

    Attributes:
        there: Installed requirements with their versions.
        missing: (missing requirement, command that installs it).
        wanting: The same for requirements of some uses only.

    """

    there: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]
    wanting: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Gpus:
    """The devices that a driver finds.

    Attributes:
        found: A description of each one.
        why: If there is none: why.
        fix: If there is none: the fix.

    """

    found: tuple[str, ...]
    why: str = ""
    fix: str = ""


def look_for_gpus() -> Gpus:
    """Ask the NVIDIA driver, in a separate process, which GPUs `--device cuda` can use."""
    return _listed("accel_magic.devices.cuda", "run nvidia-smi")


def look_for_opencl() -> Gpus:
    """Ask OpenCL's drivers, in a separate process, which devices `--device opencl` can use."""
    return _listed("accel_magic.devices.opencl", "run clinfo")


def _listed(module: str, fix: str) -> Gpus:
    """Run a module that lists devices, or prints why there are none and a fix."""
    try:
        run = subprocess.run(
            own_python.command(module), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus((), f"the driver does not answer: {error}", fix)
    if run.returncode == 0:
        return Gpus(tuple(run.stdout.splitlines()))
    lines = run.stderr.splitlines()
    if len(lines) == 2:
        return Gpus((), *lines)
    last = lines[-1] if lines else f"status {run.returncode}"
    return Gpus((), f"the driver ends the process that uses it: {last}", fix)


def look() -> Requirements:
    """Look for clang, the packages of the GPU extra, and frameworks whose kernels can be traced."""
    there, missing, wanting = [], [], []
    try:
        there.append(f"clang {find_clang().version}")
    except MachineError as error:
        wanting.append((f"{error.what}: the tools work, your own programs (.bpf.c) do not", error.fix))
    if not nvrtc.is_installed():
        wanting.append(
            ("NVRTC is not installed: kernels in CUDA C cannot be compiled, others can be traced", nvrtc.FIX)
        )
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            if name in _PACKAGES:
                missing.append((f"{name} is not installed", _FIX))
    return Requirements(tuple(there), tuple(missing), tuple(wanting))

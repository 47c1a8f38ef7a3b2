"""Requirements of iaprof for recording, by name: which are met, which are not, and how to fix them.

Based on iaprof's README and on the files and probes used in its sources (release 2026.2).
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import AccelMagicError
from accel_magic.kernel import features
from accel_magic.probes import libraries, usdt

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM: Final = "iaprof"
VARIABLE: Final = "ACCEL_MAGIC_IAPROF"
"""Environment variable that names the program if it is not on PATH."""
KNOWN_GPUS: Final = {
    0x6420: "Lunar Lake",
    0x64A0: "Lunar Lake",
    0x64B0: "Lunar Lake",
    0xE20B: "Battlemage (Arc B580)",
}
"""PCI ids listed by iaprof."""
_KERNEL: Final = (6, 15)
_VENDOR: Final = "0x8086"
_DRIVER: Final = "xe"
_FUNCTION: Final = "xe_vm_bind_ioctl"
_PROBES: Final = ("launch_kernel", "compile_kernel")
_PROVIDER: Final = "level_zero"
_README: Final = "https://github.com/intel/iaprof"
_ROOT: Final = Path("/")


@dataclass(frozen=True)
class Requirement:
    """One requirement of iaprof.

    Attributes:
        name: Its name.
        met: Whether it is met; None if unknown.
        detail: What was found.
        fix: How to fix it; '' if there is nothing to fix.
        needed: Whether iaprof cannot record without it; the others improve its profiles.

    """

    name: str
    met: bool | None
    detail: str
    fix: str = ""
    needed: bool = True


def requirements(root: Path = _ROOT) -> tuple[Requirement, ...]:
    """Check each requirement of iaprof.

    Args:
        root: Folder that contains `proc` and `sys`.

    """
    return (
        _gpu(root),
        _kernel(),
        _driver(root),
        _observation(root),
        _btf(root),
        _fentry(root),
        _privilege(),
        _program(),
        _runtime(),
        _frame_pointers(),
    )


def unmet(found: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements that prevent recording."""
    return tuple(one for one in found if one.needed and one.met is False)


def program() -> Path | None:
    """Find the iaprof program: the file named by the environment variable, else the one on PATH."""
    found = shutil.which(os.environ.get(VARIABLE) or PROGRAM)
    return Path(found) if found else None


def xe_gpus(root: Path = _ROOT) -> dict[str, int]:
    """PCI device ids of Intel GPUs with the driver xe, by card name."""
    found = {}
    for card in sorted((root / "sys/class/drm").glob("card*")):
        device = card / "device"
        if not card.name.removeprefix("card").isdecimal() or _read(device / "vendor").strip() != _VENDOR:
            continue
        if (device / "driver").exists() and (device / "driver").resolve().name == _DRIVER:
            found[card.name] = int(_read(device / "device").strip() or "0", 16)
    return found


def _gpu(root: Path) -> Requirement:
    name = "Xe2 GPU"
    gpus = xe_gpus(root)
    if not gpus:
        return Requirement(
            name,
            met=False,
            detail="there is no Intel GPU with the xe driver",
            fix="iaprof needs an Xe2 GPU: Arc B-series (Battlemage), or Core Ultra 200V (Lunar Lake)",
        )
    described = ", ".join(f"{card} 8086:{id_:04x}" for card, id_ in gpus.items())
    # iaprof uses the driver's first card.
    first = next(iter(gpus.values()))
    if first in KNOWN_GPUS:
        return Requirement(name, met=True, detail=f"{KNOWN_GPUS[first]}: {described}")
    return Requirement(
        name, met=None, detail=f"{described}: not in iaprof's list, and only Xe2 supports EU stall sampling"
    )


def _kernel() -> Requirement:
    requested = ".".join(map(str, _KERNEL))
    met = features.kernel_version() >= _KERNEL
    return Requirement(
        f"Linux {requested}",
        met=met,
        detail=features.kernel_release(),
        fix="" if met else f"boot Linux {requested} or newer: older drivers do not support EU stall sampling",
    )


def _driver(root: Path) -> Requirement:
    met = (root / "sys/module" / _DRIVER).is_dir()
    fix = "" if met else "modprobe xe (and set xe.force_probe=ID if the GPU still uses i915)"
    return Requirement("driver xe", met=met, detail="loaded" if met else "not loaded", fix=fix)


def _observation(root: Path) -> Requirement:
    """Check access to the streams. Root always has it; without the setting, the driver has no streams."""
    name, path = "xe streams", "proc/sys/dev/xe/observation_paranoid"
    value = _read(root / path).strip()
    if not value:
        return Requirement(
            name, met=False, detail=f"there is no /{path}: the driver has no streams", fix="load the xe driver"
        )
    return Requirement(
        name,
        met=value == "0" or os.geteuid() == 0,
        detail=f"dev.xe.observation_paranoid is {value}",
        fix="" if value == "0" or os.geteuid() == 0 else "run as root, or: sysctl dev.xe.observation_paranoid=0",
    )


def _btf(root: Path) -> Requirement:
    name = "BTF"
    # The BTF of a built-in driver is part of vmlinux; only loaded modules are in /proc/modules.
    loaded = any(line.startswith(f"{_DRIVER} ") for line in _read(root / "proc/modules").splitlines())
    requested = ["vmlinux", *([_DRIVER] if loaded else [])]
    missing = [file for file in requested if not (root / "sys/kernel/btf" / file).exists()]
    if missing:
        detail = f"there is no {' and no '.join(f'/sys/kernel/btf/{file}' for file in missing)}"
        fix = "boot a kernel with CONFIG_DEBUG_INFO_BTF and CONFIG_DEBUG_INFO_BTF_MODULES"
        return Requirement(name, met=False, detail=detail, fix=fix)
    if not (root / "sys/module" / _DRIVER).is_dir():
        return Requirement(name, met=None, detail="the kernel has BTF; xe is not loaded, so its BTF is unknown")
    return Requirement(name, met=True, detail=", ".join(f"/sys/kernel/btf/{file}" for file in requested))


def _fentry(root: Path) -> Requirement:
    """Check the function tracing that iaprof uses to detect processes using the GPU."""
    name = "fentry"
    folders = (root / "sys/kernel/tracing", root / "sys/kernel/debug/tracing")
    listed = next((text for folder in folders if (text := _read(folder / "available_filter_functions"))), "")
    if not listed:
        fix = "boot a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE, and mount tracefs"
        return Requirement(
            name, met=False, detail="this kernel lists no traceable functions, such as " + _FUNCTION, fix=fix
        )
    met = re.search(rf"^{_FUNCTION}(\s|$)", listed, re.MULTILINE) is not None
    detail = f"{_FUNCTION} is traceable" if met else f"{_FUNCTION} is not among the traceable functions"
    return Requirement(name, met=met, detail=detail, fix="" if met else "load the xe driver")


def _privilege() -> Requirement:
    met = os.geteuid() == 0
    detail = "yes" if met else f"no, user {os.geteuid()}"
    return Requirement("root", met=met, detail=detail, fix="" if met else "start Jupyter as root")


def _program() -> Requirement:
    found = program()
    if found is None:
        fix = f"build iaprof ({_README}), then put it on PATH or set {VARIABLE} to its path"
        return Requirement("program", met=False, detail="iaprof is not on PATH", fix=fix)
    return Requirement("program", met=True, detail=str(found))


def _runtime() -> Requirement:
    name = "Level Zero"
    fix = f"build and use Intel's compute runtime with the patches from {_README} (graphics-stack/)"
    try:
        library = libraries.resolve("libze_intel_gpu", os.getpid())
        probes = {probe.name for probe in usdt.probes(library) if probe.provider == _PROVIDER}
    except AccelMagicError as error:  # a program may bring its own runtime and load it later
        return Requirement(
            name, met=None, detail=error.what, fix=f"import the package that uses the GPU first, or {fix}"
        )
    missing = [probe for probe in _PROBES if probe not in probes]
    if missing:
        return Requirement(name, met=False, detail=f"{library} has no probe {' and no '.join(missing)}", fix=fix)
    return Requirement(name, met=True, detail=str(library))


def _frame_pointers() -> Requirement:
    name = "frame pointers"
    flags = f"{sysconfig.get_config_var('CFLAGS') or ''} {sysconfig.get_config_var('PY_CORE_CFLAGS') or ''}"
    if "-fno-omit-frame-pointer" in flags:
        named = os.environ.get("PYTHONPERFSUPPORT")
        fix = "" if named else "export PYTHONPERFSUPPORT=1 before starting Jupyter, so that Python functions have names"
        return Requirement(name, met=True, detail="this Python was built with frame pointers", fix=fix, needed=False)
    return Requirement(
        name,
        met=False,
        detail="this Python was built without frame pointers: CPU stacks will be short",
        fix="use a Python built with -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer",
        needed=False,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

"""A description of this machine: stored with every recording and shown when it is played back."""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from accel_magic._version import __version__

_VENDORS = {
    "0x1002": "AMD",
    "0x1022": "AMD",
    "0x10de": "NVIDIA",
    "0x17cb": "Qualcomm",
    "0x1da3": "Habana",
    "0x8086": "Intel",
}
_NPU_DRIVERS = frozenset({"intel_vpu", "amdxdna", "rocket", "ethosu"})
CLANG = "ACCEL_MAGIC_CLANG"
"""Environment variable that names the clang to use."""
KERNEL_SECONDS = "ACCEL_MAGIC_KERNEL_SECONDS"
"""Environment variable: seconds of CPU time after which the simulated device stops a kernel of which no thread ends."""
LAB_MAGIC = b"AMLF"
"""Magic number that marks a device of the NPU lab."""
LAB_DRIVER = "accel_lab"
"""Kernel module of the lab's accelerator."""
_EMULATED = ", emulated"
_CAPABILITIES, _VENDOR_SPECIFIC, _MOST_CAPABILITIES = 0x34, 0x09, 48
# Listed in /sys/class/drm, but without compute.
_DISPLAY_DRIVERS = frozenset(
    {"ast", "bochs-drm", "cirrus", "efi-framebuffer", "hyperv_drm", "mgag200", "simple-framebuffer", "vkms"}
)


def describe() -> dict[str, str]:
    """Describe this machine: `kernel`, `os`, `cpu`, `cpus`, `host`, `device`, `python`, `accel_magic`.

    All values are non-empty strings. The devices are looked up on each call because drivers come and go; the rest once.
    If a device belongs to the NPU lab, `emulated` names it; in the accelerator lab `lab_accelerator` names its driver.
    `npu_timeout_ms` is intel_vpu's job timeout, if it was set to another than the driver's default.
    """
    found = accelerators()
    emulated = [name for name in found if name.endswith(_EMULATED)]
    return {
        **_fixed(),
        "device": ", ".join(found) or "none",
        **({"emulated": ", ".join(emulated)} if emulated else {}),
        **({"lab_accelerator": LAB_DRIVER} if Path("/sys/module", LAB_DRIVER).exists() else {}),
        **npu_timeout(),
    }


def npu_timeout(root: Path = Path("/")) -> dict[str, str]:
    """intel_vpu's job timeout as in `describe`.

    Args:
        root: Folder that contains `sys`.

    """
    value = _text(root / "sys/module/intel_vpu/parameters/tdr_timeout_ms").strip()
    return {"npu_timeout_ms": value} if value.isdecimal() and int(value) else {}


def accelerators(root: Path = Path("/")) -> list[str]:
    """Name the accelerators (NPUs, GPUs) that have a driver, such as `Intel NPU 8086:7d1d (intel_vpu)`.

    Identical devices are named once: `8x NVIDIA H200 10de:2335 (nvidia)`. Needs no privileges, but only root sees that
    a device is emulated.

    Args:
        root: Folder that contains `dev`, `proc` and `sys`.

    """
    found = {**_drm(root), **_accel(root), **_nvidia(root)}
    return [name if count == 1 else f"{count}x {name}" for name, count in Counter(found.values()).items()]


@cache
def _fixed() -> dict[str, str]:
    return {
        "kernel": platform.release(),
        "os": _os_name(),
        "cpu": _cpu_model(Path("/proc/cpuinfo")),
        "cpus": str(os.cpu_count() or 1),
        "host": platform.node() or "unknown",
        "python": platform.python_version(),
        "accel_magic": __version__,
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME") or sys.platform
    except OSError:
        return sys.platform


def _cpu_model(cpuinfo: Path) -> str:
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:  # stops early: the kernel writes this file CPU by CPU
                key, _, value = line.partition(":")
                if key.strip().lower() in ("model name", "hardware", "cpu model") and value.strip():
                    return value.strip()
    except OSError:
        pass
    return platform.machine()


def _accel(root: Path) -> dict[str, str]:
    """Devices of the kernel's accel subsystem by bus address."""
    names = {path.name for folder in ("sys/class/accel", "dev/accel") for path in _listed(root / folder, "accel*")}
    found = {}
    for name in sorted(names):
        device = root / "sys/class/accel" / name / "device"
        driver = _driver(device)
        found[_slot(device, name)] = _named(device, "NPU" if driver in _NPU_DRIVERS else "accelerator", driver)
    return found


def _drm(root: Path) -> dict[str, str]:
    """GPUs by bus address."""
    found = {}
    for card in _listed(root / "sys/class/drm", "card*"):
        device = card / "device"
        driver = _driver(device)
        if card.name.removeprefix("card").isdecimal() and driver and driver not in _DISPLAY_DRIVERS:
            found[_slot(device, card.name)] = _named(device, "GPU", driver)
    return found


def _nvidia(root: Path) -> dict[str, str]:
    """GPUs of NVIDIA's driver, which may lack a DRM card."""
    found = {}
    for folder in _listed(root / "proc/driver/nvidia/gpus", "*"):
        fields = dict(line.partition(":")[::2] for line in _text(folder / "information").splitlines())
        model = fields.get("Model", "").strip() or "NVIDIA GPU"
        pci = _pci(root / "sys/bus/pci/devices" / folder.name)
        found[folder.name] = " ".join(filter(None, (model, pci, "(nvidia)")))
    return found


def _named(device: Path, kind: str, driver: str) -> str:
    vendor = _VENDORS.get(_text(device / "vendor"), "")
    name = " ".join(filter(None, (vendor, kind, _pci(device), f"({driver or 'driver unknown'})")))
    return name + _EMULATED if is_emulated(device) else name


def is_emulated(device: Path) -> bool:
    """Whether a device is the NPU lab's: it has a vendor-specific PCI capability that starts with the magic number."""
    try:
        config = (device / "config").read_bytes()
    except OSError:
        return False
    at = config[_CAPABILITIES] if len(config) > _CAPABILITIES else 0
    for _ in range(_MOST_CAPABILITIES):
        if not at or at + 8 > len(config):
            break
        if config[at] == _VENDOR_SPECIFIC and config[at + 4 : at + 8] == LAB_MAGIC:
            return True
        at = config[at + 1]
    return False


def _pci(device: Path) -> str:
    vendor, model = _text(device / "vendor"), _text(device / "device")
    return f"{vendor.removeprefix('0x')}:{model.removeprefix('0x')}" if vendor and model else ""


def _driver(device: Path) -> str:
    return _uevent(device).get("DRIVER", "")


def _slot(device: Path, otherwise: str) -> str:
    return _uevent(device).get("PCI_SLOT_NAME", otherwise)


def _uevent(device: Path) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in _text(device / "uevent").splitlines())


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

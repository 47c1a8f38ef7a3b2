"""Drivers of accelerators and GPUs: whether they are loaded, their versions, and their devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import machine
from accel_magic.api.doctor.report import Check
from accel_magic.kernel import features

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NPU_DRIVER: Final = "intel_vpu"
_DRIVERS: Final = {
    NPU_DRIVER: "Intel NPU",
    "amdxdna": "AMD NPU",
    "xe": "Intel GPU, new driver",
    "i915": "Intel GPU",
    "amdgpu": "AMD GPU",
    "nvidia": "NVIDIA GPU",
}
_NPU_DRIVER_OF: Final = {"8086": NPU_DRIVER, "1022": "amdxdna"}
"""By PCI vendor."""
_NPUS: Final = {
    "8086:7d1d": "Meteor Lake NPU",
    "8086:ad1d": "Arrow Lake NPU",
    "8086:643e": "Lunar Lake NPU",
    "8086:b03e": "Panther Lake NPU",
    "8086:fd3e": "Wildcat Lake NPU",
}
"""The devices of intel_vpu by PCI id; names of other devices come from the distribution's list, if installed."""
_ACCELERATOR: Final = "0x12"
"""Prefix of the PCI class of processing accelerators."""
_PCI_IDS: Final = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")
_FIRMWARE_HIDDEN: Final = "firmware unknown: only root can read it, in debugfs (/sys/kernel/debug/accel)"


@dataclass(frozen=True)
class Device:
    """A device on the PCI bus.

    Attributes:
        slot: Its PCI address, e.g. `0000:00:0b.0`.
        ids: Vendor and device, e.g. `8086:7d1d`.
        kind: PCI class, e.g. `0x120000`.
        driver: Name of its driver; '' if it has none.
        folder: Its folder in sysfs.

    """

    slot: str
    ids: str
    kind: str
    driver: str
    folder: Path


def devices(root: Path) -> tuple[Device, ...]:
    """List the PCI devices below `root`, in order of their slots."""
    found = []
    for folder in sorted(root.glob("sys/bus/pci/devices/*")):
        vendor, device = (_text(folder / name).removeprefix("0x") for name in ("vendor", "device"))
        try:
            driver = (folder / "driver").readlink().name
        except OSError:
            driver = ""
        found.append(Device(folder.name, f"{vendor}:{device}", _text(folder / "class"), driver, folder))
    return tuple(found)


def checks(root: Path, found: Iterable[Device]) -> tuple[Check, ...]:
    """Check each driver, and report accelerators without one.

    Args:
        root: The folder with `proc`, `sys`, `lib` and `usr`.
        found: All PCI devices, as `devices` lists them.

    """
    found = tuple(found)
    names = _names(root, found)
    drivers = tuple(_driver(root, name, kind, found, names) for name, kind in _DRIVERS.items())
    return (*drivers, *_without_driver(found, names))


def _driver(root: Path, name: str, kind: str, found: tuple[Device, ...], names: dict[str, str]) -> Check:
    label = f"driver {name}"
    modules = _read(root / "proc/modules")
    loaded = modules is not None and any(line.split(" ", 1)[0] == name for line in modules.splitlines())
    if loaded or (root / "sys/module" / name).is_dir():
        state = ", ".join(["loaded" if loaded else "built into the kernel", *_version(root, name)])
        driven = [_described(root, device, names) for device in found if device.driver == name]
        return Check(label, "ok", "; ".join([f"{kind}: {state}", *(driven or ["it has no device"])]))
    if modules is None:
        return Check(label, "info", f"{kind}: not in this kernel, which cannot load modules")
    folder = f"lib/modules/{features.kernel_release()}"
    listed = _read(root / folder / "modules.dep")
    if listed is None:
        return Check(label, "info", f"{kind}: not loaded; cannot check whether it is available without /{folder}")
    if any(Path(line.split(":", 1)[0]).name.split(".ko")[0].replace("-", "_") == name for line in listed.splitlines()):
        return Check(
            label, "info", f"{kind}: not loaded, but available", f"modprobe {name} (if you have such a device)"
        )
    return Check(label, "info", f"{kind}: not loaded, and not among this kernel's modules")


def _version(root: Path, name: str) -> Iterator[str]:
    """The versions that `modinfo` shows, read from the loaded module: in-tree drivers may have only a srcversion."""
    for key in ("version", "srcversion"):
        if value := _text(root / "sys/module" / name / key):
            yield f"{key} {value}"


def _without_driver(found: tuple[Device, ...], names: dict[str, str]) -> Iterator[Check]:
    for device in found:
        if device.kind.startswith(_ACCELERATOR) and not device.driver:
            wanted = _NPU_DRIVER_OF.get(device.ids.partition(":")[0], "")
            what = " ".join(filter(None, (device.ids, names.get(device.ids, "processing accelerator"))))
            fix = f"modprobe {wanted}; `dmesg | grep {wanted}` shows why it does not bind" if wanted else ""
            yield Check(f"device {device.slot}", "warning", f"{what}: no driver is bound to it", fix)


def _described(root: Path, device: Device, names: dict[str, str]) -> str:
    """Describe a device: slot, ids, and if known its name and firmware."""
    information = _read(root / "proc/driver/nvidia/gpus" / device.slot / "information") or ""
    own = dict(line.partition(":")[::2] for line in information.splitlines())
    name = own.get("Model", "").strip() or names.get(device.ids, "")
    parts = [" ".join(filter(None, (device.slot, device.ids, name)))]
    if machine.is_emulated(device.folder):
        parts.append("emulated")
    if firmware := own.get("GPU Firmware", "").strip():
        parts.append(f"firmware {firmware}")
    if device.driver == NPU_DRIVER:
        parts.append(_npu_firmware(root, device))
    return ", ".join(parts)


def _npu_firmware(root: Path, device: Device) -> str:
    """Name and version of the firmware that intel_vpu loaded; on older kernels debugfs numbers the devices."""
    numbers = [
        accel.name.removeprefix("accel")
        for accel in root.glob("sys/class/accel/accel*")
        if (accel / "device").resolve() == device.folder.resolve()
    ]
    for folder in (device.slot, *numbers):
        place = root / "sys/kernel/debug/accel" / folder
        if name := _text(place / "fw_name"):
            return f"firmware {name}, version {_text(place / 'fw_version') or 'unknown'}"
    return _FIRMWARE_HIDDEN


def _names(root: Path, found: tuple[Device, ...]) -> dict[str, str]:
    """Map PCI ids to names, for devices of these drivers and for accelerators; read the list only if needed."""
    wanted = {
        device.ids for device in found if device.driver in _DRIVERS or device.kind.startswith(_ACCELERATOR)
    } - _NPUS.keys()
    listed = next((text for path in _PCI_IDS if (text := _read(root / path))), "") if wanted else ""
    names, vendor = dict(_NPUS), ""
    for line in listed.splitlines():
        if line[:1] not in ("", "\t", "#", "C"):
            vendor = line[:4]
        elif line.startswith("\t") and not line.startswith("\t\t") and f"{vendor}:{line[1:5]}" in wanted:
            names[f"{vendor}:{line[1:5]}"] = line[5:].strip()
    return names


def _text(path: Path) -> str:
    return (_read(path) or "").strip()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None

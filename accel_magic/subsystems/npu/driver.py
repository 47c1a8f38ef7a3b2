"""The driver: its name, its devices, and their firmware."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import pci
from accel_magic.subsystems.subsystem import Driver

if TYPE_CHECKING:
    from pathlib import Path

DRIVER: Final = "intel_vpu"
"""The driver's kernel module."""
_NPUS: Final = {
    "8086:7d1d": "Meteor Lake NPU",
    "8086:ad1d": "Arrow Lake NPU",
    "8086:643e": "Lunar Lake NPU",
    "8086:b03e": "Panther Lake NPU",
    "8086:fd3e": "Wildcat Lake NPU",
}
_FIRMWARE_HIDDEN: Final = "firmware unknown: only root can read it, in debugfs (/sys/kernel/debug/accel)"


def _described(root: Path, device: pci.PciDevice) -> tuple[str, ...]:
    """Name and version of the firmware that the driver loaded; on older kernels debugfs numbers the devices."""
    numbers = [
        accel.name.removeprefix("accel")
        for accel in root.glob("sys/class/accel/accel*")
        if (accel / "device").resolve() == device.folder.resolve()
    ]
    for folder in (device.slot, *numbers):
        place = root / "sys/kernel/debug/accel" / folder
        if name := pci.text(place / "fw_name"):
            return "", f"firmware {name}, version {pci.text(place / 'fw_version') or 'unknown'}"
    return "", _FIRMWARE_HIDDEN


KERNEL_DRIVER: Final = Driver(
    DRIVER, "Intel NPU", accelerators_of="8086", devices=MappingProxyType(_NPUS), described=_described
)

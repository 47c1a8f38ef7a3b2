"""Kernel drivers of GPUs and of AMD's NPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.kernel import pci
from accel_magic.subsystems.subsystem import Driver

if TYPE_CHECKING:
    from pathlib import Path


def _described(root: Path, device: pci.PciDevice) -> tuple[str, ...]:
    """What NVIDIA's driver reports of a GPU: its name and its firmware."""
    information = pci.read(root / "proc/driver/nvidia/gpus" / device.slot / "information") or ""
    facts = {key: value.strip() for key, _, value in (line.partition(":") for line in information.splitlines())}
    firmware = facts.get("GPU Firmware", "")
    return facts.get("Model", ""), *([f"firmware {firmware}"] if firmware else [])


DRIVERS: Final = (
    Driver("amdxdna", "AMD NPU", accelerators_of="1022"),
    Driver("xe", "Intel GPU, new driver"),
    Driver("i915", "Intel GPU"),
    Driver("amdgpu", "AMD GPU"),
    Driver("nvidia", "NVIDIA GPU", nodes=("dev/nvidia[0-9]*", "dev/nvidiactl"), described=_described),
)

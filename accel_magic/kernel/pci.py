"""Devices on the PCI bus, as sysfs lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class PciDevice:
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


def devices(root: Path) -> tuple[PciDevice, ...]:
    """List the PCI devices below `root`, in order of their slots."""
    found = []
    for folder in sorted(root.glob("sys/bus/pci/devices/*")):
        vendor, device = (text(folder / name).removeprefix("0x") for name in ("vendor", "device"))
        try:
            driver = (folder / "driver").readlink().name
        except OSError:
            driver = ""
        found.append(PciDevice(folder.name, f"{vendor}:{device}", text(folder / "class"), driver, folder))
    return tuple(found)


def text(path: Path) -> str:
    """Content of a small file of the kernel, without spaces around it; '' if it cannot be read."""
    return (read(path) or "").strip()


def read(path: Path) -> str | None:
    """Content of a file of the kernel or of the distribution; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None

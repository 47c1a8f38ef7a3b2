"""Drivers of accelerators and GPUs: whether they are loaded, their versions, and their devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import machine, subsystems
from accel_magic.checks import Check
from accel_magic.kernel import features, pci

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from accel_magic.subsystems.subsystem import Driver

_ACCELERATOR: Final = "0x12"
"""Prefix of the PCI class of processing accelerators."""
_PCI_IDS: Final = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")


def all_drivers() -> tuple[Driver, ...]:
    """The drivers of all subsystems."""
    return tuple(driver for subsystem in subsystems.registered().values() for driver in subsystem.drivers)


def checks(root: Path, found: Iterable[pci.PciDevice]) -> tuple[Check, ...]:
    """Check each driver, and report accelerators without one.

    Args:
        root: The folder with `proc`, `sys`, `lib` and `usr`.
        found: All PCI devices, as `pci.devices` lists them.

    """
    found = tuple(found)
    names = _names(root, found)
    drivers = tuple(_driver(root, driver, found, names) for driver in all_drivers())
    return (*drivers, *_without_driver(found, names))


def _driver(root: Path, driver: Driver, found: tuple[pci.PciDevice, ...], names: dict[str, str]) -> Check:
    name, kind, label = driver.module, driver.kind, f"driver {driver.module}"
    modules = pci.read(root / "proc/modules")
    loaded = modules is not None and any(line.split(" ", 1)[0] == name for line in modules.splitlines())
    if loaded or (root / "sys/module" / name).is_dir():
        state = ", ".join(["loaded" if loaded else "built into the kernel", *_version(root, name)])
        driven = [_described(root, device, driver, names) for device in found if device.driver == name]
        return Check(label, "ok", "; ".join([f"{kind}: {state}", *(driven or ["it has no device"])]))
    if modules is None:
        return Check(label, "info", f"{kind}: not in this kernel, which cannot load modules")
    folder = f"lib/modules/{features.kernel_release()}"
    listed = pci.read(root / folder / "modules.dep")
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
        if value := pci.text(root / "sys/module" / name / key):
            yield f"{key} {value}"


def _without_driver(found: tuple[pci.PciDevice, ...], names: dict[str, str]) -> Iterator[Check]:
    for device in found:
        if device.kind.startswith(_ACCELERATOR) and not device.driver:
            vendor = device.ids.partition(":")[0]
            requested = next((driver.module for driver in all_drivers() if driver.accelerators_of == vendor), "")
            what = " ".join(filter(None, (device.ids, names.get(device.ids, "processing accelerator"))))
            fix = f"modprobe {requested}; `dmesg | grep {requested}` shows why it does not bind" if requested else ""
            yield Check(f"device {device.slot}", "warning", f"{what}: no driver is bound to it", fix)


def _described(root: Path, device: pci.PciDevice, driver: Driver, names: dict[str, str]) -> str:
    """Describe a device: slot, ids, and if known its name and firmware."""
    name, *more = driver.described(root, device)
    shown = " ".join(filter(None, (device.slot, device.ids, name or names.get(device.ids, ""))))
    return ", ".join([shown, *(["emulated"] if machine.is_emulated(device.folder) else []), *more])


def _names(root: Path, found: tuple[pci.PciDevice, ...]) -> dict[str, str]:
    """Map PCI ids to names, for devices of these drivers and for accelerators; read the list only if needed."""
    drivers = all_drivers()
    modules = {driver.module for driver in drivers}
    names = {ids: name for driver in drivers for ids, name in driver.devices.items()}
    requested = {
        device.ids for device in found if device.driver in modules or device.kind.startswith(_ACCELERATOR)
    } - names.keys()
    listed = next((text for path in _PCI_IDS if (text := pci.read(root / path))), "") if requested else ""
    vendor = ""
    for line in listed.splitlines():
        if line[:1] not in ("", "\t", "#", "C"):
            vendor = line[:4]
        elif line.startswith("\t") and not line.startswith("\t\t") and f"{vendor}:{line[1:5]}" in requested:
            names[f"{vendor}:{line[1:5]}"] = line[5:].strip()
    return names

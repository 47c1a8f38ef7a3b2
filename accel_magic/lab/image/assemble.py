"""Contents of the lab's initramfs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel_magic.lab.image import initramfs, modules
from accel_magic.lab.image.firmware import firmware

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_FOLDERS = (
    "bin",
    "dev",
    "host",
    "lib",
    "lib/firmware",
    "lib/firmware/intel",
    "lib/firmware/intel/vpu",
    "lib/modules",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
)
_FIRMWARE = "intel/vpu"
_DRIVER_FIRMWARE = ("intel/vpu/vpu_37xx_v1.bin", "intel/vpu/vpu_37xx_v0.0.bin")
"""Firmware files that the drivers of 6.12 to 7.2 request, in this order; those a newer driver lists are added."""


def assemble(output: BinaryIO, kernel: Path, manifest: dict[str, Any], busybox: Path, init: bytes) -> None:
    """Write the initramfs of a kernel.

    Args:
        output: Destination.
        kernel: Folder of the kernel part, with the modules.
        manifest: Manifest of that part.
        busybox: A statically linked busybox.
        init: Content of /init.

    Raises:
        MachineError: A module is damaged.

    """
    order = manifest["order"]
    entries = [
        *(initramfs.folder(path) for path in _FOLDERS),
        # The kernel opens the console for /init before /dev is mounted.
        initramfs.character_device("dev/console", 5, 1),
        initramfs.character_device("dev/null", 1, 3),
        initramfs.file("init", init, executable=True),
        initramfs.file("bin/busybox", busybox.read_bytes(), executable=True),
        initramfs.link("bin/sh", "busybox"),
        initramfs.file("lib/modules/order", "".join(f"{name}\n" for name in order).encode()),
    ]
    for name in order:
        file = next((kernel / "modules").glob(f"{name}.ko*"))
        entries.append(initramfs.file(f"lib/modules/{name}.ko", modules.read(file)))
    synthetic = firmware()
    requested = [path for path in manifest["firmware"] if path.startswith(f"{_FIRMWARE}/")]
    entries += [initramfs.file(f"lib/firmware/{path}", synthetic) for path in sorted({*_DRIVER_FIRMWARE, *requested})]
    initramfs.write(output, entries)

"""What is in the lab's initramfs."""

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
"""What the drivers of 6.12 to 7.2 ask for, in this order; a newer driver's own list is added."""


def assemble(output: BinaryIO, kernel: Path, manifest: dict[str, Any], busybox: Path, init: bytes) -> None:
    """Write the initramfs of a kernel.

    Args:
        output: Where to.
        kernel: The part with its modules.
        manifest: That part's manifest.
        busybox: A static busybox.
        init: The guest's first program.

    Raises:
        MachineError: A module is damaged.

    """
    order = manifest["order"]
    entries = [
        *(initramfs.folder(path) for path in _FOLDERS),
        # The kernel opens the console for /init before anything can mount /dev.
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
    asked_for = [path for path in manifest["firmware"] if path.startswith(f"{_FIRMWARE}/")]
    entries += [initramfs.file(f"lib/firmware/{path}", synthetic) for path in sorted({*_DRIVER_FIRMWARE, *asked_for})]
    initramfs.write(output, entries)

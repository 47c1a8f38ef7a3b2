"""The kernel part: the files that the lab needs from a kernel's packages."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.lab.image import modules, pins, store
from accel_magic.lab.image.fetch import steps
from accel_magic.lab.image.unpack import extract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from accel_magic.lab.image.fetch import Deb

GENERATION = "37xx"
"""The generation of the lab's NPU."""

_KERNEL = re.compile(r"(?:boot/vmlinuz-(?P<a>[^/]+)|(?:usr/)?lib/modules/(?P<b>[^/]+)/vmlinuz)")
_MODULE = re.compile(r"(?:usr/)?lib/modules/[^/]+/kernel/.*/[^/]+\.ko(?:\.xz)?")
_BUILTIN = re.compile(r"(?:usr/)?lib/modules/[^/]+/modules\.builtin")


def unpack(debs: Sequence[Deb], part: Path, progress: Callable[[int], None]) -> dict[str, object]:
    """Fill a part with `vmlinuz` and `modules/`, still compressed.

    Args:
        debs: The packages of the kernel.
        part: An empty folder.
        progress: Called with the number of bytes processed, over all packages.

    Returns:
        Entries for the part's manifest: "release" (`uname -r`), "order" (module names in load order), "firmware"
        (paths below /lib/firmware that the driver requests).

    Raises:
        MachineError: A package is damaged, or the kernel or a module is in none of them.

    """
    with store.temporary() as scratch:
        paths: list[str] = []
        for deb, advance in steps(debs, progress):
            paths += extract(deb.file, partial(_target, part=part, scratch=scratch), advance)[0]
        release = _release(paths, debs)
        files = {modules.name_of(file.name): file for file in scratch.glob("*.ko*")}
        order = modules.load_order(pins.MODULES, files, _builtin(scratch / "modules.builtin"))
        (part / "modules").mkdir()
        for name in order:
            files[name].rename(part / "modules" / (name + "".join(files[name].suffixes)))
    driver = modules.read(next((part / "modules").glob("intel_vpu.ko*")))
    return {
        "release": release,
        "order": order,
        "firmware": modules.firmware_files(driver, "intel_vpu", GENERATION),
    }


def _target(path: str, part: Path, scratch: Path) -> Path | None:
    if _KERNEL.fullmatch(path):
        return part / "vmlinuz"
    if _MODULE.fullmatch(path):
        return scratch / path.rpartition("/")[2]
    return scratch / "modules.builtin" if _BUILTIN.fullmatch(path) else None


def _release(paths: Sequence[str], debs: Sequence[Deb]) -> str:
    for path in paths:
        if match := _KERNEL.fullmatch(path):
            return match["a"] or match["b"]
    raise MachineError(
        "the kernel's packages contain no kernel",
        why=f"there is no vmlinuz in {', '.join(deb.file.name for deb in debs)}",
        fix="python -m accel_magic lab clean, then build again",
        code="lab.package-lacks-file",
    )


def _builtin(listing: Path) -> frozenset[str]:
    if not listing.is_file():
        return frozenset()
    return frozenset(modules.name_of(line) for line in listing.read_text().split())

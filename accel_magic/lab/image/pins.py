"""The lab's pinned packages, each with version and checksum; the table itself is `pins.txt`.

A group has the packages for one part of the lab: a kernel series ("6.12"), "busybox", "qemu", "level-zero"; with
"headers-6.12" and "module-tools" the accelerator's module is built.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KERNELS = ("6.12", "6.18", "7.2")
DEFAULT = "7.2"
"""The kernel of a lab that names none: the one that texts and recordings are about."""
SUITE = "trixie"
BACKPORTS = "trixie-backports"
LEVEL_ZERO = "level-zero"
MODULE_TOOLS = "module-tools"
LEVEL_ZERO_SUITE = "bookworm"
"""The loader runs with this machine's C and C++ libraries: one from an older release works with older libraries."""
QEMU_OLDEST = (10, 1)
"""First QEMU version with the device `vfio-user-pci`."""

MODULES = (
    "virtio_pci",
    "virtio_console",
    "virtio_rng",
    "9p",
    "9pnet_virtio",
    "overlay",
    "virtio_net",
    "gpu_sched",
    "intel_vpu",
)
"""Kernel modules for the guest; their dependencies are added, and those built into the kernel are skipped."""

LAYOUT = 1
"""Increase it when the code extracts other files from the same packages: existing caches are then rebuilt."""

TABLE = Path(__file__).with_name("pins.txt")
PUBLIC = "https://deb.debian.org"
_RELEASE = re.compile(r"\d+\.\d+\.\d+\+deb\d+-amd64$")


@dataclass(frozen=True)
class Pin:
    """One package at one version.

    Attributes:
        group: The part of the lab that needs it.
        name: Package name.
        version: Its Debian version, epoch included.
        size: Bytes of the .deb.
        sha256: SHA256 of the .deb, hexadecimal.
        path: Archive and path, as on the public mirror: "debian/pool/main/...".

    """

    group: str
    name: str
    version: str
    size: int
    sha256: str
    path: str

    @property
    def file(self) -> str:
        """File name on a mirror, without the epoch."""
        return self.path.rpartition("/")[2]

    @property
    def url(self) -> str:
        """Its address on the public mirror; valid as long as the version is current."""
        return f"{PUBLIC}/{self.path}"

    @property
    def release(self) -> str:
        """The kernel release (`uname -r`) in the package's name; "" if there is none."""
        return release_of(self.name)


def release_of(name: str) -> str:
    """Return the kernel release in a package's name; "" if there is none."""
    found = _RELEASE.search(name)
    return found[0] if found else ""


def headers(kernel: str) -> str:
    """Name of the group with a kernel's headers."""
    return f"headers-{kernel}"


def group(name: str) -> tuple[Pin, ...]:
    """Pins of one group, in table order."""
    return tuple(pin for pin in _read(TABLE) if pin.group == name)


def suite(name: str) -> str:
    """Debian release that a group's packages come from."""
    return LEVEL_ZERO_SUITE if name == LEVEL_ZERO else SUITE


def digest(name: str) -> str:
    """Twelve hexadecimal digits that change with everything that affects the group's part of the cache."""
    packages = [f"{pin.name} {pin.version} {pin.sha256}" for pin in group(name)]
    text = "\n".join([*packages, *(MODULES if name in KERNELS else ()), str(LAYOUT)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def line(pin: Pin) -> str:
    """The pin as a line of the table."""
    return f"{pin.group} {pin.name} {pin.version} {pin.size} {pin.sha256} {pin.path}"


@cache
def _read(table: Path) -> tuple[Pin, ...]:
    rows = (text.split() for text in table.read_text().splitlines() if text and not text.startswith("#"))
    return tuple(
        Pin(name_of_group, name, version, int(size), sha256, path)
        for name_of_group, name, version, size, sha256, path in rows
    )

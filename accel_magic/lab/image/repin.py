"""Rewrite `pins.txt` with the mirror's current versions: `python -m accel_magic.lab.image.repin`.

For maintainers. The kernel series and their package names do not change; of QEMU's dependencies, only those whose
files are used are pinned.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.lab.image import fetch, pins, qemu, store
from accel_magic.lab.image.apt import Apt
from accel_magic.lab.image.fetch import Deb
from accel_magic.lab.image.mirror import find_mirror
from accel_magic.lab.image.pins import Pin

if TYPE_CHECKING:
    from accel_magic.lab.image.apt import Package
    from accel_magic.lab.image.progress import Progress

_HEADER = """\
# Packages of the lab: group, name, version, bytes, SHA256, path below https://deb.debian.org
# Written by: python -m accel_magic.lab.image.repin
"""


def main() -> int:
    """Write the table; returns the exit status."""
    try:
        with store.writing(_show):
            apt = Apt(find_mirror(), _show)
            apt.update()
            rows = [pins.line(_pin(group, package)) for group, package in _all(apt)]
            # The loader comes from an old release and does not change.
            rows += [pins.line(pin) for pin in pins.group(pins.LEVEL_ZERO)]
    except MachineError as error:
        print(error, file=sys.stderr)
        return 1
    pins.TABLE.write_text(_HEADER + "".join(f"{row}\n" for row in rows))
    return 0


def _all(apt: Apt) -> list[tuple[str, Package]]:
    chosen = [(series, package) for series in pins.KERNELS for package in fetch.newest_kernel(apt, series)]
    chosen += [("busybox", versions[0]) for versions in apt.available(["busybox-static"]).values()]
    chosen += [pair for series in pins.KERNELS for pair in _headers(apt, series)]
    tools = apt.available(pin.name for pin in pins.group(pins.MODULE_TOOLS))
    chosen += [(pins.MODULE_TOOLS, versions[0]) for versions in tools.values()]
    closure = apt.closure(fetch.QEMU, pins.BACKPORTS)
    apt.download(closure, store.debs())
    debs = [Deb(package.name, package.version, store.debs() / package.file) for package in closure]
    with store.temporary() as part:
        needed = qemu.unpack(debs, part, lambda _: None)
    chosen += [("qemu", package) for package in closure if package.name in needed]
    missing = {*pins.KERNELS, "busybox"} - {group for group, _ in chosen}
    if missing:
        raise MachineError(
            f"the mirror has no packages for {', '.join(sorted(missing))}",
            fix="remove the series from pins.KERNELS",
            code="lab.no-package",
        )
    return chosen


def _headers(apt: Apt, series: str) -> list[tuple[str, Package]]:
    """Return the packages with the headers of a series' newest kernel; empty if the mirror lacks one of them."""
    newest = fetch.newest_kernel(apt, series)
    if not newest:
        return []
    release = pins.release_of(newest[0].name)
    stem = release.removesuffix("-amd64")
    names = [f"linux-headers-{release}", f"linux-headers-{stem}-common", f"linux-kbuild-{stem}"]
    known = apt.available(names)
    found = [package for name in names for package in known.get(name, ()) if package.version == newest[0].version]
    return [(pins.headers(series), package) for package in found] if len(found) == len(names) else []


def _pin(group: str, package: Package) -> Pin:
    archive = "debian-security" if package.path.startswith("pool/updates/") else "debian"
    path = f"{archive}/{package.path}"
    return Pin(group, package.name, package.version, package.size, package.sha256, path)


def _show(progress: Progress) -> None:
    print(progress, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

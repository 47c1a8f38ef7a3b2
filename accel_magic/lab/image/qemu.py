"""QEMU: the system's if it is new enough, else Debian's packages with their own libraries and loader."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.lab.image import store
from accel_magic.lab.image.fetch import steps
from accel_magic.lab.image.pins import QEMU_OLDEST
from accel_magic.lab.image.unpack import extract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.lab.image.fetch import Deb
    from accel_magic.lab.image.unpack import PackageLink

BINARY = "qemu-system-x86_64"
DEVICE = "vfio-user-pci"
_LOADER = "ld-linux-x86-64.so.2"
_LIBRARY = re.compile(r"(?:usr/)?lib/x86_64-linux-gnu/([^/]+\.so(?:\.[^/]*)?)")
_DATA = re.compile(r"usr/share/(?:qemu|seabios)/([^/]+)|usr/lib/ipxe/qemu/([^/]+)")
_FIRMWARE = frozenset(
    {
        "bios-256k.bin",
        "bios-microvm.bin",
        "efi-virtio.rom",
        "kvmvapic.bin",
        "linuxboot_dma.bin",
        "multiboot_dma.bin",
        "pvh.bin",
        "vgabios-stdvga.bin",
    }
)
_SECONDS = 30


@dataclass(frozen=True)
class SystemQemu:
    """The QEMU on the search path.

    Attributes:
        path: Path of the program.
        version: Such as "11.1.3"; "" if unknown.
        suits: Whether it is new enough and has the device that the lab needs.

    """

    path: str
    version: str
    suits: bool


def system_qemu() -> SystemQemu | None:
    """Examine the system's QEMU; None if there is none. The result is cached until the program changes."""
    path = shutil.which(BINARY)
    if path is None:
        return None
    real = Path(path).resolve()
    identity = [str(real), real.stat().st_size, real.stat().st_mtime_ns]
    memory = store.cache() / "system-qemu.json"
    try:
        known = json.loads(memory.read_text())
        if known["identity"] == identity:
            return SystemQemu(path, str(known["version"]), known["suits"] is True)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = _probe(path)
    if memory.parent.is_dir():
        try:
            with store.temporary() as folder:
                known = {"identity": identity, "version": found.version, "suits": found.suits}
                (folder / "new").write_text(json.dumps(known))
                (folder / "new").replace(memory)
        except OSError:
            pass  # the cache is not writable: QEMU is probed again next time
    return found


def _probe(path: str) -> SystemQemu:
    try:
        version = version_of([path])
        return SystemQemu(path, version, _at_least(version) and _has_device([path]))
    except MachineError:
        return SystemQemu(path, "", suits=False)


def version_of(command: Sequence[str]) -> str:
    """Return the version of a QEMU, such as "11.1.3".

    Raises:
        MachineError: It does not run, or reports no version.

    """
    output = _output([*command, "--version"])
    found = re.search(r"version (\d+(?:\.\d+)+)", output)
    if not found:
        raise _unusable(command, f"it printed: {output.strip()[-400:]}")
    return found[1]


def check(command: Sequence[str]) -> str:
    """Check that a QEMU is new enough and has the device that the lab needs; returns its version.

    Raises:
        MachineError: It is too old, lacks the device, or does not run.

    """
    version = version_of(command)
    if not _at_least(version) or not _has_device(command):
        raise _unusable(command, f"QEMU {version} has no {DEVICE}")
    return version


def _at_least(version: str) -> bool:
    return tuple(int(number) for number in version.split(".")[:2]) >= QEMU_OLDEST


def _has_device(command: Sequence[str]) -> bool:
    # Do not list all devices: QEMU would load every module it finds, including those of another QEMU.
    return f"{DEVICE} options" in _output([*command, "-machine", "none", "-device", f"{DEVICE},help"])


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(command[:1], str(error)) from error
    return done.stdout + done.stderr


def _unusable(command: Sequence[str], why: str) -> MachineError:
    return MachineError(
        f"QEMU is not usable: {command[0]}",
        why=why,
        fix="python -m accel_magic lab clean, then build again",
        code="lab.qemu-unusable",
    )


def command_in(part: Path) -> tuple[str, ...]:
    """Return the command for the QEMU in a part; it uses the part's own loader, libraries and firmware."""
    library = part / "lib"
    return (
        str(library / _LOADER),
        "--inhibit-cache",
        "--library-path",
        str(library),
        str(part / "bin" / BINARY),
        "-L",
        str(part / "share"),
    )


def unpack(debs: Sequence[Deb], part: Path, progress: Callable[[int], None]) -> dict[str, str]:
    """Fill a part with QEMU's program, the libraries that it needs and its firmware.

    Args:
        debs: QEMU's packages and their dependencies.
        part: An empty folder.
        progress: Called with the number of bytes processed, over all packages.

    Returns:
        The packages whose files are used, with their versions.

    Raises:
        MachineError: A package is damaged, or a needed library is in none of them.

    """
    owner: dict[Path, Deb] = {}
    for deb, advance in steps(debs, progress):
        written, links = extract(deb.file, lambda path: _target(path, part), advance)
        owner.update((target, deb) for path in written if (target := _target(path, part)))
        for link in links:
            _link(link, part)
    needed = _needed(part)
    for file in (part / "lib").iterdir():
        if file not in needed:
            file.unlink()
            owner.pop(file, None)
    return {deb.name: deb.version for deb in debs if deb in owner.values()}


def _link(link: PackageLink, part: Path) -> None:
    """Create the symlink of a library; its target is in the same folder."""
    place = _target(link.path, part)
    if place and place.parent.name == "lib":
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(link.target.rpartition("/")[2])


def _target(path: str, part: Path) -> Path | None:
    if path == f"usr/bin/{BINARY}":
        return part / "bin" / BINARY
    if match := _LIBRARY.fullmatch(path):
        return part / "lib" / match[1]
    match = _DATA.fullmatch(path)
    name = (match[1] or match[2]) if match else ""
    return part / "share" / name if name in _FIRMWARE else None


def _needed(part: Path) -> set[Path]:
    """Return the libraries that the program needs, directly or indirectly, and the links that lead to them."""
    needed: set[Path] = set()
    program = part / "bin" / BINARY
    waiting = [(program, program.name), (part / "lib" / _LOADER, program.name)]
    while waiting:
        file, user = waiting.pop()
        if not file.exists():
            raise MachineError(
                f"QEMU's packages lack {file.name}",
                why=f"{user} needs it",
                fix="add the Debian trixie package that contains it to the --debs folder",
                code="lab.package-lacks-file",
            )
        while file not in needed:
            needed.add(file)
            if not file.is_symlink():
                waiting += [(part / "lib" / name, file.name) for name in _libraries(file)]
                break
            file = file.parent / file.readlink()
    return needed


def _libraries(file: Path) -> list[str]:
    """Names of the libraries that an ELF file needs."""
    from accel_magic import elf  # imports numpy

    try:
        with file.open("rb") as opened:
            return elf.read(opened).needed_libraries()
    except elf.ElfError as error:
        raise MachineError(
            f"{file.name} in QEMU's packages is damaged",
            why=str(error),
            fix="python -m accel_magic lab clean, then build again",
            code="lab.package-damaged",
        ) from error

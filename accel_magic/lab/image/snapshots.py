"""Snapshots of labs in the cache: find the one that a lab can start from, or say why there is none.

lab/snapshots/KERNEL-MACHINE-CONTENT/ram             the guest's memory; labs map it privately and share its pages
                                     state           its devices
                                     snapshot.json   `Snapshot`
lab/snapshots/new-*/                                 unfinished; removed by the next build
lab/snapshots/lock                                   held while one is built

A snapshot is code that runs as the guest's root, like every part of the lab: its folder must be safe, and its files
those that were made. Their checksums, which take seconds to compute, are verified by `verify`; each start compares
sizes and times. The Python environment is in the snapshot's memory, so its files must not have changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache, codec
from accel_magic.errors import MachineError
from accel_magic.lab.image import store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.lab.image.builder import LabImage

MANIFEST: Final = "snapshot.json"
VARIABLE: Final = "ACCEL_MAGIC_LAB_SNAPSHOT"
"""Environment variable: `off` boots every lab, `use` does not build a missing snapshot in the background."""
_FILES: Final = ("ram", "state")
_FORMAT: Final = 3


@dataclass(frozen=True)
class Stamp:
    """Size of a file, bytes, and when it was modified, whole s since 1970: archives and containers keep no more."""

    size: int
    mtime_s: int

    @staticmethod
    def of(path: Path) -> Stamp:
        """Look at a file. Raises OSError if that fails."""
        status = path.stat()
        return Stamp(status.st_size, int(status.st_mtime))


@dataclass(frozen=True)
class Snapshot:
    """A guest that has booted, started a notebook's kernel and traced once.

    Attributes:
        kernel_process: Number of that process at the guest's agent.
        environment: The Python environment's files and folders that the guest has in its memory. A folder's stamp has
            no size: its time changes when a file is added, which could take the place of another.
        files: Stamps of the snapshot's own files.
        checksums: Their SHA-256.
        built_s: Seconds that building it took.
        folder: Path of its folder; set by `read`.

    """

    kernel_process: int
    environment: dict[str, Stamp]
    files: dict[str, Stamp]
    checksums: dict[str, str]
    built_s: float
    folder: str = ""

    @property
    def ram(self) -> Path:
        """The guest's memory."""
        return Path(self.folder, "ram")

    @property
    def state(self) -> Path:
        """The state of its devices."""
        return Path(self.folder, "state")

    def disk_bytes(self) -> int:
        """Bytes that it occupies on disk; the memory's file has holes."""
        return sum(Path(self.folder, name).stat().st_blocks for name in _FILES) * 512


def name_of(image: LabImage, machine: Mapping[str, str | int]) -> str:
    """Return the beginning of the name of a snapshot's folder, from all that its machine depends on.

    Args:
        image: What it booted.
        machine: The settings that a restored guest cannot change, by name.

    """
    parts = {
        **machine,
        "format": _FORMAT,
        "initramfs": image.initramfs.name,
        "kernel": f"{image.release} {image.packages}",
        "qemu": image.qemu_version,
        "python": f"{sys.prefix} {os.path.realpath(sys.executable)} {sys.version}",  # whatever it is called there
    }
    return f"{image.kernel}-{hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()[:12]}"


def find(image: LabImage, machine: Mapping[str, str | int]) -> Snapshot | str:
    """Return the snapshot that a lab can be restored from, or the reason why there is none, as part of a sentence.

    Args:
        image: The lab's image.
        machine: As of `name_of`.

    Raises:
        MachineError: Others can write to the snapshot.

    """
    reason = "no snapshot of this lab was made"
    for path in sorted(store.snapshots().glob(f"{name_of(image, machine)}-*")):
        cache.require_trusted(path, whole=True)
        found = read(path)
        if found is None:
            reason = f"{path} is damaged"
        elif changed := next(_changed(found), ""):
            reason = f"the Python environment is no longer that of the snapshot ({changed} has changed)"
        else:
            return found
    return reason


def read(path: Path) -> Snapshot | None:
    """Return the snapshot in a folder; None if its files are not those that were made."""
    with contextlib.suppress(OSError, ValueError, MachineError):
        found = codec.from_json((path / MANIFEST).read_bytes(), Snapshot)
        if all(Stamp.of(path / name) == found.files[name] for name in _FILES):
            return replace(found, folder=str(path))
    return None


def is_being_built() -> bool:
    """Whether a snapshot is being built now, by this user or the cache's owner."""
    import fcntl

    try:
        with (store.snapshots() / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def verify(snapshot: Snapshot) -> bool:
    """Whether its files have the checksums of those that were made; takes seconds."""
    return all(cache.sha256_of(Path(snapshot.folder, name)) == snapshot.checksums[name] for name in _FILES)


def _changed(snapshot: Snapshot) -> Iterator[str]:
    """The paths of the environment that are not as they were."""
    for path, stamp in snapshot.environment.items():
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of files
        except OSError:
            yield path
            continue
        if int(status.st_mtime) != stamp.mtime_s or (stamp.size and status.st_size != stamp.size):
            yield path

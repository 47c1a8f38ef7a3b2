"""The lab's part of the cache folder: parts appear atomically, and only one build runs at a time.

lab/parts/NAME/part.json ...    an unpacked part (a kernel, busybox, QEMU) with the checksum of each file
lab/images/NAME.cpio            initramfs
lab/snapshots/                  see `snapshots.py`; lab/snapshot.log is of a build in the background
lab/debs/, lab/apt/             exist during a build
lab/tmp/                        unfinished files; emptied by the next build
lab/lock                        held while writing
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import cache as cache_folder
from accel_magic.errors import MachineError
from accel_magic.lab.image.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.lab.image.progress import Report

MANIFEST = "part.json"
CONTENTS = ("parts", "images", "snapshots", "snapshot.log", "debs", "apt", "tmp", "system-qemu.json")
"""Everything that builds write to the cache, except the lock."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


def cache() -> Path:
    """Return the folder of the lab's parts and images, `lab` in the cache folder. It may be read-only."""
    return cache_folder.root() / "lab"


def parts() -> Path:
    """Return the folder of the unpacked parts."""
    return cache() / "parts"


def images() -> Path:
    """Return the folder of the initramfs files."""
    return cache() / "images"


def snapshots() -> Path:
    """Return the folder of the snapshots."""
    return cache() / "snapshots"


def debs() -> Path:
    """Return the folder of the fetched, verified packages."""
    return cache() / "debs"


@contextlib.contextmanager
def writing(report: Report) -> Iterator[None]:
    """Lock the cache for writing, waiting for any other build; leftovers of interrupted builds are removed.

    Raises:
        MachineError: The cache is not writable, or writable by others, or the disk is full; also for errors in the
            block.

    """
    import fcntl

    with _disk_errors():
        _make_cache()
        with (cache() / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(Progress("wait", 0, 0, "another build of the lab is running"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(cache() / "tmp", ignore_errors=True)
            yield


def _make_cache() -> None:
    try:
        cache_folder.make(cache())
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise
        raise _no_right(error) from error


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise no_space(str(error)) from error
        if error.errno in _NO_RIGHT:
            raise _no_right(error) from error
        raise


def _no_right(error: OSError) -> MachineError:
    return MachineError(
        f"cannot write to the lab's cache {cache()}",
        why=str(error),
        fix=f"choose a folder that only you can write to: export {cache_folder.VARIABLE}=FOLDER",
        code="cache.not-writable",
    )


def no_space(why: str) -> MachineError:
    """Return the error for a full disk."""
    return MachineError(
        f"not enough disk space for the lab in {cache()}",
        why=why,
        fix=f"free some space, or set {cache_folder.VARIABLE} to a folder on another disk",
        code="cache.no-space",
    )


def need_space(size: int) -> None:
    """Check that the cache's disk has `size` bytes free.

    Raises:
        MachineError: It has less.

    """
    free = shutil.disk_usage(cache()).free
    if free < size:
        raise no_space(f"the build needs {size / 1e6:.0f} MB, but only {free / 1e6:.0f} MB are free")


@contextlib.contextmanager
def new_part(name: str) -> Iterator[Path]:
    """Yield a temporary folder that becomes the part if the block ends without an error.

    The block must write its manifest with `write_manifest`.
    """
    with temporary() as folder:
        yield folder
        target = parts() / name
        target.parent.mkdir(mode=0o755, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Yield a folder on the cache's disk that is removed at the end of the block."""
    base = cache() / "tmp"
    base.mkdir(mode=0o755, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write a part's manifest, and remove write permission for group and others from all files."""
    (folder / MANIFEST).write_text(json.dumps({**content, "files": _files(folder)}, indent=1))
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def manifest(name: str) -> dict[str, Any] | None:
    """Return a part's manifest; None if there is no such part.

    Raises:
        MachineError: Others can write to it.

    """
    cache_folder.require_trusted(parts() / name / MANIFEST)
    try:
        found = json.loads((parts() / name / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "files" in found else None


def part(name: str) -> Path:
    """Return the folder of a part, after comparing its files with its manifest.

    Raises:
        MachineError: A file was changed, removed or added; or others can write to the part.

    """
    folder, expected = parts() / name, (manifest(name) or {}).get("files")
    cache_folder.require_trusted(folder, whole=True)
    found = _files(folder)
    if found != expected:
        changed = sorted({*found.items()} ^ {*(expected or {}).items()}) or [("", "")]
        raise MachineError(
            f"the lab's part {name} was modified",
            why=f"{folder / changed[0][0]} was changed, removed or added after unpacking",
            fix="python -m accel_magic lab clean, then build again",
            code="lab.part-changed",
        )
    return folder


def _files(folder: Path) -> dict[str, str]:
    """Checksums of a part's files and targets of its links, by path in the part."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else cache_folder.sha256_of(path)
        for path in folder.rglob("*")
        if path.is_symlink() or (path.is_file() and path != folder / MANIFEST)
    }


def remove(path: Path) -> int:
    """Remove a file or folder if it exists; returns its size in bytes."""
    size = size_of(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return size


def size_of(path: Path) -> int:
    """Size of a file, or of all files in a folder, in bytes on disk; 0 if it does not exist.

    Files may change meanwhile.
    """
    if not path.is_dir() or path.is_symlink():
        return _bytes(path)
    return sum(_bytes(Path(folder, name)) for folder, _, names in os.walk(path) for name in names)


def _bytes(file: Path) -> int:
    try:
        status = file.lstat()
    except FileNotFoundError:
        return 0
    return min(status.st_size, status.st_blocks * 512)  # a snapshot's memory has holes

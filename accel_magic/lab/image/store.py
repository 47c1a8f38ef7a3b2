"""The lab's part of the cache folder: parts that are there completely or not at all, and one build at a time.

lab/parts/NAME/part.json ...    what was unpacked: a kernel, busybox, QEMU; with the checksum of each file
lab/images/NAME.cpio            initramfs
lab/debs/, lab/apt/             while a build needs them
lab/tmp/                        unfinished; emptied by the next build
lab/lock                        held by whoever writes
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
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
CONTENTS = ("parts", "images", "debs", "apt", "tmp", "system-qemu.json")
"""Everything of the image builder's in the cache, but for the lock."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


def cache() -> Path:
    """Return the folder of the lab's parts and images, `lab` in the cache folder. It may be on a read-only share."""
    return cache_folder.root() / "lab"


def parts() -> Path:
    """Return the folder of the unpacked parts."""
    return cache() / "parts"


def images() -> Path:
    """Return the folder of the initramfs files."""
    return cache() / "images"


def debs() -> Path:
    """Return the folder of packages that were fetched and verified."""
    return cache() / "debs"


@contextlib.contextmanager
def writing(report: Report) -> Iterator[None]:
    """Hold the cache for writing, after any other build; what interrupted builds left is removed.

    Raises:
        MachineError: The cache cannot be written or the disk is full, here or in the block; or others can write to it.

    """
    with _disk_errors():
        _make_cache()
        with (cache() / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(Progress("wait", 0, 0, "another build of the lab is at work"))
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
        f"the lab's cache {cache()} cannot be written",
        why=str(error),
        fix=f"name a folder that only you can write to: export {cache_folder.VARIABLE}=FOLDER",
        code="cache.not-writable",
    )


def no_space(why: str) -> MachineError:
    """Return the error for a full disk."""
    return MachineError(
        f"no space is left for the lab in {cache()}",
        why=why,
        fix=f"free some space, or set {cache_folder.VARIABLE} to a folder on another disk",
        code="cache.no-space",
    )


def need_space(size: int) -> None:
    """Check that so many bytes can still be written to the cache.

    Raises:
        MachineError: They cannot.

    """
    free = shutil.disk_usage(cache()).free
    if free < size:
        raise no_space(f"the build needs {size / 1e6:.0f} MB, {free / 1e6:.0f} MB are free")


@contextlib.contextmanager
def new_part(name: str) -> Iterator[Path]:
    """Give a temporary folder that becomes the part when the block ends without an error.

    The block writes its manifest with `write_manifest`.
    """
    with temporary() as folder:
        yield folder
        target = parts() / name
        target.parent.mkdir(mode=0o755, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Give a folder on the cache's disk; what is left in it goes with the block."""
    base = cache() / "tmp"
    base.mkdir(mode=0o755, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write what a part consists of, and make it unwritable for others."""
    (folder / MANIFEST).write_text(json.dumps({**content, "files": _files(folder)}, indent=1))
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def manifest(name: str) -> dict[str, Any] | None:
    """Return what a part consists of, None if there is no such part.

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
    """Return the folder of a part that is there, after comparing its files with what was unpacked.

    Raises:
        MachineError: A file has changed since, is missing or was added; or others can write to it.

    """
    folder, expected = parts() / name, (manifest(name) or {}).get("files")
    cache_folder.require_trusted(folder, whole=True)
    found = _files(folder)
    if found != expected:
        changed = sorted({*found.items()} ^ {*(expected or {}).items()}) or [("", "")]
        raise MachineError(
            f"the lab's part {name} is not what was unpacked",
            why=f"{folder / changed[0][0]} has another checksum, is missing, or was added",
            fix="python -m accel_magic lab clean, then build again",
            code="lab.part-changed",
        )
    return folder


def _files(folder: Path) -> dict[str, str]:
    """Checksums of the files in a part, and where its links lead, by their paths in it."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else cache_folder.sha256_of(path)
        for path in folder.rglob("*")
        if path.is_symlink() or (path.is_file() and path != folder / MANIFEST)
    }


def remove(path: Path) -> int:
    """Remove a file or folder, if it is there; returns the bytes of its files."""
    size = size_of(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return size


def size_of(path: Path) -> int:
    """Bytes of the files in a folder, or of a file; 0 if it is not there. Files may come and go meanwhile."""
    if not path.is_dir() or path.is_symlink():
        return _bytes(path)
    return sum(_bytes(Path(folder, name)) for folder, _, names in os.walk(path) for name in names)


def _bytes(file: Path) -> int:
    try:
        return file.lstat().st_size
    except FileNotFoundError:
        return 0

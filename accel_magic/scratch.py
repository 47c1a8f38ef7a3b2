"""Temporary folders that are cleaned up even after a crash: the next start removes what a killed process left behind.

Each user of a folder holds a shared lock on it, which the kernel drops when the last process with that descriptor ends:
a folder whose lock is free is unused, whichever container created it. Other kernels may not see the lock (the lab's
guest sees this machine's files), so the name contains the kernel's boot id, and other kernels leave the folder alone.
Elsewhere than on Linux, folders are not locked, and a killed process leaves them behind.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.directories import flags

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PLACE: Final = flags("PATH", "DIRECTORY", "NOFOLLOW", "CLOEXEC")
_FLAGS: Final = flags("RDONLY", "DIRECTORY", "NOFOLLOW", "CLOEXEC")


@dataclass(frozen=True)
class Scratch:
    """A temporary folder that only this user may enter.

    Attributes:
        path: Path of the folder.
        lock: Descriptor that keeps the folder. A child process that inherits it (`pass_fds`) keeps the folder too. -1
            where folders are not locked.

    """

    path: Path
    lock: int

    def remove(self) -> None:
        """Remove the folder and its contents; call once only."""
        if self.lock < 0:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        remove_tree(self.path)
        os.close(self.lock)


def make(purpose: str) -> Scratch:
    """Create a folder, after removing those that this user's processes have left behind.

    Args:
        purpose: A word for its name, letters only.

    Raises:
        OSError: The disk is full, or there is no folder for temporary files.

    """
    if sys.platform != "linux":
        return Scratch(Path(tempfile.mkdtemp(prefix=f"accel_magic-{purpose}-")), -1)
    import fcntl

    sweep()
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"accel_magic-{purpose}-{_boot()}-"))
        with contextlib.suppress(FileNotFoundError):  # swept by another process before it was locked
            lock = os.open(path, _FLAGS)
            with contextlib.suppress(OSError):  # where folders cannot be locked, nothing is swept either
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.is_dir():
                return Scratch(path, lock)
            os.close(lock)


def hold(path: Path) -> Scratch:
    """Keep a folder that another process of this user made, and still keeps. Raises OSError: there is none."""
    import fcntl

    lock = os.open(path, _FLAGS)
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_SH)
    return Scratch(path, lock)


@contextlib.contextmanager
def folder(purpose: str) -> Iterator[Path]:
    """Create a temporary folder for the duration of a block."""
    made = make(purpose)
    try:
        yield made.path
    finally:
        made.remove()


def sweep() -> None:
    """Remove the folders that nobody uses anymore."""
    boot = _boot()
    for path in Path(tempfile.gettempdir()).glob(f"accel_magic-*-{boot}-*") if boot else ():
        _remove_abandoned(path)


def remove_tree(path: Path) -> None:
    """Remove a folder and its contents as far as possible; links are not followed.

    A guest of the lab may have made them: folders that are nested more deeply than functions can be, or closed even to
    their owner. Inner folders are therefore moved to the top before they are emptied.
    """
    with contextlib.suppress(OSError):
        top = os.open(path, _FLAGS)
        try:
            _open_to_owner(top)
            while _remove_entries(top, top):
                pass
        finally:
            os.close(top)
        path.rmdir()


def _remove_entries(folder: int, top: int) -> bool:
    """Remove what is in a folder below `top`; whether anything was removed or moved."""
    changed = False
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                _remove_inner(name, folder, top)
            else:
                os.unlink(name, dir_fd=folder)
            changed = True
    return changed


def _remove_inner(name: str, folder: int, top: int) -> None:
    """Remove an inner folder of the top, or move one that is deeper to the top."""
    if folder != top:
        _open_to_owner(folder)
        os.rename(name, f"{secrets.token_hex(16)}", src_dir_fd=folder, dst_dir_fd=top)
        return
    _open_to_owner(top, name)
    inner = os.open(name, _FLAGS, dir_fd=top)
    try:
        _remove_entries(inner, top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _open_to_owner(folder: int, name: str = ".") -> None:
    """Let its owner enter and change a folder."""
    place = os.open(name, _PLACE, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)  # noqa: PTH101 - the folder itself, not its name
    finally:
        os.close(place)


def _boot() -> str:
    """Start of the kernel's boot id; "" if it cannot be read."""
    try:
        return _BOOT.read_text("ascii")[:8]
    except OSError:
        return ""


def _remove_abandoned(path: Path) -> None:
    import fcntl

    try:
        lock = os.open(path, _FLAGS)
    except OSError:  # gone, or something else
        return
    try:
        found = os.fstat(lock)
        if found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
    except OSError:
        pass  # still in use
    finally:
        os.close(lock)

"""Temporary folders that are cleaned up even after a crash: the next start removes what a killed process left behind.

Each user of a folder holds a shared lock on it, which the kernel drops when the last process with that descriptor ends:
a folder whose lock is free is unused, whichever container created it. Other kernels may not see the lock (the lab's
guest sees this machine's files), so the name contains the kernel's boot id, and other kernels leave the folder alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Scratch:
    """A temporary folder that only this user may enter.

    Attributes:
        path: Path of the folder.
        lock: Descriptor that keeps the folder. A child process that inherits it (`pass_fds`) keeps the folder too.

    """

    path: Path
    lock: int

    def remove(self) -> None:
        """Remove the folder and its contents; call once only."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def make(purpose: str) -> Scratch:
    """Create a folder, after removing those that this user's processes have left behind.

    Args:
        purpose: A word for its name, letters only.

    Raises:
        OSError: The disk is full, or there is no folder for temporary files.

    """
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


def _boot() -> str:
    """Start of the kernel's boot id; "" if it cannot be read."""
    try:
        return _BOOT.read_text("ascii")[:8]
    except OSError:
        return ""


def _remove_abandoned(path: Path) -> None:
    try:
        lock = os.open(path, _FLAGS)
    except OSError:  # gone, or something else
        return
    try:
        found = os.fstat(lock)
        if found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass  # still in use
    finally:
        os.close(lock)

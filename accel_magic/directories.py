"""Folders held by a descriptor: what is done in one stays there, whatever another user puts in its place.

A path is followed component by component, each relative to the one before and without symbolic links, as openat2(2)
does with RESOLVE_NO_SYMLINKS; unlike that call, this works under every seccomp filter. Windows has no descriptors of
folders: there, paths are used instead, and links on them are still refused.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import operator
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


def flags(*names: str) -> int:
    """Flags of `os.open` together, by their names without `O_`; those that this system lacks are 0."""
    return functools.reduce(operator.or_, (getattr(os, f"O_{name}", 0) for name in names))


_FLAGS = flags("PATH", "DIRECTORY", "NOFOLLOW", "CLOEXEC")
_HELD = os.open in os.supports_dir_fd


@dataclass(frozen=True)
class Directory:
    """An open folder.

    Attributes:
        path: Where it was when it was opened.
        descriptor: Opened with O_PATH, where the system has that; -1 where it has no descriptors of folders.

    """

    path: Path
    descriptor: int

    @property
    def dir_fd(self) -> int | None:
        """The argument `dir_fd` of calls, which also take `at(name)`."""
        return self.descriptor if self.descriptor >= 0 else None

    def at(self, name: str) -> str:
        """The path of an entry, for calls with `dir_fd`."""
        return name if self.descriptor >= 0 else str(self.path / name)

    def inner(self, name: str, *, make: bool = False) -> Directory:
        """Open a folder in it, and create it first if asked. Raises OSError: ELOOP if it is a link."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.at(name), dir_fd=self.dir_fd)
        try:
            return Directory(self.path / name, _held(self.at(name), self.dir_fd))
        except NotADirectoryError:
            if stat.S_ISLNK(self.status(name).st_mode):
                raise OSError(errno.ELOOP, "it is a link", str(self.path / name)) from None
            raise

    def status(self, name: str) -> os.stat_result:
        """Status of an entry; a link is not followed. Raises OSError."""
        return os.stat(self.at(name), dir_fd=self.dir_fd, follow_symlinks=False)

    def place(self) -> Path:
        """Where it is now; `(deleted)` is appended if it was removed. Raises OSError."""
        return Path(f"/proc/self/fd/{self.descriptor}").readlink()

    def close(self) -> None:
        """Close the descriptor; call once only."""
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def opened(path: Path, *, make: bool = False) -> Directory:
    """Open a folder.

    Args:
        path: An absolute path without links and without `..`.
        make: Create what is missing.

    Raises:
        OSError: ELOOP if there is a link on the path.

    """
    found = Directory(Path(path.anchor), _held(path.anchor))
    for name in path.parts[1:]:
        with found:
            found = found.inner(name, make=make)
    return found


def _held(path: str, dir_fd: int | None = None) -> int:
    """Open a folder, which must not be a link; -1 where folders cannot be opened."""
    if _HELD:
        return os.open(path, _FLAGS, dir_fd=dir_fd)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return -1

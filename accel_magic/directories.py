"""Folders held by a descriptor: what is done in one stays there, whatever another user puts in its place.

A path is followed component by component, each relative to the one before and without symbolic links, as openat2(2)
does with RESOLVE_NO_SYMLINKS; unlike that call, this works under every seccomp filter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Directory:
    """An open folder.

    Attributes:
        path: Where it was when it was opened.
        descriptor: For calls with `dir_fd`; opened with O_PATH.

    """

    path: Path
    descriptor: int

    def inner(self, name: str, *, make: bool = False) -> Directory:
        """Open a folder in it, and create it first if asked. Raises OSError: ELOOP if it is a link."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.descriptor)
        try:
            return Directory(self.path / name, os.open(name, _FLAGS, dir_fd=self.descriptor))
        except NotADirectoryError:
            if stat.S_ISLNK(self.status(name).st_mode):
                raise OSError(errno.ELOOP, "it is a link", str(self.path / name)) from None
            raise

    def status(self, name: str) -> os.stat_result:
        """Status of an entry; a link is not followed. Raises OSError."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def place(self) -> Path:
        """Where it is now; `(deleted)` is appended if it was removed. Raises OSError."""
        return Path(f"/proc/self/fd/{self.descriptor}").readlink()

    def close(self) -> None:
        """Close the descriptor; call once only."""
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
    found = Directory(Path(path.anchor), os.open(path.anchor, _FLAGS))
    for name in path.parts[1:]:
        with found:
            found = found.inner(name, make=make)
    return found

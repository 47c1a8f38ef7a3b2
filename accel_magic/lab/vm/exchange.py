"""Files that a guest hands over in the lab's exchange folder, where it can create links, FIFOs and any folders.

Nothing there is opened by a path: a folder is held by its descriptor, and only regular files directly in it are read.
"""

from __future__ import annotations

import contextlib
import errno
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from accel_magic import directories, foreign_files, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.directories import Directory


@dataclass(frozen=True)
class Exchanged:
    """A folder for one answer of the guest.

    Attributes:
        path: Where it is, on both sides.
        held: The folder itself, whatever the guest puts in its place.

    """

    path: Path
    held: Directory

    def opened(self, name: str) -> BinaryIO:
        """Open a file. Raises OSError: there is none, or it is not a regular file."""
        return foreign_files.opened(name, follow=False, folder=self.held)

    def read(self, name: str, largest: int) -> bytes:
        """Read a whole file. Raises OSError: as `opened`, or it has more bytes than `largest`."""
        with self.opened(name) as file:
            data = file.read(largest + 1)
        if len(data) > largest:
            raise OSError(errno.EFBIG, f"it has more than {largest:,} bytes", name)
        return data


@contextlib.contextmanager
def folder(exchange: Path) -> Iterator[Exchanged]:
    """Create a folder for the duration of a block. Raises OSError: the guest has put something else in its place."""
    path = Path(tempfile.mkdtemp(dir=exchange))
    try:
        with directories.opened(exchange.resolve() / path.name) as held:
            yield Exchanged(path, held)
    finally:
        scratch.remove_tree(path)

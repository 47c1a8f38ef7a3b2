"""Programs and libraries that are probed: opening them, with errors for users, and the identity of their content."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from accel_magic import elf, foreign_files
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.elf import Elf


@contextmanager
def opened(path: Path, *, follow: bool = True) -> Iterator[Elf]:
    """Open a program or shared library; damage found inside the `with` block is reported too.

    Args:
        path: The file.
        follow: Whether the last part of the path may be a symbolic link.

    Raises:
        ProbeError: It cannot be read, is not an ELF file, is damaged, or has another word size or byte order.

    """
    try:
        with foreign_files.opened(path, follow=follow) as stream:
            yield elf.read(stream)
    except OSError as error:
        raise _unreadable(path, error) from error
    except elf.ForeignElfError as error:
        raise ProbeError(
            f"{path} cannot be probed",
            why=str(error),
            fix="give a 64-bit program or library for this machine",
            code="probe.foreign-code",
        ) from error
    except elf.ElfError as error:
        raise ProbeError(
            f"{path} is not a program or library, or is damaged",
            why=str(error),
            fix="give an ELF file, e.g. uprobe:libc:malloc",
            code="probe.not-elf",
        ) from error


def identity(path: Path) -> tuple[str, int, int, int]:
    """Identity of a file's current content: path, modification time (ns), size, inode.

    Raises:
        ProbeError: There is no such file.

    """
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino


def _unreadable(path: Path, error: OSError) -> ProbeError:
    return ProbeError(f"{path} cannot be read", why=error.strerror or str(error), code="probe.unreadable-file")

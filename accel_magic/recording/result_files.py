"""Result files: written atomically, and never through a link that another user made.

Links are followed first (`destination`), and only those of this user and root. Then the folder is opened without any
link on its path and held by a descriptor (`replacing`), so a link put there in between is an error.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import directories
from accel_magic.errors import ProbeError, RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from accel_magic.directories import Directory

_NEW: Final = directories.flags("CREAT", "EXCL", "WRONLY", "CLOEXEC", "BINARY")
_MOST_LINKS: Final = 40
"""Maximum number of links in a path; the kernel's limit."""
PARQUET: Final = ".parquet"
_FORMAT: Final = re.compile(r"\.[A-Za-z]\w*")
"""An ending that names a format; names of folders may contain numbers such as `run-6.18`."""


def names_folder(path: str | Path) -> bool:
    """Whether a result saved to this path is a dataset: any path but one that ends in `.parquet`."""
    text = str(path)
    return text.endswith("/") or Path(text).suffix.lower() != ".parquet"


def check_ending(path: str | Path) -> None:
    """Require that a result is saved to `FILE.parquet`, or to a folder, whose name has no ending or a slash after it.

    Raises:
        ProbeError: The path ends like a file of another format.

    """
    text = str(path)
    ending = Path(text).suffix
    if text.endswith("/") or not _FORMAT.fullmatch(ending) or ending.lower() == PARQUET:
        return
    file = Path(text).with_suffix(PARQUET)
    raise ProbeError(
        f"a result cannot be saved as {ending}: {text}",
        why="it is a Parquet file, or a folder of them; its tables are DataFrames, which write other formats",
        fix=f"write {file} instead of {text}, or {text}/ for a folder",
        code="save.unknown-ending",
    )


def destination(path: str | Path) -> Path:
    """Absolute path to write a result to: `~` expanded, links followed.

    Raises:
        RecordingError: The path is a folder or a device, its folder does not exist, another user's link leads there, or
            the file there belongs to another user and anybody may write to its folder.

    """
    target = followed(path)
    try:
        folder_there, there, regular = target.parent.is_dir(), target.exists(), target.is_file()
        foreign = there and _is_foreign(target.lstat(), target.parent.stat())
    except (OSError, RuntimeError, ValueError) as error:
        raise _bad_path(path, error) from error
    if there and not regular:
        why = "it is a folder" if target.is_dir() else "it is not a regular file"
        raise RecordingError(f"cannot write {path}", why=why, fix="give the name of a file", code="save.not-a-file")
    if foreign:
        raise RecordingError(
            f"cannot write {path}",
            why="anybody can write to that folder, and the file there belongs to another user",
            fix="give another name, or a folder that you own",
            code="save.foreign-file",
        )
    if not folder_there:
        raise RecordingError(
            f"cannot write {path}",
            why=f"there is no folder {target.parent}",
            fix=f"create it (mkdir -p {target.parent}) or give another path",
            code="save.no-folder",
        )
    return target


def followed(path: str | Path) -> Path:
    """Absolute path without links, which may not exist: `~` expanded, links followed if this user or root made them.

    Raises:
        RecordingError: Another user's link is on the path, or it is not a path.

    """
    try:
        return _followed(Path(path).expanduser().absolute())
    except (OSError, RuntimeError, ValueError) as error:
        raise _bad_path(path, error) from error


def made(path: Path) -> Directory:
    """Open a folder to write to, and create it if it is missing.

    Args:
        path: A path from `followed`.

    Raises:
        RecordingError: It cannot be created, or there is a link on the path now.

    """
    try:
        return directories.opened(path, make=True)
    except OSError as error:
        raise (refused if error.errno == errno.ELOOP else _bad_path)(path, error) from error


def check(path: str | Path) -> None:
    """Check that a result can be written to a path, before it is made; free disk space is not checked.

    Raises:
        RecordingError: As `destination` and `replacing` do.

    """
    target = destination(path)
    temporary = _beside(target.name)
    try:
        with directories.opened(target.parent) as folder:
            os.close(_created(folder, temporary, 0o600))
            os.unlink(folder.at(temporary), dir_fd=folder.dir_fd)
    except OSError as error:
        raise refused(target, error) from error


@contextmanager
def replacing(target: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a binary file to write to, and move it to `target` if the block succeeds.

    Args:
        target: A path from `destination`.
        durable: The file survives a crash of the machine from then on: this can take long on a busy disk.

    Raises:
        RecordingError: The system does not allow writing there, or there is a link on the path now.

    """
    try:
        folder = directories.opened(target.parent)
    except OSError as error:
        raise refused(target, error) from error
    with folder, replacing_in(folder, target.name, durable=durable) as file:
        yield file


@contextmanager
def replacing_in(folder: Directory, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a binary file to write to, and move it to its name in a folder if the block succeeds.

    An existing file keeps its mode, and its owner if this process may change owners. It stays untouched until the block
    has ended and after any error, and no temporary file is left behind.

    Raises:
        RecordingError: The system does not allow writing there, or a link has that name.

    """
    temporary = _beside(name)
    try:
        before = _existing(folder, name)
        # A new file gets its mode from the umask; a replacement stays private until it takes over the old mode.
        with os.fdopen(_created(folder, temporary, 0o666 if before is None else 0o600), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if before is not None and hasattr(os, "fchown"):  # not on Windows
                _take_over(file.fileno(), before)
        os.replace(folder.at(temporary), folder.at(name), src_dir_fd=folder.dir_fd, dst_dir_fd=folder.dir_fd)
    except OSError as error:
        raise refused(folder.path / name, error) from error
    finally:
        with suppress(OSError):
            os.unlink(folder.at(temporary), dir_fd=folder.dir_fd)


def _created(folder: Directory, name: str, mode: int) -> int:
    return os.open(folder.at(name), _NEW, mode, dir_fd=folder.dir_fd)


def _existing(folder: Directory, name: str) -> os.stat_result | None:
    """Status of the file to replace; None if there is none. Raises OSError: ELOOP if it is a link."""
    try:
        found = folder.status(name)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "it is a link")
    return found


def _followed(path: Path) -> Path:
    """Follow the links in an absolute path, if this user or root made them.

    Raises:
        OSError: There are too many links, or part of the path cannot be inspected.
        RecordingError: Another user made one of the links, and so chooses where they lead.

    """
    done, parts, links = Path(path.anchor), [*reversed(path.parts[1:])], 0
    while parts:
        part = parts.pop()
        here = done.parent if part == ".." else done / part
        try:
            found = here.lstat()
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found is None or not stat.S_ISLNK(found.st_mode):
            done = here
            continue
        if found.st_uid not in (_user(), 0):
            raise _planted(path, f"{here} is a link that another user made")
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        leads_to = here.readlink()
        done = Path(leads_to.anchor) if leads_to.is_absolute() else done
        parts += reversed(leads_to.parts[1:] if leads_to.is_absolute() else leads_to.parts)
    return done


def _is_foreign(found: os.stat_result, folder: os.stat_result) -> bool:
    """Whether a file in a world-writable folder belongs neither to us nor to the folder's owner."""
    return bool(folder.st_mode & stat.S_IWOTH) and found.st_uid not in (_user(), folder.st_uid)


def _user() -> int:
    """The user of this process; on Windows, where files have no user id, that of all files."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _beside(name: str) -> str:
    """Return a temporary name for the same folder, and thus the same file system, so that the rename is atomic."""
    return f".{name[:100]}.{secrets.token_hex(6)}.tmp"


def _take_over(file: int, before: os.stat_result) -> None:
    """Copy owner and mode of the replaced file; if its group cannot be kept, the group permissions are dropped."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    try:
        os.fchown(file, -1, before.st_gid)
        os.fchown(file, before.st_uid, -1)
    except PermissionError:
        now = os.fstat(file)
        if now.st_gid != before.st_gid:
            mode &= ~0o070
    os.fchmod(file, mode)


def refused(target: Path, error: OSError) -> RecordingError:
    """Error for a file or folder that cannot be written."""
    if error.errno == errno.ELOOP:
        return _planted(target, f"a link was put into the path of {target} after it was checked")
    return RecordingError(
        f"cannot write {target}",
        why=error.strerror or str(error),
        fix="free some space there, or give a path that you can write to",
        code="save.failed",
    )


def _bad_path(path: str | Path, error: Exception) -> RecordingError:
    why = getattr(error, "strerror", None) or str(error)
    return RecordingError(f"cannot write {path}", why=why, fix="give another path", code="save.bad-path")


def _planted(path: Path, why: str) -> RecordingError:
    return RecordingError(
        f"cannot write {path}", why=why, fix="give the real path, without that link", code="save.planted-link"
    )

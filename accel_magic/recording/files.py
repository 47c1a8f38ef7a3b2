"""Result files: written atomically, and never through a link planted by another user."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_MOST_LINKS: Final = 40
"""Maximum number of links in a path; the kernel's limit."""


def destination(path: str | Path) -> Path:
    """Absolute path to write a result to: `~` expanded, links followed.

    Raises:
        RecordingError: The path is a folder or a device, its folder does not exist, another user's link leads there, or
            the file there belongs to another user and anybody may write to its folder.

    """
    try:
        target = _followed(Path(path).expanduser().absolute())
        folder_there, there, regular = target.parent.is_dir(), target.exists(), target.is_file()
        foreign = there and _is_foreign(target.lstat(), target.parent.stat())
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RecordingError(f"cannot write {path}", why=why, fix="give another path", code="save.bad-path") from error
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


def check(path: str | Path) -> None:
    """Check that a result can be written to a path, before it is made; free disk space is not checked.

    Raises:
        RecordingError: As `destination` and `replacing` do.

    """
    target = destination(path)
    temporary = _beside(target)
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        temporary.unlink()
    except OSError as error:
        raise _refused(target, error) from error


@contextmanager
def replacing(target: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a binary file to write to, and move it to `target` if the block succeeds.

    If `durable`, the file survives a crash of the machine from then on: this can take long on a busy disk.

    An existing file keeps its mode, and its owner if this process may change owners. It stays untouched until the block
    has ended and after any error, and no temporary file is left behind.

    Raises:
        RecordingError: The system does not allow writing there.

    """
    temporary = _beside(target)
    try:
        before = target.stat() if target.exists() else None
        # A new file gets its mode from the umask; a replacement stays private until it takes over the old mode.
        mode = 0o666 if before is None else 0o600
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if before is not None:
                _take_over(file.fileno(), before)
        temporary.replace(target)
    except OSError as error:
        raise _refused(target, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _followed(path: Path) -> Path:
    """Follow the links in an absolute path by the kernel's rules for fs.protected_symlinks, even if that is off.

    Raises:
        OSError: There are too many links, or part of the path cannot be inspected.
        RecordingError: Another user created one of the links in a world-writable folder.

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
        if _is_foreign(found, done.stat()):
            raise RecordingError(
                f"cannot write {path}",
                why=f"{here} is a link that another user created in a folder that anybody can write to",
                fix="give the real path, without that link",
                code="save.planted-link",
            )
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        leads_to = here.readlink()
        done = Path(leads_to.anchor) if leads_to.is_absolute() else done
        parts += reversed(leads_to.parts[1:] if leads_to.is_absolute() else leads_to.parts)
    return done


def _is_foreign(found: os.stat_result, folder: os.stat_result) -> bool:
    """Whether a file in a world-writable folder belongs neither to us nor to the folder's owner."""
    return bool(folder.st_mode & stat.S_IWOTH) and found.st_uid not in (os.geteuid(), folder.st_uid)


def _beside(target: Path) -> Path:
    """Return a temporary name in the same folder, and thus on the same file system, so that the rename is atomic."""
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")


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


def _refused(target: Path, error: OSError) -> RecordingError:
    return RecordingError(
        f"cannot write {target}",
        why=error.strerror or str(error),
        fix="free some space there, or give a path that you can write to",
        code="save.failed",
    )

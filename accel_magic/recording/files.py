"""Result files: written whole or not at all, and never through a link that somebody else has planted."""

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
"""Links that a path may lead through, as for the kernel."""


def destination(path: str | Path) -> Path:
    """Absolute path that a result goes to: `~` expanded, links followed.

    Raises:
        RecordingError: It is a folder or a device, its folder does not exist, or somebody else's link leads there.

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
            why="everybody may write to that folder, and the file there belongs to another user",
            fix="give another name, or a folder of your own",
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
    """Find out whether a result can be written to a place, as far as that can be known before: not how much fits.

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
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Give a binary file to write to, and put it in the place of `target` when the block ends well.

    A file that is there keeps its mode, and its owner if this process may give files away. Until the block has ended,
    and after any error, it stays untouched and nothing else is left behind.

    Raises:
        RecordingError: The system refuses to write there.

    """
    temporary = _beside(target)
    try:
        before = target.stat() if target.exists() else None
        # A new file has the mode that the umask gives it; one that replaces another is for nobody else until it does.
        mode = 0o666 if before is None else 0o600
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            yield file
            file.flush()
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
    """Follow the links in an absolute path, as the kernel does with fs.protected_symlinks whether that is set or not.

    Raises:
        OSError: There are too many, or a part of it cannot be looked at.
        RecordingError: Another user made one of them in a folder where everybody may.

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
                why=f"{here} is a link that another user made in a folder where everybody may write",
                fix="give the path that you mean, without that link",
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
    """Whether something lies in a folder that everybody may write to, and is neither ours nor the folder's owner's."""
    return bool(folder.st_mode & stat.S_IWOTH) and found.st_uid not in (os.geteuid(), folder.st_uid)


def _beside(target: Path) -> Path:
    """Give a new name in the same folder, hence on the same file system: only then is a rename atomic."""
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")


def _take_over(file: int, before: os.stat_result) -> None:
    """Give a new file the owner and mode of the one it replaces; a group that cannot be kept loses its rights."""
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
        fix="free some space there, or give a path that you may write to",
        code="save.failed",
    )

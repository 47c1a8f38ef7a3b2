"""The cache folder: its location, and checks that nobody else has written to it and that its files are unchanged.

The cache holds code that later runs with this user's privileges, often as root, under names that anybody can compute.
So nothing is used from a folder that others can write to, and compiled files have their checksum in their name.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import stat
from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import scratch
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

VARIABLE: Final = "ACCEL_MAGIC_CACHE"
"""Environment variable with the folder to use; it may be on a read-only share."""
OWNER: Final = "ACCEL_MAGIC_CACHE_OWNER"
"""Environment variable with the id of a user to trust in addition to root and the current user. The lab sets it in its
guest, where everything runs as root but sees files of the host's user."""
_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FOLDER: Final = (*_READ_ONLY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT)
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS: Final = 40
_EVERYBODY: Final = "4294967295"


def root() -> Path:
    """Return the cache folder: $ACCEL_MAGIC_CACHE, else one in the user's cache folder. It may not exist."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).absolute() if chosen else _users()


def _users() -> Path:
    # The XDG specification requires relative paths to be ignored.
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if shared.startswith("/") else Path.home() / ".cache"
    return base / "accel_magic"


def own(*names: str) -> Path:
    """Return a writable cache folder for this user, creating it if it is missing.

    If the chosen cache folder is read-only, the folder is below the user's default cache folder. If that one is unsafe
    or read-only too, it is a temporary folder.

    Args:
        *names: Path of the folder below the cache folder.

    Raises:
        MachineError: Others can write to the folder in ACCEL_MAGIC_CACHE, or the disk is full.

    """
    if os.environ.get(VARIABLE) and (folder := _writable(root().joinpath(*names), _READ_ONLY)):
        return folder
    try:
        if folder := _writable(_users().joinpath(*names), _NO_FOLDER):
            return folder
    except MachineError as error:
        if error.code != "cache.untrusted":
            raise
    try:
        return make(_temporary(os.geteuid(), os.getpid()).joinpath(*names))
    except OSError as error:
        raise _not_made(root(), error) from error


def _writable(folder: Path, expected: Container[int | None]) -> Path | None:
    """Create a folder if it is missing; None if it cannot be created or written for one of the expected reasons."""
    try:
        make(folder)
    except OSError as error:
        if error.errno not in expected:
            raise _not_made(folder, error) from error
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


@remember
def _temporary(_user: int, process: int) -> Path:
    made = scratch.make("cache")
    atexit.register(lambda: made.remove() if os.getpid() == process else None)
    return made.path


def _not_made(folder: Path, error: OSError) -> MachineError:
    return MachineError(
        f"the cache folder {folder} cannot be used",
        why=str(error),
        fix=f"free some space, or choose another folder that only you can write to: export {VARIABLE}=FOLDER",
        code="cache.not-writable",
    )


def make(folder: Path) -> Path:
    """Create a folder that only this user may enter, and its parents, if it is missing; and return it.

    Raises:
        OSError: It cannot be created.
        MachineError: Others could have written to it.

    """
    require_trusted(folder)  # never create anything in an unsafe place
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    require_trusted(folder)
    return folder


def require_trusted(path: Path, *, whole: bool = False) -> None:
    """Check that nobody but root and this user could have written a file or folder.

    Args:
        path: A file or folder, which may be missing.
        whole: Check the folder's contents too.

    Raises:
        MachineError: The path, or a folder or link leading to it, belongs to somebody else, or others can write to it.

    """
    try:
        found = _untrusted(path) or (whole and next(filter(None, map(_wrong, path.rglob("*"))), None))
    except OSError as error:
        found = path, f"cannot be inspected: {error.strerror}", None
    if not found:
        return
    place, why, owner = found
    trusting = f"; if you trust user {owner}: export {OWNER}={owner}" if owner is not None else ""
    raise MachineError(
        f"{path} is not safe to use: others can put their own code there",
        why=f"{place} {why}",
        fix=f"choose a folder that only you can write to: export {VARIABLE}=FOLDER{trusting}",
        code="cache.untrusted",
    )


def _untrusted(path: Path) -> tuple[Path, str, int | None] | None:
    """Return why a path is unsafe: the offending place, what is wrong with it, and its owner if that is the problem."""
    way: list[Path] = []
    missing = False
    try:
        for place in _way(path):
            place.lstat()
            way.append(place)
    except (FileNotFoundError, NotADirectoryError):
        missing = True
    last = len(way) - (0 if missing else 1)
    return next(filter(None, (_wrong(place, on_the_way=at < last) for at, place in enumerate(way))), None)


def _wrong(place: Path, *, on_the_way: bool = False) -> tuple[Path, str, int | None] | None:
    """Return what is wrong with one place; a folder on the way to the target may be sticky, like /tmp."""
    status = place.lstat()
    owners = {0, os.geteuid(), *_chosen_owner()}
    if status.st_uid not in owners and not (on_the_way and status.st_uid in _unmapped_owner()):
        return place, f"belongs to user {status.st_uid}", status.st_uid
    # In a sticky folder others can neither remove nor rename existing files.
    if _others_write(place, status) and not (on_the_way and status.st_mode & stat.S_ISVTX):
        return place, f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})", None
    return None


def _way(path: Path) -> Iterator[Path]:
    """Yield every folder and link on the way to a path, starting at the root and ending with the resolved path."""
    place, waiting, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    yield place
    while waiting:
        name = waiting.pop()
        if name == "..":
            place = place.parent
            continue
        step = place / name
        yield step
        if not step.is_symlink():
            place = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = step.readlink()
        waiting += reversed([part for part in target.parts if part != "/"])
        place = Path("/") if target.is_absolute() else place


def _others_write(place: Path, status: os.stat_result) -> bool:
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
        return False
    return bool(status.st_mode & stat.S_IWOTH) or _has_acl(place) or status.st_gid != _own_group(os.geteuid())


def _has_acl(place: Path) -> bool:
    try:
        os.getxattr(place, "system.posix_acl_access")
    except OSError:
        return False
    return True


@remember
def _own_group(user: int) -> int | None:
    """Return the user's private group, which many distributions create for each user; None without one."""
    import grp
    import pwd

    try:
        entry = pwd.getpwuid(user)
        group = grp.getgrgid(entry.pw_gid)
    except KeyError:
        return None
    alone = group.gr_name == entry.pw_name and not {*group.gr_mem} - {entry.pw_name}
    return group.gr_gid if alone else None


def _chosen_owner() -> tuple[int, ...]:
    chosen = os.environ.get(OWNER, "")
    return (int(chosen),) if chosen.isascii() and chosen.isdecimal() else ()


@remember
def _unmapped_owner() -> tuple[int, ...]:
    """Return the user id shown for unmapped owners, such as the host's root, in a user namespace; () outside of one."""
    try:
        if Path("/proc/self/uid_map").read_text().split() == ["0", "0", _EVERYBODY]:
            return ()
        return (int(Path("/proc/sys/kernel/overflowuid").read_text()),)
    except (OSError, ValueError):
        return ()


# ---- files stored under their checksum


def find(folder: Path, name: str, suffix: str = "") -> Path | None:
    """Return the file that `keep` stored in a folder under a name; None if it is missing or has changed.

    Raises:
        MachineError: Others could have written it.

    """
    for path in sorted(folder.glob(f"{name}-*{suffix}")):
        if _intact(path, folder, name, suffix):
            require_trusted(path)
            return path
    return None


def keep(made: Path, folder: Path, name: str, suffix: str = "") -> Path:
    """Move a file atomically to where `find` looks for it; returns its path.

    If another process has stored the same content first, its file stays: probes are attached to files, not to names.

    Args:
        made: The file, on the same file system as the folder.
        folder: A folder of the cache.
        name: Identifies what the file was made from.
        suffix: Follows the checksum; "/NAME" puts the file into its own folder.

    """
    made.chmod(stat.S_IMODE(made.stat().st_mode) & ~_OTHERS_WRITE)
    target = folder / _named(made, name, suffix)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        os.link(made, target)
    except OSError:  # it exists, or the file system has no links
        if not _intact(target, folder, name, suffix) or _untrusted(target):
            made.replace(target)
            return target
    made.unlink()
    return target


def _intact(path: Path, folder: Path, name: str, suffix: str) -> bool:
    return path.is_file() and not path.is_symlink() and path == folder / _named(path, name, suffix)


def _named(content: Path, name: str, suffix: str) -> str:
    return f"{name}-{sha256_of(content)[:32]}{suffix}"


def sha256_of(file: Path) -> str:
    """SHA-256 of a file in hexadecimal; recomputed only if the file has changed since this process last read it."""
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key not in _checksums:
            _checksums[key] = hashlib.file_digest(opened, "sha256").hexdigest()
        return _checksums[key]


_checksums: dict[tuple[int, int, int, int, int], str] = {}

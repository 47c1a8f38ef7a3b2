"""The cache folder: where it is, who may have written to it, and whether what lies in it is what was put there.

Code is kept here that later runs with this user's privileges, often root's, under names that anybody can compute. So
nothing is used from a folder into which others could have put it, and what was compiled carries its checksum in its
name.
"""

from __future__ import annotations

import atexit
import errno
import grp
import hashlib
import os
import pwd
import stat
from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import scratch
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

VARIABLE: Final = "ACCEL_MAGIC_CACHE"
"""Environment variable with the folder to use; it may be on a share that cannot be written."""
OWNER: Final = "ACCEL_MAGIC_CACHE_OWNER"
"""Environment variable with the number of a user who is trusted besides root and whoever runs this. The lab sets it in
its guest, where everything runs as root and sees the files of the host's user."""
_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FOLDER: Final = (*_READ_ONLY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT)
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS: Final = 40
_EVERYBODY: Final = "4294967295"


def root() -> Path:
    """Return the cache folder: $ACCEL_MAGIC_CACHE, else that of the user's caches. It may be missing."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).absolute() if chosen else _users()


def _users() -> Path:
    # The XDG specification has relative paths ignored.
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if shared.startswith("/") else Path.home() / ".cache"
    return base / "accel_magic"


def own(*names: str) -> Path:
    """Return a folder of the cache for what this user makes, made where it is missing.

    Where the chosen cache folder cannot be written, it is below the user's own one. Where that is not safe, or cannot
    be written either, it is a temporary one.

    Args:
        *names: Of the folder, below the cache folder.

    Raises:
        MachineError: Others can write to the folder that ACCEL_MAGIC_CACHE names, or the disk is full.

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
    """Make a folder unless it is there; None if it cannot be made or written for one of the expected reasons."""
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
        fix=f"free some space, or name another folder that only you can write to: export {VARIABLE}=FOLDER",
        code="cache.not-writable",
    )


def make(folder: Path) -> Path:
    """Make a folder that only this user may enter, with its parents, unless it is there; and return it.

    Raises:
        OSError: It cannot be made.
        MachineError: Others could have put something into it.

    """
    require_trusted(folder)  # nothing is made in a place that is not safe
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    require_trusted(folder)
    return folder


def require_trusted(path: Path, *, whole: bool = False) -> None:
    """Check that nobody but root and this user could have put there what is there.

    Args:
        path: A file or folder. A missing one is fine.
        whole: Look at everything in the folder too.

    Raises:
        MachineError: It, a folder on the way to it, or a link on that way belongs to somebody else, or others can write
            to it.

    """
    try:
        found = _untrusted(path) or (whole and next(filter(None, map(_wrong, path.rglob("*"))), None))
    except OSError as error:
        found = path, f"cannot be looked at: {error.strerror}", None
    if not found:
        return
    place, why, owner = found
    trusting = f"; if you trust user {owner}: export {OWNER}={owner}" if owner is not None else ""
    raise MachineError(
        f"{path} is not safe to use: others can put their own code there",
        why=f"{place} {why}",
        fix=f"name a folder that only you can write to: export {VARIABLE}=FOLDER{trusting}",
        code="cache.untrusted",
    )


def _untrusted(path: Path) -> tuple[Path, str, int | None] | None:
    """Return what makes a path unsafe: a place on the way, what is wrong with it, and its owner if that is what is."""
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
    """Return what is wrong with one place; a folder that is only passed through may be sticky, like /tmp."""
    status = place.lstat()
    owners = {0, os.geteuid(), *_chosen_owner()}
    if status.st_uid not in owners and not (on_the_way and status.st_uid in _unmapped_owner()):
        return place, f"belongs to user {status.st_uid}", status.st_uid
    # In a sticky folder others can neither remove nor rename what is there.
    if _others_write(place, status) and not (on_the_way and status.st_mode & stat.S_ISVTX):
        return place, f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})", None
    return None


def _way(path: Path) -> Iterator[Path]:
    """Every folder and link on the way to a path, from the root on, and the path with its links followed at the end."""
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
    """The group that is this user's alone, as many distributions give one to everybody; None without one."""
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
    """Whom the folders above a user namespace seem to belong to, the machine's root among others; () outside of one."""
    try:
        if Path("/proc/self/uid_map").read_text().split() == ["0", "0", _EVERYBODY]:
            return ()
        return (int(Path("/proc/sys/kernel/overflowuid").read_text()),)
    except (OSError, ValueError):
        return ()


# ---- what is kept under its checksum


def find(folder: Path, name: str, suffix: str = "") -> Path | None:
    """Return what `keep` put into a folder under a name, None if it is not there or no longer what it was.

    Raises:
        MachineError: Others could have put it there.

    """
    for path in sorted(folder.glob(f"{name}-*{suffix}")):
        if path.is_file() and not path.is_symlink() and path == folder / _named(path, name, suffix):
            require_trusted(path)
            return path
    return None


def keep(made: Path, folder: Path, name: str, suffix: str = "") -> Path:
    """Move a file to where `find` finds it, whole or not at all; returns its path.

    Args:
        made: On the disk of the folder.
        folder: Of the cache.
        name: Says of what it was made.
        suffix: Follows the checksum; "/NAME" gives it a folder to itself.

    """
    made.chmod(stat.S_IMODE(made.stat().st_mode) & ~_OTHERS_WRITE)
    target = folder / _named(made, name, suffix)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    made.replace(target)
    return target


def _named(content: Path, name: str, suffix: str) -> str:
    return f"{name}-{sha256_of(content)[:32]}{suffix}"


def sha256_of(file: Path) -> str:
    """SHA256 of a file, hexadecimal; computed again only if the file has changed since this process read it."""
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key not in _checksums:
            _checksums[key] = hashlib.file_digest(opened, "sha256").hexdigest()
        return _checksums[key]


_checksums: dict[tuple[int, int, int, int, int], str] = {}

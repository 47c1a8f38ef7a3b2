"""Which file systems a caller's files are in, found without asking these file systems.

A FUSE file system is a program of whoever mounted it, and each `fstat`, `open`, `read` or `close` waits for that
program, also after SIGKILL. Any user can mount one in a user namespace, and an overlay that hides it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_PROC: Final = Path("/proc")
_FUSE: Final = "fuse"
_OVERLAY: Final = "overlay"


def refusal(files: Collection[int], pid: int) -> ProbeError | None:
    """Return why one of some files is refused; None if the kernel alone answers requests about all of them.

    Refused are files in FUSE, in an overlay that an ordinary user may have mounted, and in a mount that neither this
    process nor the caller has.

    Args:
        files: Descriptors of the calling thread.
        pid: The process that sent them.

    """
    mounts = {_mount(file) for file in files}
    own = _file_systems(mounts, "self")
    others = _file_systems(mounts - own.keys(), str(pid))
    same_users = not others or _same_users(pid)
    for mount in mounts:
        why = _problem((own | others).get(mount, ""), trusted=mount in own or same_users)
        if why:
            return ProbeError(
                "a file cannot be probed through the broker",
                why=why,
                fix="probe a copy in a file system of this machine, or ask the administrator to trace it as root",
                code="broker.file-system",
            )
    return None


def _problem(kind: str, *, trusted: bool) -> str:
    if not kind:
        return "its file system is not mounted where the traced process is"
    if kind.startswith(_FUSE):
        return f"its file system ({kind}) is a user's program, which could make the broker wait for any time"
    if kind == _OVERLAY and not trusted:
        return "it is in an overlay of a user namespace, which may contain files of a FUSE file system"
    return ""


def _mount(file: int) -> bytes:
    """Id of a descriptor's mount, which no other mount has while the descriptor is open."""
    lines = (_PROC / "thread-self/fdinfo" / str(file)).read_bytes().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(b"mnt_id:"))


def _file_systems(mounts: Collection[bytes], of: str) -> dict[bytes, str]:
    """Types of the file systems of those of some mounts that a process has."""
    lines = _mounts(of) if mounts else ()
    return {
        words[0]: words[words.index(b"-", 6) + 1].decode("ascii", "replace") for words in lines if words[0] in mounts
    }


def _mounts(of: str) -> Iterator[list[bytes]]:
    """The words of each line of a process's `mountinfo`; none if it has ended."""
    with contextlib.suppress(OSError), (_PROC / of / "mountinfo").open("rb") as lines:
        yield from map(bytes.split, lines)


def _same_users(pid: int) -> bool:
    """Whether a process is in this user namespace; asked after its mounts were read, because it can only leave it."""
    try:
        return (_PROC / str(pid) / "uid_map").read_bytes() == (_PROC / "self/uid_map").read_bytes()
    except OSError:
        return False

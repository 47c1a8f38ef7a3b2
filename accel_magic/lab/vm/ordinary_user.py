"""An ordinary user in the lab's guest, who traces through a broker as on a machine of one's own."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache, own_python

if TYPE_CHECKING:
    from collections.abc import Sequence

SOCKET: Final = "/run/accel_magic/broker.sock"
AUDIT: Final = "/run/accel_magic/audit.log"
"""File in the guest with a line for each request."""
_CAPABILITIES: Final = "-all,+bpf,+perfmon,+dac_read_search"
_UNNAMED: Final = 1000
"""User in the guest if root runs the lab."""
_LOG: Final = "/run/accel_magic/broker.log"
_HOME: Final = "/run/accel_magic-user"


def ids() -> tuple[int, int]:
    """User and group in the guest: those of this process, to whom shared folders belong, unless it is root's."""
    return (os.getuid(), os.getgid()) if os.getuid() else (_UNNAMED, _UNNAMED)


def environment() -> dict[str, str]:
    """Variables of the user's commands: the host's name of a broker means nothing in the guest."""
    return {"HOME": _HOME, "ACCEL_MAGIC_BROKER": SOCKET}


def own(*files: Path | int) -> None:
    """Give files on the host (paths or descriptors) that the guest writes to its user."""
    if not os.getuid():
        for file in files:
            os.chown(file, *ids())


def preparation(folders: Sequence[Path]) -> list[str]:
    """Command for the guest's root: let the user reach what the lab needs, and start a broker.

    Permissions change in the guest only: its files are an overlay on the host's. Shared folders keep the host's.

    Args:
        folders: Folders that the user must reach, besides Python's, this package's and the cache.

    """
    user, group = ids()
    python = [Path(sys.executable), Path(os.path.realpath(sys.executable)), Path(sys.prefix), Path(sys.base_prefix)]
    requested = [*python, *filter(Path.is_absolute, map(Path, sys.path)), Path(cache.__file__), *folders]
    closed = sorted({parent for path in requested for parent in path.parents if not _open(parent)})
    kept = cache.root() / "lab"
    broker = own_python.command("accel_magic", "broker", "run", "--audit", AUDIT)
    lines = [
        *(f"chmod a+x {shlex.quote(str(folder))}" for folder in closed),
        *(f"chmod a+x {shlex.quote(str(folder))}" for folder in kept.parents if not _open(folder)),
        f"[ ! -d {kept} ] || find {kept} -type d -exec chmod a+rx {{}} +",
        "for one in /dev/accel/*; do [ ! -e $one ] || chmod 0666 $one; done",
        "echo 2 > /proc/sys/kernel/perf_event_paranoid",  # as the broker's installer does
        f"install -d -o {user} -g {group} {_HOME}",
        f"setpriv --bounding-set={_CAPABILITIES} --inh-caps={_CAPABILITIES} {shlex.join(broker)} 2>{_LOG} &",
        f"until [ -S {SOCKET} ]; do kill -0 $! 2>&- || {{ cat {_LOG} >&2; exit 1; }}; sleep 0.05; done",
    ]
    return ["sh", "-ec", "\n".join(lines)]


def _open(folder: Path) -> bool:
    """Whether other users may pass through a folder."""
    try:
        return bool(folder.stat().st_mode & 0o001)
    except OSError:
        return True

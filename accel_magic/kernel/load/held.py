"""Links that outlive their detaching, because another process holds them open as well.

A child that Python forks closes its copies (`Descriptors.close_in_child`), and exec closes them in every child. One
that a C library forks, and that goes on without exec, keeps them until it ends: the kernel has no call that detaches
links of these kinds, and none that closes another process's descriptors.
"""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import bpf as syscalls
from accel_magic.kernel import scope

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORTLY_S: Final = 0.2
"""A child that Python forks needs a moment to close its copies."""


def notes(link: int) -> tuple[str, ...]:
    """Say which processes keep a link after this process has closed it.

    Args:
        link: Its number in the kernel (`syscalls.link_id`).

    """
    end = time.monotonic() + _SHORTLY_S
    while _exists(link):
        if time.monotonic() > end:
            who = ", ".join(f"{pid} ({name})" for pid, name in _holders(link)) or "another process"
            why = "a library forked it without Python's knowledge, and it has copies of what holds them"
            return (f"the probes stay attached until {who} ends, though nothing that they count is read: {why}",)
        time.sleep(0.01)
    return ()


def _exists(link: int) -> bool:
    """Whether a link is there; False too where this process may not ask (without CAP_SYS_ADMIN)."""
    try:
        os.close(syscalls.link_by_id(link))
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.EPERM, errno.EACCES)
    return True


def _holders(link: int) -> Iterator[tuple[int, str]]:
    """Descendants of this process that have a descriptor of the link: their ids and names."""
    mark = re.compile(rf"^link_id:\s+{link}$", re.MULTILINE)
    for pid in sorted(scope.tree(os.getpid())):
        process = Path(f"/proc/{pid}")
        try:
            if any(mark.search(entry.read_text()) for entry in (process / "fdinfo").iterdir()):
                yield pid, (process / "comm").read_text().strip()
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else

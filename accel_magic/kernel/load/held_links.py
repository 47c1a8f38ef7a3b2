"""Detect links that stay attached because another process still holds their descriptors.

Children forked by Python close their copies (`Descriptors.close_in_child`), and exec closes them in every child. A
child that a C library forks, and that continues without exec, keeps them until it ends: the kernel has no call to
detach such links, or to close another process's descriptors.
"""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import bpf_syscalls, scope

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORTLY_S: Final = 0.2
"""A child that Python forks needs a moment to close its copies."""


def notes(link: int) -> tuple[str, ...]:
    """Report the processes that keep a link after this process closed it.

    Args:
        link: The kernel's id of the link (`syscalls.link_id`).

    """
    end = time.monotonic() + _SHORTLY_S
    while _exists(link):
        if time.monotonic() > end:
            who = ", ".join(f"{pid} ({name})" for pid, name in _holders(link)) or "another process"
            why = "a library forked it, and it has copies of the probes' file descriptors"
            return (f"the probes stay attached until {who} ends, but their counts are no longer read: {why}",)
        time.sleep(0.01)
    return ()


def _exists(link: int) -> bool:
    """Whether a link exists; also False if this process may not query it (without CAP_SYS_ADMIN)."""
    try:
        os.close(bpf_syscalls.link_by_id(link))
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.EPERM, errno.EACCES)
    return True


def _holders(link: int) -> Iterator[tuple[int, str]]:
    """Ids and names of descendants of this process that have a descriptor of the link."""
    mark = re.compile(rf"^link_id:\s+{link}$", re.MULTILINE)
    for pid in sorted(scope.tree(os.getpid())):
        process = Path(f"/proc/{pid}")
        try:
            if any(mark.search(entry.read_text()) for entry in (process / "fdinfo").iterdir()):
                yield pid, (process / "comm").read_text().strip()
        except OSError:
            continue  # it exited meanwhile, or belongs to another user

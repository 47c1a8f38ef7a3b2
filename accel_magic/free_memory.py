"""How much memory this process can still use before the kernel's OOM killer acts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEBIBYTE: Final = 1 << 20
_UNLIMITED: Final = 1 << 60


def available_bytes(root: Path = Path("/")) -> int:
    """Memory that is available on the machine, or less if a control group of this process has a lower limit.

    Args:
        root: Folder that contains `proc` and `sys`.

    Returns:
        Bytes; at least 1 MiB, and a very large number if nothing is known.

    """
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    machine = int(found[1]) << 10 if found else _UNLIMITED
    return max(min([machine, *_left_by_groups(root)]), _MEBIBYTE)


def _left_by_groups(root: Path) -> Iterator[int]:
    """Yield the memory left in each control group with a limit: this process's group and its ancestors."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield from _left(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _left(root / "sys/fs/cgroup/memory", path, *names)


def _left(mount: Path, path: str, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    group = mount / path.lstrip("/")
    for folder in (group, *group.parents):  # in a container, folders of the path may be missing
        most = _text(folder / limit).strip()
        if most.isdigit() and (now := _text(folder / used).strip()).isdigit():
            cached = re.search(rf"^{reclaimable} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            yield int(most) - int(now) + (int(cached[1]) if cached else 0)
        if folder == mount:
            return


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""

"""Logs of the labs that ran: a folder each, the newest kept."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from accel_magic import cache

KEPT = 20
_ENDED = "device.json"  # the emulated NPU writes it last
_ABANDONED_S = 86_400.0


def new_folder() -> Path:
    """Make the folder for a lab's logs, and remove the oldest of ended labs where there are more than `KEPT`.

    Raises:
        MachineError: There is no place for it.

    """
    base = cache.own("lab", "runs")
    old = sorted(path for path in base.iterdir() if path.is_dir() and _has_ended(path))
    for path in old[: max(0, len(old) - KEPT + 1)]:
        shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=base))


def _has_ended(folder: Path) -> bool:
    """Whether the lab of these logs has ended: it said so, or nothing was heard of it for a day."""
    try:
        return (folder / _ENDED).exists() or time.time() - folder.stat().st_mtime > _ABANDONED_S
    except FileNotFoundError:  # another process was faster
        return False

"""Log folders, one per lab; the newest are kept."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from accel_magic import cache

KEPT = 20
_ENDED = "device.json"  # written last, by the emulated NPU
_ABANDONED_S = 86_400.0


def new_folder() -> Path:
    """Create the folder for a lab's logs, and remove the oldest folders of ended labs if there are more than `KEPT`.

    Raises:
        MachineError: There is no usable cache folder.

    """
    base = cache.own("lab", "runs")
    old = sorted(path for path in base.iterdir() if path.is_dir() and _has_ended(path))
    for path in old[: max(0, len(old) - KEPT + 1)]:
        shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=base))


def _has_ended(folder: Path) -> bool:
    """Whether the lab of these logs has ended: it left its statistics, or the folder is unchanged for a day."""
    try:
        return (folder / _ENDED).exists() or time.time() - folder.stat().st_mtime > _ABANDONED_S
    except FileNotFoundError:  # removed by another process
        return False

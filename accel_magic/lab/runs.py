"""Logs of the labs that ran: a folder each, the newest kept."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from accel_magic.lab.image import cache

KEPT = 20


def new_folder() -> Path:
    """Make the folder for a lab's logs, and remove the oldest where there are more than `KEPT`."""
    base = cache() / "runs"
    base.mkdir(parents=True, exist_ok=True)
    old = sorted(path for path in base.iterdir() if path.is_dir())
    for path in old[: max(0, len(old) - KEPT + 1)]:
        shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=base))

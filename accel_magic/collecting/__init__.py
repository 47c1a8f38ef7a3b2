"""Memory that code in traced processes writes hits to, shared with the notebook's process and the reader."""

from __future__ import annotations

from pathlib import Path


def collector_folder() -> Path:
    """Folder of the C sources that libraries in traced processes share: `area.h`, `stacks.c`."""
    return Path(__file__).parent

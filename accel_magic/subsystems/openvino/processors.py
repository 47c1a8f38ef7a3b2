"""What the processors offer to a model: cores that one inference can use, and units for small numbers."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from pathlib import Path
from typing import Final

UNITS: Final = {
    "amx_bf16": "bf16",
    "avx512_bf16": "bf16",
    "amx_int8": "int8",
    "avx512_vnni": "int8",
    "avx_vnni": "int8",
}
"""Precisions that OpenVINO computes with instructions of their own, by the processor's flag."""
NO_UNITS: Final = "none"
_HYBRID: Final = "sys/devices/cpu_core/cpus"
"""List of the performance cores of a processor that also has others."""


def cores(root: Path = Path("/")) -> int:
    """Count the cores that OpenVINO uses for one inference at a time, unless it is told otherwise; 0 if unknown.

    Those of this process: each once, though it may run two threads; without the efficient ones of a processor that has
    both; of one socket. Not more than the CPU time that its control group has.

    Args:
        root: Folder that contains `sys`.

    """
    allowed = os.sched_getaffinity(0)
    with contextlib.suppress(OSError, ValueError):
        fast = _listed((root / _HYBRID).read_text())
        allowed = allowed & fast or allowed
    found = set()
    for processor in allowed:
        folder = root / f"sys/devices/system/cpu/cpu{processor}/topology"
        try:
            found.add(tuple(int((folder / name).read_text()) for name in ("physical_package_id", "core_id")))
        except (OSError, ValueError):
            return 0
    most = max(Counter(package for package, _ in found).values(), default=0)
    with contextlib.suppress(OSError, ValueError):  # `max 100000` without a limit
        quota, period = map(int, (root / "sys/fs/cgroup/cpu.max").read_text().split())
        most = min(most, math.ceil(quota / period))
    return most


def _listed(text: str) -> set[int]:
    """The numbers of a list such as `0-3,8`."""
    parts = [part.partition("-") for part in text.strip().split(",")]
    return {number for first, _, last in parts for number in range(int(first), int(last or first) + 1)}


def units(root: Path = Path("/")) -> str:
    """Name the flags of `UNITS` that the processor has, separated by spaces; `none` without any.

    Args:
        root: Folder that contains `proc`.

    """
    with contextlib.suppress(OSError), (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("flags"):
                return " ".join(sorted(UNITS.keys() & set(line.split()))) or NO_UNITS
    return NO_UNITS

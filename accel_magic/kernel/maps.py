"""Sizes and creation of the maps of one attachment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.kernel import syscalls

if TYPE_CHECKING:
    import numpy as np


def possible_cpus() -> int:
    """Count CPUs that this kernel may ever number (`0-3` -> 4)."""
    text = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii")
    return int(text.strip().rpartition("-")[2].rpartition(",")[2]) + 1


def online_cpus() -> frozenset[int]:
    """Numbers of the CPUs that are there now (`0-2,5` -> 0, 1, 2, 5)."""
    text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii")
    spans = [span.partition("-") for span in text.strip().split(",")]
    return frozenset(cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1))


def power_of_two(value: int) -> int:
    """Round up."""
    return 1 << max(value - 1, 0).bit_length()


def create_value(dtype: np.dtype[np.void], name: str) -> int:
    """Create an array map with one element of this dtype, which user space may map."""
    return syscalls.map_create(
        syscalls.MAP_ARRAY, key=4, value=dtype.itemsize, entries=1, flags=syscalls.F_MMAPABLE, name=name
    )

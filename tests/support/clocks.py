"""How far samples of a clock may be from the CPU time that a thread used, whatever else its machine does."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_OF_THE_MACHINE = slice(6, 9)
"""Columns irq, softirq and steal of /proc/stat, after the row's name."""


def machine_ns() -> float:
    """Processor time that interrupts and other machines on the same host have taken since the boot, ns."""
    first, *_ = Path("/proc/stat").read_text().splitlines()
    return sum(map(int, first.split()[_OF_THE_MACHINE])) * 1e9 / os.sysconf("SC_CLK_TCK")


def switches() -> int:
    """How often the calling thread has been taken off a processor, of its own accord or not."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw + usage.ru_nivcsw


def sampling_error_ns(hz: float, switches: int, machine_before_ns: float) -> float:
    """Bound of the difference between CPU time and samples of it.

    Args:
        hz: Samples per second.
        switches: How often the thread was taken off a processor. Each stretch on one has at most one sample more or
            less than its length accounts for.
        machine_before_ns: What `machine_ns` returned before the thread ran. Samples and the thread's clock may
            attribute such time differently.

    Returns:
        The bound, ns.

    """
    taken_ns = machine_ns() - machine_before_ns
    if taken_ns:
        taken_ns += 3e9 / os.sysconf("SC_CLK_TCK")  # each column counts whole ticks
    return (switches + 1) * 1e9 / hz + taken_ns

"""Maximum difference between samples of a clock and a thread's CPU time, on a machine with other load."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_OF_THE_MACHINE = slice(6, 9)
"""Columns irq, softirq and steal of /proc/stat, after the row's name."""


def machine_ns() -> float:
    """CPU time that interrupts and other virtual machines on the host have taken since boot, ns."""
    first, *_ = Path("/proc/stat").read_text().splitlines()
    return sum(map(int, first.split()[_OF_THE_MACHINE])) * 1e9 / os.sysconf("SC_CLK_TCK")


def switches() -> int:
    """Number of voluntary and involuntary context switches of the calling thread."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw + usage.ru_nivcsw


TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")
"""At least the time between two updates of the scheduler's sums."""


def sampling_error_ns(hz: float, switches: int, machine_before_ns: float) -> float:
    """Bound of the difference between CPU time and samples of it.

    Args:
        hz: Samples per second.
        switches: Number of the thread's context switches. Each run between two switches has at most one sample more or
            less than expected from its length.
        machine_before_ns: Result of `machine_ns` before the thread ran. Samples and the thread's clock may attribute
            such time differently.

    Returns:
        The bound, ns.

    """
    taken_ns = machine_ns() - machine_before_ns
    if taken_ns:
        taken_ns += 3e9 / os.sysconf("SC_CLK_TCK")  # each column counts whole ticks
    return (switches + 1) * 1e9 / hz + taken_ns

"""Where the maps of a trace lie in a device's memory: what compiled programs have built in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """Device addresses of everything that programs share with the host.

    Attributes:
        bases: Address of each map, in the order of the object's maps; what lies there is `maps.Layout`.
        threads: Threads of a grid that per-thread maps have room for; threads beyond get null, which is counted.
        losses: Address of one u64 for each map and one for the print ring: calls that failed for lack of room, exact.
        printk: Address of the print ring.
        pid_tgid: What `bpf_get_current_pid_tgid` answers: process id in the upper half, thread id in the lower.

    """

    bases: tuple[int, ...]
    threads: int
    losses: int
    printk: int
    pid_tgid: int = 0

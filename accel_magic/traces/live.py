"""What the reader reports while a trace runs: the value that a live display draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LiveLatency(NamedTuple):
    """Latency of one measured function so far: its `label`, and quantiles in ns (NaN before the first call ends)."""

    label: str
    p50_ns: float
    p99_ns: float


@dataclass(frozen=True)
class LiveSample:
    """The counters at one moment of a running trace.

    Attributes:
        time_ns: When the counters were read, ns since the start of the trace.
        hits: (points,) uint64, hits so far by ProbePoint.id.
        recorded: Events recorded so far.
        lost: Events lost so far, over all points.
        latency: One entry per measured function, in the plan's order.
        totals: (points,) uint64, what the points that add something up have come to.
        behind_s: How long after `time_ns` the sample reached the notebook's process, seconds.

    """

    time_ns: int
    hits: NDArray[np.uint64]
    recorded: int
    lost: int
    latency: tuple[LiveLatency, ...] = ()
    totals: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    behind_s: float = 0.0

"""Latency buckets shared by the kernel programs and their readers: log-linear, 16 per power of two.

Each value below 16 ns has its own bucket; above, a bucket spans 1/16 of its power of two, so a quantile read from a
bucket's middle has an error of at most 3.2 %. `bpf/kernel/latency.h` computes the same index.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUB_BITS = 4
SUB = 1 << SUB_BITS
MAX_EXPONENT = 42
COUNT = (MAX_EXPONENT - SUB_BITS + 2) * SUB  # 640: the last one also has all longer durations (2.4 hours)


def _lower_edges() -> NDArray[np.float64]:
    index = np.arange(COUNT + 1)
    exponent = np.maximum(index // SUB - 1, 0)
    linear = index < SUB
    return np.where(linear, index, (index % SUB + SUB) * 2.0**exponent)


EDGES = _lower_edges()
"""(COUNT + 1,) float64, ns: bucket i contains durations d with EDGES[i] <= d < EDGES[i + 1]."""


def index_of(durations_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bucket of each duration (int64 ns, any shape)."""
    return np.clip(np.searchsorted(EDGES, durations_ns, side="right") - 1, 0, COUNT - 1)


def quantile(counts: NDArray[np.uint64], q: float) -> float:
    """The `q` quantile (0..1) of the counted durations in ns; NaN if there are none.

    `counts` has shape (COUNT,). The result is the middle of the call's bucket: exact below 32 ns, within 3.2 % above.
    (Interpolating by rank within the bucket can be off by 6.2 % if its calls are all alike.) Calls too long for the
    last bucket are treated as being in it.
    """
    cumulative = np.cumsum(counts, dtype=np.uint64)
    total = int(cumulative[-1])
    if total == 0:
        return float("nan")
    rank = min(max(math.ceil(q * total), 1), total)
    bucket = int(np.searchsorted(cumulative, np.uint64(rank), side="left"))
    return float(EDGES[bucket] + EDGES[bucket + 1] - 1) / 2  # a bucket ends 1 ns before the next begins

"""How fast this machine reads its memory: what limits models whose weights are read for each token."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import numpy as np

BYTES: Final = 128 << 20
"""What is read; more than the caches of most processors."""
_FEWEST, _MOST = 4, 16
"""Rounds: on a busy machine some are slow, so there are more until several are about as fast as the best."""
_CLOSE: Final = 1.1
_MOST_THREADS: Final = 16


@cache
def read_bytes_per_s() -> float:
    """Read memory with all processors, and return the best of several rounds, bytes/s. Takes some 100 ms once."""
    threads = min(len(os.sched_getaffinity(0)), _MOST_THREADS)
    parts = np.array_split(np.ones(BYTES, np.uint8), threads)
    spent: list[float] = []
    with ThreadPoolExecutor(threads) as pool:
        while len(spent) < _FEWEST or (len(spent) < _MOST and sorted(spent)[_FEWEST - 2] > _CLOSE * min(spent)):
            began = time.perf_counter()
            list(pool.map(np.max, parts))
            spent.append(time.perf_counter() - began)
    return BYTES / min(spent)

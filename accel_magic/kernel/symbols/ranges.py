"""Find the address ranges that contain given addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def containing(
    starts: NDArray[np.uint64], ends: NDArray[np.uint64], addresses: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Index of the range that contains each address, (N,) int64; -1 if none does. The starts (R,) are ascending."""
    if not len(starts):
        return np.full(len(addresses), -1, np.int64)
    at = np.maximum(np.searchsorted(starts, addresses, side="right") - 1, 0)
    inside = (addresses >= starts[at]) & (addresses < ends[at])
    return np.where(inside, at, -1).astype(np.int64)

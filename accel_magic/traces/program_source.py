"""What the reader process drains for a user's own program: its ring buffers, and nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.traces.mixed_rings import MixedRing
from accel_magic.traces.sources import BUSY_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class ProgramSource:
    """The ring buffers of a user's program; past `most_bytes` they are left full, and its output fails."""

    def __init__(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self._descriptors = descriptors
        self._rings = [MixedRing(fd, size) for fd, size in zip(descriptors, message["ring_sizes"], strict=True)]
        self._room: int = message["most_bytes"]
        self.ring_count = len(self._rings)

    @property
    def full(self) -> bool:
        """Whether as many bytes of records are kept as may be."""
        return self._room <= 0

    def go(self, start_ns: int) -> None:
        """The program is at work already: it decides itself what it records."""

    def pause_s(self) -> float:
        """Nobody knows how fast the program fills its rings."""
        return BUSY_S

    def drain(self, ring: int, file: int) -> int:
        """Append a ring's complete records to a file, while there is room; returns how many."""
        if self.full:
            return 0
        before = os.fstat(file).st_size
        count = self._rings[ring].drain(file)
        self._room -= os.fstat(file).st_size - before
        return count

    def hits(self) -> NDArray[np.uint64]:
        """None: the program counts, or not, in its own maps."""
        return np.empty(0, np.uint64)

    def totals(self) -> NDArray[np.uint64]:
        """None: sums are the program's own."""
        return np.zeros(0, np.uint64)

    def lost(self) -> int:
        """Nobody knows: the kernel tells only the program when its output fails."""
        return 0

    def quantiles(self, shares: Sequence[float]) -> list[list[float]]:  # noqa: ARG002 - the protocol's
        """None: durations are the program's own."""
        return []

    def disable(self) -> None:
        """The program has no switch of ours."""

    def stop_recording(self) -> None:
        """The program has no switch of ours."""

    def finish(self) -> None:
        """The notebook's process has detached the program."""

    def waiting(self) -> bool:
        """Whether records are still to be drained."""
        return self._room > 0 and any(ring.waiting for ring in self._rings)

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in self._descriptors:
            os.close(fd)

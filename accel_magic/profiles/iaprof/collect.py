"""Puts an iaprof profile together from its records, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.profiles.iaprof.cut import by_appearance
from accel_magic.profiles.iaprof.model import (
    REASONS,
    IaprofProfile,
    Intervals,
    Kernel,
    Metrics,
    Runs,
    Stalls,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from accel_magic.profiles.iaprof.lines import KernelLine


class Collected:
    """Records so far. Texts have places, of which 0 is the empty text; what was used comes into the profile."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._places: dict[str, int] = {"": 0}
        self._intervals: list[tuple[int, int]] = []
        self._kernels: dict[KernelLine, int] = {}
        self._runs: list[tuple[int, int]] = []
        self._metrics: list[tuple[int, int, int]] = []
        self._stalls: list[Stalls] = []

    @property
    def last_interval(self) -> tuple[int, int] | None:
        """Number and end of the last interval."""
        return self._intervals[-1] if self._intervals else None

    def text(self, text: str) -> int:
        """Place of a text."""
        place = self._places.setdefault(text, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place

    def interval(self, number: int, end_ns: int) -> int:
        """Row of a new interval."""
        self._intervals.append((number, end_ns))
        return len(self._intervals) - 1

    def run(self, interval: int, kernel: KernelLine) -> int:
        """Row of a new run; the kernel's texts by their places."""
        self._runs.append((interval, self._kernels.setdefault(kernel, len(self._kernels))))
        return len(self._runs) - 1

    def metric(self, interval: int, name: int, value: int) -> None:
        """Add a metric."""
        self._metrics.append((interval, name, value))

    def stalls(
        self,
        run: NDArray[np.int32],
        offset: NDArray[np.uint64],
        instruction: NDArray[np.int32],
        counts: NDArray[np.int64],
    ) -> None:
        """Add `eustall` lines; `instruction` is a text's place."""
        self._stalls.append(Stalls(run, offset, instruction, counts))

    def profile(self, dropped: Mapping[str, int], notes: tuple[str, ...]) -> IaprofProfile:
        """Make the profile."""
        stalls = self._joined()
        instructions, numbers = by_appearance(stalls.instruction, len(self.texts))
        intervals = np.array(self._intervals, np.int64).reshape(-1, 2)
        runs = np.array(self._runs, np.int32).reshape(-1, 2)
        metrics = np.array(self._metrics, np.int64).reshape(-1, 3)
        text = self.texts.__getitem__
        return IaprofProfile(
            intervals=Intervals(intervals[:, 0].copy(), intervals[:, 1].copy()),
            kernels=tuple(
                Kernel(address, text(comm), pid, text(stack), text(file), text(symbol))
                for address, comm, pid, stack, file, symbol in self._kernels
            ),
            instructions=tuple(map(text, instructions)),
            runs=Runs(runs[:, 0].copy(), runs[:, 1].copy()),
            stalls=Stalls(stalls.run, stalls.offset, numbers, stalls.counts),
            metrics=Metrics(metrics[:, 0].astype(np.int32), metrics[:, 1].astype(np.uint8), metrics[:, 2].copy()),
            dropped=dropped,
            notes=notes,
        )

    def _joined(self) -> Stalls:
        none = Stalls(
            np.zeros(0, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(0, np.int32),
            np.zeros((0, len(REASONS)), np.int64),
        )
        parts, self._stalls = self._stalls or [none], []
        return Stalls(
            np.concatenate([part.run for part in parts]),
            np.concatenate([part.offset for part in parts]),
            np.concatenate([part.instruction for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

"""Counters of a device's functions over the last half second, for its own line of the live row."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from accel_magic.recording.live_samples import LiveSample

    Functions = tuple[str, ...]

_WINDOW_NS = 500_000_000
_HISTORY = 64


@dataclass(frozen=True)
class LiveNumber:
    """One number of the line: its label, its text, and a hint that says exactly what it counts."""

    label: str
    text: str
    hint: str


class LiveItems(Protocol):
    """A device's line of the live row. `label` names the device."""

    label: str

    def add(self, sample: LiveSample) -> None:
        """Add a sample."""

    def items(self, sample: LiveSample) -> tuple[LiveNumber, ...]:
        """The numbers to show after the newest sample."""


class Counters:
    """Hits of groups of functions.

    Args:
        ids: Points by the name of their function.
        groups: Functions that are counted together; groups of which none is traced are left out.

    """

    def __init__(self, ids: Mapping[str, int], groups: Iterable[Functions]) -> None:
        traced = {names: np.array([ids[name] for name in names if name in ids], np.intp) for names in groups}
        self._points: dict[Functions, NDArray[np.intp]] = {names: rows for names, rows in traced.items() if len(rows)}
        start = (0, dict.fromkeys(self._points, 0))
        self._samples: deque[tuple[int, dict[Functions, int]]] = deque([start], maxlen=_HISTORY)

    def __contains__(self, functions: Functions) -> bool:
        """Whether any of these functions is traced."""
        return functions in self._points

    def __len__(self) -> int:
        """Count the groups that are traced."""
        return len(self._points)

    def add(self, sample: LiveSample) -> None:
        """Add a sample."""
        counts = {functions: int(sample.hits[rows].sum()) for functions, rows in self._points.items()}
        self._samples.append((sample.time_ns, counts))

    def total(self, functions: Functions) -> int:
        """Hits since the start of the trace."""
        return self._samples[-1][1][functions]

    def rate(self, functions: Functions) -> float:
        """Hits/s over the last half second, or since the start if that is shorter."""
        now, counts = self._samples[-1]
        older = [sample for sample in self._samples if sample[0] < now]
        if not older:
            return 0.0
        then, before = next((sample for sample in reversed(older) if now - sample[0] >= _WINDOW_NS), older[0])
        return (counts[functions] - before[functions]) / (now - then) * 1e9

"""What this tool itself asks of the device during a trace: noted, so that it is not taken for the user's doing."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


class Stretches:
    """Stretches of time in which threads of this process work for the tool; only grows, from any thread."""

    def __init__(self) -> None:
        self._noted: list[tuple[int, int, int]] = []

    def during(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function and note its time."""
        start_ns = time.monotonic_ns()
        try:
            return function(*args, **kwargs)
        finally:
            self._noted.append((threading.get_native_id(), start_ns, time.monotonic_ns()))

    def hold(self, tid: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(rows,) whether a thread worked for the tool at that time, CLOCK_MONOTONIC."""
        inside = np.zeros(len(tid), np.bool_)
        noted = np.array(sorted(self._noted), np.int64).reshape(-1, 3)
        for thread in np.unique(noted[:, 0]):
            _, starts, ends = noted[noted[:, 0] == thread].T
            rows = np.flatnonzero(tid == thread)
            # A stretch may lie within another one.
            latest = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(ends))
            inside[rows] = time_ns[rows] <= latest[np.searchsorted(starts, time_ns[rows], side="right")]
        return inside

    def noting(self, worker: W) -> W:
        """Give something that acts as `worker` does; the time of each call of its methods is noted."""
        return cast("W", _Noting(worker, self))


@dataclass(frozen=True)
class _Noting:
    _worker: object
    _stretches: Stretches

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._worker, name)
        return partial(self._stretches.during, value) if callable(value) else value

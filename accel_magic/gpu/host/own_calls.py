"""Periods in which this tool itself uses the device during a trace; they are left out of the user's activity."""

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
    """Periods in which threads of this process work for the tool; append-only, and thread-safe."""

    def __init__(self) -> None:
        self._noted: list[tuple[int, int, int]] = []

    def during(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function and record its period."""
        start_ns = time.monotonic_ns()
        try:
            return function(*args, **kwargs)
        finally:
            self._noted.append((threading.get_native_id(), start_ns, time.monotonic_ns()))

    def hold(self, tid: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, shape (rows,), whether each thread worked for the tool at that time, CLOCK_MONOTONIC in ns."""
        inside = np.zeros(len(tid), np.bool_)
        noted = np.array(sorted(self._noted), np.int64).reshape(-1, 3)
        for thread in np.unique(noted[:, 0]):
            _, starts, ends = noted[noted[:, 0] == thread].T
            rows = np.flatnonzero(tid == thread)
            # Periods may be nested.
            latest = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(ends))
            inside[rows] = time_ns[rows] <= latest[np.searchsorted(starts, time_ns[rows], side="right")]
        return inside

    def noting(self, worker: W) -> W:
        """Wrap an object so that the period of each call of its methods is recorded."""
        return cast("W", _Noting(worker, self))


@dataclass(frozen=True)
class _Noting:
    _worker: object
    _stretches: Stretches

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._worker, name)
        return partial(self._stretches.during, value) if callable(value) else value

"""Calls from Python that wait for an inference, and the inferences that they made, maybe in other threads."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_names import task_name

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True)
class WaitingCalls:
    """The calls from Python that wait for an inference.

    Attributes:
        calls: One row per call; see `task_frames.OpenVinoTrace.python_calls`.
        of: (inferences,) the row of the call that made each inference; -1 for none.
        elsewhere: (inferences,) whether it ran in another thread than its call, as those of models with several streams
            do: then it may have waited for a stream before its own task began.

    """

    calls: pd.DataFrame
    of: NDArray[np.intp]
    elsewhere: NDArray[np.bool_]

    @classmethod
    def found(cls, calls: pd.DataFrame, inferences: pd.DataFrame, of: NDArray[np.intp]) -> WaitingCalls:
        """Find the call of each inference: around it in its thread, else the one of its model that ended next.

        Args:
            calls: The calls, with a new index.
            inferences: The inferences, with a new index: `pid`, `name`, `start_ns`, `end_ns`.
            of: (inferences,) the call around each in its thread; -1 for none.

        """
        of = of.copy()
        models = calls["name"].str.removeprefix(preset.CALL).str.strip()
        ran = inferences["name"].astype(str).map(task_name)
        free = np.setdiff1d(np.arange(len(calls)), of)
        elsewhere = np.zeros(len(of), bool)
        for (pid, model), own in calls.iloc[free].groupby([calls["pid"].iloc[free], models.iloc[free]], sort=False):
            those = np.flatnonzero((of < 0) & (inferences["pid"] == pid) & ((ran == model) | (model == "")))
            found = _containing(own, inferences.iloc[those])
            of[those] = np.where(found >= 0, own.index.to_numpy()[found], -1)
            elsewhere[those] = found >= 0
        return cls(calls, of, elsewhere)


def _containing(calls: pd.DataFrame, inferences: pd.DataFrame) -> NDArray[np.intp]:
    """Position of the call around each inference, each call once; -1 for none.

    Inferences in the order in which they began get, of the calls that had begun, the one that ended first after them:
    so as many as possible have one.
    """
    found = np.full(len(inferences), -1, np.intp)
    begins, ends = (calls[edge].tolist() for edge in ("start_ns", "end_ns"))
    started, ended = (inferences[edge].tolist() for edge in ("start_ns", "end_ns"))
    coming = deque(np.argsort(calls["start_ns"].to_numpy(), kind="stable").tolist())
    running: list[tuple[int, int]] = []  # ends and positions, in order
    for row in np.argsort(inferences["start_ns"].to_numpy(), kind="stable").tolist():
        while coming and begins[coming[0]] <= started[row]:
            place = coming.popleft()
            insort(running, (ends[place], place))
        del running[: bisect_left(running, (started[row], -1))]  # ended before
        chosen = bisect_left(running, (ended[row], -1))
        if chosen < len(running):
            found[row] = running.pop(chosen)[1]
    return found

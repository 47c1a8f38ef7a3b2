"""How long inferences waited before they ran: in their model's queue, or for one of its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_names import task_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

_MOST_BEFORE: Final = 256
"""Requests of a model that are looked for among those that were started before the trace."""


@dataclass(frozen=True)
class Queue:
    """What inferences waited for, a value per inference.

    Attributes:
        waited: Int64, ns; NA if it is not known: layers were not traced, or the calls of `start_async` cannot be told
            apart.
        before: Int64, ns: from the call to the beginning of the inference's own task; 0 for those that run in the
            thread of their call.
        called: Int64, ns: how long the call of `start_async` took from Python; NA for others.
        started: The row of that call in `trace.python_calls((preset.STARTED,))`; -1 for others.

    """

    waited: pd.Series[int]
    before: pd.Series[int]
    called: pd.Series[int]
    started: NDArray[np.intp]

    @classmethod
    def of(cls, trace: OpenVinoTrace) -> Queue:
        """Find the time that each inference waited, in the order of `trace.inferences`."""
        inferences = trace.inferences
        before, called, started = _since_started(trace, inferences)
        inside = (inferences["stream_ns"] - inferences["start_ns"]).astype("Int64").where(inferences["layers"] > 0)
        waited = inside.where(before.isna(), before + inside.fillna(0))
        calls = trace.waiting_calls
        chosen = np.flatnonzero(calls.elsewhere)
        if len(chosen):
            begun = calls.calls["start_ns"].to_numpy()[calls.of[chosen]]
            ran = inferences["start_ns"].to_numpy()[chosen]
            freed = inferences.groupby(["pid", "tid"], sort=False)["end_ns"].shift().to_numpy(np.float64)[chosen]
            before.iloc[chosen] = ran - begun
            waited.iloc[chosen] = np.clip(np.nan_to_num(np.minimum(freed, ran) - begun), 0, None).astype(np.int64)
        return cls(waited, before.fillna(0), called, started)


def waited_for_others(requests: pd.DataFrame) -> pd.Series[int]:
    """The part of `queue_ns` in which another inference had the stream, ns; NA if `queue_ns` is.

    The rest is on the way from `start_async` to the stream's thread: copies of inputs, and until that thread runs.

    Args:
        requests: All inferences: `t.openvino.requests`.

    """
    queued, start = requests["queue_ns"], requests["start_ns"]
    before = requests["latency_ns"] - requests["duration_ns"]
    freed = requests.groupby(["pid", "tid"], sort=False)["end_ns"].shift().fillna(0)
    busy = (np.minimum(freed, start) - (start - before)).clip(lower=0).astype("Int64")
    waited: pd.Series[int] = (queued - before).clip(lower=0) + busy.where(queued.notna())
    return waited


def _since_started(
    trace: OpenVinoTrace, inferences: pd.DataFrame
) -> tuple[pd.Series[int], pd.Series[int], NDArray[np.intp]]:
    """Time since `start_async` of each asynchronous inference, and how long that call took from Python; NA for others.

    The third value is the row of that call, -1 for others.

    A model's requests begin in the order in which they were started. The first inferences may have been started before
    the trace, and the last ones may not have begun at its end.
    """
    before, called = (pd.Series(pd.NA, inferences.index, dtype="Int64") for _ in range(2))
    started = np.full(len(inferences), -1, np.intp)
    elsewhere = inferences[trace.waiting_calls.of < 0]
    calls = trace.python_calls((preset.STARTED,))
    names = calls["name"].str.removeprefix(preset.STARTED).str.strip()
    models = elsewhere["name"].astype(str).map(task_name)
    for (pid, model), own in calls.groupby([calls["pid"], names], sort=False):
        those = elsewhere.index[(elsewhere["pid"] == pid) & (models == model)]
        begun, places = _paired(own["start_ns"].to_numpy(), inferences.loc[those, "start_ns"].to_numpy())
        before[those[places]] = inferences.loc[those[places], "start_ns"].to_numpy() - own["start_ns"].to_numpy()[begun]
        called[those[places]] = own["duration_ns"].to_numpy()[begun]
        started[those[places]] = own.index.to_numpy()[begun]
    if not len(calls):
        _add_probed(trace, elsewhere, before)
    return before, called, started


def _paired(requested: NDArray[np.int64], started: NDArray[np.int64]) -> tuple[slice, slice]:
    """Parts of both that belong to each other: as many as possible, else none."""
    least = max(len(started) - len(requested), 0)
    for skipped in range(least, min(least + _MOST_BEFORE, len(started))):
        number = min(len(requested), len(started) - skipped)
        if (started[skipped : skipped + number] >= requested[:number]).all():
            return slice(number), slice(skipped, skipped + number)
    return slice(0), slice(0)


def _add_probed(trace: OpenVinoTrace, elsewhere: pd.DataFrame, before: pd.Series[int]) -> None:
    """From the probe of `start_async`, which says nothing about the model: if those of one model can only be meant."""
    functions = trace.events["function"].astype(str)
    calls = trace.events[functions.str.contains(preset.START_ASYNC, regex=False)]
    for pid, own in calls.groupby("pid", sort=False):
        those = elsewhere[(elsewhere["pid"] == pid) & ~elsewhere["tid"].isin(own["tid"])]
        if len(those["name"].drop_duplicates()) == 1:
            begun, places = _paired(own["time_ns"].to_numpy(), those["start_ns"].to_numpy())
            chosen = those.index[places]
            before[chosen] = those.loc[chosen, "start_ns"].to_numpy() - own["time_ns"].to_numpy()[begun]

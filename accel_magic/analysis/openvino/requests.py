"""Inferences: how long each took, and how much of it was spent in layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.analysis.openvino.trace import INFERENCE, LAYER

if TYPE_CHECKING:
    from accel_magic.analysis.openvino.trace import OpenVinoTrace


def requests(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return one row per inference, in order of time.

    Columns: `model` (category), `device` (category), `pid`, `tid` (the thread that ran it), `start_ns`, `end_ns`,
    `duration_ns` (int64), `layers` (number of executed nodes), `layers_ns` (their time), `outside_ns` (the rest: copies
    of inputs and outputs, scheduling), `gap_ns` (Int64: since the previous inference on this thread ended; NA for the
    first).
    """
    found = trace.of_kind(INFERENCE)
    layers = trace.of_kind(LAYER)
    of = trace.within(found, layers)
    inside = of >= 0
    count = np.bincount(of[inside], minlength=len(found))
    taken = np.bincount(of[inside], layers["duration_ns"].to_numpy()[inside], minlength=len(found)).astype(np.int64)
    table = pd.DataFrame(
        {
            "model": pd.Categorical([model_of(name) for name in found["name"].astype(str)]),
            "device": found["device"].to_numpy(),
            "pid": found["pid"].to_numpy(),
            "tid": found["tid"].to_numpy(),
            "start_ns": found["start_ns"].to_numpy(),
            "end_ns": found["end_ns"].to_numpy(),
            "duration_ns": found["duration_ns"].to_numpy(),
            "layers": count,
            "layers_ns": taken,
        }
    )
    table["outside_ns"] = table["duration_ns"] - table["layers_ns"]
    before = table.groupby("tid", sort=False)["end_ns"].shift()
    table["gap_ns"] = (table["start_ns"] - before).astype("Int64")
    return table


def model_of(task: str) -> str:
    """Name of the model in an inference's task: `SyncInferenceCPU::infer::Model1` is of `Model1`."""
    return task.rpartition("::")[2]

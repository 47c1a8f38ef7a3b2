"""Models that were compiled, their constants, and oneDNN primitives that were created, maybe because shapes changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.task_frames import CREATED, INFERENCE

if TYPE_CHECKING:
    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace


_COMPILED: Final = "compile_model"


def compiling(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return a row for `compile_model` and each class of pipeline that was made, per primitive, per type of constant.

    Columns: `kind` (`model`, `primitive`, or `constant`: nodes that ran once for the model's constants, such as weights
    that need another layout), `count`, `total_ns`, `mean_ns`, `max_ns` (exact; those of constants are of recorded
    events), `during_inferences` (how many of those recorded were created while an inference ran on the same thread).
    Index `name`: of a constant, the type of the node that made it.
    """
    rows = [_models(trace), _primitives(trace), _constants(trace)]
    found = [table for table in rows if len(table)]
    return pd.concat(found) if found else rows[1]


def _models(trace: OpenVinoTrace) -> pd.DataFrame:
    calls = trace.compiled
    names = calls["name"].str.removeprefix(preset.LOADED).str.strip()
    taken = calls["duration_ns"].groupby(names.where(calls["name"].str.startswith(preset.LOADED), _COMPILED))
    table = pd.DataFrame(
        {
            "kind": pd.Series("model", taken.size().index, dtype="str"),
            "count": taken.size(),
            "total_ns": taken.sum().astype(np.float64),
            "mean_ns": taken.mean(),
            "max_ns": taken.max().astype(np.float64),
            "during_inferences": 0,
        }
    )
    return table.rename_axis("name").sort_values("total_ns", ascending=False)


def _primitives(trace: OpenVinoTrace) -> pd.DataFrame:
    totals = trace.totals[trace.totals["kind"] == CREATED].set_index("name")
    table = totals[["count", "total_ns", "mean_ns", "max_ns"]].copy()
    table.insert(0, "kind", pd.Series("primitive", table.index, dtype="str"))
    created = trace.of_kind(CREATED)
    inside = trace.within(trace.of_kind(INFERENCE), created) >= 0
    names = created["name"].astype(str).to_numpy()[inside]
    number = pd.Series(np.ones(len(names), np.int64)).groupby(names).sum()
    table["during_inferences"] = number.reindex(table.index, fill_value=0).astype(np.int64)
    return table.sort_values("total_ns", ascending=False)


def _constants(trace: OpenVinoTrace) -> pd.DataFrame:
    """Nodes that ran outside of inferences: while a model was compiled, in any thread, if that was traced, else any."""
    executions = trace.executions
    made = executions[(executions["inference"] < 0) & (executions["parent"] < 0)]
    if len(trace.compiled):
        begins, ends = (np.sort(trace.compiled[edge].to_numpy()) for edge in ("start_ns", "end_ns"))
        started = made["start_ns"].to_numpy()
        running = np.searchsorted(begins, started, side="right") > np.searchsorted(ends, started)
        made = made[running]
    duration = made.groupby(trace.types[made.index].astype(str))["duration_ns"]
    table = pd.DataFrame(
        {
            "kind": pd.Series("constant", duration.size().index, dtype="str"),
            "count": duration.size(),
            "total_ns": duration.sum().astype(np.float64),
            "mean_ns": duration.mean(),
            "max_ns": duration.max().astype(np.float64),
            "during_inferences": 0,
        }
    )
    return table.rename_axis("name").sort_values("total_ns", ascending=False)

"""Models that were compiled, and oneDNN primitives that were created for them, or again because shapes changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino.task_frames import CREATED, INFERENCE

if TYPE_CHECKING:
    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace


def compiling(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return a row for `compile_model` if its calls were traced, and one per kind of primitive; index `name`.

    Columns: `kind` (`model` or `primitive`), `count`, `total_ns`, `mean_ns`, `max_ns` (exact), `during_inferences` (how
    many of those recorded were created while an inference ran on the same thread).
    """
    totals = trace.totals[trace.totals["kind"] == CREATED].set_index("name")
    table = totals[["count", "total_ns", "mean_ns", "max_ns"]].copy()
    table.insert(0, "kind", pd.Series("primitive", table.index, dtype="str"))
    created = trace.of_kind(CREATED)
    inside = trace.within(trace.of_kind(INFERENCE), created) >= 0
    names = created["name"].astype(str).to_numpy()[inside]
    number = pd.Series(np.ones(len(names), np.int64)).groupby(names).sum()
    table["during_inferences"] = number.reindex(table.index, fill_value=0).astype(np.int64)
    table = table.sort_values("total_ns", ascending=False)
    taken = trace.compiled["duration_ns"]
    if not len(taken):
        return table
    whole = {"kind": "model", "count": len(taken), "total_ns": float(taken.sum())}
    whole |= {"mean_ns": float(taken.mean()), "max_ns": float(taken.max()), "during_inferences": 0}
    return pd.concat([pd.DataFrame([whole], index=pd.Index(["compile_model"], name="name")), table])

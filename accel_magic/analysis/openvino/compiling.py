"""oneDNN primitives that were created: when a model is compiled, and again if shapes change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.analysis.openvino.trace import CREATED, INFERENCE

if TYPE_CHECKING:
    from accel_magic.analysis.openvino.trace import OpenVinoTrace


def compiling(trace: OpenVinoTrace) -> pd.DataFrame:
    """Return one row per kind of primitive, most time first; index `name`.

    Columns: `count`, `total_ns`, `mean_ns`, `max_ns` (exact), `during_inferences` (how many of those recorded were
    created while an inference ran on the same thread).
    """
    totals = trace.totals[trace.totals["kind"] == CREATED].set_index("name")
    table = totals[["count", "total_ns", "mean_ns", "max_ns"]].copy()
    created = trace.of_kind(CREATED)
    inside = trace.within(trace.of_kind(INFERENCE), created) >= 0
    names = created["name"].astype(str).to_numpy()[inside]
    number = pd.Series(np.ones(len(names), np.int64)).groupby(names).sum()
    table["during_inferences"] = number.reindex(table.index, fill_value=0).astype(np.int64)
    return table.sort_values("total_ns", ascending=False)

"""How often each part of the driver was called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.probes.presets.npu_families import family_of

if TYPE_CHECKING:
    from accel_magic.analysis.npu.trace import NpuTrace

_NS_PER_S = 1e9


def families(trace: NpuTrace) -> pd.DataFrame:
    """Count the hits of each family of functions; exact, also where events were lost.

    Returns:
        Index `family`: those that any traced function belongs to, most hits first. `hits` (int64); `share` of all hits
        (float64, NaN where there are none); `rate` (float64, hits/s, NaN without times); `functions` that were hit
        (int64).

    """
    names = trace.counts.index.astype(str)
    family = pd.Index([family_of(name) for name in names], dtype="str", name="family")
    hits = pd.Series(trace.counts.to_numpy(np.int64), family)
    groups = hits.groupby(level=0)
    table = pd.DataFrame({"hits": groups.sum(), "functions": (hits > 0).groupby(level=0).sum().astype(np.int64)})
    total = int(table["hits"].sum())
    seconds = trace.duration_ns / _NS_PER_S if trace.timed else 0.0
    table.insert(1, "share", table["hits"] / total if total else np.nan)
    table.insert(2, "rate", table["hits"] / seconds if seconds else np.nan)
    return table.sort_values("hits", ascending=False, kind="stable")

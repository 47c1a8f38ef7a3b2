"""Hits of each part of the driver, and the layers of its functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.npu import functions
from accel_magic.subsystems.npu.functions import family_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace


_NS_PER_S = 1e9


def families(trace: DriverTrace) -> pd.DataFrame:
    """Count the hits of each family of functions; exact even if events were lost.

    Returns:
        Index `family`: those with any traced function, most hits first. `hits` (int64); `share` of all hits (float64,
        NaN if there are none); `rate` (float64, hits/s, NaN without times); `functions` that were hit (int64).

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


LAYERS: Final = ("task", "API", "ioctl", "driver", "IPC", "interrupt", "fence")
"""From the program's own ITT tasks (inferences, layers) and calls to the end of a job."""
TASK, API, IOCTL, DRIVER, IPC, INTERRUPT, FENCE = range(len(LAYERS))
LEFT_OUT: Final = -1

_OF_FAMILY: Final = {
    functions.API: API,
    functions.IPC: IPC,
    functions.JSM: IPC,
    functions.INTERRUPT: INTERRUPT,
    functions.FENCE: FENCE,
    functions.OTHER: LEFT_OUT,
}
_IOCTL: Final = re.compile(r"\w+_ioctl")
# Tracepoints call these to print themselves; they only show that something is being traced.
_BY_TRACING: Final = re.compile(r"ivpu_fence_get_\w+_name|ivpu_jsm_msg_type_to_str")
_TRACEPOINTS: Final = {"job": "vpu:job", "jsm": "vpu:jsm", "pm": "vpu:pm"}


def layer_of(name: str) -> int:
    """Index in `LAYERS` of a plain name; -1 for other drivers' functions, and those called by tracing."""
    if _BY_TRACING.fullmatch(name):
        return LEFT_OUT
    return IOCTL if _IOCTL.fullmatch(name) else _OF_FAMILY.get(functions.family_of(name), DRIVER)


def layer_codes(trace: DriverTrace) -> NDArray[np.int8]:
    """(names,) int8: layer of each function in the trace."""
    layers = (TASK if name in trace.tasks else layer_of(name) for name in trace.names)
    named = (LEFT_OUT if name in trace.naming else layer for name, layer in zip(trace.names, layers, strict=True))
    return np.array([*named], np.int8)


def shown_name(name: str) -> str:
    """Display name of a step: the driver's tracepoints with their category."""
    return _TRACEPOINTS.get(name, name)

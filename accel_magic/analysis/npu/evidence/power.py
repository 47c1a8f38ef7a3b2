"""Evidence about power: submissions that had to wait until the NPU was awake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.findings import Stretch
from accel_magic.analysis.npu.evidence.common import Evidence, numbers, places, times
from accel_magic.analysis.npu.rules import SUBMITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.npu.evidence.common import Analysed, Rows
    from accel_magic.analysis.npu.rules import Rule

RESUME = "ivpu_pm_runtime_resume_cb"


def boot_in_region(npu: Analysed, _: Rule) -> Evidence | None:
    """A submission had to wait until the driver had resumed; in a list of calls: a boot before the first submission."""
    if not npu.trace.timed:
        return _boot_in_list(npu)
    waited, resumes = _woken(npu)
    if not waited.any():
        return None
    values = {
        "jobs": int(waited.sum()),
        "boots": len(resumes),
        "boot_ns": float(np.nansum(npu.trace.column("duration_ns", resumes))),
        "submission_ns": float(numbers(npu.jobs["submit_ns"])[waited].max()),
    }
    return Evidence(values, places(npu.trace, resumes))


def wake_per_job(npu: Analysed, rule: Rule) -> Evidence | None:
    """A good part of the submissions had to wait until the driver had resumed."""
    waited, resumes = _woken(npu)
    woken, jobs = int(waited.sum()), len(waited)
    if len(resumes) < rule.limits["wakes"] or woken < rule.threshold * jobs:
        return None
    waking, latency = npu.trace.column("duration_ns", resumes), numbers(npu.jobs["latency_ns"])[waited]
    values = {
        "woken": woken,
        "jobs": jobs,
        "woken_share": woken / jobs,
        "wakes": len(resumes),
        "waking_ns": float(np.median(waking)),
        "latency_ns": float(np.nanmedian(latency)) if np.isfinite(latency).any() else np.nan,
    }
    return Evidence(values, places(npu.trace, resumes))


def _woken(npu: Analysed) -> tuple[NDArray[np.bool_], Rows]:
    """(jobs,) bool: those whose submission waited for the driver to resume; and the rows of these resumes."""
    trace = npu.trace
    submitted, lasted = numbers(npu.jobs["submitted_ns"]), numbers(npu.jobs["submit_ns"])
    resumes = trace.rows(RESUME)
    resumes = resumes[np.isfinite(trace.column("duration_ns", resumes))]
    # Resumes never overlap, so they end in the order in which they begin.
    end = times(trace, resumes) + trace.column("duration_ns", resumes)
    first = np.searchsorted(end, submitted, side="left")
    waited = np.isfinite(lasted) & (np.searchsorted(end, submitted + lasted, side="right") > first)
    return waited, resumes[np.unique(first[waited])]


def _boot_in_list(npu: Analysed) -> Evidence | None:
    boots, submits = npu.trace.rows("ivpu_boot"), npu.trace.rows(*SUBMITS)
    if not len(boots) or not len(submits) or boots[0] > submits[0]:
        return None
    values = {"jobs": int((submits > boots[0]).sum()), "boots": len(boots), "calls_before": int(boots[0])}
    return Evidence(values, (Stretch(0, 0, int(boots[0]), int(boots[0])),))

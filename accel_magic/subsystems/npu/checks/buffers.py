"""Evidence about buffers: mapped again, created for a single job, never freed, slow to create."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.findings import Evidence
from accel_magic.subsystems.npu.buffers import churn, leaks
from accel_magic.subsystems.npu.checks.common import durations, numbers, stall_ns
from accel_magic.subsystems.npu.jobs import DONE, OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from accel_magic.findings import Rule
    from accel_magic.subsystems.npu.checks.common import NpuData

CREATE, FREE, MAP = "ivpu_bo_create_ioctl", "ivpu_gem_bo_free", "ivpu_mmu_context_map_sgt"


def pages_remapped(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """More pages were mapped for a buffer than it has."""
    pages, size = numbers(npu.buffers["pages"]), numbers(npu.buffers["size_bytes"])
    own = np.ceil(size / npu.trace.pages)
    again = pages > own * rule.threshold
    if not again.any():
        return
    values = {
        "buffers": int(again.sum()),
        "pages": int(own[again].sum()),
        "mapped": int(pages[again].sum()),
        "mapped_ratio": float(pages[again].sum() / own[again].sum()),
        "mapping_ns": float(durations(npu.trace, MAP).sum()),
    }
    yield Evidence(values)


def buffers_churned(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Processes whose buffers served one job each, and where a job's buffers took longer than the job.

    Medians of creation, mapping and freeing are compared with the median job, because a single delayed call would
    outweigh a hundred others.
    """
    trace = npu.trace
    table = churn(trace, npu.buffers)
    once, jobs = (numbers(table[name]) for name in ("single_use", "jobs"))
    # At least one buffer per job; additional long-lived ones do not matter.
    busy = table[(jobs >= rule.limits["jobs"]) & (once >= jobs)]
    freeing = _median(durations(trace, FREE))
    values = [_churned(npu, pid, freeing) for pid in busy.index]
    costly = [value for value in values if value["cost_ns"] > rule.threshold * value["job_ns"]]
    if not costly:
        return
    worst = max(costly, key=lambda value: value["cost_ns"] / value["job_ns"])
    total = {name: sum(value[name] for value in costly) for name in ("single_use", "jobs")}
    yield Evidence({**total, "processes": len(costly), "cost_ns": worst["cost_ns"], "job_ns": worst["job_ns"]})


def _churned(npu: NpuData, pid: int, freeing_ns: float) -> dict[str, float]:
    """A process's single-use buffers and jobs, the time for a job's buffers, and for the job (NaN: unknown)."""
    buffers, jobs = _of(npu.buffers, pid), _of(npu.jobs, pid)
    once = buffers[((buffers["jobs"] == 1) & buffers["freed_ns"].notna()).fillna(value=False).to_numpy(bool)]
    each = _median(numbers(once["create_ns"])) + _median(numbers(once["bind_ns"])) + freeing_ns
    # Buffers are mapped during submission; that time belongs to them, so the job starts at the doorbell.
    begun = jobs["doorbell_ns"].fillna(jobs["submitted_ns"])
    taken = (jobs["done_ns"] - begun)[jobs["status"].isin((OK, DONE))]
    return {
        "single_use": len(once),
        "jobs": len(jobs),
        "cost_ns": each * len(once) / len(jobs) if len(jobs) else np.nan,
        "job_ns": _median(numbers(taken)),
    }


def _of(table: pd.DataFrame, pid: int) -> pd.DataFrame:
    return table[(table["pid"] == pid).fillna(value=False).to_numpy(bool)]


def _median(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


def buffers_leaked(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Buffers that outlived the closing of the device, or that accumulate with each job."""
    table, per_process = leaks(npu.trace, npu.buffers), churn(npu.trace, npu.buffers)
    if table.empty:
        return
    jobs = numbers(per_process["jobs"].reindex(table.index))
    outlived, *others = (np.nan_to_num(numbers(table[name])) for name in ("outlived", "kept", "left"))
    bytes_of = [np.nan_to_num(numbers(table[f"{name}_bytes"])) for name in ("outlived", "kept", "left")]
    per_job = [(count >= rule.limits["buffers"]) & (count >= rule.threshold * np.maximum(jobs, 1)) for count in others]
    chosen = [outlived > 0, *per_job]
    counts = [float(count[which].sum()) for count, which in zip((outlived, *others), chosen, strict=True)]
    if not any(counts):
        return
    lost = sum(float(size[which].sum()) for size, which in zip(bytes_of, chosen, strict=True))
    values = {
        "leaked": int(sum(counts)),
        "created": int(per_process["created"].sum()),
        "leaked_bytes": lost,
        "processes": int(np.any(chosen, axis=0).sum()),
    }
    yield Evidence(values)


def allocation_tail(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """The 99th percentile of allocations, compared with their median and with the longest delay of any call."""
    took = durations(npu.trace, CREATE)
    if len(took) < rule.limits["allocations"]:
        return
    p50, p99 = np.quantile(took, [0.5, 0.99])
    stall = stall_ns(npu.trace)
    if p99 < rule.threshold * p50 or p99 < rule.limits["stalls"] * stall:
        return
    values = {
        "allocations": len(took),
        "p50_ns": float(p50),
        "p99_ns": float(p99),
        "max_ns": float(took.max()),
        "p99_ratio": float(p99 / p50),
        "stall_ns": stall,
    }
    yield Evidence(values)

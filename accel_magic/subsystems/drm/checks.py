"""Checks of the rules (`rules.py`) on a trace of the DRM scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pandas as pd

from accel_magic.findings import Evidence, Stretch
from accel_magic.subsystems.drm.statistics import length, stretches, together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.findings import Rule
    from accel_magic.recording.recording import Recording

_ENOUGH: Final = 5
"""Jobs below which ratios say nothing."""
_FULL: Final = 3
"""Waiting jobs that make a ring full."""
_OVERLAP: Final = 0.1
"""Share of the busy time with two rings at work below which they take turns."""


class DrmData(Protocol):
    """What the rules read; `accel_magic.subsystems.drm.tables.DrmTables` implements it."""

    @property
    def trace(self) -> DriverTrace:
        """The events and counts."""

    @property
    def recording(self) -> Recording:
        """The whole recording."""

    @property
    def jobs(self) -> pd.DataFrame:
        """Describe every job in the trace, in order of first appearance."""

    @property
    def dependencies(self) -> pd.DataFrame:
        """Find what jobs depended on."""

    @property
    def timeouts(self) -> pd.DataFrame:
        """Find when the scheduler gave up on a job."""

    @property
    def waits(self) -> pd.DataFrame:
        """Describe every wait for a fence."""

    @property
    def steps(self) -> pd.DataFrame:
        """Count the steps of all jobs: exact, whatever was lost."""


def nothing_traced(drm: DrmData, _: Rule[DrmData]) -> Iterator[Evidence]:
    """No step of any job was counted."""
    if not (drm.steps["hits"].reindex(["queued", "started", "done"]).any()):
        yield Evidence({"jobs": 0})


def events_lost(drm: DrmData, _: Rule[DrmData]) -> Iterator[Evidence]:
    """Steps were counted that were not recorded."""
    lost, hits = int(drm.steps["lost"].sum()), int(drm.steps["hits"].sum())
    if lost:
        yield Evidence({"lost": lost, "hits": hits})


def jobs_timed_out(drm: DrmData, _: Rule[DrmData]) -> Iterator[Evidence]:
    """From the exact count: the events may be lost."""
    count = int(drm.steps["hits"]["timed out"])
    if count:
        known = drm.timeouts.dropna(subset=["time_ns"])
        ends = known["time_ns"] + known["duration_ns"].fillna(0).astype("int64")
        where = tuple(Stretch(int(start), int(end)) for start, end in zip(known["time_ns"], ends, strict=True))
        yield Evidence({"timeouts": count, "jobs": int((drm.jobs["timeouts"] > 0).sum())}, where)


def queue_wait(drm: DrmData, rule: Rule[DrmData]) -> Iterator[Evidence]:
    """Jobs waited longer in their queues than they ran, altogether."""
    known = drm.jobs[["queue_ns", "run_ns"]].dropna()
    waited, ran = int(known["queue_ns"].sum()), int(known["run_ns"].sum())
    ratio = waited / max(ran, 1)
    if len(known) < _ENOUGH or ratio <= rule.threshold:
        return
    yield Evidence({"ratio": ratio, "jobs": len(known), "queue_ns": waited, "run_ns": ran})


def ring_full(drm: DrmData, rule: Rule[DrmData]) -> Iterator[Evidence]:
    """The worst ring of all devices. A job that a dependency holds back does not make its ring full."""
    worst: dict[str, float | str] = {}
    for _, device in drm.jobs.groupby(drm.jobs["device"].astype("str").fillna("")):
        rings = list(device.groupby("ring", observed=True))
        span = device["done_ns"].max() - device["queued_ns"].min()
        for ring, own in rings if len(rings) > 1 and span is not pd.NA else ():
            full = stretches(own[own["blocked"] == 0], "queued_ns", "started_ns", _FULL)
            others = stretches(device[device["ring"] != ring], "queued_ns", "done_ns")
            alone = length(together([full, others])) - length(others)
            if alone / max(span, 1) > max(float(worst.get("full_share", 0)), rule.threshold):
                share = alone / max(span, 1)
                worst = {"ring": str(ring), "full_share": share, "full_ns": alone, "rings": len(rings)}
    if worst:
        yield Evidence(worst)


def dependencies_serialise(drm: DrmData, rule: Rule[DrmData]) -> Iterator[Evidence]:
    """Many jobs waited for jobs on other rings, and rings hardly ever worked at the same time."""
    jobs, held = drm.jobs, drm.dependencies
    held = held[held["blocked"] & held["job"].notna() & held["on"].notna()]
    ring = jobs["ring"].astype("str").to_numpy()
    waiting, on = (held[name].to_numpy(np.int64) for name in ("job", "on"))
    blocked = np.unique(waiting[ring[waiting] != ring[on]])
    share = len(blocked) / max(len(jobs), 1)
    if len(jobs) < _ENOUGH or share <= rule.threshold:
        return
    busy = [stretches(own, "started_ns", "done_ns") for _, own in jobs.groupby("ring", observed=True)]
    any_ring, two_rings = (length(together(busy, least)) for least in (1, 2))
    overlap = two_rings / max(any_ring, 1)
    if overlap < _OVERLAP:
        yield Evidence({"blocked_share": share, "blocked": len(blocked), "overlap_share": overlap})


def fence_waits(drm: DrmData, rule: Rule[DrmData]) -> Iterator[Evidence]:
    """The call, or else the ioctl, of one thread that waited longest."""
    waits = drm.waits.dropna(subset=["wait_ns"])
    names = waits["call"].astype("str").fillna(waits["ioctl"].astype("str")).fillna("a call that was not traced")
    totals = waits.groupby([names.rename("by"), "tid"])["wait_ns"].agg(["sum", "size", "max"])
    if not len(totals):
        return
    worst = totals.sort_values("sum").iloc[-1]
    share = float(worst["sum"]) / max(drm.recording.duration_ns, 1)
    if share <= rule.threshold:
        return
    name = totals.sort_values("sum").index[-1][0]
    yield Evidence(
        {
            "call": str(name),
            "wait_share": share,
            "waits": int(worst["size"]),
            "wait_ns": int(worst["sum"]),
            "max_ns": int(worst["max"]),
        }
    )

"""Checks the rules (`rules.py`) on a trace of the DRM scheduler: the evidence of each."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pandas as pd

from accel_magic.analysis.findings import Findings
from accel_magic.findings import SEVERITIES, Stretch
from accel_magic.subsystems.drm.rules import RULES
from accel_magic.subsystems.drm.statistics import length, stretches, together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.recording.recording import Recording

    Evidence = Mapping[str, float | str]

_ENOUGH: Final = 5
"""Jobs below which ratios say nothing."""
_FULL: Final = 3
"""Waiting jobs that make a ring full."""
_OVERLAP: Final = 0.1
"""Share of the busy time with two rings at work below which they take turns."""


class Analysed(Protocol):
    """What the rules read; `accel_magic.subsystems.drm.tables.DrmTables` implements it."""

    @property
    def trace(self) -> DriverTrace:
        """The events and counts."""

    @property
    def recording(self) -> Recording:
        """The whole recording."""

    @property
    def jobs(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.drm.jobs`."""

    @property
    def dependencies(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.drm.jobs.dependencies`."""

    @property
    def timeouts(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.drm.jobs.timeouts`."""

    @property
    def waits(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.drm.waits`."""

    @property
    def steps(self) -> pd.DataFrame:
        """See `accel_magic.subsystems.drm.statistics.steps`."""


def diagnose(drm: Analysed) -> Findings:
    """Check all rules; see `accel_magic.subsystems.npu.diagnosis.diagnose`."""
    lacking = {rule.id: " or ".join(rule.needs) for rule in RULES if rule.needs and not drm.trace.saw(*rule.needs)}
    checked = [rule for rule in RULES if rule.id not in lacking]
    found = [(rule, evidence) for rule in checked if (evidence := _CHECKS[rule.id](drm, rule.threshold)) is not None]
    found.sort(key=lambda one: SEVERITIES.index(one[0].severity))
    return Findings(
        items=tuple(
            rule.finding(
                {name: value for name, value in evidence.items() if not isinstance(value, str)},
                evidence,
                _where(drm, rule.id),
            )
            for rule, evidence in found
        ),
        checked=tuple(rule.id for rule in checked),
        unchecked=MappingProxyType(lacking),
        recording=drm.recording,
    )


def _where(drm: Analysed, rule: str) -> tuple[Stretch, ...]:
    """Places of a finding that is about single moments."""
    if rule != "jobs-timed-out":
        return ()
    known = drm.timeouts.dropna(subset=["time_ns"])
    ends = known["time_ns"] + known["duration_ns"].fillna(0).astype("int64")
    return tuple(Stretch(int(start), int(end)) for start, end in zip(known["time_ns"], ends, strict=True))


def _nothing_traced(drm: Analysed, _: float) -> Evidence | None:
    return None if drm.steps["hits"].reindex(["queued", "started", "done"]).any() else {"jobs": 0}


def _events_lost(drm: Analysed, _: float) -> Evidence | None:
    lost, hits = int(drm.steps["lost"].sum()), int(drm.steps["hits"].sum())
    return {"lost": lost, "hits": hits} if lost else None


def _jobs_timed_out(drm: Analysed, _: float) -> Evidence | None:
    """From the exact count: the events may be lost."""
    count = int(drm.steps["hits"]["timed out"])
    return {"timeouts": count, "jobs": int((drm.jobs["timeouts"] > 0).sum())} if count else None


def _queue_wait(drm: Analysed, limit: float) -> Evidence | None:
    known = drm.jobs[["queue_ns", "run_ns"]].dropna()
    waited, ran = int(known["queue_ns"].sum()), int(known["run_ns"].sum())
    ratio = waited / max(ran, 1)
    if len(known) < _ENOUGH or ratio <= limit:
        return None
    return {"ratio": ratio, "jobs": len(known), "queue_ns": waited, "run_ns": ran}


def _ring_full(drm: Analysed, limit: float) -> Evidence | None:
    """The worst ring of all devices. A job that a dependency holds back does not make its ring full."""
    worst: dict[str, float | str] = {}
    for _, device in drm.jobs.groupby(drm.jobs["device"].astype("str").fillna("")):
        rings = list(device.groupby("ring", observed=True))
        span = device["done_ns"].max() - device["queued_ns"].min()
        for ring, own in rings if len(rings) > 1 and span is not pd.NA else ():
            full = stretches(own[own["blocked"] == 0], "queued_ns", "started_ns", _FULL)
            others = stretches(device[device["ring"] != ring], "queued_ns", "done_ns")
            alone = length(together([full, others])) - length(others)
            if alone / max(span, 1) > max(float(worst.get("full_share", 0)), limit):
                share = alone / max(span, 1)
                worst = {"ring": str(ring), "full_share": share, "full_ns": alone, "rings": len(rings)}
    return worst or None


def _dependencies_serialise(drm: Analysed, limit: float) -> Evidence | None:
    jobs, held = drm.jobs, drm.dependencies
    held = held[held["blocked"] & held["job"].notna() & held["on"].notna()]
    ring = jobs["ring"].astype("str").to_numpy()
    waiting, on = (held[name].to_numpy(np.int64) for name in ("job", "on"))
    blocked = np.unique(waiting[ring[waiting] != ring[on]])
    share = len(blocked) / max(len(jobs), 1)
    if len(jobs) < _ENOUGH or share <= limit:
        return None
    busy = [stretches(own, "started_ns", "done_ns") for _, own in jobs.groupby("ring", observed=True)]
    any_ring, two_rings = (length(together(busy, least)) for least in (1, 2))
    overlap = two_rings / max(any_ring, 1)
    return {"blocked_share": share, "blocked": len(blocked), "overlap_share": overlap} if overlap < _OVERLAP else None


def _fence_waits(drm: Analysed, limit: float) -> Evidence | None:
    """The call, or else the ioctl, of one thread that waited longest."""
    waits = drm.waits.dropna(subset=["wait_ns"])
    names = waits["call"].astype("str").fillna(waits["ioctl"].astype("str")).fillna("a call that was not traced")
    totals = waits.groupby([names.rename("by"), "tid"])["wait_ns"].agg(["sum", "size", "max"])
    if not len(totals):
        return None
    worst = totals.sort_values("sum").iloc[-1]
    share = float(worst["sum"]) / max(drm.recording.duration_ns, 1)
    if share <= limit:
        return None
    name = totals.sort_values("sum").index[-1][0]
    return {
        "call": str(name),
        "wait_share": share,
        "waits": int(worst["size"]),
        "wait_ns": int(worst["sum"]),
        "max_ns": int(worst["max"]),
    }


_CHECKS: Final[Mapping[str, Callable[[Analysed, float], Evidence | None]]] = MappingProxyType(
    {
        "nothing-traced": _nothing_traced,
        "events-lost": _events_lost,
        "jobs-timed-out": _jobs_timed_out,
        "queue-wait": _queue_wait,
        "ring-full": _ring_full,
        "dependencies-serialise": _dependencies_serialise,
        "fence-waits": _fence_waits,
    }
)

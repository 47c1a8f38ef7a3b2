"""Statistics of the DRM scheduler's jobs by ring and by client, and exact counts of their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.drm.jobs import TIMED_OUT
from accel_magic.subsystems.drm.presets import drm
from accel_magic.subsystems.drm.waits import START

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Stretches = tuple[NDArray[np.int64], NDArray[np.int64]]
    """Starts and ends, ns."""

STEPS: Final = {
    "queued": drm.QUEUED,
    "started": drm.STARTED,
    "done": drm.DONE,
    "dependency": drm.DEPENDS,
    "blocked": drm.BLOCKED,
    "timed out": (drm.TIMEOUT,),
    "fence wait": (START,),
}
"""Functions and tracepoints of each step."""


def steps(trace: DriverTrace) -> pd.DataFrame:
    """Count the steps of all jobs: exact, whatever was lost.

    Returns:
        One row per step that was traced, indexed by `step`: `hits` int64, exact; `recorded` int64, those with an event,
        which the other tables are made of; `lost` int64, the others.

    """
    table = {name: names for name, names in STEPS.items() if trace.saw(*names)}
    hits = [int(trace.counts.reindex(names).sum()) for names in table.values()]
    recorded = [len(trace.rows(*names)) for names in table.values()]
    frame = pd.DataFrame({"hits": hits, "recorded": recorded}, pd.Index(table, name="step", dtype="str"), dtype="int64")
    return frame.assign(lost=frame["hits"] - frame["recorded"])


def rings(jobs: pd.DataFrame, duration_ns: int) -> pd.DataFrame:
    """Sum up the jobs of each ring, most jobs first; see `_sums`. Indexed by `device` and `ring`."""
    named = jobs.assign(device=jobs["device"].astype("str").fillna(""), ring=jobs["ring"].astype("str"))
    return _sums(named.dropna(subset=["ring"]), ["device", "ring"], duration_ns)


def clients(jobs: pd.DataFrame, duration_ns: int) -> pd.DataFrame:
    """Sum up the jobs of each client, most jobs first; see `_sums`. Indexed by `client`, with its last `comm`."""
    known = jobs.dropna(subset=["client"])
    table = _sums(known, ["client"], duration_ns)
    comm = known.assign(comm=known["comm"].astype("str")).groupby("client")["comm"].last()
    table.insert(0, "comm", comm.reindex(table.index))
    return table


def _sums(jobs: pd.DataFrame, keys: list[str], duration_ns: int) -> pd.DataFrame:
    """Sum up the jobs of each group, from recorded events.

    Returns:
        `jobs`, `done`, `timed_out` int64; `queue_p50_ns`, `queue_p99_ns`, `run_p50_ns`, `run_p99_ns` float64;
        `depth_max` Int64 longest queue; `run_ns` Int64 sum of the times on the device; `busy_share` float64, the part
        of the trace in which at least one of the jobs was on the device.

    """
    groups = jobs.groupby(keys, sort=False, observed=True)
    times = jobs.astype({"queue_ns": "Float64", "run_ns": "Float64"}).groupby(keys, sort=False, observed=True)
    busy = {key: length(stretches(own, "started_ns", "done_ns")) for key, own in groups}
    table = pd.DataFrame(
        {
            "jobs": groups.size(),
            "done": groups["done_ns"].count(),
            "timed_out": groups["status"].agg(lambda status: int((status == TIMED_OUT).sum())),
            **{
                f"{name}_{label}_ns": times[f"{name}_ns"].quantile(q).astype("float64")
                for name in ("queue", "run")
                for label, q in (("p50", 0.5), ("p99", 0.99))
            },
            "depth_max": groups["depth"].max(),
            "run_ns": groups["run_ns"].sum(),
        }
    )
    table["busy_share"] = np.array(list(busy.values()), np.float64) / max(duration_ns, 1)
    return table.sort_values("jobs", ascending=False, kind="stable")


def stretches(jobs: pd.DataFrame, start: str, end: str, least: int = 1) -> Stretches:
    """Find when at least `least` jobs were between two of their times; jobs without one of them are left out."""
    known = jobs[[start, end]].dropna()
    return together([(known[start].to_numpy(np.int64), known[end].to_numpy(np.int64))], least)


def together(parts: list[Stretches], least: int = 1) -> Stretches:
    """Find when at least `least` of all stretches of the parts overlap.

    Returns:
        Starts and ends, ns, in order, without overlaps.

    """
    begin, over = (np.concatenate([part[side] for part in parts] or [np.zeros(0, np.int64)]) for side in (0, 1))
    moments = np.concatenate([begin, over])
    change = np.repeat([1, -1], [len(begin), len(over)])
    order = np.lexsort((-change, moments))  # at one moment, begin before ending: neighbors join
    active = np.concatenate([[0], np.cumsum(change[order])]) >= least
    edges = np.flatnonzero(active[1:] != active[:-1])
    at = moments[order][edges]
    return at[::2], at[1::2]


def length(stretches_: Stretches) -> int:
    """Sum of the lengths, ns."""
    start, end = stretches_
    return int((end - start).sum())

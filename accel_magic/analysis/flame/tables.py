"""Tables of a flame recording: threads, waits by reason, measured calls. Sums are exact for what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.by_stack import where
from accel_magic.analysis.flame.merge import facts_of
from accel_magic.analysis.flame.rows import OUTSIDE
from accel_magic.analysis.flame.stacks import distinct, thread_names
from accel_magic.analysis.waits import summed
from accel_magic.kernel.stacks.interleave import interleave
from accel_magic.recording.profile import ThreadState

if TYPE_CHECKING:
    from accel_magic.analysis.flame.merge import Merged
    from accel_magic.analysis.flame.rows import Rows
    from accel_magic.recording.profile import Profile
    from accel_magic.recording.recording import Recording

SAMPLED: Final = ("tid", "samples", "cpu_ns", "off_cpu_ns", "wall_ns", "accelerator_ns")
THREADS: Final = ("tid", "name", "pid", *SAMPLED[1:])
SPANS: Final = ("probe", "function", "calls", "total_ns", "mean_ns", "max_ns", "cpu_ns", "off_cpu_ns")
_STATES: Final = {"cpu": "cpu_ns", "off-cpu": "off_cpu_ns", "accelerator": "accelerator_ns"}
_TEXTS: Final = ("probe", "function")


def sampled_threads(profile: Profile) -> pd.DataFrame:
    """One row per thread of a profile: see `SampledResult.threads`."""
    samples = profile.sample_table().dropna(subset=["tid"])
    by_state = samples.groupby(["tid", "state"], observed=True)["weight_ns"].sum().unstack("state")  # noqa: PD010
    sums = by_state.rename(columns=_STATES).reindex(columns=list(_STATES.values())).fillna(0).astype("int64")
    counts = samples[samples["state"] == "cpu"].groupby("tid").size().reindex(sums.index).fillna(0).astype("int64")
    sums = sums.assign(samples=counts, wall_ns=sums["cpu_ns"] + sums["off_cpu_ns"])
    sums = sums.rename_axis(columns=None).reset_index().astype({"tid": "int64"})
    sums = sums.sort_values(["cpu_ns", "off_cpu_ns"], ascending=False, kind="stable", ignore_index=True)
    return sums[list(SAMPLED)]


def threads(recording: Recording, found: Merged) -> pd.DataFrame:
    """One row per thread: see `FlameResult.threads`."""
    rows = found.rows
    table = sampled_threads(found.profile)
    pids = pd.Series(rows.pid, index=rows.tid)
    pids = pids[~pids.index.duplicated()]
    waited = pd.DataFrame({"tid": rows.tid, "reason": rows.reason, "ns": rows.weight})[
        rows.state == ThreadState.OFF_CPU
    ]
    by_reason = waited.groupby(["reason", "tid"])["ns"].sum()
    table = table.assign(
        name=table["tid"].map(thread_names(recording, dict(facts_of(recording).names))).fillna("").astype("str"),
        pid=table["tid"].map(pids).fillna(0).astype("int64"),
        **{
            f"{reason}_ns": table["tid"].map(by_reason.get(number, pd.Series(dtype="int64"))).fillna(0).astype("int64")
            for number, reason in enumerate(found.reasons)
        },
    )
    return table[[*THREADS, *(f"{reason}_ns" for reason in found.reasons)]]


def waits(recording: Recording, found: Merged) -> pd.DataFrame:
    """One row per reason and place: see `FlameResult.waits`."""
    rows = found.rows.take(found.rows.state == ThreadState.OFF_CPU)
    return summed(
        np.array([*found.reasons, ""], dtype=object)[rows.reason],
        np.array(_places(recording, rows), dtype=object),
        rows.event,
        rows.tid,
        rows.weight,
    )


def spans(recording: Recording, found: Merged) -> pd.DataFrame:
    """One row per measured function: see `FlameResult.spans`."""
    inside = _inside(found, len(recording.plan.points))
    measured = []
    for row, point in enumerate(recording.plan.latency_points):
        if point.kind == "offcpu":
            continue
        calls = int(recording.histograms.counts[row].sum())
        total = int(recording.histograms.total_ns[row])
        measured.append(
            {
                "probe": point.probe,
                "function": point.function,
                "calls": calls,
                "total_ns": total,
                "mean_ns": total / calls if calls else np.nan,
                "max_ns": int(recording.histograms.max_ns[row]),
                "cpu_ns": int(inside[ThreadState.CPU, point.id]),
                "off_cpu_ns": int(inside[ThreadState.OFF_CPU, point.id]),
            }
        )
    table = pd.DataFrame(measured, columns=list(SPANS)).astype({name: _dtype(name) for name in SPANS})
    return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _inside(found: Merged, points: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(2, points) int64: time on a processor and waiting, ns, inside calls of each point."""
    paths, rows = found.spans.nesting.paths, found.rows
    by_path = np.zeros((2, len(paths)), np.int64)
    np.add.at(by_path, (rows.state, rows.path), rows.weight)
    inside = np.zeros((2, points), np.int64)
    for number, path in enumerate(paths):
        if number != OUTSIDE:
            inside[:, list({found.spans.kinds[kind].point for kind in path})] += by_path[:, [number]]
    return inside


def _dtype(name: str) -> str:
    if name in _TEXTS:
        return "str"
    return "float64" if name == "mean_ns" else "int64"


def _places(recording: Recording, rows: Rows) -> list[str]:
    """Place of each row: the innermost line of the user's own code, else the innermost frame; '' without a stack."""
    first, number = distinct(list(rows.stacks.T))
    labels = []
    for key in rows.stacks[first].tolist():
        kernel, user, python = (
            recording.stacks.of(row) if recording.stacks is not None and row >= 0 else () for row in key
        )
        frames = interleave((), user, python) or kernel
        labels.append(where(frames) if frames else "")
    return [labels[each] for each in number.tolist()]

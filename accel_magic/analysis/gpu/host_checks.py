"""What each rule looks for among the driver's calls. Calls that failed are no evidence."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pandas as pd

    from accel_magic.analysis.gpu.frames import GpuFrames
    from accel_magic.analysis.gpu.rules import Rule

Told = dict[str, str | float]

FEWEST_CALLS: Final = 5
AS_SHORT_AS: Final = 2.0
"""A copy is small when it takes no more than so many times a launch, which carries nothing but its arguments."""


def launches_awaited(api: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Launches after which the same thread waits for the device before it launches again."""
    calls = _good(api)
    calls = calls[calls["kind"].isin(("launch", "sync"))].sort_values(["pid", "tid", "time_ns"], kind="stable")
    is_launch = (calls["kind"] == "launch").to_numpy()
    if not is_launch.any():
        return
    # Stretches from one launch to the next; a last launch of a thread has none, so what follows it does not matter.
    stretch = np.cumsum(is_launch)
    thread = calls["pid"].to_numpy(np.int64) << 32 | calls["tid"].to_numpy(np.int64)
    launches = np.flatnonzero(is_launch)
    followed = launches[:-1][thread[launches[:-1]] == thread[launches[1:]]]
    awaited = np.isin(stretch[followed], stretch[~is_launch])
    share = float(awaited.mean()) if len(followed) else 0.0
    if len(followed) >= FEWEST_CALLS and share >= rule.threshold:
        waits = calls[~is_launch]["duration_ns"]
        yield {"share": share, "launches": len(followed), "waits": int(awaited.sum()), "waiting_ns": float(waits.sum())}


def copies_small(api: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Copies as short as launches that together take most of the time in calls, waiting apart."""
    calls = _good(api)
    calls = calls[calls["kind"] != "sync"]
    copies, total = calls[calls["kind"] == "copy"], float(calls["duration_ns"].sum())
    usual = _usual_launch(calls)
    small = copies[copies["duration_ns"] <= AS_SHORT_AS * usual]
    taken = float(small["duration_ns"].sum())
    if len(small) >= FEWEST_CALLS and taken >= rule.threshold * total:
        yield {
            "share": taken / total,
            "copies": len(small),
            "launches": int((calls["kind"] == "launch").sum()),
            "mean_bytes": float(small["bytes"].fillna(0).mean()),
            "launch_ns": usual,
        }


def copies_staged(api: pd.DataFrame, rule: Rule, result: GpuFrames) -> Iterator[Told]:  # noqa: ARG001
    """Copies that should only be queued, and hold their caller much longer than launches, which are queued too."""
    calls = _good(api)
    queued = calls[(calls["kind"] == "copy") & ~calls["waits"].fillna(value=True) & (calls["direction"] != "DtoD")]
    usual = _usual_launch(calls)
    if len(queued) >= FEWEST_CALLS and usual > 0:
        ratio = float(queued["duration_ns"].median()) / usual
        if ratio >= rule.threshold:
            yield {
                "ratio": ratio,
                "copies": len(queued),
                "copy_ns": float(queued["duration_ns"].median()),
                "launch_ns": usual,
                "mean_bytes": float(queued["bytes"].fillna(0).mean()),
            }


def _good(api: pd.DataFrame) -> pd.DataFrame:
    return api[api["result"] == "CUDA_SUCCESS"]


def _usual_launch(calls: pd.DataFrame) -> float:
    """Median time of a launch's call, ns: what the driver takes to queue something; 0 where there are too few."""
    launches = calls[calls["kind"] == "launch"]["duration_ns"]
    return float(launches.median()) if len(launches) >= FEWEST_CALLS else 0.0


HOST_CHECKS: Final[Mapping[str, Callable[[pd.DataFrame, Rule, GpuFrames], Iterator[Told]]]] = MappingProxyType(
    {"launches-awaited": launches_awaited, "copies-small": copies_small, "copies-staged": copies_staged}
)
"""What looks for each rule's evidence in `GpuResult.api`, by the rule's name."""

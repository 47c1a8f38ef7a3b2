"""Problems in the host's calls of the GPU driver. Failed calls are not used as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.findings import Evidence, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from accel_magic.gpu_tools.tool import ToolData

FEWEST_CALLS: Final = 5
AS_SHORT_AS: Final = 2.0
"""A copy is small if it takes at most this many times as long as a launch, which only carries its arguments."""


def _launches_awaited(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Launches followed by a wait for the device before the same thread launches again."""
    calls = _good(data.table)
    calls = calls[calls["kind"].isin(("launch", "sync"))].sort_values(["pid", "tid", "time_ns"], kind="stable")
    is_launch = (calls["kind"] == "launch").to_numpy()
    if not is_launch.any():
        return
    # Intervals from one launch to the next; a thread's last launch has none, so what follows it does not matter.
    stretch = np.cumsum(is_launch)
    thread = calls["pid"].to_numpy(np.int64) << 32 | calls["tid"].to_numpy(np.int64)
    launches = np.flatnonzero(is_launch)
    followed = launches[:-1][thread[launches[:-1]] == thread[launches[1:]]]
    awaited = np.isin(stretch[followed], stretch[~is_launch])
    share = float(awaited.mean()) if len(followed) else 0.0
    if len(followed) >= FEWEST_CALLS and share >= rule.threshold:
        waits = calls[~is_launch]["duration_ns"]
        yield Evidence(
            {"share": share, "launches": len(followed), "waits": int(awaited.sum()), "waiting_ns": float(waits.sum())}
        )


def _copies_small(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Copies as short as launches that together take most of the time in calls other than waits."""
    calls = _good(data.table)
    calls = calls[calls["kind"] != "sync"]
    copies, total = calls[calls["kind"] == "copy"], float(calls["duration_ns"].sum())
    usual = _usual_launch(calls)
    small = copies[copies["duration_ns"] <= AS_SHORT_AS * usual]
    taken = float(small["duration_ns"].sum())
    if len(small) >= FEWEST_CALLS and taken >= rule.threshold * total:
        yield Evidence(
            {
                "share": taken / total,
                "copies": len(small),
                "launches": int((calls["kind"] == "launch").sum()),
                "mean_bytes": float(small["bytes"].fillna(0).mean()),
                "launch_ns": usual,
            }
        )


def _copies_staged(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Copies that should only be queued, but block the caller much longer than launches, which are queued too."""
    calls = _good(data.table)
    queued = calls[(calls["kind"] == "copy") & ~calls["waits"].fillna(value=True) & (calls["direction"] != "DtoD")]
    usual = _usual_launch(calls)
    if len(queued) >= FEWEST_CALLS and usual > 0:
        ratio = float(queued["duration_ns"].median()) / usual
        if ratio >= rule.threshold:
            yield Evidence(
                {
                    "ratio": ratio,
                    "copies": len(queued),
                    "copy_ns": float(queued["duration_ns"].median()),
                    "launch_ns": usual,
                    "mean_bytes": float(queued["bytes"].fillna(0).mean()),
                }
            )


def _good(api: pd.DataFrame) -> pd.DataFrame:
    return api[api["result"] == "CUDA_SUCCESS"]


def _usual_launch(calls: pd.DataFrame) -> float:
    """Median duration of a launch call, ns: the time to queue something; 0 if there are too few."""
    launches = calls[calls["kind"] == "launch"]["duration_ns"]
    return float(launches.median()) if len(launches) >= FEWEST_CALLS else 0.0


API_RULES: Final = (
    Rule(
        "gpu.launches-awaited",
        "warning",
        "{share:share} of the launches are waited for before the next one",
        "The device is idle from the end of a kernel until the next launch has reached it.",
        "Launch without waiting, and synchronize only when the host needs a result: a stream keeps its own order.",
        threshold=0.5,
        unit="of the launches followed by another from the same thread, at least 5",
        source="at half, the device is idle after every second kernel",
        check=_launches_awaited,
    ),
    Rule(
        "gpu.copies-small",
        "warning",
        "{copies:,.0f} small copies take {share:share} of the time in host calls",
        "Each takes about as long as a launch, which carries no data: the cost is the call, not the bytes.",
        "Combine small copies into a larger one, or keep the data on the device between kernels.",
        threshold=0.5,
        unit="of the time in calls that do not wait, in copies no longer than 2 median launches, at least 5",
        source="above half, nothing else can matter as much",
        check=_copies_small,
    ),
    Rule(
        "gpu.copies-staged",
        "warning",
        "copies that should only be queued block the host {ratio:.1f} times as long as launches",
        "For pageable memory the driver copies through its own buffer, and the call returns only after that.",
        "Use page-locked memory (cuMemHostAlloc, pin_memory() in PyTorch), or fewer and larger copies.",
        threshold=4.0,
        unit="times a launch call, medians over at least 5 of each",
        source="both should only be queued: a call that takes several times as long does more",
        check=_copies_staged,
    ),
)
"""Rules for `GpuResult.api`."""

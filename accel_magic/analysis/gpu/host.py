"""The host's side: driver calls summed up, and kernels and blocks on the host's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.gpu_tools.common import launch_of, with_names
from accel_magic.recording.gpu_data import LAUNCHES

if TYPE_CHECKING:
    from accel_magic.analysis.gpu.frames import ToolFrames

_SUCCESS: Final = "CUDA_SUCCESS"
_NOT_READY: Final = "CUDA_ERROR_NOT_READY"
"""Result of a query about unfinished work: an answer, not a failure."""
SPANS: Final = {"launch": "int64", "name": "str", "start_ns": "int64", "end_ns": "Int64"}
"""Columns of `kernel_spans`, times since the start of the trace; the end is NA if only the start is known."""


EVENTS: Final = {
    "time_ns": "int64",
    "duration_ns": "int64",
    "pid": "int32",
    "tid": "Int64",
    "kind": "str",
    "name": "str",
    "kernel": "str",
    "bytes": "Int64",
    "launch": "Int64",
    "device_ns": "Int64",
}
"""Columns of `events`."""


def events(gpu: ToolFrames) -> pd.DataFrame:
    """The driver's calls, and launches without a recorded call, in order of time; columns EVENTS."""
    calls = gpu.api[[name for name in EVENTS if name != "device_ns"]]
    unseen = unseen_launches(gpu)
    launches = pd.DataFrame(
        {
            "time_ns": unseen["time_ns"],
            "duration_ns": unseen["host_ns"],
            "pid": unseen["pid"],
            "tid": pd.NA,
            "kind": "launch",
            "name": unseen["framework"],
            "kernel": unseen["name"],
            "bytes": pd.NA,
            "launch": unseen.index,
        }
    )
    parts: list[pd.DataFrame] = [part for part in (calls, launches) if len(part)] or [calls]
    kinds = {name: kind for name, kind in EVENTS.items() if name != "device_ns"}
    table = pd.concat([part.astype(kinds) for part in parts], ignore_index=True)
    table["device_ns"] = table["launch"].map(gpu.launches["device_ns"]).astype("Int64")
    return table[list(EVENTS)].sort_values("time_ns", kind="stable", ignore_index=True)


def summary(api: pd.DataFrame) -> pd.DataFrame:
    """Sum up calls, the costliest first: `name`, `calls`, `total_ns`, `mean_ns`, `longest_ns`, `bytes`, `failed`.

    `bytes` is the total of copies, fills and allocations, 0 for other calls.
    """
    failed = ~api["result"].isin((_SUCCESS, _NOT_READY))
    groups = api.assign(failed=failed, bytes=api["bytes"].fillna(0).astype("int64")).groupby("name", sort=False)
    table = groups.agg(
        calls=("duration_ns", "size"),
        total_ns=("duration_ns", "sum"),
        mean_ns=("duration_ns", "mean"),
        longest_ns=("duration_ns", "max"),
        bytes=("bytes", "sum"),
        failed=("failed", "sum"),
    )
    table["mean_ns"] = table["mean_ns"].round().astype("int64")
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index()


def block_spans(result: ToolFrames) -> pd.DataFrame:
    """One row per block recorded by `blocktime`: SPANS, `block`, `sm`; times on the host's clock."""
    if "blocktime" not in result.recording.sources:
        return _empty({**SPANS, "block": "int64", "sm": "int64"})
    return pd.concat([_spans_of(part) for part in result.by_process.values()], ignore_index=True)


def _spans_of(result: ToolFrames) -> pd.DataFrame:
    recording = result.recording
    spans = result.maps_of("blocktime")["spans"]
    table = with_names(spans.drop(columns=["launch"]), result)
    return table.assign(
        launch=launch_of(result, spans["launch"]),
        start_ns=recording.clock.to_host(spans["start"].to_numpy(np.int64)) - recording.start_ns,
        end_ns=recording.clock.to_host(spans["end"].to_numpy(np.int64)) - recording.start_ns,
    )


def kernel_spans(result: ToolFrames) -> pd.DataFrame:
    """When each kernel ran, columns SPANS: from its blocks, else its first instruction, else the device's own model.

    On a real GPU, a kernel with neither has no row: only its call is known.
    """
    for known in (_of_blocks, _of_firsts, _of_model):
        spans = known(result)
        if len(spans):
            return spans[list(SPANS)].astype(SPANS).sort_values("start_ns", kind="stable", ignore_index=True)
    return _empty(SPANS)


def _empty(columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})


def _of_blocks(result: ToolFrames) -> pd.DataFrame:
    groups = block_spans(result).groupby("launch")
    return groups.agg(name=("name", "first"), start_ns=("start_ns", "min"), end_ns=("end_ns", "max")).reset_index()


def _of_firsts(result: ToolFrames) -> pd.DataFrame:
    if "launchlate" not in result.tools:
        return pd.DataFrame()
    table = result.tools["launchlate"]
    start = table["time_ns"] + table["late_ns"]
    return table.assign(start_ns=start, end_ns=start + table["device_ns"])


def _of_model(result: ToolFrames) -> pd.DataFrame:
    """On the simulated device a kernel starts when it was launched, or when the previous one has ended."""
    if "simulated" not in result.recording.machine:
        return pd.DataFrame()
    table = result.launches.dropna(subset=["device_ns"]).sort_values("time_ns", kind="stable")
    length = table["device_ns"].to_numpy(np.int64)
    # Minus the durations of all earlier kernels, each start is the maximum of its own time and all earlier ones.
    before = np.cumsum(length) - length
    start = np.maximum.accumulate(table["time_ns"].to_numpy(np.int64) - before) + before
    return table.assign(launch=table.index, start_ns=start, end_ns=start + length)


def unseen_launches(result: ToolFrames) -> pd.DataFrame:
    """Launches recorded by adapters without a driver call, columns LAUNCHES; all launches if no calls were recorded."""
    seen = result.launches.index.isin(result.api["launch"].dropna().astype("int64"))
    return result.launches.loc[~seen, list(LAUNCHES)]

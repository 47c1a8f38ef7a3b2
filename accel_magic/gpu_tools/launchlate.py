"""launchlate: time from the host's launch to the first instruction of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import launch_of, ordered
from accel_magic.gpu_tools.figure import MOST_MARKS, Spans, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from accel_magic.gpu_tools.tool import Run, ToolData

_FEWEST_LAUNCHES = 5


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per launch whose start was seen: `launch`, `kernel`, `name`, `time_ns`, `late_ns`, `device_ns`.

    `time_ns` is the host's call (since the start of the trace), `late_ns` the time from the call to the first
    instruction, exact to `GpuRecording.clock.error_ns`, `device_ns` the kernel's duration (NA if the device does not
    report it).
    """
    firsts = maps["launches"].query("claimed > 0")
    launch = launch_of(run, firsts["claimed"] - 1)
    firsts = firsts[(launch >= 0).to_numpy()]
    calls = run.launches.loc[launch[launch >= 0].to_numpy()].reset_index(drop=True)
    began = run.clock.to_host(firsts["time"].to_numpy(np.int64)) - run.start_ns
    table = calls[["kernel", "name", "time_ns", "device_ns"]].assign(
        launch=launch[launch >= 0].to_numpy(), late_ns=began - calls["time_ns"].to_numpy()
    )
    return ordered(table, "launch").sort_values("launch", ignore_index=True)


def _dominate(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Whether launching takes longer than the kernels run, by more than the error of the clock."""
    known = data.table.dropna(subset=["device_ns"])
    working = float(known["device_ns"].sum())
    if len(known) >= _FEWEST_LAUNCHES and working > 0:
        late = float((known["late_ns"] - data.run.clock.error_ns).clip(lower=0).sum())
        if late >= rule.threshold * working:
            yield Evidence({"ratio": late / working, "launches": len(known), "late_ns": late, "working_ns": working})


def _figure(table: pd.DataFrame) -> Spans:
    """Each launch: the time until its first instruction, then the time that its kernel runs."""
    rows = table.head(MOST_MARKS // 2)
    late = rows["late_ns"].clip(lower=0).to_numpy(np.float64)
    working = rows["device_ns"].fillna(0).to_numpy(np.float64)
    launch = np.tile(rows["launch"].to_numpy(), 2)
    parts = np.repeat(["latency", "kernel"], len(rows)).tolist()
    return Spans(
        "Launch latency, then the kernel",
        "launch",
        left=np.concatenate([np.zeros(len(rows)), late]),
        right=np.concatenate([late, late + working]),
        bottom=launch - 0.4,
        top=launch + 0.4,
        group=parts,
        tips=(
            Tip("kernel", [*rows["name"], *rows["name"]], "kernel"),
            Tip("", parts, "text"),
            Tip("took", np.concatenate([late, working]).tolist(), "ns"),
        ),
    )


TOOL = Tool(
    shows="from the host's launch to the first instruction",
    table=_table,
    figure=_figure,
    rules=(
        Rule(
            "gpu.launches-dominate",
            "warning",
            "launching takes {ratio:.1f} times as long as the kernels",
            "More time passes from the host's call to the first instruction than the kernels need.",
            "Launch fewer and larger kernels: fuse them, batch the work, or record a graph of launches.",
            threshold=1.0,
            unit="times the kernels' own time, over at least 5 launches",
            source="above 1 the device waits longer than it works",
            check=_dominate,
        ),
    ),
)

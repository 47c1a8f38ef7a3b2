"""TraceResult: pandas views of a recording, and what can be asked of it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from accel_magic.traces import buckets
from accel_magic.traces.frames import events_frame

if TYPE_CHECKING:
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.analysis.npu import Npu
    from accel_magic.probes.plan import Plan
    from accel_magic.traces.compare import Comparison
    from accel_magic.traces.recording import Recording


class TraceResult:
    """What a traced cell or block returns.

    Everything is computed from one immutable `Recording`; frames are built on first use and kept.
    """

    def __init__(self, recording: Recording, value: object = None) -> None:
        self.recording = recording
        self.value = value
        """The traced cell's own last value."""

    @property
    def plan(self) -> Plan:
        """The probe points, scope, filter and limits that were in force."""
        return self.recording.plan

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded: kernel, cpu, host, device, python, accel_magic."""
        return self.recording.machine

    @property
    def duration_s(self) -> float:
        """Length of the traced stretch in seconds; NaN where the trace was imported and has no times."""
        return self.recording.duration_ns / 1e9 if self.recording.timed else math.nan

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per recorded hit, in order of time.

        Columns: `time_ns` int64 since the start (entry, for latency probes), `probe` and `function` categories, `pid`,
        `tid` int32, `cpu` int16, `comm` category, `duration_ns` (float64, NaN without a latency probe), then `retval`,
        captured arguments and tracepoint fields as nullable integers or categories.
        """
        return events_frame(self.recording)

    @property
    def df(self) -> pd.DataFrame:
        """Same as `events`."""
        return self.events

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Exact counts from the kernel, one row per probe point, most hits first.

        Index (`probe`, `function`); columns `hits`, `lost`, `rate` (hits/s; NaN where an import has no times).
        """
        recording = self.recording
        frame = pd.DataFrame(
            {
                "probe": [point.probe for point in self.plan.points],
                "function": [point.function for point in self.plan.points],
                "hits": recording.hits.astype(np.int64),
                "lost": recording.lost.astype(np.int64),
                "rate": recording.hits / max(recording.duration_ns / 1e9, 1e-9),
            }
        )
        # A USDT probe has a point for each place it was compiled into.
        summed = frame.groupby(["probe", "function"], sort=False).sum()
        if not recording.timed:
            summed["rate"] = np.nan
        return summed.sort_values("hits", ascending=False, kind="stable")

    @cached_property
    def latency(self) -> pd.DataFrame:
        """One row per latency point: `count`, `mean`, `p50`, `p90`, `p99`, `max` in ns, `unfinished`, `histogram`.

        Counted in the kernel, so complete even when events were lost; quantiles are within 3.2 %. `histogram` is a
        Series of counts by the bucket's lower edge in ns, empty buckets left out.
        """
        recording = self.recording
        rows: list[dict[str, Any]] = []
        for row, point in enumerate(self.plan.latency_points):
            counts = recording.histograms.counts[row]
            total = int(counts.sum())
            largest = int(recording.histograms.max_ns[row])
            filled = np.flatnonzero(counts)
            rows.append(
                {
                    "probe": point.probe,
                    "function": point.function,
                    "count": total,
                    "mean": float(recording.histograms.total_ns[row]) / total if total else np.nan,
                    **{
                        name: min(buckets.quantile(counts, q), largest) if total else np.nan
                        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
                    },
                    "max": float(largest) if total else np.nan,
                    "unfinished": max(int(recording.hits[point.id]) - int(recording.unpaired[point.id]) - total, 0),
                    "histogram": pd.Series(counts[filled].astype(np.int64), index=buckets.EDGES[filled]),
                }
            )
        names = ["probe", "function", "count", "mean", "p50", "p90", "p99", "max", "unfinished", "histogram"]
        return pd.DataFrame(rows, columns=names).set_index(["probe", "function"])

    @property
    def hits(self) -> int:
        """All hits, exact."""
        return int(self.recording.hits.sum())

    @property
    def recorded(self) -> int:
        """How many events were recorded."""
        return self.recording.event_count

    @property
    def lost(self) -> int:
        """Hits whose event could not be stored: the ring buffer was full, or the tool it came from says so."""
        imported = self.recording.imported
        return int(self.recording.lost.sum()) + (imported.lost if imported is not None else 0)

    def rates(self, freq: str = "100ms") -> pd.DataFrame:
        """Hits per second over time, one column per probe point's function.

        Args:
            freq: Width of a step, a pandas offset such as `"10ms"` or `"1s"`.

        Returns:
            A frame indexed by the step's start (Timedelta). Computed from the events when all hits were recorded, else
            from the counter samples (50 ms apart), spread evenly between two samples.

        """
        from accel_magic.traces.rates import rates

        return rates(self.recording, freq)

    @cached_property
    def npu(self) -> Npu:
        """The trace of an NPU driver taken apart: families, phases, polls, buffers, jobs, API calls, timeline."""
        from accel_magic.analysis.npu import Npu

        return Npu(self)

    def diagnose(self) -> Findings:
        """Look for what is wrong or worth knowing in a trace of the NPU driver: findings with evidence and advice."""
        return self.npu.findings

    def figure(self, kind: str = "hits") -> Model:
        """Build a Bokeh figure: `"hits"` per function, `"latency"` histograms, `"rate"` over time, NPU `"timeline"`.

        Raises:
            ProbeError: No such kind, or nothing of that kind was recorded.

        """
        from accel_magic.views.figures import figure

        return figure(self, kind)

    def compare(self, other: TraceResult) -> Comparison:
        """Set this trace beside `other` (the baseline): hits, rates and latencies per function."""
        from accel_magic.traces.compare import compare

        return compare(self, other)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.traces.store import save

        return save(self.recording, path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write the events as Chrome/Perfetto trace JSON, for ui.perfetto.dev."""
        from accel_magic.traces.perfetto import export

        return export(self, path)

    def summary(self) -> str:
        """Plain-text result: headline, counts, latencies."""
        from accel_magic.views.text import summary

        return summary(self)

    def __repr__(self) -> str:
        """Same text as a terminal shows."""
        return self.summary()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views.static import bundle

        return bundle(self)

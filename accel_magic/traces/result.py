"""TraceResult: pandas views of a recording, and what can be asked of it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from accel_magic.errors import ProbeError
from accel_magic.traces import buckets
from accel_magic.traces.frames import events_frame

if TYPE_CHECKING:
    from pathlib import Path

    from bokeh.model import Model
    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.analysis.findings import Findings
    from accel_magic.analysis.npu import Npu
    from accel_magic.probes.plan import Plan
    from accel_magic.profiles.result import ProfileResult
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
        `tid` int32, `cpu` int16, `comm` category, `duration_ns` (float64, NaN without a latency probe), `stack` (Int32,
        a row of `stacks`; only with `--stacks`), then `retval`, captured arguments and tracepoint fields as nullable
        integers or categories.
        """
        return events_frame(self.recording, self.combined_stacks)

    @cached_property
    def combined_stacks(self) -> CombinedStacks | None:
        """The events' stacks, kernel, native and Python merged; None where none were taken."""
        from accel_magic.analysis.by_stack import combine

        return combine(self.recording)

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

    @cached_property
    def waits(self) -> pd.DataFrame:
        """Why threads waited, from the events of an `offcpu` probe: one row per reason, the longest total first.

        Index `wait`; columns `waits`, `total`, `mean`, `longest` (ns). Without stacks page faults are among `in the
        kernel`, and storage is known by the system call alone.
        """
        from accel_magic.analysis.waits import by_reason

        return by_reason(self.recording)

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

    @property
    def stacks(self) -> pd.DataFrame:
        """One row per different stack of the events, the most frequent first; `events.stack` says which is whose.

        Columns: `stack`, `hits`, with latency probes `total`, `mean`, `p50`, `p99` (ns), `frames` (tuple of `Frame`,
        outermost first: Python, native, kernel), `where` (the innermost line of the user's own code).

        Raises:
            ProbeError: The trace took no stacks.

        """
        from accel_magic.analysis.by_stack import stack_table

        return stack_table(self._need_stacks(), self._durations())

    def by_stack(self, function: str | None = None) -> pd.DataFrame:
        """Hits and latencies by function and stack; of one function, or of those that a glob means.

        Columns: `function`, then those of `stacks`.

        Raises:
            ProbeError: The trace took no stacks, or no such function was traced.

        """
        from accel_magic.analysis.by_stack import grouped
        from accel_magic.probes.globs import matcher, suggestion

        table = grouped(self._need_stacks(), self.events["function"].array, self._durations())
        if function is None:
            return table
        names = [point.function for point in self.plan.points]
        chosen = set(filter(matcher(function), names))
        if not chosen:
            raise ProbeError(f"{function} was not traced", fix=suggestion(function, names))
        return table[table["function"].isin(chosen)].reset_index(drop=True)

    @property
    def stacks_lost(self) -> int:
        """Events whose stack found no room in the kernel's table of stacks."""
        return self.combined_stacks.lost if self.combined_stacks is not None else 0

    def profile(self, weight: str = "hits") -> ProfileResult:
        """Make a profile of the events, for a flame graph of them: by `"hits"`, or by `"duration"` of measured calls.

        Raises:
            ProbeError: The trace took no stacks, or measured nothing, or there is no such weight.

        """
        from accel_magic.analysis.stack_profile import profile
        from accel_magic.profiles.result import ProfileResult

        return ProfileResult(profile(self.recording, self._need_stacks(), weight))

    def _need_stacks(self) -> CombinedStacks:
        if self.combined_stacks is None:
            raise ProbeError(
                "this trace has no stacks",
                why="stacks are taken where they are asked for",
                fix="trace again with --stacks (in Python: stacks=True)",
            )
        return self.combined_stacks

    def _durations(self) -> NDArray[np.float64] | None:
        return self.events["duration_ns"].to_numpy() if "duration_ns" in self.events else None

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
        """Build a Bokeh figure: `"hits"` per function, `"latency"` histograms, `"rate"` over time.

        Of a trace with stacks `"flame"`, a flame graph of its events; of an NPU's `"timeline"`.

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

    def to_html(self, path: str | Path) -> Path:
        """Write what a notebook shows as one interactive HTML file, which needs no network: to look at, to mail."""
        from accel_magic.views.page import save

        probes = dict.fromkeys(point.probe for point in self.plan.points)
        return save(
            lambda: self._repr_mimebundle_()["text/html"],
            path,
            f"trace of {', '.join(probes)}",
            self.machine,
            started=self.recording.started,
        )

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

"""TraceResult: pandas views of a recording, with figures, comparison and export."""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from accel_magic import subsystems
from accel_magic.analysis.findings import combined, diagnose
from accel_magic.analysis.frames import counts_frame, events_frame, latency_frame
from accel_magic.errors import ProbeError, ResultError
from accel_magic.probes import presets
from accel_magic.recording import dataset
from accel_magic.recording.profile import Lost
from accel_magic.result_bases.base import Result
from accel_magic.subsystems import unclaimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import numpy as np
    import polars as pl
    import pyarrow.dataset as ds
    from bokeh.model import Model
    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.analysis.findings import Findings
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.recording.recording import Recording
    from accel_magic.result_bases.comparison import TraceComparison
    from accel_magic.result_bases.profile import ProfileResult
    from accel_magic.results.queries import EventSource
    from accel_magic.subsystems.subsystem import Subsystem
    from accel_magic.views.diagnosis import Diagnosis
    from accel_magic.views.tables import FormattedTable, TraceTables


def _is_of_subsystem(point: ProbePoint) -> bool:
    claimed = any(subsystem.claims(point) for subsystem in subsystems.registered().values())
    return claimed or point.kind == "itt" or presets.is_preset(point.probe)


class TraceResult(Result):
    """Result of a traced cell or block.

    Everything is computed from one immutable `Recording`; tables are built on first use and cached.
    """

    KIND = "a trace"

    def __init__(self, recording: Recording, value: object = None) -> None:
        super().__init__(value)
        self.recording = recording
        self._made: dict[str, Any] = {}
        self._diagnosed: dict[str, Findings] = {}

    @property
    def plan(self) -> Plan:
        """The probe points, scope, filter and limits of the trace."""
        return self.recording.plan

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded: kernel, cpu, host, device, python, accel_magic."""
        return self.recording.machine

    @property
    def started(self) -> str:
        """Wall-clock start, ISO 8601 with time zone; '' if unknown."""
        return self.recording.started

    @property
    def duration_s(self) -> float:
        """Length of the traced time in seconds; NaN if the trace was imported and has no times."""
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
        """The events' stacks, with kernel, native and Python frames merged; None if no stacks were recorded."""
        from accel_magic.analysis.by_stack import combine

        return combine(self.recording)

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Exact counts from the kernel, one row per probe point, most hits first.

        Index (`probe`, `function`); columns `hits`, `lost`, `rate` (hits/s; NaN if an import has no times).
        """
        return counts_frame(self.recording)

    @cached_property
    def probes(self) -> pd.DataFrame:
        """What was probed, one row per probe point.

        Columns: `probe` as written, `function`, `kind` (`kprobe`, `uprobe`, ...), `target` (module, category, file or
        ITT domain), `way` (how a function in user space was probed: `patched` or `breakpoint`; else ''), `scope`.
        """
        columns = ["probe", "function", "kind", "target", "way", "scope"]
        points = self.recording.plan.points
        return pd.DataFrame([[str(getattr(point, name)) for name in columns] for point in points], columns=columns)

    @cached_property
    def latency(self) -> pd.DataFrame:
        """One row per latency point, indexed by `probe` and `function`.

        Columns: `count` (calls that were measured), `mean_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `max_ns`, `unfinished`,
        `only_counted` (tasks of presets that record only some of them), `histogram`.

        Counted in the kernel, so complete even if events were lost; quantiles are accurate within 3.2 %. `histogram` is
        a Series of counts by the bucket's lower bound in ns, without empty buckets.
        """
        return latency_frame(self.recording)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """Why threads waited, from the events of an `offcpu` probe: one row per reason and place, most time first.

        Columns: `reason`, `where` (the innermost line of the user's own code, else the innermost frame; '' without
        stacks), `waits`, `total_ns`, `mean_ns`, `max_ns`, `threads` (their number). Without stacks, page faults count
        as `in the kernel`, and storage is recognized only by the system call.
        """
        from accel_magic.analysis.waits import waits_table

        return waits_table(self.recording, self.combined_stacks)

    @property
    def hits(self) -> int:
        """Total number of hits, exact."""
        return int(self.recording.hits.sum())

    @property
    def recorded(self) -> int:
        """Number of recorded events."""
        return self.recording.event_count

    @property
    def lost(self) -> int:
        """Events that did not fit into the ring buffer, or that an imported file reports as lost; exact."""
        return self.recording.events_lost

    def _losses(self) -> Iterator[Lost]:
        recording = self.recording
        unfinished, only_counted = (int(self.latency[name].sum()) for name in ("unfinished", "only_counted"))
        kept = self.recorded + int(recording.lost.sum()) + int(recording.unpaired.sum()) + unfinished
        unread = "events were lost: the ring buffer was not read"
        why = unread if recording.unread else "events did not fit into the ring buffer"
        yield Lost(int(recording.lost.sum()), why)
        if recording.imported is not None:
            yield Lost(recording.imported.lost, f"events were lost, according to the {recording.imported.format}")
        yield Lost(recording.missed, "hits were missed: the kernel could not run the probe", "missed")
        yield Lost(int(recording.unpaired.sum()), "calls could not be timed: the table of calls was full", "missed")
        yield Lost(unfinished, "calls had not ended when the trace ended", "missed")
        yield Lost(self.stacks_lost, "events have no stack: the table of stacks was full", "incomplete")
        if recording.limit_reached:
            yield Lost(max(self.hits - kept - only_counted, 0), "hits came after the event limit", "left out")

    def scan(self) -> ds.Dataset:
        """The events as a `pyarrow.dataset.Dataset`: those of a dataset's files, which it reads in batches.

        Columns: those of `events` as they are stored, with `point` (the probe's number) and, as text, `probe` and
        `function`. Of a result of many nodes also `host`, `rank`, `node`, and `clock_offset_ns` and `clock_drift`:
        `time_ns + clock_offset_ns + time_ns * clock_drift` is the time on the result's clock.

        Raises:
            RecordingError: A file is damaged; also while it is read.

        """
        from accel_magic.results import queries

        return queries.scan(self._sources())

    def sql(self, query: str) -> pd.DataFrame:
        """Run a query with DuckDB, over the files if this is a dataset.

        Views: `events` (see `scan`; of many nodes, `time_ns` is on the result's clock), `counts` and `latency` (as the
        tables of the result) and, of many nodes, `nodes`. The query can read no other files, and DuckDB uses half of
        the free memory at most.

        Args:
            query: One SELECT, or EXPLAIN.

        Raises:
            MachineError: DuckDB is not installed.
            ResultError: The query fails, or its result is too large for a data frame.
            RecordingError: A file is damaged.

        """
        from accel_magic.results import queries

        return queries.sql(self._sources(), query, self._query_tables())

    def lazy(self) -> pl.LazyFrame:
        """The events as a Polars LazyFrame, over the files if this is a dataset; columns as in `sql`.

        Raises:
            MachineError: Polars is not installed.

        """
        from accel_magic.results import queries

        return queries.lazy(self._sources())

    def _sources(self) -> list[EventSource]:
        """The recordings that the events are in."""
        from accel_magic.results.queries import EventSource

        return [EventSource(self.recording)]

    def _query_tables(self) -> dict[str, pd.DataFrame]:
        """Tables that queries can use besides the events."""
        return {
            "counts": self.counts.reset_index(),
            "latency": self.latency.drop(columns="histogram").reset_index(),
        }

    def between(self, start_s: float, end_s: float) -> TraceResult:
        """The events of a stretch of time as a result of its own; their times are then since `start_s`.

        Hits, latencies and rates are those of these events. Of a dataset, only files with such events are read.

        Args:
            start_s: Beginning, seconds since the start of the trace.
            end_s: End; events at that time are not included.

        Raises:
            ProbeError: This is not a stretch of time within the trace.
            ResultError: The trace has no times, or these events are too many to load.
            RecordingError: A file is damaged.

        """
        from accel_magic.recording.time_slice import between

        return TraceResult(between(self.recording, *self._stretch(start_s, end_s)), self.value)

    def _stretch(self, start_s: float, end_s: float) -> tuple[int, int]:
        from accel_magic.analysis.rates import check_timed

        check_timed(self.recording, "times")
        if not 0 <= start_s < end_s < math.inf or start_s > self.duration_s:
            raise ProbeError(
                f"between({start_s:g}, {end_s:g}) is not a stretch of this trace",
                why=f"it lasts {self.duration_s:.6g} s",
                fix="give the beginning and the end in seconds since the start of the trace",
                code="dataset.bad-stretch",
            )
        return int(start_s * 1e9), min(math.ceil(end_s * 1e9), max(self.recording.duration_ns, int(start_s * 1e9) + 1))

    @property
    def stacks(self) -> pd.DataFrame:
        """One row per distinct stack of the events, most frequent first; `events.stack` refers to these rows.

        Columns: `stack`, `hits`, `share`, `total_ns`, `mean_ns`, `p50_ns`, `p99_ns` (of latency probes), `total_bytes`,
        `where` (the innermost line of the user's own code), `text`, `frames` (tuple of `Frame`, outermost first:
        Python, native, kernel). All kinds of results use these columns.

        Raises:
            ResultError: The trace recorded no stacks.

        """
        from accel_magic.analysis.by_stack import stack_table

        return stack_table(self._need_stacks(), self._durations())

    def by_stack(self, function: str | None = None) -> pd.DataFrame:
        """Hits and latencies by function and stack, optionally only of functions that match a name or glob.

        Columns: `function`, then those of `stacks`.

        Raises:
            ResultError: The trace recorded no stacks.
            ProbeError: No such function was traced.

        """
        from accel_magic.analysis.by_stack import grouped
        from accel_magic.probes.globs import matcher, suggestion

        table = grouped(self._need_stacks(), self.events["function"].array, self._durations())
        if function is None:
            return table
        names = [point.function for point in self.plan.points]
        chosen = set(filter(matcher(function), names))
        if not chosen:
            raise ProbeError(f"{function} was not traced", fix=suggestion(function, names), code="result.no-function")
        return table[table["function"].isin(chosen)].reset_index(drop=True)

    @property
    def stacks_lost(self) -> int:
        """Events whose stack did not fit into the kernel's table of stacks; 0 if they cannot be loaded."""
        if not dataset.is_loadable(self.recording):
            return 0
        return self.combined_stacks.lost if self.combined_stacks is not None else 0

    def profile(self, weight: str = "hits") -> ProfileResult:
        """Convert the events to a profile, weighted by `"hits"` or by `"duration"` of measured calls.

        Raises:
            ResultError: The trace recorded no stacks, or no durations.
            ProbeError: There is no such weight.

        """
        from accel_magic.analysis.stack_profile import profile
        from accel_magic.result_bases.profile import ProfileResult

        return ProfileResult(profile(self.recording, self._need_stacks(), weight))

    def _need_stacks(self) -> CombinedStacks:
        if self.combined_stacks is None:
            raise ResultError(
                "this trace has no stacks",
                why="stacks are recorded only on request",
                fix="trace again with --stacks (in Python: stacks=True)",
                code="result.no-stacks",
            )
        return self.combined_stacks

    def _durations(self) -> NDArray[np.float64] | None:
        return self.events["duration_ns"].to_numpy() if "duration_ns" in self.events else None

    def rates(self, freq: str = "100ms") -> pd.DataFrame:
        """Hits per second over time, one column per probe point's function.

        Args:
            freq: Width of a step, a pandas offset such as `"10ms"` or `"1s"`.

        Returns:
            A data frame indexed by the step's start (Timedelta). Computed from the events if all hits were recorded,
            else from counter samples (50 ms apart), with hits spread evenly between two samples.

        """
        from accel_magic.analysis.rates import rates

        return rates(self.recording, freq)

    def __getattr__(self, name: str) -> Any:
        """The tables of the subsystem (`accel_magic.subsystems`) with this name, made on first use and kept."""
        if not name.startswith("_"):
            for subsystem in self._with_tables():
                if name in subsystem.attributes:
                    return getattr(self.tables_of(subsystem.name), subsystem.attributes[name])
                if name == subsystem.name:
                    return self.tables_of(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        """Attributes, with those of the subsystems for tab completion."""
        added = [(subsystem.name, *subsystem.attributes) for subsystem in self._with_tables()]
        return sorted({*super().__dir__(), *(name for names in added for name in names)})

    def _with_tables(self) -> list[Subsystem]:
        """The subsystems that have tables of this kind of result."""
        return [subsystem for subsystem in subsystems.registered().values() if subsystem.tables is not None]

    def tables_of(self, subsystem: str) -> Any:
        """The tables of a subsystem by its name, also as an attribute of that name.

        Raises:
            KeyError: No subsystem with this name has tables of a trace.

        """
        if subsystem not in self._made:
            makers = {one.name: one.tables for one in subsystems.registered().values() if one.tables is not None}
            self._made[subsystem] = makers[subsystem](*self._of_subsystems)
        return self._made[subsystem]

    @cached_property
    def _of_subsystems(self) -> tuple[Recording, pd.DataFrame]:
        """The recording and its events, for analyses; of more than can be loaded, those of presets and drivers."""
        if dataset.is_loadable(self.recording):
            return self.recording, self.events
        chosen = dataset.of_points(self.recording, [point.id for point in self.plan.points if _is_of_subsystem(point)])
        return chosen, events_frame(chosen, None)

    def diagnose(self) -> Diagnosis:
        """Look for problems and noteworthy facts, with the rules of each subsystem that was traced.

        Returns:
            Findings with evidence and advice, most severe first.

        """
        from accel_magic.views.diagnosis import Diagnosis

        traced = subsystems.of_plan(self.plan)
        if not traced:
            named = {subsystem.name: subsystem for subsystem in self._with_tables()}
            return Diagnosis.of(diagnose(unclaimed.RULES, named, self.recording))
        return Diagnosis.of(combined(map(self._findings_of, traced), self.recording))

    def _findings_of(self, subsystem: Subsystem) -> Findings:
        """What the rules of a subsystem find; checked once."""
        if subsystem.name not in self._diagnosed:
            found = diagnose(subsystem.rules(), self.tables_of(subsystem.name), self.recording)
            self._diagnosed[subsystem.name] = found
        return self._diagnosed[subsystem.name]

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """`hits` per function, `latency`, `rate` over time, a `flame` graph, and those of subsystems."""
        from accel_magic.views.figures import trace_figures

        drawn = {
            name: partial(self._draw, subsystem.name, draw)
            for subsystem in subsystems.registered().values()
            for name, draw in subsystem.figures.items()
        }
        return {
            "hits": lambda: trace_figures.hits(self.recording),
            "latency": lambda: trace_figures.latency(self.recording),
            "rate": lambda: trace_figures.rate(self.recording),
            **drawn,
            "flame": lambda: self.profile(self._weight()).figure("flame"),
        }

    def _draw(self, subsystem: str, draw: Callable[[Any], Model]) -> Model:
        return draw(self.tables_of(subsystem))

    def _weight(self) -> str:
        """Weight of a flame graph: time if every event was measured, else hits."""
        points = self.plan.points
        return "duration" if points and all(point.latency for point in points) else "hits"

    def compare(self, other: Result) -> TraceComparison:
        """Compare this trace with `other` (the baseline): hits, rates and latencies per function.

        What the trace is about leads, such as the inferences per model of both.

        Raises:
            ResultError: `other` is not a trace.

        """
        from accel_magic.result_bases.compared import Compared
        from accel_magic.result_bases.comparison import compare_traces

        baseline = self._check_kind(other, TraceResult)
        compared = Compared()
        for subsystem in subsystems.of_plan(self.plan):
            if subsystem.tables is not None and any(map(subsystem.claims, baseline.plan.points)):
                added = subsystem.compared(self.tables_of(subsystem.name), baseline.tables_of(subsystem.name))
                compared = compared.with_more(added)
        return compare_traces(self.recording, baseline.recording, subsystems.family_of, compared)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it."""
        from accel_magic.recording.recording_store import save

        return save(self.recording, path)

    def to_perfetto(self, path: str | Path) -> Path:
        """Write the events as Chrome/Perfetto trace JSON, for ui.perfetto.dev; compressed if the path ends in `.gz`.

        Events that are too many to load are written piece by piece, without stacks and tracks of drivers.

        Raises:
            ResultError: The trace was imported and has no times.

        """
        from accel_magic.results.perfetto import export

        if not dataset.is_loadable(self.recording):
            return export(self.recording, path)
        tracks = (
            lines
            for subsystem in subsystems.registered().values()
            for lines in subsystem.tracks(self.recording, partial(self.tables_of, subsystem.name))
        )
        return export(self.recording, path, self.combined_stacks, more=tracks)

    def _title(self) -> str:
        return f"trace of {', '.join(dict.fromkeys(point.probe for point in self.plan.points))}"

    def _tables(self) -> TraceTables:
        """Tables shown in the text and the HTML."""
        from accel_magic.views.tables import TraceTables

        whole = dataset.is_loadable(self.recording)
        return TraceTables(
            self.recording,
            counts=self.counts,
            latency=self.latency,
            waits=self.waits if whole else pd.DataFrame(),
            stacks=self.stacks if whole and self.combined_stacks is not None else None,
            stacks_lost=self.stacks_lost,
            subsystems=self._summary,
            answers=self._answers,
            only_presets=all(map(subsystems.is_of_preset, self.plan.points)),
            whole=whole,
        )

    def _summary(self) -> list[str]:
        """Lines of the subsystems that were traced."""
        return [
            line
            for subsystem in subsystems.of_plan(self.plan)
            for line in subsystem.summary(
                self.recording, partial(self.tables_of, subsystem.name), partial(self._findings_of, subsystem)
            )
        ]

    def _answers(self) -> list[FormattedTable]:
        """Tables of the subsystems whose presets were asked for."""
        return [
            table
            for subsystem in subsystems.of_plan(self.plan)
            if any(map(subsystem.has_preset_of, self.plan.points))
            for table in subsystem.answers(self.recording, partial(self.tables_of, subsystem.name))
        ]

    def summary(self) -> str:
        """Return plain text: headline, answers, counts, latencies."""
        from accel_magic.views.trace_text import summary

        return summary(self._tables())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""
        from accel_magic.views import drawn_elsewhere

        if (drawn := drawn_elsewhere.bundle(self.recording)) is not None:
            return drawn
        from accel_magic.views.trace_html import bundle

        return bundle(self._tables())

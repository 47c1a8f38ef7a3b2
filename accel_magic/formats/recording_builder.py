"""Build recordings from the output of other tracers: bpftrace, ftrace, trace-cmd and `perf script`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from accel_magic.banners import Imported
from accel_magic.errors import RecordingError
from accel_magic.formats.event_lines import UNKNOWN, blocks, unended
from accel_magic.kernel import buckets
from accel_magic.probes.plan import Plan, ProbePoint, TraceRequest
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.probes.plan import Kind


@dataclass(frozen=True)
class Hits:
    """Events in the order of the output. All arrays have the shape (events,).

    Attributes:
        names: The names that the codes in `name` refer to.
        name: int32 codes into `names`.
        time_ns: int64 ns, on any clock; None if the output has no times.
        pid: int32, -1 if unknown.
        tid: int32, -1 if unknown.
        cpu: int16, -1 if unknown.
        comm: Codes, -1 if unknown.
        duration_ns: int64, -1 if unknown; None if the output has no durations.
        columns: Further columns.

    """

    names: tuple[PointName, ...]
    name: NDArray[np.int32]
    time_ns: NDArray[np.int64] | None
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int16]
    comm: EventColumn
    duration_ns: NDArray[np.int64] | None = None
    columns: dict[str, EventColumn] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the events."""
        return len(self.name)

    def rows(self, chosen: NDArray[Any]) -> Hits:
        """Select rows, by number or by a boolean mask."""

        def some(column: EventColumn) -> EventColumn:
            valid = None if column.valid is None else column.valid[chosen]
            return EventColumn(column.values[chosen], valid, column.categories)

        return Hits(
            names=self.names,
            name=self.name[chosen],
            time_ns=None if self.time_ns is None else self.time_ns[chosen],
            pid=self.pid[chosen],
            tid=self.tid[chosen],
            cpu=self.cpu[chosen],
            comm=some(self.comm),
            duration_ns=None if self.duration_ns is None else self.duration_ns[chosen],
            columns={name: some(column) for name, column in self.columns.items()},
        )


@dataclass(frozen=True)
class PrintedHistogram:
    """A histogram of durations as printed: `bars` are (low, high or None, calls), from low to below high, in ns."""

    name: PointName
    bars: tuple[tuple[int, int | None, int], ...]


@dataclass(frozen=True)
class Rates:
    """Hits over time as printed: `counts` (steps, names) uint64, where each step is `step_ns` long."""

    names: tuple[PointName, ...]
    step_ns: int
    counts: NDArray[np.uint64]


@dataclass(frozen=True)
class FileContent:
    """Content of one file.

    Attributes:
        format: The tool and its output, in words.
        hits: The events; None if there are only counts.
        counts: Exact counts made by the tool itself, by name; for a name with events too, its total number of hits.
        histograms: Histograms of durations.
        rates: Hits over time that the tool printed instead of events; None without.
        lost: Events that the tool reported as lost.
        malformed: Lines that were not understood.
        notes: Notes for the user.
        machine: What the output says about the machine (`kernel`, `cpu`, `host`).

    """

    format: str
    hits: Hits | None = None
    counts: dict[PointName, int] = field(default_factory=dict)
    histograms: tuple[PrintedHistogram, ...] = ()
    rates: Rates | None = None
    lost: int = 0
    malformed: int = 0
    notes: tuple[str, ...] = ()
    machine: dict[str, str] = field(default_factory=dict)


_KINDS: Final[dict[str, Kind]] = {
    "kprobe": "kprobe",
    "kfunc": "kprobe",
    "fentry": "kprobe",
    "kretprobe": "kretprobe",
    "kretfunc": "kretprobe",
    "fexit": "kretprobe",
    "uprobe": "uprobe",
    "uretprobe": "uretprobe",
    "usdt": "usdt",
    "tracepoint": "tracepoint",
    "rawtracepoint": "tracepoint",
    "rawtp": "tracepoint",
    "software": "tracepoint",
    "hardware": "tracepoint",
    "profile": "tracepoint",
    "interval": "tracepoint",
    "iter": "tracepoint",
    "watchpoint": "tracepoint",
    "asyncwatchpoint": "tracepoint",
}
"""bpftrace's probe types, and the corresponding kinds here."""

PROBE_TEXT: Final = "(?:" + "|".join(_KINDS) + r"):[^\s\[\],]+"
"""Regular expression for a probe as printed by bpftrace's builtin `probe`."""

_PROBE: Final = re.compile(PROBE_TEXT)
_PERF_PROBE: Final = re.compile(r"(.+?)(__return)?(?:_\d+)?")


@dataclass(frozen=True)
class PointName:
    """Name of a future probe point."""

    probe: str
    kind: Kind
    target: str
    function: str
    latency: bool = False

    def point(self, number: int) -> ProbePoint:
        """Make a probe point with this name."""
        return ProbePoint(number, self.probe, self.kind, self.target, self.function, latency=self.latency)


def is_probe(text: str) -> bool:
    """Whether `text` is a bpftrace probe name."""
    return _PROBE.fullmatch(text) is not None


def of_bpftrace(probe: str) -> PointName:
    """Parse a bpftrace probe such as `kprobe:intel_vpu:ivpu_open`.

    The form is `KIND:[TARGET:]FUNCTION`, for USDT `KIND:PATH:PROVIDER:NAME`.
    """
    kind, _, rest = probe.partition(":")
    first, colon, last = rest.partition(":") if kind == "usdt" else rest.rpartition(":")
    function = last if colon else rest
    return PointName(probe, _KINDS[kind], first if colon else "", function or probe)


def of_function(function: str, module: str = "", *, latency: bool = False) -> PointName:
    """Name a kernel function reported by the function tracers."""
    spec = f"kprobe:{module}:{function}" if module else f"kprobe:{function}"
    return PointName(f"latency:{spec}" if latency else spec, "kprobe", module, function, latency)


def of_event(event: str, system: str = "") -> PointName:
    """Name a trace event; `system` is '' if the tool does not print it.

    Events created by `perf probe` (`probe:FUNCTION`, `probe_LIBRARY:FUNCTION`) are functions. System calls always
    belong to the system `syscalls`.
    """
    if system == "probe" or system.startswith("probe_"):
        found = _PERF_PROBE.fullmatch(event)
        function, returns = (found[1], bool(found[2])) if found else (event, False)
        library = system.removeprefix("probe").removeprefix("_")
        kind: Kind = "uprobe" if library else "kprobe"
        if returns:
            kind = "uretprobe" if library else "kretprobe"
        return PointName(f"{kind}:{library}:{function}" if library else f"{kind}:{function}", kind, library, function)
    if not system and event.startswith(("sys_enter_", "sys_exit_")):
        system = "syscalls"
    return PointName(f"tracepoint:{system}:{event}" if system else f"tracepoint:{event}", "tracepoint", system, event)


_MOST_POINTS = 1 << 16
_STEPS = 200  # samples of the counters over time
_MOST_SAMPLES = 4_000_000


def build(found: FileContent, path: Path) -> Recording:
    """Build the recording that `accel_magic.open` shows.

    Raises:
        RecordingError: The file contains nothing, or more probes than a recording can have.

    """
    names = _names(found)
    if not names:
        raise RecordingError(
            f"{path} contains no events and no counts",
            why=f"it looks like {found.format}, but nothing in it can be counted",
            fix="; ".join(found.notes) or "record again; docs/import.md lists the supported output",
            code="recording.empty",
        )
    if len(names) > _MOST_POINTS:
        raise RecordingError(
            f"{path} has {len(names):,} different probes or keys",
            why=f"a recording can have at most {_MOST_POINTS:,}",
            fix="make the tool count by fewer keys",
            code="recording.too-many-probes",
        )
    places = {name: place for place, name in enumerate(names)}
    timed = found.hits is not None and found.hits.time_ns is not None
    events, start_ns, duration_ns = _events(found.hits, places)
    recorded = np.bincount(events.columns["point"].values, minlength=len(names)).astype(np.uint64)
    hits = recorded.copy()
    for name, count in found.counts.items():
        hits[places[name]] = max(count, int(recorded[places[name]]))
    if found.rates is not None:
        hits[[places[name] for name in found.rates.names]] += found.rates.counts.sum(axis=0)
    if not hits.any():  # otherwise the calls in a histogram are already counted under another name
        for bars in found.histograms:
            hits[places[bars.name]] += np.uint64(sum(count for *_, count in bars.bars))
    samples = _samples(events, hits, duration_ns, timed=timed)
    if found.rates is not None and not len(events):
        samples = _of_rates(found.rates, places, hits)
        timed, duration_ns = True, int(samples.times_ns[-1])
    zeros = np.zeros(len(names), np.uint64)
    return Recording(
        plan=Plan(
            points=tuple(name.point(place) for name, place in places.items()),
            request=TraceRequest((), mode="events" if len(events) else "count"),
            notes=_notes(found),
        ),
        machine=found.machine,
        started="",
        start_ns=start_ns,
        duration_ns=duration_ns,
        hits=hits,
        lost=zeros,
        unpaired=zeros,
        totals=zeros,
        missed=0,
        histograms=_histograms(names, events, found.histograms, places),
        samples=samples,
        event_count=len(events),
        limit_reached=False,
        load_events=lambda: events,
        imported=Imported(str(path), found.format, timed, found.lost, measured=any(name.latency for name in names)),
    )


def without_cut(found: FileContent, last_line: str) -> FileContent:
    """Drop the last event if the file ends in the middle of its name.

    That is the case if the name occurs nowhere else in the file but is a prefix of another name. `last_line` is the
    last line if it has no line end, else ''.
    """
    hits = found.hits
    if not last_line or hits is None or not len(hits):
        return found
    name = hits.names[int(hits.name[-1])]
    seen = [hits.names[code] for code in np.unique(hits.name[:-1])]
    cut = name not in seen and any(other.probe.startswith(name.probe) for other in seen)
    if not (cut and last_line.endswith(name.function)):
        return found
    notes = (*found.notes, f"the last line is truncated and was dropped: {last_line[-80:]}")
    return replace(found, hits=hits.rows(np.arange(len(hits) - 1)), notes=notes)


def _names(found: FileContent) -> list[PointName]:
    """All distinct points, those of events first."""
    there: tuple[PointName, ...] = ()
    if found.hits is not None:
        seen = np.unique(found.hits.name)
        there = tuple(found.hits.names[code] for code in seen)
    rated = () if found.rates is None else found.rates.names
    return list(dict.fromkeys([*there, *rated, *found.counts, *(bars.name for bars in found.histograms)]))


def _notes(found: FileContent) -> tuple[str, ...]:
    lines = "line was" if found.malformed == 1 else "lines were"
    malformed = (f"{found.malformed:,} {lines} not understood and dropped",) if found.malformed else ()
    return (*malformed, *found.notes)


def _events(hits: Hits | None, places: dict[PointName, int]) -> tuple[Events, int, int]:
    """Return the events sorted by time relative to the first, the first one's time, and the total duration, ns."""
    if hits is None:
        nothing = np.zeros(0, np.int32)
        hits = Hits((), nothing, None, nothing, nothing, nothing.astype(np.int16), EventColumn(nothing, categories=()))
    if hits.time_ns is not None and (np.diff(hits.time_ns) < 0).any():
        hits = hits.rows(np.argsort(hits.time_ns, kind="stable"))
    table = np.array([places.get(name, 0) for name in hits.names] or [0], np.uint16)
    time = np.zeros(len(hits), np.int64) if hits.time_ns is None else hits.time_ns
    start = int(time[0]) if len(time) else 0
    columns = {
        "time_ns": EventColumn(time - start),
        "point": EventColumn(table[hits.name]),
        "pid": EventColumn(hits.pid),
        "tid": EventColumn(hits.tid),
        "cpu": EventColumn(hits.cpu),
        "comm": hits.comm,
    }
    ends = columns["time_ns"].values
    if hits.duration_ns is not None:
        valid = hits.duration_ns != UNKNOWN
        duration = np.where(valid, hits.duration_ns, 0)
        columns["duration_ns"] = EventColumn(duration, valid)
        ends = ends + duration
    timed = hits.time_ns is not None and len(ends) > 0
    return Events({**columns, **hits.columns}), start, max(int(ends.max()), 1) if timed else 0


def _histograms(
    names: list[PointName], events: Events, drawn: tuple[PrintedHistogram, ...], places: dict[PointName, int]
) -> Histograms:
    """Histograms of the events' durations and of printed histograms, whose calls count at their bucket's maximum."""
    measured = [place for place, name in enumerate(names) if name.latency]
    counts = np.zeros((len(measured), buckets.COUNT), np.uint64)
    total, largest = np.zeros(len(measured), np.uint64), np.zeros(len(measured), np.uint64)
    row_of = np.full(len(names) + 1, UNKNOWN, np.int64)
    row_of[measured] = np.arange(len(measured))
    duration = events.columns.get("duration_ns")
    if duration is not None and duration.valid is not None and measured:
        rows = row_of[events.columns["point"].values[duration.valid]]
        values = duration.values[duration.valid][rows >= 0]
        rows = rows[rows >= 0]
        cells = rows * buckets.COUNT + buckets.index_of(values)
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape).astype(np.uint64)
        np.add.at(total, rows, values.astype(np.uint64))
        np.maximum.at(largest, rows, values.astype(np.uint64))
    for bars in drawn:
        row = int(row_of[places[bars.name]])
        for low, high, count in bars.bars:
            longest = min(low if high is None else max(high - 1, low), 1 << 62)
            if count:
                counts[row, int(buckets.index_of(np.array(longest, np.int64)))] += np.uint64(count)
                total[row] = min(int(total[row]) + longest * count, (1 << 64) - 1)
                largest[row] = max(int(largest[row]), longest)
    return Histograms(counts, total, largest)


def _samples(events: Events, hits: NDArray[np.uint64], duration_ns: int, *, timed: bool) -> CounterSamples:
    """Counters over time, derived from the events; the last row is exact."""
    steps = min(_STEPS, _MOST_SAMPLES // len(hits)) if timed else 0
    edges = np.unique(np.linspace(0, duration_ns, max(steps, 1) + 1).astype(np.int64))
    if len(edges) < 2:
        edges = np.array([0, max(duration_ns, 0)], np.int64)
    table = np.zeros((len(edges), len(hits)), np.uint64)
    if len(edges) > 2:
        step = np.clip(np.searchsorted(edges, events.columns["time_ns"].values, side="left"), 1, len(edges) - 1)
        cells = step * len(hits) + events.columns["point"].values
        counted = np.bincount(cells, minlength=table.size).reshape(table.shape)
        table = np.cumsum(counted, axis=0).astype(np.uint64)
    table[-1] = hits
    return CounterSamples(edges, table)


def _of_rates(rates: Rates, places: dict[PointName, int], hits: NDArray[np.uint64]) -> CounterSamples:
    """Counters over time as printed by the tool; the last row is exact."""
    table = np.zeros((len(rates.counts) + 1, len(places)), np.uint64)
    table[1:, [places[name] for name in rates.names]] = np.cumsum(rates.counts, axis=0)
    table[-1] = hits
    return CounterSamples(np.arange(len(table), dtype=np.int64) * rates.step_ns, table)


def read(path: Path, name: str, parse: Callable[[Iterable[pa.BinaryArray]], FileContent]) -> Recording:
    """Read a tracer's text output as a recording.

    Lines that are not understood are counted in the plan's notes.

    Args:
        path: The file.
        name: Its format, in words.
        parse: Parses blocks of its lines.

    Raises:
        RecordingError: The file cannot be read, or contains nothing that can be counted.

    """
    try:
        return build(without_cut(parse(blocks(path)), unended(path)), path)
    except (pa.ArrowException, MemoryError, OverflowError) as error:
        raise RecordingError(
            f"{path} cannot be imported",
            why=str(error).partition("\n")[0] or type(error).__name__,
            fix=f"report this to accel_magic with the first lines of the file, which was recognized as {name}",
            code="import.failed",
        ) from error

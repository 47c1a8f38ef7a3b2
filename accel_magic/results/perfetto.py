"""Export a trace as Chrome trace-event JSON, the format of ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.rates import check_timed
from accel_magic.analysis.waits import wait_column
from accel_magic.formats import trace_event_writer
from accel_magic.formats.trace_event_writer import TraceEvents, process_name, thread_name
from accel_magic.kernel.stacks.stack_table import COLUMNS
from accel_magic.recording import dataset
from accel_magic.recording.profile import label
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Events, Recording

    Tracks = dict[tuple[int, int], tuple[str, bool]]
    """Each thread's last name, by process and track, and whether it is the main thread of its process."""

_COUNTERS_PID = 1 << 22  # above Linux's largest process id
_NOT_ARGUMENTS = frozenset({"time_ns", "point", "pid", "tid", "comm", "duration_ns"})


def export(
    recording: Recording,
    path: str | Path,
    stacks: CombinedStacks | None = None,
    *,
    more: Iterable[bytes] = (),
) -> Path:
    """Write the events and hit rates of a recording as trace-event JSON and return the file's absolute path.

    Hits with a duration become slices ('X'), others instants ('i'), each on its thread's track, with the CPU and the
    captured values as arguments; the rates of each probe (hits/s) become counters. Times are microseconds since the
    start of the trace, to the nanosecond. A stack is another argument, with its frames joined by `;`, outermost first.
    The idle tasks of all CPUs share the thread id 0 and get a track per CPU. Events that are too many to load are
    written piece by piece, without stacks and reasons of waits.

    Args:
        recording: The recording.
        path: The file.
        stacks: Stacks of its events.
        more: Text of other entries.

    Raises:
        RecordingError: The path cannot be written to, or the events cannot be read.
        ResultError: The trace was imported and has no times.

    """
    check_timed(recording, "times to export")
    about = {**recording.machine, "started": recording.started}
    if recording.replayed is not None:
        about["replay"] = f"recorded on {recording.replayed.recorded_on}"
    if recording.imported is not None:
        about["imported"] = f"from {recording.imported.format}"
    return trace_event_writer.write(path, about, _entries(recording, stacks, more))


def _entries(recording: Recording, stacks: CombinedStacks | None, more: Iterable[bytes]) -> Iterator[bytes]:
    pieces, columns = _pieces(recording, stacks)
    tracks: Tracks = {}
    for events in pieces:
        tracks |= _named_tracks(events)
        yield from _events(events, recording.plan, columns)
    yield from _track_names(tracks)
    yield from _counters(recording)
    yield from more


def _pieces(recording: Recording, stacks: CombinedStacks | None) -> tuple[Iterator[Events], dict[str, EventColumn]]:
    """The events, in pieces if they cannot be loaded, and more columns of them; none of those of pieces."""
    if dataset.is_loadable(recording):
        return iter([recording.events]), _stacks(stacks) | wait_column(recording)
    return dataset.batches(recording), {}


def _stacks(stacks: CombinedStacks | None) -> dict[str, EventColumn]:
    """Column of the events' stacks as texts, if they have any."""
    if stacks is None:
        return {}
    return {
        "stack": EventColumn(stacks.of_events, None, tuple(";".join(map(label, frames)) for frames in stacks.frames))
    }


def _events(events: Events, plan: Plan, more: dict[str, EventColumn]) -> Iterator[bytes]:
    """Yield slices and instants, with the additional columns `more` as arguments."""
    columns = {name: column for name, column in events.columns.items() if name not in COLUMNS} | more
    point = columns["point"].values
    hits = TraceEvents(
        name=EventColumn(point, None, tuple(point.function for point in plan.points)),
        category=EventColumn(point, None, tuple(point.probe for point in plan.points)),
        time_ns=columns["time_ns"].values,
        pid=columns["pid"],
        tid=_tracks(events),
        args={name: column for name, column in columns.items() if name not in _NOT_ARGUMENTS},
    )
    return hits.complete(columns["duration_ns"]) if "duration_ns" in columns else hits.instants()


def _tracks(events: Events) -> NDArray[np.int64]:
    tid = events.columns["tid"].values.astype(np.int64)
    return np.where(tid == 0, events.columns["cpu"].values.astype(np.int64), tid)


def _named_tracks(events: Events) -> Tracks:
    comm = events.columns["comm"]
    named = np.flatnonzero(comm.values.astype(np.int64) >= 0)[::-1]
    pid = events.columns["pid"].values.astype(np.int64)
    tid = events.columns["tid"].values.astype(np.int64)
    key = pid << 32 | _tracks(events)
    rows = named[np.unique(key[named], return_index=True)[1]]
    texts = comm.categories or ()
    return {
        (int(key[row]) >> 32, int(key[row]) & 0xFFFFFFFF): (texts[int(comm.values[row])], bool(tid[row] == pid[row]))
        for row in rows.tolist()
    }


def _track_names(tracks: Tracks) -> Iterator[bytes]:
    """Name each thread by its last name, and each process after its main thread, else after its first thread."""
    processes: dict[int, str] = {}
    for (process, track), (name, main) in sorted(tracks.items()):
        if main or process not in processes:
            processes[process] = "idle" if process == 0 else name
        yield thread_name(process, track, name)
    for process, name in processes.items():
        yield process_name(process, name)


def _counters(recording: Recording) -> Iterator[bytes]:
    """Rates of each probe between two samples, and zero at the end of the trace."""
    samples = recording.samples
    points: dict[str, list[int]] = {}
    for point in recording.plan.points:
        points.setdefault(point.probe, []).append(point.id)
    spans = np.diff(samples.times_ns)
    kept = np.flatnonzero(spans > 0)
    if not len(kept):
        return
    yield process_name(_COUNTERS_PID, "accel_magic: hits per second")
    times = np.append(samples.times_ns[:-1][kept], samples.times_ns[-1])
    for probe, ids in points.items():
        hits = np.diff(samples.hits[:, ids].sum(axis=1, dtype=np.uint64).astype(np.int64))
        rates = np.append(hits[kept] * 1e9 / spans[kept], 0.0)
        yield from TraceEvents(name=probe, time_ns=times, pid=_COUNTERS_PID, args={"hits/s": rates}).counters()

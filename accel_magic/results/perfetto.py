"""Export a trace as Chrome trace-event JSON, the format of ui.perfetto.dev and chrome://tracing.

The text is built column by column with Arrow, in pieces: millions of events take seconds and little memory.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.analysis.rates import check_timed
from accel_magic.analysis.waits import wait_column
from accel_magic.formats.trace_event import microseconds, plain, texts, to_bytes
from accel_magic.kernel.stacks.stack_table import COLUMNS
from accel_magic.recording import dataset
from accel_magic.recording.profile import label
from accel_magic.recording.recording import EventColumn
from accel_magic.recording.result_files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.analysis.by_stack import CombinedStacks
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Events, Recording

_PIECE = 1 << 16
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
        more: Text of other entries; each starts with a comma and a newline.

    Raises:
        RecordingError: The path cannot be written to, or the events cannot be read.
        ResultError: The trace was imported and has no times.

    """
    check_timed(recording, "times to export")
    target = destination(path)
    pieces, columns = _pieces(recording, stacks)
    about = {**recording.machine, "started": recording.started}
    if recording.replayed is not None:
        about["replay"] = f"recorded on {recording.replayed.recorded_on}"
    if recording.imported is not None:
        about["imported"] = f"from {recording.imported.format}"
    with replacing(target) as file:
        file.write(b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % json.dumps(about).encode("ascii"))
        skip = 1  # every piece starts with a comma, which is dropped before the first entry
        tracks: dict[tuple[int, int], tuple[str, bool]] = {}
        for lines in chain(
            _all_events(pieces, recording.plan, columns, tracks),
            _described(_track_names(tracks)),
            _described(_counters(recording)),
            more,
        ):
            file.write(lines[skip:])
            skip = 0
        file.write(b"\n]}\n")
    return target


def _pieces(recording: Recording, stacks: CombinedStacks | None) -> tuple[Iterator[Events], dict[str, EventColumn]]:
    """The events, in pieces if they cannot be loaded, and more columns of them; none of those of pieces."""
    if dataset.is_loadable(recording):
        return iter([recording.events]), _stacks(stacks) | wait_column(recording)
    return dataset.batches(recording), {}


def _all_events(
    pieces: Iterator[Events], plan: Plan, more: dict[str, EventColumn], tracks: dict[tuple[int, int], tuple[str, bool]]
) -> Iterator[bytes]:
    """Yield the text of all events; `tracks` gets the threads."""
    for events in pieces:
        tracks |= _named_tracks(events)
        yield from _events(events, plan, more)


def _described(entries: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for entry in entries:
        yield b",\n" + json.dumps(entry, separators=(",", ":")).encode("ascii")


def _stacks(stacks: CombinedStacks | None) -> dict[str, EventColumn]:
    """Column of the events' stacks as texts, if they have any."""
    if stacks is None:
        return {}
    return {
        "stack": EventColumn(stacks.of_events, None, tuple(";".join(map(label, frames)) for frames in stacks.frames))
    }


def _events(events: Events, plan: Plan, more: dict[str, EventColumn]) -> Iterator[bytes]:
    """Yield the text of the events in pieces, with the additional columns `more`."""
    columns = {name: column for name, column in events.columns.items() if name not in COLUMNS} | more
    heads = texts(
        [f',\n{{"name":{json.dumps(point.function)},"cat":{json.dumps(point.probe)},"ph":' for point in plan.points]
    )
    arguments = {f"{json.dumps(name)}:": column for name, column in columns.items() if name not in _NOT_ARGUMENTS}
    categories = {
        key: texts([json.dumps(text) for text in column.categories])
        for key, column in arguments.items()
        if column.categories is not None
    }
    tracks = _tracks(events)
    for start in range(0, len(events), _PIECE):
        piece = slice(start, start + _PIECE)
        lines = pc.binary_join_element_wise(
            heads.take(pa.array(columns["point"].values[piece])),
            _phase(columns.get("duration_ns"), piece, len(tracks[piece])),
            ',"ts":',
            microseconds(columns["time_ns"].values[piece]),
            ',"pid":',
            plain(columns["pid"].values[piece]),
            ',"tid":',
            plain(tracks[piece]),
            ',"args":{',
            _arguments(arguments, categories, piece),
            "}}",
            "",
        )
        yield to_bytes(lines)


def _phase(durations: EventColumn | None, piece: slice, rows: int) -> pa.Array:
    """Return `"X","dur":1.500` for hits with a duration, `"i","s":"t"` (an instant on its thread) for others."""
    instant = pa.scalar('"i","s":"t"')
    if durations is None:
        return pa.array(['"i","s":"t"']).take(pa.array(np.zeros(rows, np.int8)))
    slices = pc.binary_join_element_wise('"X","dur":', microseconds(durations.values[piece]), "")
    return slices if durations.valid is None else pc.if_else(pa.array(durations.valid[piece]), slices, instant)


def _arguments(columns: dict[str, EventColumn], categories: dict[str, pa.Array], piece: slice) -> pa.Array:
    """Return `"cpu":1,"size":64` for each row, without missing values."""
    parts = []
    for key, column in columns.items():
        values = column.values[piece]
        known = np.ones(len(values), np.bool_) if column.valid is None else column.valid[piece]
        if key in categories:
            known = known & (values.astype(np.int64) >= 0)
            text = categories[key].take(pa.array(values.astype(np.int64), mask=~known))
        else:
            if values.dtype.kind == "f":
                known = known & np.isfinite(values)  # JSON cannot represent the others
            text = pc.if_else(pa.array(known), plain(values), pa.scalar(None, pa.string()))
        parts.append(pc.binary_join_element_wise(key, text, ""))
    return pc.binary_join_element_wise(*parts, ",", null_handling="skip")


def _tracks(events: Events) -> NDArray[np.int64]:
    tid = events.columns["tid"].values.astype(np.int64)
    return np.where(tid == 0, events.columns["cpu"].values.astype(np.int64), tid)


def _named_tracks(events: Events) -> dict[tuple[int, int], tuple[str, bool]]:
    """Each thread's last name, by process and track, and whether it is the main thread of its process."""
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


def _track_names(tracks: dict[tuple[int, int], tuple[str, bool]]) -> Iterator[dict[str, Any]]:
    """Name each thread by its last name, and each process after its main thread, else after its first thread."""
    processes: dict[int, str] = {}
    for (process, track), (name, main) in sorted(tracks.items()):
        if main or process not in processes:
            processes[process] = "idle" if process == 0 else name
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
    for process, name in processes.items():
        yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}}


def _counters(recording: Recording) -> Iterator[dict[str, Any]]:
    """Rates of each probe between two samples, and zero at the end of the trace."""
    samples = recording.samples
    points: dict[str, list[int]] = {}
    for point in recording.plan.points:
        points.setdefault(point.probe, []).append(point.id)
    spans = np.diff(samples.times_ns)
    kept = np.flatnonzero(spans > 0)
    if not len(kept):
        return
    name = {"name": "accel_magic: hits per second"}
    yield {"name": "process_name", "ph": "M", "pid": _COUNTERS_PID, "args": name}
    for probe, ids in points.items():
        hits = np.diff(samples.hits[:, ids].sum(axis=1, dtype=np.uint64).astype(np.int64))
        times = np.append(samples.times_ns[:-1][kept], samples.times_ns[-1]) / 1000
        rates = np.append(hits[kept] * 1e9 / spans[kept], 0.0)
        for time, rate in zip(times.tolist(), rates.tolist(), strict=True):
            yield {"name": probe, "ph": "C", "ts": time, "pid": _COUNTERS_PID, "args": {"hits/s": rate}}

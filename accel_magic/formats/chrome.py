"""Profiles as Chrome JSON: write trace events for ui.perfetto.dev, and read three kinds of CPU profiles.

ui.perfetto.dev draws slices and ignores the sections `stackFrames` and `samples` of a trace, so stacks are written as
slices: each frame lasts as long as consecutive samples contain it. Only samples are read: V8's CPU profiles
(`.cpuprofile`), the same in chunks within a trace (`ProfileChunk`), and `stackFrames` with `samples`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.analysis.nesting import lanes
from accel_magic.errors import ResultError
from accel_magic.formats import trace_event_writer
from accel_magic.formats.json_file import PlaceError, index, line_number, load, number, part, reading
from accel_magic.formats.sample_weights import by_event, unit_of
from accel_magic.formats.trace_event_writer import TraceEvents, process_name, thread_name
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import NO_TIME, ProfileBuilder, ThreadState, label
from accel_magic.recording.recording import EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile


ORIGIN: Final = "Chrome CPU profile"
_SLICES: Final = "open it at https://ui.perfetto.dev; for stacks, run the same code under %%flame"
_PIECE: Final = 1 << 10
_PROCESS: Final = 1
"""Process id of all threads; Perfetto treats 0 as the kernel's idle tasks."""
_LANES: Final = 1 << 23
"""Number of the first track that is not a thread: above Linux's largest thread id."""
_MOST: Final = 2.0**62
_ROOT: Final = "(root)"
_IDLE: Final = "(idle)"
_NOWHERE: Final = {"": "(anonymous)"}


def write(profile: Profile, path: str | Path) -> Path:
    """Write the stacks of a timed profile as slices, with a track per thread and per accelerator lane.

    Times are microseconds since the start, to the nanosecond. Slices made from samples are not exact calls; the file
    names their origin.

    Raises:
        ResultError: The samples have no times.
        RecordingError: The path cannot be written to.

    """
    if not profile.timed:
        raise ResultError(
            "no times to export",
            why=f"{profile.origin or 'this profile'} has samples without times",
            fix="use to_folded() or to_speedscope(), which do not need times",
            code="result.no-times",
        )
    about = {**profile.machine, "started": profile.started, "origin": profile.origin}
    about["notes"] = "; ".join((*profile.banners, *profile.notes))
    return trace_event_writer.write(path, about, _entries(profile, profile.origin or Path(path).stem))


def _entries(profile: Profile, title: str) -> Iterator[bytes]:
    yield process_name(_PROCESS, title, _PROCESS)
    numbers = count(_LANES)
    for track in tracks(profile):
        number_ = track.tid if track.lane < 0 and track.tid else next(numbers)
        yield thread_name(_PROCESS, number_, _title(profile, track))
        yield from _slices(profile, track, number_)


def _slices(profile: Profile, track: Track, number_: int) -> Iterator[bytes]:
    """Yield begin and end events; with begin and duration, rounding could make slices overlap in a reader.

    Both have the name, because some readers use it to match them.
    """
    for begins, time_ns, node in edges(profile, track):
        different, code = np.unique(profile.node_frames[node], return_inverse=True)
        frames = [profile.frames[at] for at in different.tolist()]
        yield from TraceEvents(
            name=EventColumn(code, None, tuple(map(label, frames))),
            category=EventColumn(code, None, tuple(frame.kind.name.lower() for frame in frames)),
            time_ns=time_ns,
            pid=_PROCESS,
            tid=number_,
        ).edges(begins)


def _title(profile: Profile, track: Track) -> str:
    root = int(track.stack[0])
    while profile.parents[root] >= 0:
        root = int(profile.parents[root])
    frame = profile.frames[profile.node_frames[root]]
    name = frame.name if frame.kind == FrameKind.THREAD else f"thread {track.tid}" if track.tid else "all threads"
    return name if track.lane < 0 else f"accelerator for {name}, lane {track.lane}"


def read(path: Path) -> Profile:
    """Read a V8 CPU profile or the samples of a trace.

    Raises:
        RecordingError: The file is not JSON, violates the format, or contains no samples; names the place.

    """
    notes: list[str] = []
    data = load(path, notes)
    with reading(path, "CPU profile"):
        if type(data) is dict and "nodes" in data:
            return _cpu_profile(data)
        if type(data) is dict and "samples" in data:
            return _sections(data)
        events = data if type(data) is list else part(data, "traceEvents", list, "")
        return _chunks(events, notes)


@dataclass
class _Thread:
    """A CPU profile, complete or as far as its chunks have been read; times in microseconds."""

    start: float
    end: float = 0.0
    tid: int = 0
    calls: dict[int, Any] = field(default_factory=dict)
    """Call frame of each node, by the node's id."""
    parents: dict[int, int] = field(default_factory=dict)
    samples: list[Any] = field(default_factory=list)
    deltas: list[Any] = field(default_factory=list)


def _cpu_profile(data: dict[str, Any]) -> Profile:
    start = number(data.get("startTime", 0), "startTime")
    thread = _Thread(start, number(data.get("endTime", 0), "endTime"))
    nodes = part(data, "nodes", list, "")
    hits: dict[int, int] = {}
    for place, node in enumerate(nodes):
        identity = _node(thread, node, f"nodes[{place}]")
        hits[identity] = part(node, "hitCount", int, f"nodes[{place}]", 0)
        for child in part(node, "children", list, f"nodes[{place}]", []):
            thread.parents[part({"child": child}, "child", int, f"nodes[{place}].children")] = identity
    thread.samples = part(data, "samples", list, "", [])
    thread.deltas = part(data, "timeDeltas", list, "", [])
    builder = ProfileBuilder()
    if thread.samples:
        return builder.build(unit="ns", origin=ORIGIN, duration_ns=_add(builder, thread, thread.start, ""))
    stacks = _Stacks(builder, thread)
    for identity, hit in hits.items():
        if hit > 0 and (node_ := stacks.of(identity, "nodes")) >= 0:
            builder.add(node_, hit)
    return builder.build(origin=ORIGIN)


def _chunks(events: list[Any], notes: list[str]) -> Profile:
    """Read the profiles of a trace; events of other tools with the same names are left out, with a note."""
    threads: dict[tuple[str, str], _Thread] = {}
    foreign: list[str] = []
    for row, event in enumerate(events):
        if type(event) is dict and event.get("ph") == "P" and event.get("name") in ("Profile", "ProfileChunk"):
            with _collecting(foreign):
                _chunk(threads, event, f"traceEvents[{row}]")
    threads = {key: thread for key, thread in threads.items() if thread.samples}
    builder = ProfileBuilder()
    begin = min((thread.start for thread in threads.values()), default=0.0)
    lengths = []
    for key, thread in threads.items():
        with _collecting(foreign):
            lengths.append(_add(builder, thread, begin, f"profile {key[1]}: "))
    if not lengths:
        why = foreign[0] if foreign else "contains no samples; slices are not a profile"
        raise PlaceError("traceEvents", why, "" if foreign else _SLICES)
    return builder.build(unit="ns", origin=ORIGIN, duration_ns=max(lengths), notes=[*notes, *_about(foreign)])


def _chunk(threads: dict[tuple[str, str], _Thread], event: dict[str, Any], place: str) -> None:
    """Add the content of an event to its thread."""
    data = part(part(event, "args", dict, place), "data", dict, f"{place}.args")
    place = f"{place}.args.data"
    key = (str(event.get("pid")), str(event.get("id")))
    if event["name"] == "Profile":
        start, tid = number(data.get("startTime", 0), f"{place}.startTime"), part(event, "tid", int, place, 0)
        thread = threads.setdefault(key, _Thread(0.0))
        thread.start, thread.tid = start, tid
        return
    profile = part(data, "cpuProfile", dict, place, {})
    samples, deltas = part(profile, "samples", list, place, []), part(data, "timeDeltas", list, place, [])
    nodes = part(profile, "nodes", list, place, [])
    thread = threads.setdefault(key, _Thread(0.0))
    for row, node in enumerate(nodes):
        identity = _node(thread, node, f"{place}.cpuProfile.nodes[{row}]")
        if "parent" in node:
            thread.parents[identity] = part(node, "parent", int, f"{place}.cpuProfile.nodes[{row}]")
    thread.samples += samples
    thread.deltas += deltas


@contextmanager
def _collecting(foreign: list[str]) -> Iterator[None]:
    """Append the reason if the block raises PlaceError."""
    try:
        yield
    except PlaceError as error:
        foreign.append(str(error))


def _about(foreign: list[str]) -> list[str]:
    return [f"not understood and left out: {len(foreign):,} (first: {foreign[0]})"] if foreign else []


def _node(thread: _Thread, node: Any, place: str) -> int:
    identity = part(node, "id", int, place)
    thread.calls[identity] = part(node, "callFrame", dict, place)
    return identity


class _Stacks:
    """Adds the stacks of a thread's nodes to a builder."""

    def __init__(self, builder: ProfileBuilder, thread: _Thread) -> None:
        self._builder = builder
        self._thread = thread
        self._known: dict[int, int] = {}

    def of(self, identity: Any, place: str) -> int:
        """Return the stack of a node; -1 for the root, which is a placeholder."""
        path = []
        seen: set[Any] = set()
        while True:
            if type(identity) is not int or identity not in self._thread.calls or identity in seen:
                raise PlaceError(place, f"refers to the missing node {identity!r:.40}")
            if identity in self._known:
                break
            seen.add(identity)
            path.append(identity)
            if identity not in self._thread.parents:
                break
            identity = self._thread.parents[identity]
        stack = self._known.get(identity, -1)
        for each in reversed(path):
            frame = _v8_frame(self._thread.calls[each], f"node {each}")
            stack = stack if frame.name == _ROOT else self._builder.node(self._builder.frame(*frame), stack)
            self._known[each] = stack
        return stack


def _v8_frame(call: Any, place: str) -> Frame:
    name = part(call, "functionName", str, place, "")
    if name == _IDLE:
        return Frame("idle", FrameKind.WAIT)
    # Lines count from 0; -1 means none.
    line = line_number(part(call, "lineNumber", int, place, -1) + 1, f"{place}.lineNumber")
    return Frame(_NOWHERE.get(name, name), FrameKind.OTHER, part(call, "url", str, place, ""), line)


def _add(builder: ProfileBuilder, thread: _Thread, begin: float, place: str) -> int:
    """Add a thread's samples, each lasting until the next; returns the end of the last one, ns since `begin`."""
    if len(thread.samples) != len(thread.deltas):
        raise PlaceError(f"{place}timeDeltas", f"has {len(thread.deltas)} entries for {len(thread.samples)} samples")
    deltas = [number(each, f"{place}timeDeltas[{row}]") for row, each in enumerate(thread.deltas)]
    # Times may go back a little: V8 writes samples in order of arrival.
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.rint((thread.start - begin + np.cumsum(np.array(deltas, np.float64))) * 1000)
    ended = (thread.end - begin) * 1000
    if not (np.abs(exact) < _MOST).all() or not ended < _MOST:
        raise PlaceError(f"{place}timeDeltas", "adds up to more than 2^62 ns")
    times = np.maximum(exact.astype(np.int64), 0)
    order = np.argsort(times, kind="stable")
    last = max(int(times[order[-1]]), round(ended))
    lengths = np.diff(times[order], append=last)
    known = _Stacks(builder, thread)
    stacks = [known.of(sample, f"{place}samples[{row}]") for row, sample in enumerate(thread.samples)]
    for row, length in zip(order.tolist(), lengths.tolist(), strict=True):
        stack = stacks[row]
        waits = thread.calls[thread.samples[row]].get("functionName") == _IDLE
        state = ThreadState.OFF_CPU if waits else ThreadState.CPU
        stack = stack if stack >= 0 else builder.node(builder.frame("idle", FrameKind.WAIT))
        builder.add(stack, length, time_ns=int(times[row]), tid=thread.tid, state=state)
    return last


def _sections(data: dict[str, Any]) -> Profile:
    """Read the sections `stackFrames` (frames by id, each with its parent's id) and `samples`."""
    frames = part(data, "stackFrames", dict, "")
    samples = part(data, "samples", list, "")
    builder = ProfileBuilder()
    known: dict[tuple[str, str], int] = {}
    rows = []
    foreign: list[str] = []
    for row, sample in enumerate(samples):
        place = f"samples[{row}]"
        with _collecting(foreign):
            frame, comm = str(part(sample, "sf", object, place)), part(sample, "comm", str, place, "")
            stack = _section(builder, frames, known, (comm, frame), f"{place}.sf")
            tid = _whole(sample.get("tid", 0), f"{place}.tid")
            weight = _whole(sample.get("weight", 1), f"{place}.weight")
            if weight < 0 or not 0 <= tid < 1 << 31:
                raise PlaceError(place, "has a negative weight or an invalid thread id")
            time = None if sample.get("ts") is None else _time(sample["ts"], f"{place}.ts")
            rows.append((stack, weight, time, tid, part(sample, "name", str, place, "")))
    if foreign and not rows:
        raise PlaceError("samples", foreign[0])
    times = [time for _, _, time, _, _ in rows if time is not None]
    begin = min(times, default=0)
    rows.sort(key=lambda row: NO_TIME if row[2] is None else row[2] - begin)
    for stack, weight, time, tid, _ in rows:
        builder.add(stack, weight, time_ns=NO_TIME if time is None else time - begin, tid=tid)
    whole = builder.build(origin=ORIGIN, duration_ns=max(times, default=0) - begin, notes=_about(foreign))
    return _weighed(whole, [event for *_, event in rows]) if rows else whole


def _weighed(whole: Profile, events: list[str]) -> Profile:
    """One profile per event; its samples are weighed by its period if any weight is not 1."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(event, len(numbers)) for event in events], np.int32)
    names = list(numbers)
    weighed = np.bincount(codes, whole.samples.weight != 1, len(names)) > 0
    units = [unit_of(name, weighed=bool(any_)) for name, any_ in zip(names, weighed, strict=True)]
    return by_event(whole, codes, names, units, ORIGIN)


def _section(
    builder: ProfileBuilder,
    frames: dict[str, Any],
    known: dict[tuple[str, str], int],
    leaf: tuple[str, str],
    place: str,
) -> int:
    """Return the stack of a frame below the name of a command, which may be ''."""
    comm, name = leaf
    path: dict[str, None] = {}
    while (comm, name) not in known:
        if name not in frames or name in path:
            raise PlaceError(place, f"refers to the missing frame {name!r:.40}")
        path[name] = None
        above = frames[name].get("parent") if type(frames[name]) is dict else None
        if above is None:
            break
        name = str(above)
    root = builder.node(builder.frame(comm, FrameKind.PROCESS)) if comm else -1
    stack = known.get((comm, name), root)
    for each in reversed(path):
        frame = builder.frame(part(frames[each], "name", str, f"stackFrames.{each}"), FrameKind.OTHER)
        stack = known[comm, each] = builder.node(frame, stack)
    return stack


def _whole(value: Any, place: str) -> int:
    """Return an integer, which may be written as a string."""
    if type(value) is str and value.isdecimal():
        return int(value)
    return index(value, 1 << 62, place)


def _time(value: Any, place: str) -> int:
    """Convert microseconds, which some tools write as strings, to ns."""
    try:
        return round(number(float(value) if type(value) is str else value, place) * 1000)
    except ValueError as error:
        raise PlaceError(place, f"is not a time: {value!r:.40}") from error


@dataclass(frozen=True)
class Track:
    """Consecutive samples without overlap: those of a thread, or one lane of its accelerator work.

    Attributes:
        tid: Thread; 0 if unknown.
        lane: -1 for the thread itself; else the number of a lane of its accelerator work.
        stack: (n,) int32, each sample's stack.
        begin: (n,) int64 ns, ascending.
        end: (n,) int64 ns, at most the begin of the next.

    """

    tid: int
    lane: int
    stack: NDArray[np.int32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def tracks(profile: Profile) -> Iterator[Track]:
    """Arrange the samples of a timed profile in time.

    A weight in ns is the sample's length, truncated at the thread's next sample. In other units, samples of one moment
    share the time until the next moment, in proportion to their weights; those of the last moment share the median
    interval. Accelerator work may overlap and therefore has separate lanes.
    """
    samples = profile.samples
    remote = samples.state == ThreadState.ACCELERATOR
    for tid in np.unique(samples.tid).tolist():
        for lane, rows in ((-1, ~remote), (0, remote)):
            chosen = np.flatnonzero((samples.tid == tid) & rows)
            if not len(chosen):
                continue
            begin = samples.time_ns[chosen]
            if profile.unit == "ns" and lane == 0:
                yield from _in_lanes(tid, samples.stack[chosen], begin, begin + samples.weight[chosen])
                continue
            begin, end = _lengths(begin, samples.weight[chosen], exact=profile.unit == "ns")
            yield Track(tid, lane, samples.stack[chosen], begin, end)


def _in_lanes(tid: int, stack: NDArray[np.int32], begin: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[Track]:
    given = lanes(begin, end)
    for lane in np.unique(given).tolist():
        rows = np.flatnonzero(given == lane)
        yield Track(tid, lane, stack[rows], begin[rows], end[rows])


def _lengths(
    times: NDArray[np.int64], weights: NDArray[np.int64], *, exact: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begin and end of each sample, ns."""
    moments, first, inverse = np.unique(times, return_index=True, return_inverse=True)
    gaps = np.diff(moments)
    usual = int(np.median(gaps)) if len(gaps) else 1_000_000
    room = np.append(gaps, np.iinfo(np.int64).max if exact else usual)[inverse]
    before = np.concatenate([[0], np.cumsum(weights)])
    offset = before[:-1] - before[first][inverse]  # weight of earlier samples of the same moment
    if exact:
        begin = times + np.minimum(offset, room)
        return begin, np.minimum(times + np.minimum(offset + weights, room), np.iinfo(np.int64).max)
    of_moment = np.maximum(np.bincount(inverse, weights), 1)[inverse]
    begin = times + (room * (offset / of_moment)).astype(np.int64)
    return begin, times + (room * ((offset + weights) / of_moment)).astype(np.int64)


def edges(profile: Profile, track: Track) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the begins and ends of a track's slices in order, in pieces.

    Frames shared by adjacent samples form one slice; samples of length 0 are dropped.

    Yields:
        Whether each edge is a begin, its time in ns and its node, (edges,) each.

    """
    positive = track.end > track.begin
    stack, begin, end = (column[positive] for column in (track.stack, track.begin, track.end))
    before, after = np.append(-1, stack), np.append(stack, -1)
    ended, begun = np.append(begin[:1], end), np.append(begin, end[-1:])
    for start in range(0, len(ended), _PIECE):
        rows = slice(start, start + _PIECE)
        changes = np.stack([before[rows], after[rows], ended[rows] == begun[rows]])
        different, inverse = np.unique(changes, axis=1, return_inverse=True)
        of_changes = [_edges_of_change(profile, *change) for change in different.T.tolist()]
        begins, nodes = (np.concatenate(columns) for columns in zip(*of_changes, strict=True))
        lengths = np.array([len(column) for column, _ in of_changes])
        first, counts = (np.cumsum(lengths) - lengths)[inverse.ravel()], lengths[inverse.ravel()]
        at = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        times = np.where(begins[at], np.repeat(begun[rows], counts), np.repeat(ended[rows], counts))
        yield begins[at], times, nodes[at]


def _edges_of_change(
    profile: Profile, before: int, after: int, adjacent: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether each edge between two stacks is a begin, and its node; -1 is no stack."""
    ending, beginning = profile.nodes(before), profile.nodes(after)
    kept = _common(ending, beginning) if adjacent else 0
    nodes = [*reversed(ending[kept:]), *beginning[kept:]]
    return np.arange(len(nodes)) >= len(ending) - kept, np.array(nodes, np.int64)


def _common(path: list[int], other: list[int]) -> int:
    """Length of the common prefix."""
    return next(
        (depth for depth, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other))
    )

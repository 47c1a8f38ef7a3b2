"""Replaying recordings of every kind at their own speed."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from accel_magic.api.block import AttachedT, Steps
from accel_magic.api.open import read_recording
from accel_magic.api.probe_trace import result_of
from accel_magic.banners import Replayed
from accel_magic.cluster.folders import is_folder
from accel_magic.codec import Descriptor
from accel_magic.errors import MachineError, RecordingError
from accel_magic.gpu.gpu_samples import Feed, GpuSample
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import buckets
from accel_magic.kernel.attachment import HEAD, PayloadItem, PointLayout, RecordLayout
from accel_magic.kernel.own_threads import at_work
from accel_magic.recording import container, gpu_store
from accel_magic.recording.live_samples import LiveFeed
from accel_magic.recording.local_playback import LocalPlayback
from accel_magic.recording.reader import reader_client
from accel_magic.recording.reader.reader_messages import Playback, PlayedRing
from accel_magic.recording.reader.sources import Played
from accel_magic.recording.recording import (
    CounterSamples,
    EventColumn,
    Events,
    Histograms,
    Outcome,
    Recording,
    ThreadCounts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.engine.session import Show
    from accel_magic.engine.trace_kinds import Kind
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.gpu_data import GpuRecording
    from accel_magic.recording.live_samples import LiveSample
    from accel_magic.recording.reader.reader_client import Prepared
    from accel_magic.result_bases.base import Result
    from accel_magic.results.cluster_result import ClusterResult
    from accel_magic.results.flame_result import FlameResult
    from accel_magic.results.gpu_result import GpuResult
    from accel_magic.results.trace_result import TraceResult


RecordingT = TypeVar("RecordingT", bound="Recording | GpuRecording")
ResultT = TypeVar("ResultT", bound="Result")


class Player(Steps[ResultT, AttachedT], Generic[RecordingT, ResultT, AttachedT]):
    """One replay: `attach`, `go`, then `wait`; or `rest` and `stop`, after the code that runs along has ended.

    Args:
        recording: The recording to replay.
        replayed: The label of its result.
        speed: Factor on the recorded speed.
        kind: The kind of trace that recorded it.

    """

    def __init__(self, recording: RecordingT, replayed: Replayed, speed: float, kind: Kind) -> None:
        super().__init__(kind)
        self.recording = recording
        self.replayed: Replayed = replayed
        self.imported = recording.imported
        self._speed = speed

    @property
    def machine(self) -> dict[str, str]:
        """The machine that was traced."""
        return self.recording.machine

    @property
    def length_s(self) -> float:
        """Duration of the replay in seconds."""
        return self.recording.duration_ns / self._speed / 1e9

    def go(self) -> None:
        """Start the replay."""
        self.start_ns = time.monotonic_ns()

    def rest(self) -> None:
        """Wait until the recording's end."""
        end_ns = self.start_ns + int(self.length_s * 1e9)
        while (left := end_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left / 1e9, 0.1))

    def wait(self) -> ResultT:
        """Wait until the recording's end and return the result; an interrupt ends the replay early with a result."""
        error: BaseException | None = None
        try:
            self.rest()
        except BaseException as interrupt:  # noqa: BLE001 - raised once the replay has ended
            error = interrupt
        exception = self.end(error)
        for raised in (error, exception):
            if raised is not None:
                raise raised
        return self.result


_PAYLOAD = (PayloadItem("duration_ns", "s64", 0), PayloadItem("row", "u64", 8))
_LAYOUT = RecordLayout(
    cpus=1, points=1, latencies=0, record_sizes=(HEAD.itemsize + 16,), point_layouts=(PointLayout(0, _PAYLOAD),)
)


@dataclass(frozen=True)
class _Playing:
    """What plays a recording, and the thread that shows live samples, if they are shown.

    Attributes:
        reading: The reader's side; None on systems that have no reader.
        local: What plays it in this process there.
        feed: The thread.

    """

    reading: Prepared | None = None
    local: LocalPlayback | None = None
    feed: LiveFeed | Feed[LiveSample] | None = None

    def go(self, start_ns: int) -> None:
        """Start; `start_ns` is on CLOCK_MONOTONIC."""
        for playing in (self.reading, self.local):
            if playing is not None:
                playing.go(start_ns)


class Replay(Player[Recording, "TraceResult | FlameResult", _Playing]):
    """One replay of a trace. Needs no privilege and no BCC.

    Args:
        path: A file written by `--save` or `TraceResult.to_parquet`, or another tracer's output with times.
        speed: Factor on the recorded speed.

    Raises:
        RecordingError: The file is damaged, foreign or from a newer version, or it has no times.

    """

    def __init__(self, path: str | Path, *, speed: float = 1.0) -> None:
        recording = self._read(path)
        imported = recording.imported
        if imported is not None and not imported.timed:
            raise RecordingError(
                f"{path} cannot be replayed",
                why=f"this {imported.format} has no times",
                fix=f"open it as a result: accel_magic.open({str(path)!r})",
                code="recording.not-playable",
            )
        machine = recording.machine
        device = machine.get("device", "none")
        where = machine.get("cpu", "") if device == "none" else device
        kernel = machine.get("kernel", "" if imported else "?")
        parts = [f"Linux {kernel}" if kernel else "", where, recording.started[:10]]
        recorded_on = ", ".join(filter(None, parts)) or "an unknown machine"
        kind: Kind = "ktrace" if recording.flame is None else "flame"
        super().__init__(recording, Replayed(str(path), recorded_on), speed, kind)

    def _read(self, path: str | Path) -> Recording:
        return read_recording(path)

    def prepare(self) -> Plan:
        """Return the plan of the recording."""
        return self.recording.plan

    def _attach(self, show: Show | None) -> _Playing:
        return self._in_reader(show) if sys.platform == "linux" else self._in_this_process(show)

    def _in_this_process(self, show: Show | None) -> _Playing:
        recording, feed = self.recording, None
        local = LocalPlayback(
            _played(recording, self._speed), [point.function for point in recording.plan.latency_points]
        )
        with uninterrupted():
            if show is not None:
                feed = Feed(local.sample, show)
                self._undo.callback(feed.stop)
                feed.start()
        return _Playing(local=local, feed=feed)

    def _in_reader(self, show: Show | None) -> _Playing:
        feed = None
        with uninterrupted():
            if show is not None:
                feed = LiveFeed(self.recording.plan, show)
                self._undo.callback(feed.stop)
                feed.start()
            reading = self._handed_over(feed)
            self._undo.callback(reading.drop)
        return _Playing(reading, feed=feed)

    def _handed_over(self, feed: LiveFeed | None) -> Prepared:
        recording = self.recording
        samples = recording.samples
        files = [_file(samples.times_ns, samples.hits, _added(recording)), _file(*_transport(recording))]
        table, records = map(Descriptor, files)
        source = Playback(
            layout=_LAYOUT,
            table=table,
            rings=(PlayedRing(file=records, count=len(recording.events)),),
            points=len(recording.plan.points),
            samples=len(recording.samples.times_ns),
            latency_points=tuple(point.id for point in recording.plan.latency_points),
            lost=tuple(recording.lost.tolist()),
            length_ns=recording.duration_ns,
            speed=self._speed,
        )
        try:
            return reader_client.shared().prepare(source, live=None if feed is None else feed.theirs.fileno())
        finally:
            for fd in files:
                os.close(fd)

    def go(self) -> None:
        """Start the replay."""
        super().go()
        with uninterrupted():  # a truncated message would end the reader process
            self.attached.go(self.start_ns)

    def _finish(self, attached: _Playing, outcome: Outcome, value: object) -> TraceResult | FlameResult:
        end_ns = time.monotonic_ns()
        played_ns = int((end_ns - self.start_ns) * self._speed)
        if attached.feed is not None:
            attached.feed.stop()
        records = self._records_until(attached, played_ns, end_ns)
        rows = np.ascontiguousarray(records["payload"]).view(np.uint64).reshape(-1, 2)[:, 1]
        return result_of(self._result_recording(rows, played_ns, outcome), value)

    def _records_until(self, attached: _Playing, played_ns: int, end_ns: int) -> NDArray[np.void]:
        """The records that were played: those that the reader delivered, if there is one."""
        with suppress(MachineError):  # the reader died; nothing is lost, because the recording is here
            if attached.reading is not None:
                return attached.reading.stop(self.start_ns, end_ns).rings[0].view(_LAYOUT.record(0))
        released_ns, records = _transport(self.recording)
        return records[released_ns <= played_ns]

    def _result_recording(self, rows: NDArray[np.uint64], played_ns: int, outcome: Outcome) -> Recording:
        whole = self.recording
        if played_ns >= whole.duration_ns:
            events = _rows_of(whole.events, np.sort(rows).astype(np.intp))
            return replace(whole, load_events=lambda: events, event_count=len(rows), replayed=self.replayed)
        return _cut(whole, np.sort(rows).astype(np.intp), played_ns, outcome, self.replayed)


class ClusterReplay(Replay):
    """One replay of a folder of many processes' recordings: their sums, on one clock.

    Args:
        path: A folder that `accel-magic run` wrote.
        speed: Factor on the recorded speed.

    Raises:
        RecordingError: The folder has no recordings of nodes, or those of several runs.
        ResultError: No node has a recording.

    """

    def _read(self, path: str | Path) -> Recording:
        from accel_magic.results.cluster_result import gathered

        self._whole = gathered(Path(path).expanduser())
        return self._whole.recording

    def _finish(self, attached: _Playing, outcome: Outcome, value: object) -> ClusterResult:
        """Return the whole result even after an early end, because the nodes' parts are not cut."""
        from accel_magic.results.cluster_result import ClusterResult

        super()._finish(attached, outcome, value)
        return ClusterResult([part.replayed(self.replayed) for part in self._whole.parts], value)


def player(path: str | Path, *, speed: float = 1.0) -> Player[Any, Any, Any]:
    """Make the replay of a recording of any kind, at `speed` times its own speed.

    Raises:
        RecordingError: The file is damaged, foreign or from a newer version, or cannot be replayed.

    """
    from accel_magic.recording import gpu_store, profile_store

    place = Path(path).expanduser()
    if is_folder(place):
        return ClusterReplay(path, speed=speed)
    there = place.is_file()
    if there and gpu_store.KIND.key in container.keys(place):
        return GpuReplay(path, speed=speed)
    if there and profile_store.is_profile(place):
        raise RecordingError(
            f"{path} cannot be replayed",
            why="it is a profile without events, e.g. from the thread sampler",
            fix=f"open it as a result: accel_magic.open({str(path)!r})",
            code="recording.not-playable",
        )
    return Replay(path, speed=speed)


def replay(path: str | Path, *, speed: float = 1.0) -> TraceResult | FlameResult | GpuResult:
    """Replay a recording of `%%ktrace`, `%%flame` or `%%gputrace` at `speed` times its own speed.

    Returns:
        The same result as from `accel_magic.open`, labeled as a replay.

    Raises:
        RecordingError: The file is damaged, foreign or from a newer version, or cannot be replayed.
        TraceStateError: A trace of the same kind is running.

    """
    with at_work():
        playing = player(path, speed=speed)
        playing.prepare()
        try:
            playing.attach()
            playing.go()
            result: TraceResult | FlameResult | GpuResult = playing.wait()
        finally:
            playing.abort()
    return result


def _file(*parts: NDArray[np.generic]) -> int:
    """Descriptor of an anonymous file with these arrays, concatenated."""
    fd = os.memfd_create("replay")
    with os.fdopen(os.dup(fd), "wb") as file:
        for part in parts:
            file.write(np.ascontiguousarray(part).tobytes())
    return fd


def _played(recording: Recording, speed: float) -> Played:
    """The recording as `LocalPlayback` needs it."""
    return Played(
        times_ns=recording.samples.times_ns,
        hits=recording.samples.hits,
        added=_added(recording),
        rings=(_transport(recording),),
        latency_points=tuple(point.id for point in recording.plan.latency_points),
        lost=tuple(recording.lost.tolist()),
        length_ns=recording.duration_ns,
        speed=speed,
    )


def _durations(recording: Recording) -> NDArray[np.int64]:
    column = recording.events.columns.get("duration_ns")
    if column is None:
        return np.zeros(len(recording.events), np.int64)
    values = column.values.astype(np.int64)
    return values if column.valid is None else np.where(column.valid, values, 0)


def _transport(recording: Recording) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Release times (a call is released when it returns) and records, both in order of release."""
    columns = recording.events.columns
    durations = _durations(recording)
    release_ns = columns["time_ns"].values.astype(np.int64) + durations
    order = np.argsort(release_ns, kind="stable")
    records = np.zeros(len(order), _LAYOUT.record(0))
    head = records["head"]
    head["time"] = columns["time_ns"].values[order]
    for name in ("pid", "tid", "cpu", "point"):
        head[name] = columns[name].values[order]
    payload = np.stack([durations[order].view(np.uint64), order.astype(np.uint64)], axis=1)
    records["payload"] = np.ascontiguousarray(payload).view("V16").ravel()
    return release_ns[order], records


def _added(recording: Recording) -> NDArray[np.int64]:
    """Rows (time, point, value) in order of time: the values that points with a sum added, from the recorded events."""
    columns = recording.events.columns
    parts = [np.zeros((0, 3), np.int64)]
    for point in recording.plan.points:
        if not point.total or point.total not in columns:
            continue
        rows = np.flatnonzero(columns["point"].values == point.id)
        if point.latency:
            rows = rows[columns["retval"].values[rows].astype(np.int32) == 0]
        times = columns["time_ns"].values[rows] + _durations(recording)[rows]
        values = columns[point.total].values[rows].astype(np.int64)
        parts.append(np.column_stack([times, np.full(len(rows), point.id), values]).astype(np.int64))
    table = np.concatenate(parts)
    return table[np.argsort(table[:, 0], kind="stable")]


def _rows_of(events: Events, rows: NDArray[np.intp]) -> Events:
    return Events(
        {
            name: EventColumn(
                column.values[rows], None if column.valid is None else column.valid[rows], column.categories
            )
            for name, column in events.columns.items()
        }
    )


def _cut(whole: Recording, rows: NDArray[np.intp], played_ns: int, outcome: Outcome, replayed: Replayed) -> Recording:
    """The recording up to where it was replayed: hits of the last sample, histograms of the delivered events."""
    events = _rows_of(whole.events, rows)
    keep = whole.samples.times_ns <= played_ns
    samples = CounterSamples(whole.samples.times_ns[keep], whole.samples.hits[keep])
    # Events since the last sample are hits too.
    played = np.bincount(events.columns["point"].values.astype(np.intp), minlength=len(whole.plan.points)).astype(
        np.uint64
    )
    hits = np.maximum(samples.hits[-1], played)
    points = whole.plan.latency_points
    counts = np.zeros((len(points), buckets.COUNT), np.uint64)
    totals, largest = np.zeros(len(points), np.uint64), np.zeros(len(points), np.uint64)
    durations = _durations(whole)[rows]
    whole_trace = played_ns >= whole.duration_ns
    for row, point in enumerate(points):
        if point.counted:  # without events, only the whole is known
            if whole_trace:
                of_all = whole.histograms
                counts[row], totals[row], largest[row] = of_all.counts[row], of_all.total_ns[row], of_all.max_ns[row]
            continue
        chosen = durations[events.columns["point"].values == point.id]
        counts[row] = np.bincount(buckets.index_of(chosen), minlength=buckets.COUNT)
        totals[row] = chosen.sum()
        largest[row] = chosen.max(initial=0)
    return replace(
        whole,
        duration_ns=played_ns,
        hits=hits,
        lost=np.zeros_like(whole.lost),
        unpaired=np.zeros_like(whole.unpaired),
        totals=np.zeros_like(whole.totals),
        histograms=Histograms(counts, totals, largest),
        samples=samples,
        event_count=len(events),
        limit_reached=False,
        load_events=lambda: events,
        by_thread=whole.by_thread if whole_trace else ThreadCounts.of_rows(()),
        outcome=outcome,
        replayed=replayed,
    )


class GpuReplay(Player["GpuRecording", "GpuResult", "GpuRecording"]):
    """One replay of a GPU trace. Needs no GPU and no package of the GPU extra.

    Args:
        path: A file written by `--save` or `GpuResult.to_parquet`.
        speed: Factor on the recorded speed.

    Raises:
        RecordingError: The file is damaged, foreign or from a newer version.

    """

    def __init__(self, path: str | Path, *, speed: float = 1.0) -> None:
        recording = gpu_store.load(path)
        parts = [recording.device, recording.started[:10]]
        super().__init__(recording, Replayed(str(path), ", ".join(filter(None, parts))), speed, "gputrace")

    def prepare(self) -> GpuRecording:
        """Return the recording."""
        return self.recording

    def _attach(self, show: Callable[[list[GpuSample]], None] | None) -> GpuRecording:
        self.start_ns = time.monotonic_ns()
        if show is not None:
            with uninterrupted():
                feed = Feed(self._sample, show)
                self._undo.callback(feed.stop)
                feed.start()
        return self.recording

    def _finish(self, attached: GpuRecording, outcome: Outcome, value: object) -> GpuResult:  # noqa: ARG002 - the recording's stays
        """Return the whole recording even after an early end, because the maps' earlier contents are not recorded."""
        from accel_magic.results.gpu_result import GpuResult

        return GpuResult(replace(attached, replayed=self.replayed), value)

    def _sample(self) -> GpuSample:
        recording = self.recording
        now = min(int((time.monotonic_ns() - self.start_ns) * self._speed), recording.duration_ns)
        return GpuSample(
            time_ns=now,
            launches=int((recording.launches["time_ns"] <= now).sum()),
            kernels=len(recording.kernels),
            instrumented=int(recording.kernels["instrumented"].sum()),
            lost=recording.lost if now == recording.duration_ns else 0,
            device=recording.device,
        )

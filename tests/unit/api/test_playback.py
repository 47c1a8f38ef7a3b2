"""Replayed recordings: the same result, at a chosen speed, labeled, and cut where they are stopped."""

import gc
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.api import block
from accel_magic.api import replay as replaying
from accel_magic.api.replay import Replay, replay
from accel_magic.cluster import clock, folders
from accel_magic.cluster.node import Node
from accel_magic.errors import RecordingError, TraceStateError
from accel_magic.recording import dataset
from accel_magic.recording.reader import reader_client
from accel_magic.recording.recording import EventColumn, ThreadCounts
from accel_magic.recording.recording_store import save

pytestmark = pytest.mark.component


@pytest.fixture
def saved(rich_recording, tmp_path):
    """The file of a one-second recording of 40 reads, 8 timed calls and no ioctl."""
    return save(rich_recording, tmp_path / "recorded.parquet")


@pytest.fixture
def steady(make_recording, tmp_path):
    """The file of a one-second recording with a call of 5 ms every 10 ms and a counter sample every 50 ms."""
    events = [(i * 10_000_000, 0, 5_000_000) for i in range(100)]
    times = list(range(0, 1_000_000_001, 50_000_000))
    samples = (times, [[min(at // 10_000_000, 100)] for at in times])
    return save(make_recording(["latency:uprobe:/lib/x:f"], events, samples=samples), tmp_path / "steady.parquet")


@pytest.fixture
def job(make_recording, tmp_path):
    """The folder of two ranks with 30 and 12 calls."""
    for rank, count in enumerate((30, 12)):
        node = Node("elsewhere", rank, rank, "7", f"rank {rank}")
        part = folders.make(tmp_path / "job", node, "7")
        events = [(i * 10_000_000, 0, 5_000_000) for i in range(count)]
        recording = make_recording(["latency:uprobe:/lib/x:f"], events)
        dataset.write(replace(recording, hits=np.array([count], np.uint64)), part)
        folders.write(part, folders.PartDescription(node, "ended", (clock.read(),)))
    return tmp_path / "job"


def test_a_complete_replay_equals_the_recording_and_is_labeled(saved, rich_recording):
    result = replay(saved, speed=20)

    assert result.hits == int(rich_recording.hits.sum())
    assert result.lost == 2
    assert result.recorded == len(result.events) == 48
    assert result.recording.duration_ns == rich_recording.duration_ns
    for name, column in rich_recording.events.columns.items():
        np.testing.assert_array_equal(result.recording.events.columns[name].values, column.values)
    np.testing.assert_array_equal(result.recording.histograms.counts, rich_recording.histograms.counts)
    assert result.recording.replayed.path == str(saved)
    assert "6.18.0-test" in result.recording.replayed.recorded_on
    assert "2026-11-21" in result.recording.replayed.recorded_on
    assert str(result).startswith("REPLAY: recorded on ")


def test_a_replay_takes_the_recordings_duration_divided_by_the_speed(make_recording, tmp_path):
    hour = save(make_recording(duration_ns=3_600 * 10**9), tmp_path / "hour.parquet")
    start = time.monotonic()
    replay(hour, speed=7_200)

    assert 0.5 <= time.monotonic() - start < 3_600


@pytest.mark.parametrize("stopped", [False, True])
def test_a_folder_of_many_processes_is_replayed_as_their_sum(job, stopped):
    seen = []
    playing = replaying.player(job, speed=10)
    playing.prepare()
    playing.attach(seen.extend)
    playing.go()
    result = playing.stop() if stopped else playing.wait()

    assert len(seen) > 0 or stopped
    assert result.nodes["hits"].tolist() == [30, 12]
    assert result.hits == len(result.events) == 42
    assert result.events.groupby("rank").size().to_dict() == {0: 30, 1: 12}
    assert str(job) in str(result.recording.replayed.path)
    assert "REPLAY: recorded on " in str(result)
    assert "REPLAY: recorded on " in str(result.part(1))


def played_live(player, until):
    """Play until a live sample fulfils a condition; return the samples with the time when each came, and the result."""
    seen = []
    player.prepare()
    begun_ns = time.monotonic_ns()
    player.attach(lambda samples: seen.extend((time.monotonic_ns() - begun_ns, sample) for sample in samples))
    player.go()
    end = time.monotonic() + 120
    while not seen or not until(seen[-1][1]):
        assert time.monotonic() < end
        time.sleep(0.02)
    return seen, player.stop()


def test_live_samples_show_the_counters_at_their_time(steady):
    seen, result = played_live(Replay(steady), until=lambda sample: sample.recorded == 100 and sample.hits[0] == 100)
    counted = lambda ns: min(ns // 50_000_000 * 5, 100)  # noqa: E731
    # An event is recorded when its call returns, 5 ms after it began.
    returned = lambda ns: min(max(ns + 5_000_000, 0) // 10_000_000, 100)  # noqa: E731
    previous_ns = 0
    for came_ns, sample in seen:
        assert counted(sample.time_ns) <= sample.hits[0] <= counted(came_ns)
        assert returned(previous_ns) <= sample.recorded <= returned(came_ns)  # read a moment before the clock
        if sample.recorded:
            assert sample.latency[0].p50_ns == pytest.approx(5_000_000, rel=0.032)
        previous_ns = sample.time_ns
    assert result.hits == 100


def test_a_replay_stopped_halfway_has_what_was_replayed(steady):
    player = Replay(steady, speed=0.1)
    player.prepare()
    player.attach()
    begun_ns = time.monotonic_ns()
    player.go()
    time.sleep(0.54)  # at 54 ms of the recording
    result = player.stop("interrupted")
    most_ns = (time.monotonic_ns() - begun_ns) // 10

    assert result.recording.outcome == "interrupted"
    assert 54_000_000 <= result.recording.duration_ns <= most_ns
    played = len(result.events)
    assert (result.recording.duration_ns + 5_000_000) // 10_000_000 <= played <= (most_ns + 5_000_000) // 10_000_000
    assert result.events["time_ns"].tolist() == [i * 10_000_000 for i in range(played)]
    assert result.hits >= played
    assert result.latency["count"].tolist() == [played]
    assert result.latency["max_ns"].tolist() == [5_000_000]
    assert result.recording.samples.times_ns[-1] <= result.recording.duration_ns
    assert result.recording.replayed is not None


def test_an_interrupted_replay_keeps_what_was_replayed(steady, monkeypatch):
    def interrupted(self):
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr(Replay, "rest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replay(steady)

    assert block.last().recording.outcome == "interrupted"
    assert 10 <= len(block.last().events) <= 40


def test_a_second_replay_is_rejected_and_the_first_continues(saved, steady):
    player = Replay(steady, speed=4)
    player.prepare()
    player.attach()
    player.go()
    with pytest.raises(TraceStateError) as caught:
        replay(saved)

    assert caught.value.fix
    assert player.wait().hits == 100
    assert replay(saved, speed=50).recorded == 48


def test_recordings_of_two_kinds_replay_at_the_same_time(steady, rich_recording, tmp_path):
    from accel_magic.recording.flame_data import FlameFacts

    flame = save(replace(rich_recording, flame=FlameFacts(99)), tmp_path / "flame.parquet")
    players = [Replay(steady, speed=2), Replay(flame, speed=4)]
    for player in players:
        player.prepare()
        player.attach()
    for player in players:
        player.go()
    first, second = (player.wait() for player in players)

    assert (first.hits, len(first.events)) == (100, 100)
    assert (second.recording.event_count, len(second.events)) == (48, 48)
    assert [type(result).__name__ for result in (first, second)] == ["TraceResult", "FlameResult"]


def test_an_aborted_replay_leaves_nothing_in_the_reader(steady):
    def recordings():
        links = (path.readlink() for path in Path(f"/proc/{reader_client.shared().pid}/fd").iterdir())
        return [link.name for link in links if link.name.startswith(("memfd:replay", "memfd:records", "memfd:samples"))]

    for _ in range(3):
        player = Replay(steady)
        player.prepare()
        player.attach()
        player.go()
        player.abort()
        player.abort()
    assert replay(steady, speed=50).hits == 100

    end = time.monotonic() + 20  # the reader answers before it closes them
    while recordings() and time.monotonic() < end:
        time.sleep(0.01)
    assert recordings() == []


def test_replay_accepts_every_kind_of_recording(saved, rich_recording, tmp_path):
    from accel_magic.recording.flame_data import FlameFacts

    flame = save(replace(rich_recording, flame=FlameFacts(99)), tmp_path / "flame.parquet")

    assert type(accel_magic.replay(saved, speed=50)) is accel_magic.TraceResult
    result = accel_magic.replay(flame, speed=50)
    assert type(result) is accel_magic.FlameResult
    assert result.recording.replayed.path == str(flame)
    assert accel_magic.last is result


def test_files_that_cannot_be_replayed_are_rejected_with_a_fix(tmp_path):
    from accel_magic.recording.profile import ProfileBuilder

    profile = tmp_path / "profile.parquet"
    accel_magic.ProfileResult(ProfileBuilder().build()).to_parquet(profile)

    with pytest.raises(RecordingError) as caught:
        replay(profile)
    assert caught.value.code == "recording.not-playable"
    assert "accel_magic.open" in caught.value.fix
    with pytest.raises(RecordingError):
        replay(tmp_path / "nowhere.parquet")


def test_a_replay_beside_a_slower_cell_ends_with_the_cell(saved):
    player = Replay(saved, speed=10)
    player.prepare()
    player.attach()
    player.go()
    time.sleep(0.3)
    result = player.stop("ok", "value")

    assert (result.value, result.recorded) == ("value", 48)


def test_a_recording_without_events_can_be_replayed(make_recording, tmp_path):
    path = save(make_recording(["tracepoint:a:b"], [], hits=[9], plan={"mode": "count"}), tmp_path / "counts.parquet")

    result = replay(path, speed=20)

    assert (result.hits, result.recorded, len(result.events)) == (9, 0, 0)


def test_a_file_that_is_not_a_recording_is_rejected_before_anything_starts(tmp_path):
    path = tmp_path / "other.parquet"
    path.write_bytes(b"PAR1")

    with pytest.raises(RecordingError):
        Replay(path)
    with pytest.raises(RecordingError):
        replay(tmp_path / "nowhere.parquet")


def test_a_replay_works_in_a_thread(saved):
    results = []
    thread = threading.Thread(target=lambda: results.append(replay(saved, speed=20)))
    thread.start()
    thread.join()

    assert results[0].recorded == 48


def test_no_file_descriptor_leaks(saved):
    replay(saved, speed=100)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(10):
        replay(saved, speed=100)

    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_live_samples_have_the_sums_at_their_time(make_recording, make_point, tmp_path):
    point = make_point(0, "latency:uprobe:/lib/x:f", total="size")
    events = [(i * 10_000_000, 0, 5_000_000) for i in range(100)]
    columns = {
        "size": EventColumn(np.arange(100, dtype=np.uint64)),
        "retval": EventColumn(
            np.where(np.arange(100) % 2, -12, 1 << 32).astype(np.int64)
        ),  # an int's upper half is noise
    }
    path = save(make_recording([point], events, columns=columns), tmp_path / "sizes.parquet")
    sums = np.cumsum(range(0, 100, 2))
    seen, _ = played_live(Replay(path, speed=2), until=lambda sample: int(sample.totals[0]) == sums[-1])

    for came_ns, sample in seen:
        returned = [i for i in range(0, 100, 2) if i * 10_000_000 + 5_000_000 <= 2 * sample.time_ns]
        assert sample.totals[0] in (0, *sums)
        assert sum(returned) <= sample.totals[0]  # the clock is read a moment before the table
        assert sample.totals[0] == 0 or sample.totals[0] <= sum(
            i for i in range(0, 100, 2) if i * 10_000_000 + 5_000_000 <= 2 * came_ns
        )


def test_counts_without_events_are_known_when_all_of_the_recording_was_replayed(make_recording, make_point, tmp_path):
    points = [make_point(0, "tracepoint:a:b"), make_point(1, "latency:tracepoint:syscalls:sys_enter_c", counted=True)]
    whole = make_recording(
        points,
        [(10, 0)],
        hits=[1, 40],
        durations={1: [5000] * 40},
        duration_ns=50_000_000,
        by_thread=ThreadCounts.of_rows([[1, 7, 8, 40, 200_000]]),
    )
    path = save(whole, tmp_path / "t.parquet")
    played = replay(path, speed=2).recording

    assert played.hits.tolist() == [1, 40]
    assert played.histograms.total_ns.tolist() == [200_000]
    assert played.by_thread.rows == whole.by_thread.rows

"""Files of events that come from workers, which may send anything."""

import shutil

import numpy as np
import pytest

from accel_magic.api.cluster import fetching
from accel_magic.errors import RecordingError
from accel_magic.recording import dataset
from accel_magic.recording.record_decoder import decode
from tests.support import synthetic
from tests.support.errors import raises

ROWS = 300
DESCRIPTION = dataset.DESCRIPTION


@pytest.fixture
def worker(tmp_path):
    """A worker's dataset: reads a file in pieces, as a node would send it."""
    events = decode(synthetic.LAYOUT, synthetic.as_bytes(synthetic.records(ROWS, 0)), synthetic.START_NS)
    folder = dataset.write(synthetic.recording(lambda: events, ROWS), tmp_path / "there")

    def read(name):
        data = (folder / name).read_bytes()
        yield from (data[at : at + 1000] for at in range(0, len(data), 1000))

    return folder, read


def fetched(worker, read=None, count=ROWS):
    folder, own = worker
    return fetching.recording_of((folder / DESCRIPTION).read_bytes(), count, read or own)


def test_events_are_copied_once_and_are_those_of_the_worker(worker):
    recording = fetched(worker)
    own = dataset.load(worker[0]).events

    assert np.array_equal(recording.events.columns["time_ns"].values, own.columns["time_ns"].values)
    shutil.rmtree(worker[0])
    assert len(recording.load_events()) == ROWS


def endless(name):
    while True:
        yield bytes(1 << 20)


def changed(read):
    def lying(name):
        for number, data in enumerate(read(name)):
            yield data if number or not name.endswith(".parquet") else data[:500] + bytes(1) + data[501:]

    return lying


def cut(read):
    def lying(name):
        yield next(read(name))

    return lying


@pytest.mark.parametrize("lie", [endless, changed, cut])
def test_files_that_are_not_what_the_manifest_says_are_an_error(worker, lie):
    read = endless if lie is endless else lie(worker[1])
    with raises("recording.damaged", RecordingError):
        _ = fetched(worker, read).events


@pytest.mark.parametrize("count", [-1, 1 << 63])
def test_a_number_of_events_that_cannot_be_is_an_error(worker, count):
    with raises("recording.damaged", RecordingError):
        fetched(worker, count=count)


def test_files_that_would_fill_the_disk_are_not_fetched(worker, monkeypatch):
    monkeypatch.setattr(fetching, "most_bytes", lambda folder: 1000)
    with raises("cluster.no-space", RecordingError):
        _ = fetched(worker).events


def test_what_a_worker_sends_without_an_end_stops_at_the_limit(tmp_path):
    with raises("recording.damaged", RecordingError):
        fetching.copy(endless("x"), tmp_path / "x", 3 << 20)
    assert (tmp_path / "x").stat().st_size <= 4 << 20

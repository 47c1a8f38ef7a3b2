"""Analyses of devices in datasets that are too large to load: only the events of presets and drivers are read."""

from dataclasses import replace

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import accel_magic
from accel_magic.errors import ResultError
from accel_magic.recording import dataset
from accel_magic.recording.recording import CounterSamples, EventColumn, Events
from tests.support.errors import raises
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

MORE = 100_000


def with_more(recording, point):
    """The recording with another probe point, which is hit very often at the end."""
    events = recording.events
    columns = {}
    for name, column in events.columns.items():
        there = np.ones(len(events), np.bool_) if column.valid is None else column.valid
        always = name in ("time_ns", "point", "pid", "tid", "cpu", "comm")
        last = {"time_ns": recording.duration_ns - 1, "point": point.id}.get(name, 0)
        values = np.concatenate([column.values, np.full(MORE, last, column.values.dtype)])
        valid = None if always else np.concatenate([there, np.zeros(MORE, np.bool_)])
        columns[name] = EventColumn(values, valid, column.categories)
    samples = CounterSamples(recording.samples.times_ns, np.pad(recording.samples.hits, ((0, 0), (0, 1))))
    counts = {name: np.append(getattr(recording, name), np.uint64(0)) for name in ("lost", "unpaired", "totals")}
    return replace(
        recording,
        plan=replace(recording.plan, points=(*recording.plan.points, point)),
        hits=np.append(recording.hits, np.uint64(MORE)),
        samples=samples,
        event_count=len(events) + MORE,
        load_events=lambda: Events(columns),
        **counts,
    )


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("npu_lab_7.2-calls", lambda result: (result.npu.jobs, result.npu.calls)),
        ("drivers_7.2-queue", lambda result: (result.gpu_jobs, result.drm.rings)),
    ],
)
def test_devices_are_analyzed_among_more_events_than_can_be_loaded(name, tables, make_point, tmp_path, monkeypatch):
    whole = accel_magic.open(ROOT / f"notebooks/recordings/{name}.parquet")
    point = make_point(len(whole.plan.points), "uprobe:lib:often")
    dataset.write(with_more(whole.recording, point), tmp_path / "set")
    monkeypatch.setenv(dataset.VARIABLE, str(MORE // 2))
    large = accel_magic.open(tmp_path / "set")

    with raises("dataset.too-many-events", ResultError):
        _ = large.events
    for found, expected in zip(tables(large), tables(whole), strict=True):
        assert len(expected) > 0
        assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True), check_categorical=False)
    assert large.diagnose().ids == whole.diagnose().ids

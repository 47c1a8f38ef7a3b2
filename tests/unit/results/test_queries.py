"""Questions to results of several nodes, whose datasets have clocks and columns of their own."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from accel_magic.cluster.clock import ClockLine
from accel_magic.cluster.node import Node
from accel_magic.errors import MachineError, RecordingError, ResultError
from accel_magic.recording import dataset
from accel_magic.recording.record_decoder import decode
from accel_magic.recording.recording import EventColumn, Events, ThreadCounts
from accel_magic.results.cluster_result import ClusterResult, NodeTrace
from accel_magic.results.trace_result import TraceResult
from tests.support import synthetic
from tests.support.errors import raises

pytestmark = pytest.mark.component

ROWS = 400
OFFSETS, DRIFTS = (0, 3_600_000_000_000, 10**15), (0.0, 40e-6, -7e-6)


def line(offset, drift):
    start = synthetic.START_NS + offset
    return ClockLine(-offset, drift, start, start + 10**10, 1000, 1e-9, 256, "exchanges at start and end")


@pytest.fixture
def nodes(tmp_path):
    """Two nodes with datasets, one in memory: all began at the same time, by clocks that differ."""
    found = []
    for number, (offset, drift) in enumerate(zip(OFFSETS, DRIFTS, strict=True)):
        rings = synthetic.as_bytes(synthetic.records(ROWS, number, step_ns=10**6))
        events = decode(synthetic.LAYOUT, rings, synthetic.START_NS, all_columns=True)
        points = np.bincount(events.columns["point"].values, minlength=3).astype(np.uint64)
        recording = synthetic.recording(lambda events=events: events, ROWS, hits=points, duration_ns=10**9)
        recording = replace(recording, start_ns=synthetic.START_NS + offset)
        if number < 2:
            recording = dataset.load(dataset.write(recording, tmp_path / str(number)))
        clock = line(offset, drift)
        rank = None if number == 2 else number
        found.append(NodeTrace(Node(f"it's {number}", rank, name=f"node {number}"), recording, clock))
    return ClusterResult(found)


def test_times_of_queries_are_on_the_clock_of_the_result(nodes):
    events = nodes.events.sort_values(["time_ns", "node"]).reset_index(drop=True)
    asked = nodes.sql("select time_ns, host, rank, node, function, size from events order by time_ns, node")
    lazy = nodes.lazy().sort("time_ns", "node").select("time_ns", "host", "node").collect()

    assert len(events) == 3 * ROWS
    for name in ("time_ns", "host", "node"):
        assert asked[name].tolist() == lazy[name].to_list() == events[name].astype(object).tolist()
    assert asked["rank"].isna().sum() == ROWS
    assert asked["function"].tolist() == events["function"].astype(object).tolist()
    assert asked["size"].dropna().tolist() == events["size"].dropna().tolist()
    assert nodes.sql("select node, events from nodes order by node")["events"].tolist() == [ROWS] * 3


def test_a_scan_has_what_maps_the_times_of_the_files(nodes):
    table = nodes.scan().to_table().to_pandas()
    mapped = table["time_ns"] + table["clock_offset_ns"] + np.rint(table["time_ns"] * table["clock_drift"]).astype(int)
    events = nodes.events

    assert nodes.scan().count_rows() == 3 * ROWS
    for node in ("node 0", "node 1", "node 2"):
        own = np.sort(mapped[table["node"] == node].to_numpy())
        assert np.abs(own - events.loc[events["node"] == node, "time_ns"].to_numpy()).max() <= 1
    ranks = table.groupby("node")["rank"].first()
    assert ranks["node 1"] == 1
    assert table.loc[table["node"] == "node 2", "rank"].isna().all()
    import pyarrow.dataset as ds

    assert nodes.scan().filter(ds.field("node") == "node 1").count_rows() == ROWS


def test_a_piece_of_all_nodes_has_the_events_of_that_time(nodes):
    whole = nodes.events
    start, end = int(whole["time_ns"].quantile(0.3)), int(whole["time_ns"].quantile(0.6))
    piece = nodes.between(start / 1e9, end / 1e9)
    expected = whole[(whole["time_ns"] >= start) & (whole["time_ns"] < end)]

    assert abs(len(piece.events) - len(expected)) <= 3, "an event at an edge of each clock"
    assert piece.hits == len(piece.events)
    assert set(piece.events["node"]) == {"node 0", "node 1", "node 2"}
    shift = piece.recording.start_ns - nodes.recording.start_ns
    common = np.intersect1d(piece.events["time_ns"].to_numpy() + shift, expected["time_ns"].to_numpy())
    assert len(common) >= len(expected) - 30


def test_all_nodes_together_can_be_more_than_is_loaded(nodes, monkeypatch, tmp_path):
    expected = nodes.rates("100ms")
    monkeypatch.setenv(dataset.VARIABLE, str(2 * ROWS))
    fresh = ClusterResult(nodes.parts)

    with raises("dataset.too-many-events", ResultError):
        _ = fresh.events
    assert "more than can be loaded" in fresh.summary()
    assert fresh.sql("select count(*) as n from events")["n"].tolist() == [3 * ROWS]
    np.testing.assert_array_equal(fresh.rates("100ms").to_numpy(), expected.to_numpy())
    text = fresh.to_perfetto(tmp_path / "all.json").read_text()
    monkeypatch.delenv(dataset.VARIABLE)
    whole = ClusterResult(nodes.parts).to_perfetto(tmp_path / "whole.json").read_text()
    assert sorted(text.replace("\n]}", ",\n]}").splitlines()) == sorted(whole.replace("\n]}", ",\n]}").splitlines())


@pytest.mark.parametrize("name", ["duckdb", "polars"])
def test_a_library_that_is_missing_is_named(nodes, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with raises(f"dataset.no-{name}", MachineError, match=f"pip install {name}"):
        _ = nodes.sql("select 1") if name == "duckdb" else nodes.lazy()


@pytest.mark.parametrize(
    "lie", [{"start_ns": 1 << 62}, {"start_ns": -(1 << 63)}, {"duration_ns": 1 << 62}, {"duration_ns": -1}]
)
def test_a_node_with_times_that_no_clock_shows_is_named_and_the_others_are_kept(nodes, lie):
    honest, liar, other = nodes.parts
    result = ClusterResult([honest, replace(liar, recording=replace(liar.recording, **lie)), other])

    assert [part.problem and part.problem.code for part in result.parts] == [None, "cluster.damaged", None]
    assert len(result.events) == 2 * ROWS
    assert result.hits == honest.recording.hits.sum() + other.recording.hits.sum()


def test_events_with_times_that_no_clock_shows_are_a_typed_error(nodes):
    *others, liar = nodes.parts
    columns = dict(liar.recording.events.columns)
    columns["time_ns"] = EventColumn(columns["time_ns"].values + (1 << 62))
    lying = replace(liar.recording, load_events=lambda: Events(columns))
    result = ClusterResult([*others, replace(liar, recording=lying)])

    with raises("cluster.damaged", RecordingError, match=liar.node.name):
        _ = result.events
    assert result.counts["hits"].sum() == nodes.counts["hits"].sum()


def test_hits_without_events_are_those_between_the_counters_samples(make_recording, make_point):
    points = [make_point(0, "tracepoint:a:b"), make_point(1, "tracepoint:a:c", counted=True)]
    whole = make_recording(
        points,
        [(at * 100_000_000, 0) for at in range(10)],
        hits=[10, 900],
        samples=([0, 500_000_000, 1_000_000_000], [[0, 0], [5, 100], [10, 900]]),
        by_thread=ThreadCounts.of_rows([[1, 5, 6, 900, 0]]),
    )
    piece = TraceResult(whole).between(0.5, 0.75).recording

    assert piece.hits.tolist() == [3, 400]
    assert piece.samples.hits[[0, -1], 1].tolist() == [0, 400]
    assert piece.by_thread.rows == []
    assert any("estimated" in note for note in piece.notes)
